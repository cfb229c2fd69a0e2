/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/userns.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/securebits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "engine/hold.h"
#include "sys/kfile.h"
#include "sys/raw.h"
#include "base/banned.h"

static int write_maps(pid_t pid, const struct sg_idmap *map, struct sg_err *err)
{
    const struct {
        const char *name;
        uint32_t inside;
    } files[] = { { "uid_map", map->inside }, { "gid_map", map->gid_inside } };
    for (size_t i = 0; i < SG_COUNT(files); i++) {
        char path[64], text[96];
        int n = snprintf(text, sizeof text, "%" PRIu32 " %" PRIu32 " %" PRIu32, files[i].inside,
                         map->outside, map->count);
        if (map->has_host_root)
            (void)snprintf(text + n, sizeof text - (size_t)n, "\n%" PRIu32 " 0 1",
                           files[i].inside + map->count);
        (void)snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, files[i].name);
        if (sg_file_write(AT_FDCWD, path, text, err) < 0)
            return sg_wrap(err, "map the ids of a user namespace");
    }
    return 0;
}

static int open_namespace(pid_t pid, struct sg_err *err)
{
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/ns/user", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return sg_fail_sys(err, "open a user namespace");
    return fd;
}

/* The maker of a user namespace owns it, and what is counted per user (inotify instances, queued
 * signals, message queues) is counted against its owner, too. Were that root, one cell could use up
 * the host root's; so the cell's own root makes it, for which our effective id is another for as
 * long as the call takes. Capabilities stay: the host may not let others make one. */
static long clone_owned_by(uint32_t owner, struct clone_args *args, uint32_t *word)
{
    if (owner == geteuid())
        return sg_raw_clone3(args, sg_hold_child, word);
    if (prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP, 0, 0, 0) < 0)
        return -errno;
    const long changed = sg_raw(SYS_setresuid, -1, owner, -1);
    const long pid = changed < 0 ? changed : sg_raw_clone3(args, sg_hold_child, word);
    if ((changed >= 0 && sg_raw(SYS_setresuid, -1, 0, -1) < 0) ||
        prctl(PR_SET_SECUREBITS, 0, 0, 0, 0) < 0)
        abort(); /* never go on as somebody else */
    return pid;
}

int sg_userns_init(struct sg_userns *u, const struct sg_idmap *map, struct sg_err *err)
{
    u->fd = -1;
    u->word = (uint32_t)getpid();
    struct clone_args args = { .flags = CLONE_NEWUSER | CLONE_VM | CLONE_FILES,
                               .stack = (uintptr_t)u->stack,
                               .stack_size = sizeof u->stack };
    long pid = clone_owned_by(map->outside, &args, &u->word);
    if (pid < 0) {
        errno = (int)-pid;
        return sg_fail_sys(err, "make a user namespace (sysctl user.max_user_namespaces, or a "
                                "policy of this host that forbids it)");
    }
    u->holder_pid = (int)pid;
    if (write_maps((pid_t)pid, map, err) < 0)
        return -1;
    u->fd = open_namespace((pid_t)pid, err);
    /* It ends behind us. Our own child, not yet waited for: the number cannot be anybody else's. */
    (void)kill((pid_t)pid, SIGKILL);
    return u->fd < 0 ? -1 : 0;
}

void sg_userns_done(struct sg_userns *u)
{
    sg_drop_fd(&u->fd);
    if (!u->holder_pid)
        return;
    (void)kill(u->holder_pid, SIGKILL);
    while (waitpid(u->holder_pid, NULL, __WALL) < 0 && errno == EINTR)
        ;
    u->holder_pid = 0;
}

int sg_userns_become_root(struct sg_err *err)
{
    const uint32_t uid = geteuid(), gid = getegid();
    char uid_map[32], gid_map[32];
    (void)snprintf(uid_map, sizeof uid_map, "0 %" PRIu32 " 1", uid);
    (void)snprintf(gid_map, sizeof gid_map, "0 %" PRIu32 " 1", gid);
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
        return sg_fail_sys(err, "make a user namespace as an ordinary user (see 'sandglass "
                                "doctor')");
    if (sg_file_write(AT_FDCWD, "/proc/self/setgroups", "deny", err) < 0 ||
        sg_file_write(AT_FDCWD, "/proc/self/uid_map", uid_map, err) < 0 ||
        sg_file_write(AT_FDCWD, "/proc/self/gid_map", gid_map, err) < 0)
        return sg_wrap(err, "become root in an own user namespace");
    return 0;
}
