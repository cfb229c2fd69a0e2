/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/kept.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/parse.h"
#include "base/str.h"
#include "engine/cell.h"
#include "engine/root.h"
#include "sys/kfile.h"
#include "sys/mnt.h"
#include "sys/path.h"
#include "sys/raw.h"
#include "base/banned.h"

int sg_kept_claim(bool is_rootless, const struct sg_kept_place *like, struct sg_kept_place *ret,
                  struct sg_err *err)
{
    if (sg_ids_claim(!is_rootless, &ret->ids, err) < 0)
        return -1;
    if (like)
        sg_cgroup_init_beside(&ret->cgroup, &like->cgroup, &ret->ids);
    else
        sg_cgroup_init_kept(&ret->cgroup, &ret->ids);
    ret->is_nested = false;
    return 0;
}

/* ---- which process ---- */

/* pid (name) state ppid ... : the name may hold anything, so count from the last bracket. */
int sg_process_start_ticks(int pid, uint64_t *ret, struct sg_err *err)
{
    enum { FIELD_AFTER_NAME = 3, FIELD_START = 22 };
    char path[40], text[1024];
    (void)snprintf(path, sizeof path, "/proc/%d/stat", pid);
    if (sg_file_read(AT_FDCWD, path, text, sizeof text, err) < 0)
        return -1;
    const char *p = strrchr(text, ')');
    for (int field = FIELD_AFTER_NAME - 1; p && field < FIELD_START; field++) {
        p = strchr(p, ' ');
        p = p ? p + 1 : NULL;
    }
    if (!p)
        return sg_fail(err, SG_INTERNAL, "%s is not as it should be", path);
    return sg_parse_u64((struct sg_str) { p, strcspn(p, " \n") }, 0, UINT64_MAX, ret, err);
}

static int read_uid(int pid, uint64_t *ret, struct sg_err *err)
{
    char path[40], text[8192];
    (void)snprintf(path, sizeof path, "/proc/%d/status", pid);
    if (sg_file_read(AT_FDCWD, path, text, sizeof text, err) < 0)
        return -1;
    const char *p = strstr(text, "\nUid:\t");
    if (!p)
        return sg_fail(err, SG_INTERNAL, "%s is not as it should be", path);
    p += strlen("\nUid:\t");
    return sg_parse_u64((struct sg_str) { p, strcspn(p, "\t") }, 0, UINT32_MAX, ret, err);
}

/* One that is dead but not yet reaped, by whoever is its parent now, is gone. */
static bool is_alive(int pidfd)
{
    struct pollfd p = { .fd = pidfd, .events = POLLIN };
    return poll(&p, 1, 0) == 0;
}

/* What was read by number is true of the process if it lives afterwards: then the number is its
 * own. */
static int check_process(const struct sg_kept *k, struct sg_err *err)
{
    uint64_t ticks = 0, uid = 0;
    if (sg_process_start_ticks(k->pid, &ticks, err) < 0 || read_uid(k->pid, &uid, err) < 0)
        return -1;
    if (!is_alive(k->pidfd))
        return sg_fail(err, SG_NOT_FOUND, "process %d is gone", k->pid);
    if (ticks != k->start_ticks)
        return sg_fail(err, SG_NOT_FOUND, "process %d is another one by now", k->pid);
    if (!k->is_foreign && uid != k->ids.first)
        return sg_fail(err, SG_NOT_FOUND, "process %d does not have the ids of slot %u", k->pid,
                       (unsigned)k->ids.slot);
    return 0;
}

int sg_kept_adopt(bool is_rootless, const struct sg_kept_note *note, struct sg_kept *ret,
                  struct sg_err *err)
{
    if (note->pid <= 1)
        return sg_fail(err, SG_NOT_FOUND, "process %d is no cell", note->pid);
    sg_auto_fd pidfd = (int)sg_raw(SYS_pidfd_open, note->pid, 0);
    if (pidfd < 0)
        return sg_fail(err, SG_NOT_FOUND, "process %d is gone", note->pid);
    struct sg_kept k = {
        .pidfd = pidfd,
        .pid = note->pid,
        .start_ticks = note->start_ticks,
        .ids = { .slot = note->slot,
                 .first = sg_ids_first(!is_rootless, note->slot),
                 .lock_fd = -1 },
        .limits = note->limits,
        .cgroup = note->cgroup,
        .is_rootless = is_rootless,
        .is_nested = note->is_nested,
        .may_be_frozen = true,
        .may_swap = true,
        .is_foreign = note->is_foreign,
    };
    if (k.is_foreign) /* they are where somebody else puts them */
        sg_cgroup_init_of(&k.cgroup, k.pid);
    if (check_process(&k, err) < 0)
        return -1;
    const long lock = sg_raw(SYS_pidfd_getfd, pidfd, SG_INIT_LOCK_FD, 0);
    k.ids.lock_fd = lock < 0 ? -1 : (int)lock; /* born close-on-exec */
    *ret = k;
    (void)sg_take_fd(&pidfd);
    return 0;
}

int sg_kept_of(int pid, const struct sg_ids *ids, const struct sg_limits *limits,
               struct sg_kept *ret, struct sg_err *err)
{
    sg_auto_fd pidfd = pid <= 1 ? -1 : (int)sg_raw(SYS_pidfd_open, pid, 0);
    if (pidfd < 0)
        return sg_fail(err, SG_NOT_FOUND, "process %d is gone", pid);
    struct sg_kept k = {
        .pidfd = pidfd, .pid = pid, .ids = *ids, .limits = *limits, .is_foreign = true
    };
    if (sg_process_start_ticks(pid, &k.start_ticks, err) < 0)
        return -1;
    sg_cgroup_init_of(&k.cgroup, pid);
    if (check_process(&k, err) < 0)
        return -1;
    *ret = k;
    (void)sg_take_fd(&pidfd);
    return 0;
}

/* ---- limits ---- */

static int open_root(const struct sg_kept *k, struct sg_err *err)
{
    char path[40];
    (void)snprintf(path, sizeof path, "/proc/%d/root", k->pid);
    sg_auto_fd fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    const int sys = errno;
    if (!is_alive(k->pidfd))
        return sg_fail(err, SG_NOT_FOUND, "the sandbox has ended");
    if (fd < 0 &&
        (sys == EACCES || sys == EPERM)) /* rootless: its maker's user namespace is not ours */
        return sg_fail(err, SG_UNSUPPORTED, "the sandbox's files cannot be reached from here");
    errno = sys;
    return fd < 0 ? sg_fail_sys(err, "open the sandbox's root") : sg_take_fd(&fd);
}

static int resize_place(int root, const char *name, uint64_t bytes, struct sg_err *err)
{
    sg_auto_fd fd = sg_open_beneath(root, name, O_PATH | O_DIRECTORY, 0, err);
    if (fd < 0)
        return -1;
    struct statfs fs;
    if (fstatfs(fd, &fs) < 0 || fs.f_type != TMPFS_MAGIC)
        return sg_fail(err, SG_INTERNAL, "the sandbox's /%s is not its own", name);
    return sg_scratch_resize(fd, bytes, err);
}

/* /tmp is a part of the scratch in every cell, and nobody inside can mount or move it. */
static int resize_disk(const struct sg_kept *k, uint64_t bytes, struct sg_err *err)
{
    static const char *const places[] = {
        "tmp", "workspace", "home/user", "var/tmp", "run", "root"
    };
    sg_auto_fd root = open_root(k, err);
    if (root < 0)
        return -1;
    for (size_t i = 0; i < (k->is_foreign ? SG_COUNT(places) : 1); i++)
        if (resize_place(root, places[i], bytes, err) < 0)
            return -1;
    return 0;
}

static int change(const struct sg_kept *k, const struct sg_limits *was, const struct sg_limits *l,
                  struct sg_err *err)
{
    const uint64_t disk = sg_limits_disk_bytes(l);
    if (!l->is_pooled && disk != sg_limits_disk_bytes(was) && resize_disk(k, disk, err) < 0)
        return sg_wrap(err, "change the disk limit");
    struct sg_limits outer_was = *was, outer = *l;
    if (k->is_nested) {
        outer_was.pids = sg_limits_nested_pids(was->pids);
        outer.pids = sg_limits_nested_pids(l->pids);
    }
    return sg_cgroup_relimit(&k->cgroup, &outer_was, &outer, err);
}

int sg_kept_set_limits(struct sg_kept *k, const struct sg_limits *l, struct sg_err *err)
{
    struct sg_limits wanted = *l;
    wanted.open_files = k->limits.open_files;
    wanted.is_pooled = k->limits.is_pooled;
    if (change(k, &k->limits, &wanted, err) < 0) {
        (void)change(k, &wanted, &k->limits, NULL); /* some may be set by now */
        return -1;
    }
    k->limits = wanted;
    return 0;
}

/* ---- freezer ---- */

int sg_kept_freeze(struct sg_kept *k, struct sg_err *err)
{
    if (sg_cgroup_freeze(&k->cgroup, true, err) < 0)
        return -1;
    k->may_be_frozen = true;
    return 0;
}

bool sg_kept_is_frozen(const struct sg_kept *k)
{
    return k->may_be_frozen && sg_cgroup_is_frozen(&k->cgroup);
}

/* Before anybody runs: one that does has no swap. */
int sg_kept_thaw(struct sg_kept *k, struct sg_err *err)
{
    if (k->may_swap && !k->is_foreign)
        sg_cgroup_set_swap(&k->cgroup, 0);
    k->may_swap = false;
    if (sg_cgroup_freeze(&k->cgroup, false, err) < 0)
        return -1;
    k->may_be_frozen = false;
    return 0;
}

int sg_kept_reclaim(struct sg_kept *k, struct sg_err *err)
{
    if (!sg_kept_is_frozen(k))
        return sg_fail(err, SG_CONFLICT, "the sandbox is not frozen");
    sg_auto_fd dir = sg_cgroup_open_reclaim(&k->cgroup, err);
    if (dir < 0)
        return -1;
    if (!k->is_foreign) /* what others make has the swap that they gave it */
        sg_cgroup_set_swap(&k->cgroup, k->limits.mem_bytes);
    k->may_swap = true;
    return sg_take_fd(&dir);
}

/* ---- use ---- */

int sg_kept_report(const struct sg_kept *k, struct sg_kept_report *ret, struct sg_err *err)
{
    struct sg_kept_report r = { .disk_bytes = SG_UNKNOWN, .disk_used_bytes = SG_UNKNOWN };
    struct sg_err why = { 0 };
    if (k->limits.is_pooled) {
        if (!is_alive(k->pidfd))
            return sg_fail(err, SG_NOT_FOUND, "the sandbox has ended");
        if (sg_cgroup_use(&k->cgroup, &r.usage, &r.now, err) < 0)
            return -1;
        *ret = r;
        return 0;
    }
    sg_auto_fd root = open_root(k, &why);
    if (root < 0 && why.kind != SG_UNSUPPORTED)
        return sg_fail(err, why.kind, "%s", why.msg);
    if (sg_cgroup_use(&k->cgroup, &r.usage, &r.now, err) < 0)
        return -1;
    if (root < 0) {
        *ret = r;
        return 0;
    }
    /* An overlay answers for its upper layer, which is the scratch; so does /tmp of a nested one.
     */
    const char *below = k->is_foreign ? "workspace" : k->is_nested ? "tmp" : ".";
    sg_auto_fd part = sg_open_beneath(root, below, O_PATH | O_DIRECTORY, 0, err);
    if (part < 0)
        return -1;
    const struct sg_root space = { .scratch_fd = part };
    uint64_t unused = 0;
    if (sg_root_space(&space, &r.disk_bytes, &unused) < 0)
        return sg_fail_sys(err, "ask for the space of the writable layer");
    r.disk_used_bytes = r.disk_bytes - unused;
    *ret = r;
    return 0;
}

uint64_t sg_kept_oom_kills(const struct sg_kept *k)
{
    struct sg_usage usage = { 0 };
    struct sg_use_now now;
    return sg_cgroup_use(&k->cgroup, &usage, &now, NULL) < 0 ? 0 : usage.oom_kills;
}

uint64_t sg_kept_cpu_ns(const struct sg_kept *k)
{
    struct sg_usage usage = { 0 };
    struct sg_use_now now;
    return sg_cgroup_use(&k->cgroup, &usage, &now, NULL) < 0 ? SG_UNKNOWN : now.cpu_ns;
}

bool sg_kept_may_be_killed(const struct sg_kept *k)
{
    siginfo_t info = { 0 };
    if (!k->is_child ||
        waitid(P_PID, (id_t)k->pid, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) < 0)
        return true;
    return info.si_code != CLD_EXITED;
}

/* ---- end ---- */

/* Whatever keeps it from dying is lifted once death is on its way, so that nobody inside gets to
 * run: a frozen v1 group cannot die, and one without processor time takes its time. */
void sg_kept_hurry(const struct sg_kept *k)
{
    sg_cgroup_unthrottle(&k->cgroup);
}

void sg_kept_kill(struct sg_kept *k)
{
    (void)sg_raw(SYS_pidfd_send_signal, k->pidfd, SIGKILL, 0, 0);
    if (k->may_be_frozen && !k->cgroup.is_v2)
        (void)sg_kept_thaw(k, NULL);
}

int sg_kept_finish(struct sg_kept *k, struct sg_err *err)
{
    if (k->is_child) {
        pid_t got = waitpid(k->pid, NULL, __WALL | WNOHANG);
        if (got == 0)
            return sg_fail(err, SG_CONFLICT, "process %d is still there", k->pid);
        k->is_child = false;
    }
    if (k->ids.lock_fd < 0) { /* K2 */
        struct sg_err why = { 0 };
        struct sg_ids ids;
        if (sg_ids_claim_slot(!k->is_rootless, k->ids.slot, &ids, &why) == 0) {
            k->ids = ids;
        } else if (why.kind == SG_CONFLICT) {
            k->has_lost_slot = true;
            return 0;
        } else {
            return sg_fail(err, why.kind, "%s", why.msg);
        }
    }
    return k->is_foreign ? 0 : sg_cgroup_remove(&k->cgroup, 0, err);
}

void sg_kept_done(struct sg_kept *k)
{
    sg_drop_fd(&k->pidfd);
    sg_ids_release(&k->ids);
}
