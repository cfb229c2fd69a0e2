/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the loop share. */
#pragma once

#include <stddef.h>
#include <sys/epoll.h>

#include "loop/loop.h"

enum { SG_LOOP_BATCH = 64 };

struct sg_laters {
    struct sg_later *first, *last;
};

struct sg_loop {
    int epoll_fd;
    bool is_stopping;
    uint64_t now_ns;

    /* The batch in hand: an event whose source is dropped loses its pointer, so that the source may
     * be freed, or used again for another descriptor, before its turn comes (L2). */
    struct epoll_event batch[SG_LOOP_BATCH];
    unsigned batch_at, batch_n;

    struct sg_timer **heap; /* owned, the least time first; the timers are borrowed */
    size_t heap_n, heap_cap;

    struct sg_laters laters, running_laters;

    struct sg_io signals;
    void (*got_signal)(void *arg, const struct signalfd_siginfo *info);
    void *signal_arg;

    struct sg_work *works; /* those not yet freed */
};

/* Milliseconds until the first timer, rounded up, and no more than `most` (-1: for ever). */
int sg_loop_timeout_ms(const struct sg_loop *l, int most);
void sg_loop_fire(struct sg_loop *l);
