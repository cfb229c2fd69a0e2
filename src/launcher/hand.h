/* SPDX-License-Identifier: Apache-2.0 */
/* Hands: processes that do for the launcher what may wait for a disk. The launcher has one thread
 * and serves everybody with it; a snapshot waits until its bytes are on the disk.
 *
 * H1. A hand has the storage pool and its end of a socket, and nothing else of ours.
 * H2. A lane is one hand: its errands are done in order, one at a time. Two lanes, so that whoever
 *     waits for a sandbox does not wait for the removal of others.
 * H3. Every errand is answered exactly once, from the loop, never from inside the call that gave
 *     it: also when its hand dies (SG_UNAVAILABLE; the next one is started).
 * H4. When the launcher dies, its hands finish what they are at and end. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "loop/loop.h"

enum { SG_ERRAND_NAME_MAX = 64 };

enum sg_errand_op {
    SG_ERRAND_MAKE,     /* a writable layer: of the snapshot `from`, or empty, based on `text` */
    SG_ERRAND_SNAPSHOT, /* the layer `from` as the snapshot `name`; value: its bytes */
    SG_ERRAND_VOLUME,   /* a volume `name` of at most `bytes` */
    SG_ERRAND_REMOVE,   /* `name` of the kind `kind`; absent is fine */
    SG_ERRAND_SYNC,     /* everything to the disk */
    SG_ERRAND_ROOM,     /* the same, in an image: what was removed is free at once, not trimmed */
    SG_ERRAND_TRIM,     /* an image that has room again is trimmed again */
    SG_ERRAND_TIDY,     /* counters of what is gone */
    SG_ERRAND_UNFOLD,   /* the layer `name`: what only root sees of it, for everybody to see */
    SG_ERRAND_OP_COUNT,
};

/* Plain data: it crosses the socket as it is. */
struct sg_errand_data {
    uint32_t op, kind;
    uint32_t is_ordered; /* a removal that must come after the making that was asked for before */
    uint64_t bytes;
    char name[SG_ERRAND_NAME_MAX + 1], from[SG_ERRAND_NAME_MAX + 1], text[SG_ERRAND_NAME_MAX + 1];
};

struct sg_errand {
    struct sg_errand_data data;
    void (*done)(void *arg, uint64_t value, const struct sg_err *err); /* NULL: nobody waits */
    void *arg;
    struct sg_errand *next; /* the lane's */
};

enum sg_lane { SG_LANE_PROMPT, SG_LANE_LEISURE, SG_LANE_COUNT };

struct sg_hands;

/* What a hand does; in its own process, where it may wait. */
typedef int sg_errand_fn(int pool_fd, const struct sg_errand_data *d, uint64_t *ret_value,
                         struct sg_err *err);

/* `pool_fd`, which must stay open, is the one descriptor that hands have. */
struct sg_hands *sg_hands_new(struct sg_loop *l, int pool_fd, sg_errand_fn *work,
                              struct sg_err *err);
/* Ends them; what waits is forgotten without an answer, but removals are done. NULL is fine. */
void sg_hands_free(struct sg_hands *h);

/* Copies `d`. Returns what sg_errand_forget() takes until `done` was called. */
struct sg_errand *sg_hands_give(struct sg_hands *h, const struct sg_errand_data *d,
                                void (*done)(void *arg, uint64_t value, const struct sg_err *err),
                                void *arg);
/* It is done all the same, and nobody is told. */
void sg_errand_forget(struct sg_errand *e);
/* How many are not done yet. */
unsigned sg_hands_busy(const struct sg_hands *h);
