/* SPDX-License-Identifier: Apache-2.0 */
/* The child of a spawn, on borrowed memory: it allocates nothing, locks nothing, prints nothing.
 *
 * C1. The parent stands still until exec or exit (CLONE_VFORK), so writing `failed` and `sys` is
 *     the report. Nothing else of the parent's memory is written.
 * C2. Ids change before the directory, so that no path is searched with init's rights.
 * C3. Signals are let in last: until then nothing can run in here but the steps. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "init/spawn.h"
#include "base/banned.h"

enum { FIRST_OTHER_FD = 3, CLOEXEC_RANGE = 4 /* CLOSE_RANGE_CLOEXEC */ };

static int session(const struct sg_spawn *s)
{
    (void)s;
    (void)umask(022);
    return setsid() < 0 ? -1 : 0; /* always: init may still have the host's terminal as its own */
}

static int terminal(const struct sg_spawn *s)
{
    return s->has_terminal ? ioctl(s->fds[0], TIOCSCTTY, 0) : 0;
}

static int streams(const struct sg_spawn *s)
{
    for (int i = 0; i < 3; i++)
        if (s->fds[i] >= 0 && dup2(s->fds[i], i) < 0)
            return -1;
    return 0;
}

static int ids(const struct sg_spawn *s)
{
    const struct sg_user *u = s->user;
    if (u->is_own)
        return 0;
    if (syscall(SYS_setgroups, (size_t)u->group_count, u->groups) < 0 ||
        syscall(SYS_setresgid, u->gid, u->gid, u->gid) < 0)
        return -1;
    return (int)syscall(SYS_setresuid, u->uid, u->uid, u->uid);
}

/* Who stays root would keep them through exec otherwise; with no_new_privs none comes back. */
static int capabilities(const struct sg_spawn *s)
{
    struct __user_cap_header_struct head = { _LINUX_CAPABILITY_VERSION_3, 0 };
    const struct __user_cap_data_struct none[2] = { { 0, 0, 0 }, { 0, 0, 0 } };
    return s->drops_caps ? (int)syscall(SYS_capset, &head, none) : 0;
}

static int directory(const struct sg_spawn *s)
{
    if (s->base && chdir(s->base) < 0)
        return -1;
    if (chdir(s->cwd) == 0)
        return 0;
    return s->may_use_root ? chdir("/") : -1;
}

/* Everything is close-on-exec already; this is for the one that somebody forgets some day. To the
 * highest number there is, not further: gVisor takes that for a mistake. */
static int descriptors(const struct sg_spawn *s)
{
    (void)s;
    return (int)syscall(SYS_close_range, (unsigned)FIRST_OTHER_FD, INT_MAX, CLOEXEC_RANGE);
}

static int signals(const struct sg_spawn *s)
{
    (void)s;
    sigset_t none;
    sigemptyset(&none);
    return sigprocmask(SIG_SETMASK, &none, NULL);
}

/* A directory without the program, or one that may not be searched, ends nothing; but "found and
 * not permitted" is a better answer than "not found". */
static int run(const struct sg_spawn *s)
{
    int best = ENOENT;
    for (char **path = s->paths; *path; path++) {
        execve(*path, s->argv, s->envp);
        if (errno == EACCES)
            best = EACCES;
        else if (errno != ENOENT && errno != ENOTDIR)
            return -1;
    }
    errno = best;
    return -1;
}

static int (*const steps[SG_SPAWN_STEP_COUNT])(const struct sg_spawn *s) = {
    [SG_SPAWN_SESSION] = session,
    [SG_SPAWN_TERMINAL] = terminal,
    [SG_SPAWN_STREAMS] = streams,
    [SG_SPAWN_IDS] = ids,
    [SG_SPAWN_CAPS] = capabilities,
    [SG_SPAWN_DIRECTORY] = directory,
    [SG_SPAWN_DESCRIPTORS] = descriptors,
    [SG_SPAWN_SIGNALS] = signals,
    [SG_SPAWN_EXEC] = run,
};

int sg_spawn_child(void *arg)
{
    struct sg_spawn *s = arg;
    for (unsigned i = 0; i < SG_SPAWN_STEP_COUNT; i++)
        if (steps[i](s) < 0) {
            s->failed = (enum sg_spawn_step)i;
            s->sys = errno ? errno : EIO;
            break;
        }
    _exit(127);
}
