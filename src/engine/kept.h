/* SPDX-License-Identifier: Apache-2.0 */
/* A kept cell: one that outlives its maker, and can be taken over by whoever knows its slot and its
 * pid. Nothing here waits: what takes its time is asked for, and found done later.
 *
 *     sg_kept_claim(), sg_cell_start_kept() ... sg_cell_keep(); or sg_kept_adopt()
 *     ... limits, freezer, use ...
 *     sg_kept_kill(), then wait until pidfd is readable; sg_kept_hurry() where that takes long
 *     sg_kept_finish(), once more after a moment while it answers SG_CONFLICT
 *     sg_kept_done()
 *
 * K1. It costs two descriptors: everything else is found by its slot (cgroups) and by its pid
 *     (files) for as long as a question takes.
 * K2. The slot's lock is held by pid 1, and by us beside it, so that nobody takes the slot before
 *     what bears its name is removed: the next holder may have its cgroups elsewhere, and would not
 *     find ours. Where pid 1 would not give the lock (rootless), it is taken once more at the end.
 * K3. A process is only ever touched through the pidfd. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "engine/cgroup.h"
#include "engine/ids.h"
#include "engine/spec.h"

struct sg_kept {
    int pidfd; /* owned: readable when pid 1 is gone */
    int pid;
    uint64_t start_ticks;    /* when it was born, as the kernel counts: tells it from a later one */
    struct sg_ids ids;       /* lock_fd: -1 where pid 1 alone has it */
    struct sg_limits limits; /* as set */
    struct sg_cgroup cgroup; /* no descriptors */
    bool is_rootless, is_child, may_be_frozen;
    bool may_swap;      /* it was lent some: reclaim.h */
    bool is_foreign;    /* somebody else made it, and its cgroups: sg_kept_of() */
    bool is_nested;     /* what it holds is behind a further wall: spec.h */
    bool has_lost_slot; /* after sg_kept_finish(): somebody else has the slot now */
};

/* Where one is made: its slot, and with it the names of its cgroups. */
struct sg_kept_place {
    struct sg_ids ids; /* lock_fd: the claim */
    struct sg_cgroup cgroup;
    bool is_nested; /* for the caller to set */
};
/* `like`: that of an earlier one; where cgroups can be is not looked for again then. NULL: none. */
int sg_kept_claim(bool is_rootless, const struct sg_kept_place *like, struct sg_kept_place *ret,
                  struct sg_err *err);

/* What somebody else has made for us: pid 1 of it. Takes `ids`, whose lock it has, too. Of a
 * foreign one each writable place is a tmpfs, and is limited by itself; its cgroups go with it.
 * SG_NOT_FOUND: it is gone. */
int sg_kept_of(int pid, const struct sg_ids *ids, const struct sg_limits *limits,
               struct sg_kept *ret, struct sg_err *err);

/* When the process was born (field 22 of /proc/<pid>/stat). SG_NOT_FOUND: there is none. */
int sg_process_start_ticks(int pid, uint64_t *ret, struct sg_err *err);

/* What its maker must leave to whoever comes after it. */
struct sg_kept_note {
    uint32_t slot;
    int pid;
    uint64_t start_ticks;
    struct sg_limits limits;
    struct sg_cgroup cgroup; /* where its maker made them: that depends on where it ran itself */
    bool is_foreign;
    bool is_nested;
};

/* A cell that somebody else made. SG_NOT_FOUND: the process is gone, or is not the one that was
 * meant: another start, or ids that are not the slot's. */
int sg_kept_adopt(bool is_rootless, const struct sg_kept_note *note, struct sg_kept *ret,
                  struct sg_err *err);

/* All that differs from what is set, or nothing: SG_CONFLICT where more is in use. open_files stays
 * as it was made. The disk of one that is_pooled is limited by whoever has the pool. */
int sg_kept_set_limits(struct sg_kept *k, const struct sg_limits *l, struct sg_err *err);

/* Asked for; done when sg_kept_is_frozen() says so. SG_UNSUPPORTED without a freezer. */
int sg_kept_freeze(struct sg_kept *k, struct sg_err *err);
bool sg_kept_is_frozen(const struct sg_kept *k);
int sg_kept_thaw(struct sg_kept *k, struct sg_err *err);

/* Of one that is frozen: its memory may go, and the descriptor for sg_reclaim_run() (reclaim.h) is
 * returned, owned. SG_CONFLICT: it is not frozen. SG_UNSUPPORTED. */
int sg_kept_reclaim(struct sg_kept *k, struct sg_err *err);

struct sg_kept_report {
    struct sg_usage usage;
    struct sg_use_now now;
    uint64_t disk_bytes, disk_used_bytes; /* SG_UNKNOWN: rootless, of an earlier launcher's; of one
                                             that is_pooled: who has the pool knows */
};
int sg_kept_report(const struct sg_kept *k, struct sg_kept_report *ret, struct sg_err *err);
uint64_t sg_kept_oom_kills(const struct sg_kept *k);
uint64_t sg_kept_cpu_ns(const struct sg_kept *k); /* of all its life; SG_UNKNOWN */

/* The pidfd is readable, sg_kept_finish() was not called yet: was pid 1 killed? Of one that is not
 * our child nobody can tell, so it may have been. */
bool sg_kept_may_be_killed(const struct sg_kept *k);

/* SIGKILL to pid 1, and what keeps it from dying of it is lifted: that it is frozen. */
void sg_kept_kill(struct sg_kept *k);
/* It is not gone after a moment: dying takes processor time, of which it may have too little. */
void sg_kept_hurry(const struct sg_kept *k);

/* The pidfd is readable: reaps pid 1 and removes the cgroups. SG_CONFLICT: not yet. On success the
 * slot is still ours (unless has_lost_slot) until sg_kept_done(), for what else bears its name. */
int sg_kept_finish(struct sg_kept *k, struct sg_err *err);

/* Lets go of it; ends nothing. */
void sg_kept_done(struct sg_kept *k);
