/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of frozen boxes goes where the kernel can put it (engine/reclaim.h): by a helper of
 * its own for each, one after the other.
 *
 * R1. The helper waits for the kernel, and nobody waits for it: a thaw and an end kill it and go
 *     on. It dies with the launcher.
 * R2. A cgroup is removed after the helper that is at it is gone, because the kernel would have the
 *     remover wait for its write.
 * R3. The daemon is told of the end of each that was begun, however that came (L_RECLAIMED). */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "loop/loop.h"

struct sg_box;
struct sg_launcher;

struct sg_reclaimer {
    struct sg_io gone;  /* the helper's pidfd */
    pid_t pid;          /* 0: none */
    struct sg_box *box; /* that it is at, until it is gone; NULL: one that is gone before it */
    bool is_told;
    uint64_t before_bytes;
    struct sg_box *first, **end; /* in line */
};

/* Of a box: its place in the line. */
struct sg_reclaim_place {
    bool is_waiting;
    struct sg_box *next;
};

void sg_reclaimer_init(struct sg_reclaimer *r);
void sg_reclaimer_done(struct sg_launcher *l); /* the helper ends */

/* Begins, at once or when it is its turn. SG_CONFLICT: it is not frozen. SG_UNSUPPORTED. */
int sg_reclaim_box(struct sg_box *b, struct sg_err *err);
/* It is to run, or to end: no more. */
void sg_reclaim_stop(struct sg_box *b);
/* R2 */
bool sg_reclaim_is_at(const struct sg_box *b);
/* The box is freed. */
void sg_reclaim_forget(struct sg_box *b);
