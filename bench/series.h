/* SPDX-License-Identifier: Apache-2.0 */
/* Measurements of one kind. Medians and minima are what a shared machine leaves worth knowing: the
 * median is what people see, the minimum what the work itself costs. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct sg_series {
    uint64_t *v; /* owned */
    size_t n, cap;
};

void sg_series_init(struct sg_series *s, size_t cap);
void sg_series_done(struct sg_series *s);
void sg_series_add(struct sg_series *s, uint64_t value); /* at most `cap` times */

/* Of one value at least. */
uint64_t sg_series_min(const struct sg_series *s);
uint64_t sg_series_median(const struct sg_series *s);
uint64_t sg_series_rank(const struct sg_series *s, unsigned percent); /* 99: all but one in 100 */

#define sg_auto_series __attribute__((cleanup(sg_series_done))) struct sg_series
