/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the code half share.
 *
 *   code.c         contexts: made, found, restarted, removed
 *   code_row.c     contexts as rows of the store, and back
 *   code_kernel.c  a context's kernel: started, listened to, ended
 *   code_run.c     executions: the queue, what is sent, interrupted, over
 *   code_view.c    what a client reads of its execution
 *   code_event.c   bytes to lines to events
 *
 * O6. Two readers of the kernel's journal for each execution. The context's own (`watch`) never
 *     waits for anybody, keeps lines up to WATCHED_MAX only and looks for one thing: that the
 *     execution is over. The client's reads at the client's pace and may lose what the journal
 *     does not hold any more; it is told how much.
 * O7. An execution has up to two owners: its context, from the queue to its end (and as the last
 *     one until the next), and its client. The last of them frees it.
 * O8. A context that is removed while its kernel is being started lives until that is answered. */
#pragma once

#include "manager/code.h"
#include "manager/code_event.h"
#include "manager/exec_internal.h"

enum {
    SG_CODE_SAID_MAX = 2000, /* of a kernel's diagnostics, for whoever is told of its death */
};

enum sg_code_state {
    SG_CODE_WAITS,   /* in the queue */
    SG_CODE_RUNS,    /* its request is sent, or being sent */
    SG_CODE_IS_OVER, /* as far as the context is concerned */
};

enum sg_code_verdict { /* what is told in the place of what the kernel says of its end */
                       SG_CODE_NO_VERDICT,
                       SG_CODE_TIMED_OUT,
                       SG_CODE_RESTARTED,
                       SG_CODE_REMOVED,
};

struct sg_code_run {
    struct sg_id id;
    struct sg_code_context *context; /* NULL: it is over, or let go */
    struct sg_code_run *next;        /* in the queue */
    struct sg_code_client *client;   /* NULL: nobody reads */
    struct sg_loop *loop;
    unsigned refs;
    enum sg_code_state state;
    enum sg_code_verdict verdict;
    struct sg_buf request; /* what is still to be sent, from `sent` on */
    size_t sent;
    uint64_t timeout_ms;
    struct sg_timer deadline;
    bool is_interrupted;
    bool was_begun;        /* the client was told so */
    bool has_told;         /* that some event was none */
    struct sg_err *failed; /* owned: why it did not begin */
    uint64_t at;           /* where its events begin in the kernel's journal */
    /* code_view.c's */
    struct sg_reader reader;
    bool is_reading; /* the reader was opened; without an exec it has lost it */
    struct sg_code_lines lines;
    struct sg_buf out;   /* the event that was given out */
    struct sg_buf extra; /* events of our own that come next, as lines */
    size_t extra_at;
    char *piece; /* owned: read from the journal, and what of it is left */
    struct sg_str left;
    bool has_ended; /* all was given out but what is in `extra` */
    struct sg_later wake;
    struct sg_trace trace; /* that it is a part of */
    int64_t began_ms;      /* unix; 0: not by us */
    char *shown;           /* owned: its beginning as JSON, for traces; NULL: not for them */
};

struct sg_code_kernel {
    struct sg_code_context *c;
    char *kernel; /* owned: file name below SG_CODE_KERNELS */
    unsigned refs;
    bool is_removed, is_starting;
    struct sg_reader watch; /* of the kernel's exec; exec NULL: there is no kernel */
    struct sg_code_lines lines;
    char said[SG_CODE_SAID_MAX + 1]; /* the end of what it wrote to stderr */
    size_t said_n;
    struct sg_code_run *running, *last; /* last: what ran before, for who comes back */
    struct sg_code_run *first, **end;   /* that wait */
    unsigned waiting;
    struct sg_timer again; /* looks at the queue once more */
    struct sg_timer nag;   /* until an interrupted execution is over */
    uint64_t nagged_ns;    /* since when; 0: nothing is interrupted */
    unsigned signals;      /* that init has not confirmed: nothing new is sent before */
    unsigned nags;
    sg_code_context_cb *made; /* its creator waits */
    void *made_arg;
};

struct sg_code_set {
    struct sg_sandbox *s;
    struct sg_code_context *first, **end; /* in the order of creation */
    unsigned count;
    bool has_kernels; /* known to */
};

static inline struct sg_code_kernel *sg_code_kernel(const struct sg_code_context *c)
{
    return c->impl;
}

/* ---- code.c ---- */

struct sg_code_set *sg_code_set(struct sg_sandbox *s);
/* In the list, without a row. `language` is a name that is known to be fit. */
struct sg_code_context *sg_code_add(struct sg_sandbox *s, const struct sg_id *id,
                                    const char *language, const char *cwd);
/* Out of the list, freed now or by the last callback. Its row is the caller's business. */
void sg_code_drop(struct sg_code_context *c);
bool sg_code_unref(struct sg_code_context *c); /* false: it is gone */
void sg_code_forget(struct sg_sandbox *s);     /* before the execs are */

/* ---- code_row.c ---- */

void sg_code_put_row(struct sg_code_context *c);
void sg_code_recover(struct sg_sandbox *s); /* when the rows of execs are loaded */

/* ---- code_kernel.c ---- */

int sg_code_start_kernel(struct sg_code_context *c, struct sg_err *err);
void sg_code_listen(struct sg_code_context *c, struct sg_exec *x, uint64_t at);
/* SIGKILL to all of it; the context has no kernel from now on. */
void sg_code_end_kernel(struct sg_code_context *c);

/* ---- code_run.c ---- */

void sg_code_go_on(struct sg_code_context *c); /* the next in the queue, where nothing runs */
void sg_code_kernel_up(struct sg_code_context *c);
void sg_code_kernel_down(struct sg_code_context *c); /* it has ended */
void sg_code_kernel_failed(struct sg_code_context *c, const struct sg_err *err);
void sg_code_run_over(struct sg_code_context *c); /* of the one that runs */
void sg_code_fail_waiting(struct sg_code_context *c, enum sg_code_verdict why);
/* What ran in the context when the daemon before us ended. */
void sg_code_run_again(struct sg_code_context *c, const struct sg_id *id, uint64_t at);
struct sg_code_run *sg_code_run_new(struct sg_code_context *c, const struct sg_id *id);
void sg_code_run_unref(struct sg_code_run *r);
void sg_code_wake(struct sg_code_run *r);

/* ---- code_view.c ---- */

void sg_code_view_open(struct sg_code_run *r, struct sg_exec *x);
void sg_code_view_close(struct sg_code_run *r);
