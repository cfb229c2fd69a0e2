/* SPDX-License-Identifier: Apache-2.0 */
/* Acting as a user for a moment.
 *
 * The calls are raw: libc's versions exist to tell other threads, of which init has none. Only the
 * effective ids change; real and saved ones stay init's, so nobody inside may signal or trace us
 * meanwhile, and the way back needs no privilege but the saved id. */
#include "init/user.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/banned.h"

static const uint32_t KEEP = UINT32_MAX;

static int set_groups(const gid_t *groups, unsigned count)
{
    return (int)syscall(SYS_setgroups, count, groups);
}

static int set_uid(uid_t uid)
{
    return (int)syscall(SYS_setresuid, KEEP, uid, KEEP);
}

static int set_gid(gid_t gid)
{
    return (int)syscall(SYS_setresgid, KEEP, gid, KEEP);
}

/* Init starts without supplementary groups and so goes back to none. */
static void go_back(void)
{
    if (set_uid(getuid()) < 0 || set_gid(getgid()) < 0 || set_groups(NULL, 0) < 0)
        abort();
}

int sg_user_enter(const struct sg_user *user, struct sg_err *err)
{
    if (user->is_own)
        return 0;
    if (set_groups(user->groups, user->group_count) < 0)
        return sg_fail_sys(err, "take the groups of user %s", sg_quote(user->name).s);
    if (set_gid(user->gid) < 0 || set_uid(user->uid) < 0) {
        sg_fail_sys(err, "become user %s", sg_quote(user->name).s);
        go_back();
        return -1;
    }
    return 0;
}

void sg_user_leave(const struct sg_user *user)
{
    if (!user->is_own)
        go_back();
}

void sg_user_stay(const struct sg_user *user)
{
    if (user->is_own)
        return;
    if (set_uid(getuid()) < 0 || /* gives the right to change the others */
        syscall(SYS_setresgid, user->gid, user->gid, user->gid) < 0 ||
        syscall(SYS_setresuid, user->uid, user->uid, user->uid) < 0)
        _exit(errno);
}
