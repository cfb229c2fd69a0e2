/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers from text: the whole string, an explicit range, never a guess. */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

int sg_parse_u64(struct sg_str s, uint64_t min, uint64_t max, uint64_t *ret, struct sg_err *err);

/* "512m", "1.5g", "64KiB", "1048576": bytes. Units are powers of 1024; b, k, m, g, t with an
 * optional "b" or "ib", any case. */
int sg_parse_bytes(struct sg_str s, uint64_t min, uint64_t max, uint64_t *ret, struct sg_err *err);

/* "300", "300s", "1.5m", "2h", "250ms", "1d": milliseconds. A bare number is seconds. */
int sg_parse_duration_ms(struct sg_str s, uint64_t min, uint64_t max, uint64_t *ret,
                         struct sg_err *err);

/* "0.5", "2": thousandths. */
int sg_parse_milli(struct sg_str s, uint64_t min, uint64_t max, uint64_t *ret, struct sg_err *err);
