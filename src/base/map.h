/* SPDX-License-Identifier: Apache-2.0 */
/* A hash map from short strings to pointers: keys are hashed with a random seed, so that whoever
 * chooses keys cannot choose collisions. Neither keys nor values are owned: a key must live as long
 * as its entry, which it does when it is a field of the value. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sg_map_slot {
    const char *key; /* NULL: free */
    void *value;
    uint64_t hash;
};

struct sg_map {
    struct sg_map_slot *slots; /* owned */
    size_t n, cap;             /* cap is a power of two, or 0 */
    uint64_t seed;
};

void sg_map_init(struct sg_map *m);
void sg_map_done(struct sg_map *m);

void *sg_map_find(const struct sg_map *m, const char *key);
void sg_map_put(struct sg_map *m, const char *key, void *value); /* replaces */
void *sg_map_remove(struct sg_map *m, const char *key);          /* the value, or NULL */

/* Walks in no order: `*cursor` starts at 0; NULL at the end. The map must not change meanwhile. */
void *sg_map_next(const struct sg_map *m, size_t *cursor);
