/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the exec half share.
 *
 * X1. An exec begins twice: init answers, and its row is committed. Nobody hears of it before both
 *     (`awaits`), and until then it is not found.
 * X2. It ends in steps: its process (EXITED), its output (both pipes at their end, or a short grace
 *     for children that keep them open), for a SIGKILL the question whether memory ran out; then it
 *     is complete, in memory, and its readers know. Its row follows, and after that RELEASE.
 * X3. What may call back (init, the store, the oom question) is counted in `refs`. An exec that is
 *     dropped while there are any has no sandbox any more and is freed by the last of them. */
#pragma once

#include "manager/exec.h"
#include "manager/journal.h"
#include "manager/manager_internal.h"

struct sg_exec_row; /* store/store.h */

enum { SG_AWAITS_SPAWN = 1, SG_AWAITS_ROW = 2 };

struct sg_exec_impl {
    struct sg_exec *x;
    struct sg_exec *newer, *older; /* in the sandbox's list, by start or, later, by end */
    unsigned refs;

    unsigned awaits; /* of its start */
    sg_exec_cb *started;
    void *started_arg;
    uint64_t asked_ns;
    struct sg_err *no_row; /* owned: it could not be written; init has not answered yet */

    struct sg_io in, streams[SG_STREAM_COUNT];
    void (*writable)(void *arg);
    void *writable_arg;

    struct sg_journal journal;
    struct sg_reader *readers, *walk; /* walk: the next one to wake, while somebody wakes them */

    struct sg_timer limit; /* its time is over; then: TERM was not enough */
    struct sg_timer grace; /* for those who keep its pipes; or: try the full disk again */
    int64_t deadline_ms;   /* unix; 0: none */
    bool is_killing;       /* TERM was sent to the tree */
    bool has_timed_out;    /* by its limit */
    bool has_exited;       /* code and signal are known */
    bool asks_oom, is_oom; /* the question is open; the answer */
    bool is_over;          /* the grace for its pipes is over */
    bool awaits_kept;      /* after a restart: its pipes have not come back yet */
    bool is_written;       /* its end is in the store */
    bool is_released;
    bool was_cut;          /* its journal has lost something */
    bool has_told_trouble; /* once, in the log */
    struct sg_trace trace; /* that it is a part of */
    uint64_t net_before;   /* bytes of the sandbox's network when it began */
    uint64_t held_bytes;   /* of its journal, as counted in the set */
};

struct sg_exec_set { /* s->exec_impl */
    struct sg_exec *newest, *oldest;
    unsigned ended, running, lingering; /* lingering: pipes of ended ones that are kept open */
    uint64_t held_bytes;                /* what journals of ended ones take of the disk */
    struct sg_kill_all *kill_all;       /* owned: exec_control.c */
    /* after a restart */
    struct sg_sandbox *s;
    void (*recovered)(struct sg_sandbox *s, void *arg); /* NULL: told, or nobody waits */
    void *recovered_arg;
    struct sg_timer reclaim; /* asks once more */
};

static inline struct sg_exec_impl *sg_exec_impl(const struct sg_exec *x)
{
    return x->impl;
}
static inline bool sg_exec_is_live(const struct sg_exec *x)
{
    return x->sandbox && x->ending == SG_EXEC_RUNNING;
}

/* ---- exec.c ---- */

struct sg_exec_set *sg_exec_set(struct sg_sandbox *s); /* made where there is none */
/* A new one in the sandbox's list and map, which counts as running. */
struct sg_exec *sg_exec_new(struct sg_sandbox *s, const struct sg_id *id);
/* Out of list and map; readers see it go. Freed now or by the last callback. Its row and its
 * journal are the caller's business. */
void sg_exec_drop(struct sg_exec *x);
/* It belongs to a context: from its first moment on. */
void sg_exec_be_kernel(struct sg_exec *x);
/* It runs, or does not any more: work of its sandbox, unless it is a kernel. */
void sg_exec_work_begin(struct sg_exec *x);
void sg_exec_work_end(struct sg_exec *x);
/* Before a question with a callback, and in the callback: false: nobody is interested any more. */
void sg_exec_ref(struct sg_exec *x);
bool sg_exec_unref(struct sg_exec *x);
/* It has ended: moves to the front of the list. */
void sg_exec_count_end(struct sg_exec *x);
/* Its journal as it is now; of one that has ended. */
void sg_exec_count_journal(struct sg_exec *x);
/* Drops the oldest ended ones beyond what is kept, with row and journal; and empties the journals
 * of the oldest where they take too much together. */
void sg_exec_prune(struct sg_sandbox *s);

/* ---- exec_row.c ---- */

/* Writes the row as the exec is now. `done` NULL: of no interest. */
void sg_exec_put_row(struct sg_exec *x, void (*done)(void *arg, const struct sg_err *err));
/* NULL: the row makes no sense. */
struct sg_exec *sg_exec_of_row(struct sg_sandbox *s, const struct sg_exec_row *r);
/* {"exec":id,...} for events and the audit; returns owned. */
char *sg_exec_detail(const struct sg_exec *x, bool with_argv);

/* ---- exec_output.c ---- */

void sg_exec_watch_streams(struct sg_exec *x); /* pipes into the loop */
/* Takes what is in the pipes now. True: all have ended. */
bool sg_exec_drain(struct sg_exec *x);
void sg_exec_close_streams(struct sg_exec *x);
void sg_exec_wake(struct sg_exec *x);
void sg_exec_lose_readers(struct sg_exec *x);

/* ---- exec_end.c ---- */

void sg_exec_process_ended(struct sg_exec *x, const struct sg_msg_exited *e);
void sg_exec_go_on_ending(struct sg_exec *x); /* something that its end waits for has happened */
void sg_exec_lost(struct sg_exec *x);
void sg_exec_release(struct sg_sandbox *s, const char *tag);
void sg_exec_release_if_done(struct sg_exec *x);

/* ---- exec_control.c ---- */

void sg_exec_send_signal(struct sg_sandbox *s, uint32_t pid, int number, uint32_t scope);
void sg_exec_set_limit(struct sg_exec *x); /* the timer, from deadline_ms */
void sg_exec_begin_kill(struct sg_exec *x);
void sg_exec_control_ended(struct sg_sandbox *s);
void sg_exec_control_forget(struct sg_sandbox *s);

/* ---- exec_input.c ---- */

void sg_exec_close_input(struct sg_exec *x); /* here; whoever waits for room is called */

/* ---- exec_recover.c ---- */

void sg_exec_kept(struct sg_sandbox *s, struct sg_packet *p);
