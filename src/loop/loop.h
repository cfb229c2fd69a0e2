/* SPDX-License-Identifier: Apache-2.0 */
/* The event loop: descriptors, timers, deferred calls, signals, and a queue for blocking work.
 *
 * L1. One thread runs the loop and owns everything that hangs on it; nothing here takes a lock but
 *     the work queue.
 * L2. A handler may drop any source or timer, its own included: an event of the same batch that
 *     points to a dropped source is not delivered.
 * L3. Every pass takes one `now`; a timer fires at or after its time, in order of time.
 * L4. Sources and timers are embedded in the object that owns them and need no allocation. */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct sg_loop;
struct signalfd_siginfo; /* sys/signalfd.h */

struct sg_loop *sg_loop_new(struct sg_err *err); /* returns owned */
void sg_loop_free(struct sg_loop *l);            /* frees the work queues that are left */

/* Runs until sg_loop_stop(). */
int sg_loop_run(struct sg_loop *l, struct sg_err *err);
/* One pass, waiting at most `timeout_ms` (-1: for an event). For tests. */
int sg_loop_turn(struct sg_loop *l, int timeout_ms, struct sg_err *err);
void sg_loop_stop(struct sg_loop *l);
uint64_t sg_loop_now(const struct sg_loop *l); /* monotonic ns, of this pass */

/* ---- descriptors ---- */

struct sg_io {
    int fd;
    uint32_t events;                                  /* what epoll was told; 0: not registered */
    void (*ready)(struct sg_io *io, uint32_t events); /* EPOLLIN, EPOLLOUT, EPOLLHUP, EPOLLERR */
};
/* The owner sets fd and ready, zero elsewhere. Level-triggered. events 0: out of the loop. */
int sg_io_want(struct sg_loop *l, struct sg_io *io, uint32_t events, struct sg_err *err);
void sg_io_drop(struct sg_loop *l, struct sg_io *io); /* out of the loop, closed, fd -1 */

/* ---- timers ---- */

struct sg_timer {
    uint64_t at_ns;
    void (*fire)(struct sg_timer *t, uint64_t now_ns);
    size_t place; /* the loop's: 1 + index in its heap; 0: not set */
};
void sg_timer_set(struct sg_loop *l, struct sg_timer *t, uint64_t at_ns); /* sets or moves */
void sg_timer_stop(struct sg_loop *l, struct sg_timer *t);
static inline bool sg_timer_is_set(const struct sg_timer *t)
{
    return t->place > 0;
}

/* ---- deferred calls: at the end of this pass, in order ---- */

struct sg_later {
    void (*call)(struct sg_later *l);
    struct sg_later *next; /* the loop's */
    bool is_queued;
};
void sg_later_call(struct sg_loop *l, struct sg_later *later); /* once, however often asked */
void sg_later_cancel(struct sg_loop *l, struct sg_later *later);

/* ---- signals: blocked and read by signalfd ---- */

int sg_loop_signals(struct sg_loop *l, const int *numbers, unsigned count,
                    void (*got)(void *arg, const struct signalfd_siginfo *info), void *arg,
                    struct sg_err *err);

/* ---- blocking work, in a thread of a small pool; `done` runs on the loop ---- */

struct sg_job {
    void (*work)(struct sg_job *j); /* touches nothing but the job */
    void (*done)(struct sg_job *j); /* on the loop's thread */
    struct sg_job *next;            /* the queue's */
};
/* A queue has its own threads: one thread keeps jobs in order (the store's writer). */
struct sg_work;
struct sg_work *sg_work_new(struct sg_loop *l, const char *name, unsigned threads,
                            struct sg_err *err);
void sg_work_free(struct sg_work *w); /* finishes what is queued, calls every `done` */
void sg_work_add(struct sg_work *w, struct sg_job *j); /* takes the job until `done` */

#define SG_OWNER(ptr, type, member)                                                                \
    ((type *)(void *)((char *)(ptr) - __builtin_offsetof(type, member)))
