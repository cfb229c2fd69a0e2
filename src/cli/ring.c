/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/ring.h"

#include <stdlib.h>

#include "base/auto.h"
#include "base/banned.h"

void sg_ring_init(struct sg_ring *r, size_t cap)
{
    *r = (struct sg_ring) { .v = sg_alloc(cap * sizeof(char *)), .cap = cap };
}

void sg_ring_done(struct sg_ring *r)
{
    for (size_t i = 0; i < r->n; i++)
        free(r->v[i]);
    free(r->v);
}

void sg_ring_add(struct sg_ring *r, struct sg_str text)
{
    free(r->v[r->next]);
    r->v[r->next] = sg_printf("%.*s", (int)text.n, text.p);
    r->next = (r->next + 1) % r->cap;
    r->n += r->n < r->cap;
}

const char *sg_ring_get(const struct sg_ring *r, size_t i)
{
    return r->v[(r->next + r->cap - r->n + i) % r->cap];
}
