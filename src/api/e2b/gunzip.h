/* SPDX-License-Identifier: Apache-2.0 */
/* gzip, undone piece by piece. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct sg_gunzip;
struct sg_gunzip *sg_gunzip_new(struct sg_err *err); /* returns owned */
void sg_gunzip_free(struct sg_gunzip *g);
/* Hands on what comes out; -1 of `put` ends it. SG_INVALID: not gzip. */
int sg_gunzip_feed(struct sg_gunzip *g, const uint8_t *p, size_t n,
                   int (*put)(void *arg, const uint8_t *p, size_t n, struct sg_err *err), void *arg,
                   struct sg_err *err);
bool sg_gunzip_is_over(const struct sg_gunzip *g); /* its end was seen */
