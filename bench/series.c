/* SPDX-License-Identifier: Apache-2.0 */
#include "series.h"

#include <assert.h>
#include <string.h>

#include "base/auto.h"
#include "base/banned.h"

void sg_series_init(struct sg_series *s, size_t cap)
{
    *s = (struct sg_series) { .v = sg_alloc(cap * sizeof *s->v), .cap = cap };
}

void sg_series_done(struct sg_series *s)
{
    free(s->v);
    *s = (struct sg_series) { 0 };
}

void sg_series_add(struct sg_series *s, uint64_t value)
{
    assert(s->n < s->cap);
    s->v[s->n++] = value;
}

uint64_t sg_series_min(const struct sg_series *s)
{
    uint64_t least = s->v[0];
    for (size_t i = 1; i < s->n; i++)
        if (s->v[i] < least)
            least = s->v[i];
    return least;
}

static int by_value(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static uint64_t *sorted_copy(const struct sg_series *s) /* returns owned */
{
    uint64_t *sorted = sg_alloc(s->n * sizeof *sorted);
    memcpy(sorted, s->v, s->n * sizeof *sorted);
    qsort(sorted, s->n, sizeof *sorted, by_value);
    return sorted;
}

uint64_t sg_series_median(const struct sg_series *s)
{
    sg_auto_free uint64_t *sorted = sorted_copy(s);
    const uint64_t low = sorted[(s->n - 1) / 2], high = sorted[s->n / 2];
    return low + (high - low) / 2;
}

uint64_t sg_series_rank(const struct sg_series *s, unsigned percent)
{
    sg_auto_free uint64_t *sorted = sorted_copy(s);
    return sorted[(s->n - 1) * percent / 100];
}
