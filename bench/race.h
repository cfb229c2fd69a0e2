/* SPDX-License-Identifier: Apache-2.0 */
/* Measuring several things in one loop, so that what else the machine does hits all alike.
 *
 * Every round runs each entrant once, in an order drawn anew (from a fixed seed): what one leaves
 * to be cleaned up behind it is not always paid by the same neighbour. */
#pragma once

#include "base/err.h"
#include "series.h"

struct sg_entrant {
    const char *name;
    int (*run)(void *ctx, uint64_t *ret_ns, struct sg_err *err); /* once, timed by itself */
    void *ctx;
    unsigned n;             /* fewer than the others: spread evenly over the rounds */
    struct sg_series times; /* filled by sg_race(); the caller ends it */
};

/* Warms up, then runs the rounds with `pause_ms` before each run. Stops at the first failure, or
 * when sg_race_interrupt() was called. */
int sg_race(struct sg_entrant *e, size_t count, unsigned pause_ms, struct sg_err *err);

void sg_race_done(struct sg_entrant *e, size_t count);

void sg_race_interrupt(int signal);    /* a signal handler */
int sg_race_check(struct sg_err *err); /* -1 when interrupted */
