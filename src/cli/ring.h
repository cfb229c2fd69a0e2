/* SPDX-License-Identifier: Apache-2.0 */
/* The last so many texts of many: what `audit list` and `events` show of streams that give the
 * oldest first. */
#pragma once

#include "base/str.h"

struct sg_ring {
    char **v; /* owned */
    size_t cap, n, next;
};

void sg_ring_init(struct sg_ring *r, size_t cap); /* cap > 0 */
void sg_ring_done(struct sg_ring *r);
void sg_ring_add(struct sg_ring *r, struct sg_str text);

/* The i-th of those kept, from the oldest on; i < r->n. */
const char *sg_ring_get(const struct sg_ring *r, size_t i);

#define sg_auto_ring __attribute__((cleanup(sg_ring_done))) struct sg_ring
