/* SPDX-License-Identifier: Apache-2.0 */
/* A box: one cell as the launcher has it, from its making to the removal of its last trace. */
#pragma once

#include <stdbool.h>

#include "base/id.h"
#include "engine/cell.h"
#include "launcher/container.h"
#include "launcher/reclaim.h"
#include "launcher/record.h"
#include "launcher/tmpl.h"
#include "loop/loop.h"

struct sg_launcher;
struct sg_pool;

enum sg_box_state { SG_BOX_MAKING, SG_BOX_PARKED, SG_BOX_CLAIMED, SG_BOX_ENDING };

/* Who waits for the end of it: ids of the daemon's questions. */
struct sg_waiter {
    uint32_t id;
    struct sg_waiter *next;
};

struct sg_box {
    struct sg_launcher *launcher;
    enum sg_box_state state;
    struct sg_cell *cell; /* while making */
    char hostname[24];    /* the same: its first process reads it */
    struct sg_kept kept;  /* after that */
    struct sg_record record;
    struct sg_tmpl *tmpl; /* a reference */
    struct sg_pool *pool; /* while making or parked */
    struct sg_io ctl;     /* fd: our end of the control socket, until it is handed over */
    struct sg_io gone;    /* fd: the pidfd; the cell's own */
    struct sg_timer timer;
    uint64_t wait_ns, deadline_ns;
    uint32_t freeze_id; /* the question that waits for the freezer */
    bool is_freezing, was_parked, has_been_told;
    bool is_pinned;          /* its template has a pin with the name of the sandbox */
    bool is_gone;            /* pid 1 is */
    bool wants_net, has_net; /* the gate is to have, has its sockets: gate.h */
    /* of the storage pool, where the record names a disk */
    struct sg_kept_place
        place;                /* while the layer is made: its claim is ours until there is a cell */
    struct sg_errand *errand; /* under way, or NULL */
    struct sg_box_snapshot {
        uint32_t id; /* the question */
        char name[SG_ID_LEN + 1];
        bool is_on, was_frozen, stays_frozen;
        uint64_t frozen_ns; /* since when */
    } snapshot;
    struct sg_container container; /* where the record names one */
    struct sg_reclaim_place reclaim;
    bool is_displaced; /* a newer box of ours has the slot, and with it the files */
    struct sg_waiter *waiters;
    struct sg_box *next;                 /* in its pool, oldest first */
    struct sg_box *all_next, **all_link; /* in the launcher's list */
};

/* Starts one, in the background: sg_pool_made() or sg_pool_not_made() comes later. */
struct sg_box *sg_box_make(struct sg_launcher *l, struct sg_pool *p, struct sg_tmpl *t,
                           struct sg_err *err);

/* From container.c: one that is made by somebody else is there, or never will be. */
void sg_box_made(struct sg_box *b);
void sg_box_not_made(struct sg_box *b, const struct sg_err *err);
/* The same: `fd`, which is taken, leads to its pid 1, which b->kept knows. */
int sg_box_watch(struct sg_box *b, int fd, struct sg_err *err);
/* The same: an ending one waited for somebody else, who is done. */
void sg_box_look_again(struct sg_box *b);
/* A listening socket in the name of the slot. */
int sg_box_listen(const struct sg_launcher *l, uint32_t slot, struct sg_err *err);

/* From the record of an earlier launcher. SG_NOT_FOUND: its process is gone, or is another. */
struct sg_box *sg_box_adopt(struct sg_launcher *l, const struct sg_record *r, struct sg_err *err);

/* A slot whose process is gone already, or will be without our help: only traces are left. */
struct sg_box *sg_box_of_leftover(struct sg_launcher *l, const struct sg_record *r);

/* Gives a parked one its name and its limits (0: as they are). On failure it is ended. */
int sg_box_claim(struct sg_box *b, const char *sandbox, const struct sg_limits *limits,
                 struct sg_err *err);

/* What it has written, and may write, in the storage pool. */
int sg_box_disk_use(const struct sg_box *b, uint64_t *ret_used, uint64_t *ret_limit,
                    struct sg_err *err);

/* What is asked for, and where nothing is (0), what it has. All of them are set, or none. */
struct sg_limits sg_box_limits_of(const struct sg_box *b, const struct sg_limits *wanted);
int sg_box_apply_limits(struct sg_box *b, const struct sg_limits *all, struct sg_err *err);

int sg_box_set_limits(struct sg_box *b, const struct sg_limits *limits, struct sg_err *err);

/* The rest of b->cell, which is started. box_build.c */
int sg_box_build(struct sg_box *b, struct sg_err *err);

/* For pid 1 of the box of that slot to listen at, and a new connection to it. box_socket.c */
int sg_box_listen(const struct sg_launcher *l, uint32_t slot, struct sg_err *err);
int sg_box_connect(const struct sg_box *b, struct sg_err *err);

/* L_DONE or L_FAILED to question `id`, now or when the kernel has done it. */
void sg_box_freeze(struct sg_box *b, uint32_t id);

/* L_SNAPPED or L_FAILED to question `id`: its writable layer as the snapshot `name`. All processes
 * stand still meanwhile, and after it with `stays_frozen`; what is to be on the disk is sent there
 * before. box_snapshot.c */
void sg_box_snapshot(struct sg_box *b, uint32_t id, const char *name, bool stays_frozen);
void sg_box_snapshot_frozen(struct sg_box *b, const struct sg_err *err); /* from the freezer */
/* It ends, or nobody waits any more: `why` NULL. */
void sg_box_snapshot_drop(struct sg_box *b, const struct sg_err *why);
/* From box.c: its time to look has come; it is not to be frozen after all. box_freeze.c */
void sg_box_freeze_look(struct sg_box *b, uint64_t now_ns);
void sg_box_freeze_answer(struct sg_box *b, const struct sg_err *err);
/* Freezes, and calls sg_box_snapshot_frozen(). */
void sg_box_freeze_for_snapshot(struct sg_box *b);

/* Ends it. It is gone, with its last trace, after one more pass of the loop at least. */
void sg_box_end(struct sg_box *b);
/* Lets go of it as it is: it lives on for the next launcher. */
void sg_box_leave(struct sg_box *b);
/* L_DONE to question `id` when it is gone. */
void sg_box_await_end(struct sg_box *b, uint32_t id);
/* The daemon is gone: nobody waits for anything. */
void sg_box_forget_questions(struct sg_box *b);
