/* SPDX-License-Identifier: Apache-2.0 */
/* Percent-encoding and queries. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

/* Decodes into `out`, which has room for in.n + 1 bytes, and terminates. `plus_is_space`: of a
 * query. Returns the length, or -1 (SG_INVALID): a '%' without two hexadecimal digits, a NUL, or
 * text that is not UTF-8. */
int sg_url_decode(struct sg_str in, bool plus_is_space, char *out, struct sg_err *err);

/* Takes the next "name=value" off the front of a query, still encoded; false at the end. Empty ones
 * ("a&&b") are passed over. */
bool sg_query_next(struct sg_str *query, struct sg_str *name, struct sg_str *value);

/* Appends `text` with all but unreserved characters encoded; '/' stays where `keep_slash`. */
void sg_url_encode(struct sg_buf *out, struct sg_str text, bool keep_slash);
