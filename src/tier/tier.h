/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon's side of the conversation with the launcher: one function a question.
 *
 * T1. Every question is answered exactly once, from the loop, never from inside the call that
 *     asked: also when the launcher is gone (SG_UNAVAILABLE) and when the tier is freed.
 * T2. An answer is of the type that belongs to its question; anything else is an error.
 * T3. Any number may be asked: at most SG_TIER_WINDOW are with the launcher, the rest wait in line,
 *     so that a thousand parallel creates neither fill a socket nor starve each other. */
#pragma once

#include <stdbool.h>

#include "ctl/chan.h"
#include "loop/loop.h"

enum { SG_TIER_WINDOW = 64 };

struct sg_tier;

struct sg_tier_limits { /* 0: none */
    uint64_t mem_bytes, cpu_milli, pids, disk_bytes;
};

struct sg_tier_ops {
    void (*ended)(void *arg, const struct sg_msg_l_ended *e); /* pid 1 of a cell is gone */
    void (*lost)(void *arg, const struct sg_err *err);        /* once: the launcher is gone */
    void (*losing)(void *arg);       /* may be NULL: the same, before its questions are answered */
    void (*gate)(void *arg, int fd); /* may be NULL: a new connection to the gate; takes it */
    void (*exporter)(void *arg, int fd); /* the same, of the exporter */
    /* may be NULL: what sg_tier_reclaim() began is over */
    void (*reclaimed)(void *arg, const struct sg_msg_l_reclaimed *r);
};

/* `err` NULL: it worked. `p` is the answer and ends with the call; NULL where there was nothing to
 * do, or with `err`. */
typedef void sg_tier_answer(void *arg, struct sg_packet *p, const struct sg_err *err);

/* Takes `fd`. Returns owned. */
struct sg_tier *sg_tier_new(struct sg_loop *l, int fd, const struct sg_tier_ops *ops, void *arg,
                            struct sg_err *err);
/* Answers what is open with SG_UNAVAILABLE, calls no other back. */
void sg_tier_free(struct sg_tier *t);

/* First of all. L_WELCOME; refuses another version as SG_UNSUPPORTED. */
void sg_tier_hello(struct sg_tier *t, uint32_t epoch, sg_tier_answer *cb, void *arg);
uint32_t sg_tier_flags(const struct sg_tier *t);   /* SG_L_..., of the welcome */
unsigned sg_tier_waiting(const struct sg_tier *t); /* questions not yet answered */

/* Why the launcher makes no sandboxes of this tier; NULL: it does. Of the welcome. */
const char *sg_tier_lacks(const struct sg_tier *t, enum sg_l_tier tier);

/* L_CELL with the descriptor of a control connection. `mounts`: as of the message, or NULL. */
void sg_tier_create(struct sg_tier *t, enum sg_l_tier tier, const char *sandbox,
                    const char *template, const struct sg_tier_limits *limits, char *const *mounts,
                    sg_tier_answer *cb, void *arg);
void sg_tier_adopt(struct sg_tier *t, const char *sandbox, sg_tier_answer *cb, void *arg);
/* L_DONE. A sandbox that does not exist is destroyed already: no error. */
void sg_tier_destroy(struct sg_tier *t, const char *sandbox, sg_tier_answer *cb, void *arg);
void sg_tier_freeze(struct sg_tier *t, const char *sandbox, sg_tier_answer *cb, void *arg);
void sg_tier_thaw(struct sg_tier *t, const char *sandbox, sg_tier_answer *cb, void *arg);
/* L_DONE: it has begun, or will. Of one that is frozen; SG_CONFLICT where it is not any more. */
void sg_tier_reclaim(struct sg_tier *t, const char *sandbox, sg_tier_answer *cb, void *arg);
/* L_DONE. A limit of 0 stays as it is. */
void sg_tier_limit(struct sg_tier *t, const char *sandbox, const struct sg_tier_limits *limits,
                   sg_tier_answer *cb, void *arg);
/* L_DONE. Its sockets with the gate. */
void sg_tier_net(struct sg_tier *t, const char *sandbox, bool is_on, sg_tier_answer *cb, void *arg);
/* L_DONE: the cell, in which nothing runs, sees its own writable layer at SG_CTL_LAYER, which is a
 * directory already. */
void sg_tier_unfold(struct sg_tier *t, const char *sandbox, sg_tier_answer *cb, void *arg);
/* L_STATED. */
void sg_tier_stats(struct sg_tier *t, const char *sandbox, sg_tier_answer *cb, void *arg);
/* L_GAUGED, with the descriptors of what SG_L_GAUGE_... names. */
void sg_tier_gauge(struct sg_tier *t, const char *sandbox, sg_tier_answer *cb, void *arg);
/* L_SNAPPED: the files of the sandbox as a snapshot whose id the caller chose, on the disk. */
void sg_tier_snapshot(struct sg_tier *t, const char *sandbox, const char *snapshot, uint32_t flags,
                      sg_tier_answer *cb, void *arg);
/* L_DONE. `cb` may be NULL. */
void sg_tier_forget(struct sg_tier *t, const char *snapshot, sg_tier_answer *cb, void *arg);
/* L_LISTED: ids; L_STORED. */
void sg_tier_snapshots(struct sg_tier *t, uint64_t cursor, sg_tier_answer *cb, void *arg);
void sg_tier_storage(struct sg_tier *t, sg_tier_answer *cb, void *arg);
/* Volumes. L_DONE; a volume that is not there is removed already. */
void sg_tier_volume_make(struct sg_tier *t, const char *volume, uint64_t bytes, sg_tier_answer *cb,
                         void *arg);
/* SG_CONFLICT: more is stored than that. */
void sg_tier_volume_limit(struct sg_tier *t, const char *volume, uint64_t bytes, sg_tier_answer *cb,
                          void *arg);
void sg_tier_volume_remove(struct sg_tier *t, const char *volume, sg_tier_answer *cb, void *arg);
/* L_STATED: disk_bytes, disk_used_bytes. */
void sg_tier_volume_use(struct sg_tier *t, const char *volume, sg_tier_answer *cb, void *arg);
/* L_DONE. The directory must be there. SG_INVALID: a link is on the way to it. */
void sg_tier_mount(struct sg_tier *t, const char *sandbox, const char *volume, const char *path,
                   bool is_read_only, sg_tier_answer *cb, void *arg);
/* L_DONE: what was written to volumes is on the disk. */
void sg_tier_sync(struct sg_tier *t, sg_tier_answer *cb, void *arg);
/* L_LISTED: ids from `cursor` on; "template parked wanted"; names. */
void sg_tier_list(struct sg_tier *t, uint64_t cursor, sg_tier_answer *cb, void *arg);
void sg_tier_pool(struct sg_tier *t, sg_tier_answer *cb, void *arg);
void sg_tier_templates(struct sg_tier *t, sg_tier_answer *cb, void *arg);
/* L_IDENTIFIED: what a template of the server's is right now. */
void sg_tier_identify(struct sg_tier *t, const char *template, sg_tier_answer *cb, void *arg);
/* L_DONE: somebody works on a template, with these ends (ctl/msg.h says which), which are taken. */
void sg_tier_image(struct sg_tier *t, int fds[SG_L_IMAGE_FD_COUNT], sg_tier_answer *cb, void *arg);
/* L_RULED: a rule file, if it is not that of `stamp`. */
void sg_tier_rules(struct sg_tier *t, enum sg_rule_file which, uint64_t stamp, sg_tier_answer *cb,
                   void *arg);
