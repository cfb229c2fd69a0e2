/* SPDX-License-Identifier: Apache-2.0 */
/* The body of a reply, line by line, as it comes: NDJSON and server-sent events. */
#pragma once

#include "cli/http.h"

enum { SG_LINES_MAX = 1 << 20 }; /* of one line */

struct sg_lines {
    struct sg_http *http; /* borrows */
    struct sg_buf text;   /* received; from `at` on not yet taken */
    size_t at, max;
};

void sg_lines_init(struct sg_lines *l, struct sg_http *http);
/* Longer lines than SG_LINES_MAX; before the first one. */
void sg_lines_allow(struct sg_lines *l, size_t max);
void sg_lines_done(struct sg_lines *l);

/* 1 and the line without its end (which lasts until the next call), 0 at the end of the body, -1.
 */
int sg_lines_next(struct sg_lines *l, struct sg_str *ret, struct sg_err *err);

#define sg_auto_lines __attribute__((cleanup(sg_lines_done))) struct sg_lines
