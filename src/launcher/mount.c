/* SPDX-License-Identifier: Apache-2.0 */
/* The mount is prepared here, where the pool is in sight, and attached by a process of its own that
 * enters the cell's mount namespace: whoever is in there sees no other files. The launcher itself
 * never goes. The child makes four system calls and ends; it is waited for. */
#include "launcher/mount.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/str.h"
#include "sys/mnt.h"
#include "base/banned.h"

/* ---- in the process of its own: an exit status is an errno ---- */

static int attach(int pidfd, int tree, const char *path)
{
    const struct open_how how = {
        .flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
        .resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
    };
    if (setns(pidfd, CLONE_NEWNS) < 0) /* and the root becomes the cell's */
        return errno;
    const int target = (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how);
    if (target < 0)
        return errno;
    if (syscall(SYS_move_mount, tree, "", target, "",
                MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0)
        return errno;
    return 0;
}

/* ---- here ---- */

/* A user namespace by the cell's pid: that it was the cell's is known when the pidfd says that it
 * still lives. */
static int open_userns(const struct sg_kept *k, struct sg_err *err)
{
    char path[48];
    (void)snprintf(path, sizeof path, "/proc/%d/ns/user", k->pid);
    sg_auto_fd fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || syscall(SYS_pidfd_send_signal, k->pidfd, 0, NULL, 0) < 0)
        return sg_fail(err, SG_UNAVAILABLE, "the cell is gone");
    return sg_take_fd(&fd);
}

static int prepare(const struct sg_kept *k, int dir_fd, bool is_read_only, struct sg_err *err)
{
    const uint64_t attrs =
        MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | (is_read_only ? MOUNT_ATTR_RDONLY : 0u);
    sg_auto_fd userns = open_userns(k, err);
    sg_auto_fd tree = userns < 0 ? -1 : sg_mnt_clone(dir_fd, ".", false, err);
    if (tree < 0 || sg_mnt_attr(tree, attrs, 0, err) < 0)
        return -1;
    /* Ids of a foreign one are the machine's own: as they are stored. */
    if (!k->is_foreign && sg_mnt_idmap(tree, userns, err) < 0)
        return -1;
    return sg_take_fd(&tree);
}

static int tell(int sys, const char *path, struct sg_err *err)
{
    errno = sys;
    if (sys == ELOOP)
        return sg_fail(err, SG_INVALID, "the way to %s leads through a link", sg_quote(path).s);
    if (sys == ENOTDIR)
        return sg_fail(err, SG_INVALID, "%s is no directory", sg_quote(path).s);
    return sg_fail_sys(err, "mount at %s", sg_quote(path).s);
}

int sg_mount_into(const struct sg_kept *k, int dir_fd, const char *path, bool is_read_only,
                  struct sg_err *err)
{
    int status = 0;
    sg_auto_fd tree = prepare(k, dir_fd, is_read_only, err);
    if (tree < 0)
        return -1;
    const pid_t pid = fork();
    if (pid < 0)
        return sg_fail_sys(err, "start the process that mounts");
    if (pid == 0)
        _exit(attach(k->pidfd, tree, path));
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (!WIFEXITED(status))
        return sg_fail(err, SG_UNAVAILABLE, "the process that mounts was killed");
    return WEXITSTATUS(status) ? tell(WEXITSTATUS(status), path, err) : 0;
}
