/* SPDX-License-Identifier: Apache-2.0 */
/* An arena: memory of one request, freed as a whole. Born with its ceiling. */
#pragma once

#include <stddef.h>

#include "base/str.h"

struct sg_arena {
    struct sg_arena_block *head; /* owned */
    size_t used, max;
};

void sg_arena_init(struct sg_arena *a, size_t max);
void sg_arena_done(struct sg_arena *a);
void sg_arena_clear(struct sg_arena *a); /* keeps the first block for the next request */

/* Zeroed and aligned for anything; NULL past the ceiling. */
void *sg_arena_alloc(struct sg_arena *a, size_t n);
/* A terminated copy; NULL past the ceiling. */
char *sg_arena_copy(struct sg_arena *a, const char *p, size_t n);
char *sg_arena_printf(struct sg_arena *a, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

#define sg_auto_arena __attribute__((cleanup(sg_arena_done))) struct sg_arena
