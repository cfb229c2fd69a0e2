/* SPDX-License-Identifier: Apache-2.0 */
/* Probes of namespaces and mounts. Each does what the engine does, in the place where the engine
 * does it (sg_probe_enter), on its own detached mounts: they go with the child. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include "sys/uapi.h"
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/str.h"
#include "sys/mnt.h"
#include "sys/probe_internal.h"
#include "base/banned.h"

enum { SCRATCH_BYTES = 1 << 20, SCRATCH_INODES = 64 };

static void found_err(struct sg_finding *ret, const struct sg_err *err)
{
    sg_found(ret, SG_HAVE_NOT, "%s", err->msg);
}

/* ---- namespaces ---- */

void sg_probe_userns(const struct sg_probe_env *env, struct sg_finding *ret)
{
    (void)env;
    if (geteuid() != 0 && sg_probe_enter(ret) < 0)
        return;
    /* And one inside: the sandbox's own, in which it gives up what it needed to be built. */
    if (unshare(CLONE_NEWUSER) == 0) {
        sg_found_it(ret);
        return;
    }
    sg_found_errno(ret, "make a user namespace");
    sg_probe_explain_userns(ret);
}

void sg_probe_namespace(const struct sg_probe_env *env, struct sg_finding *ret)
{
    (void)env;
    if (sg_probe_enter(ret) < 0)
        return;
    if (unshare(ret->probe->value) < 0)
        sg_found_errno(ret, "unshare");
    else
        sg_found_it(ret);
}

/* ---- filesystems ---- */

void sg_probe_mount_api(const struct sg_probe_env *env, struct sg_finding *ret)
{
    (void)env;
    struct sg_err err;
    if (sg_probe_enter(ret) < 0)
        return;
    sg_auto_fd made = sg_mnt_tmpfs(SCRATCH_BYTES, SCRATCH_INODES, 0, &err);
    sg_auto_fd taken = made < 0 ? -1 : sg_mnt_clone(AT_FDCWD, "/dev/null", false, &err);
    if (made < 0 || taken < 0 || sg_mnt_attr(made, MOUNT_ATTR_RDONLY, 0, &err) < 0)
        found_err(ret, &err);
    else if (move_mount(made, "", AT_FDCWD, "/", MOVE_MOUNT_F_EMPTY_PATH) < 0)
        sg_found_errno(ret, "move_mount");
    else
        sg_found_it(ret);
}

/* The size must hold, since it is the disk limit. */
void sg_probe_tmpfs(const struct sg_probe_env *env, struct sg_finding *ret)
{
    (void)env;
    struct sg_err err;
    if (sg_probe_enter(ret) < 0)
        return;
    sg_auto_fd fs = sg_mnt_tmpfs(SCRATCH_BYTES, SCRATCH_INODES, 0, &err);
    if (fs < 0) {
        found_err(ret, &err);
        return;
    }
    static const char page[4096];
    sg_auto_fd file = openat(fs, "full", O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    size_t written = 0;
    while (file >= 0 && written <= SCRATCH_BYTES && write(file, page, sizeof page) > 0)
        written += sizeof page;
    if (file < 0 || written > SCRATCH_BYTES)
        sg_found(ret, SG_HAVE_NOT, "the size of a tmpfs does not limit it");
    else
        sg_found_it(ret);
}

/* A scratch that is attached, as kernels that take layers by path want it. */
static int open_scratch(struct sg_finding *ret)
{
    struct sg_err err;
    sg_auto_fd fs = sg_mnt_tmpfs(SCRATCH_BYTES, SCRATCH_INODES, 0, &err);
    if (fs < 0) {
        found_err(ret, &err);
        return -1;
    }
    static const char *const dirs[] = { "low", "up", "wk" };
    for (size_t i = 0; i < SG_COUNT(dirs); i++)
        if (mkdirat(fs, dirs[i], 0755) < 0) {
            sg_found_errno(ret, "mkdir");
            return -1;
        }
    if (move_mount(fs, "", AT_FDCWD, "/", MOVE_MOUNT_F_EMPTY_PATH) < 0) {
        sg_found_errno(ret, "move_mount");
        return -1;
    }
    return sg_take_fd(&fs);
}

static int make_overlay(bool is_rootless, bool *ret_by_path, struct sg_finding *ret)
{
    struct sg_err err;
    sg_auto_fd scratch = open_scratch(ret);
    if (scratch < 0)
        return -1;
    sg_auto_fd lower = openat(scratch, "low", O_PATH | O_DIRECTORY | O_CLOEXEC);
    sg_auto_fd upper = openat(scratch, "up", O_PATH | O_DIRECTORY | O_CLOEXEC);
    sg_auto_fd work = openat(scratch, "wk", O_PATH | O_DIRECTORY | O_CLOEXEC);
    struct sg_overlay o = { .fs_fd = -1 };
    int fd = sg_overlay_begin(&o, upper, work, false, &err);
    if (fd == 0)
        fd = sg_overlay_finish(&o, &lower, 1, upper, work, is_rootless ? SG_OVERLAY_USERXATTR : 0,
                               MOUNT_ATTR_NODEV, &err);
    *ret_by_path = o.by_path;
    sg_overlay_done(&o);
    if (fd < 0)
        found_err(ret, &err);
    return fd;
}

void sg_probe_overlay(const struct sg_probe_env *env, struct sg_finding *ret)
{
    (void)env;
    const bool is_rootless = geteuid() != 0;
    bool by_path;
    if (sg_probe_enter(ret) < 0)
        return;
    sg_auto_fd root = make_overlay(is_rootless, &by_path, ret);
    if (root < 0)
        return;
    /* One that cannot make its work directory mounts itself read-only. */
    sg_auto_fd file = openat(root, "new", O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    if (file < 0)
        sg_found_errno(ret, "write to an overlay");
    else
        sg_found(ret, SG_HAVE_IT, "layers by %s",
                 by_path ? "path, which is as good" : "descriptor");
}

static int make_fs(const char *type, const char *const *options)
{
    sg_auto_fd fs = fsopen(type, FSOPEN_CLOEXEC);
    if (fs < 0)
        return -1;
    for (size_t i = 0; options[i]; i += 2)
        if (fsconfig(fs, FSCONFIG_SET_STRING, options[i], options[i + 1], 0) < 0)
            return -1;
    if (fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
        return -1;
    return fsmount(fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);
}

/* Made by the first process of a new pid namespace; its exit code is errno. */
void sg_probe_proc(const struct sg_probe_env *env, struct sg_finding *ret)
{
    (void)env;
    if (sg_probe_enter(ret) < 0)
        return;
    if (unshare(CLONE_NEWPID) < 0) {
        sg_found_errno(ret, "make a pid namespace");
        return;
    }
    pid_t pid = fork();
    if (pid == 0) {
        static const char *const none[] = { NULL };
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
        _exit(make_fs("proc", none) < 0 ? errno : 0);
    }
    int status = 0;
    if (pid < 0 || waitpid(pid, &status, 0) < 0) {
        sg_found_errno(ret, "start a process in a pid namespace");
        return;
    }
    errno = WIFEXITED(status) ? WEXITSTATUS(status) : EINTR;
    if (errno)
        sg_found_errno(ret, "mount a proc");
    else
        sg_found_it(ret);
}

void sg_probe_devpts(const struct sg_probe_env *env, struct sg_finding *ret)
{
    (void)env;
    static const char *const options[] = { "ptmxmode", "0666", "mode", "0600", NULL };
    if (sg_probe_enter(ret) < 0)
        return;
    sg_auto_fd fs = make_fs("devpts", options);
    sg_auto_fd master = fs < 0 ? -1 : openat(fs, "ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (master < 0)
        sg_found_errno(ret, fs < 0 ? "mount a devpts" : "open a terminal");
    else
        sg_found_it(ret);
}

/* Root makes the nodes on a tmpfs; everybody else binds those of the host. */
void sg_probe_devices(const struct sg_probe_env *env, struct sg_finding *ret)
{
    (void)env;
    enum { MEM_MAJOR = 1, NULL_MINOR = 3 };
    struct sg_err err;
    const bool is_rootless = geteuid() != 0;
    if (sg_probe_enter(ret) < 0)
        return;
    sg_auto_fd fs = is_rootless ? sg_mnt_clone(AT_FDCWD, "/dev/null", false, &err)
                                : sg_mnt_tmpfs(SCRATCH_BYTES, SCRATCH_INODES, 0, &err);
    if (fs < 0) {
        found_err(ret, &err);
        return;
    }
    struct stat st;
    const char *name = is_rootless ? "" : "null";
    if ((!is_rootless && mknodat(fs, name, S_IFCHR | 0666, makedev(MEM_MAJOR, NULL_MINOR)) < 0) ||
        fstatat(fs, name, &st, AT_EMPTY_PATH) < 0)
        sg_found_errno(ret, "make /dev/null");
    else if (!S_ISCHR(st.st_mode) || st.st_rdev != makedev(MEM_MAJOR, NULL_MINOR))
        sg_found(ret, SG_HAVE_NOT, "/dev/null of the host is something else");
    else
        sg_found_it(ret);
}
