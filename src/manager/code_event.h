/* SPDX-License-Identifier: Apache-2.0 */
/* What a kernel says: lines, each one JSON object. Both steps read a stranger's bytes and keep
 * nothing of them that is larger than they were told.
 *
 * A line is looked over where it lies, without a tree: a picture of ten megabytes costs one pass.
 * It is then handed on as it is, but for the member "id", which is between the daemon and the
 * kernel. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

/* ---- bytes to lines ---- */

struct sg_code_lines {
    struct sg_buf line; /* what there is of one whose end has not come */
    size_t max;
    uint64_t *shared, shared_max; /* bytes that many of these hold together; NULL: not counted */
    uint64_t counted;
    bool is_skipping; /* to the next line break */
    bool was_long;
    bool was_given; /* the line was given out; it goes with the next call */
};
enum sg_code_line { SG_CODE_LINE_MORE, SG_CODE_LINE, SG_CODE_LINE_TOO_LONG };

void sg_code_lines_init(struct sg_code_lines *l, size_t max, uint64_t *shared, uint64_t shared_max);
void sg_code_lines_done(struct sg_code_lines *l);
/* Takes from `in` up to a line break. SG_CODE_LINE: `*ret` is a line, until the next call;
 * TOO_LONG: there was one, which is not kept; MORE: `in` is used up. Empty lines are passed over.
 */
enum sg_code_line sg_code_lines_next(struct sg_code_lines *l, struct sg_str *in,
                                     struct sg_str *ret);
/* Bytes are missing here: what is begun is of no use, nor is what comes up to a line break. */
void sg_code_lines_gap(struct sg_code_lines *l);

/* ---- a line to an event ---- */

enum sg_code_type {
    SG_CODE_T_READY,
    SG_CODE_T_COUNT,
    SG_CODE_T_STDOUT,
    SG_CODE_T_STDERR,
    SG_CODE_T_RESULT,
    SG_CODE_T_ERROR,
    SG_CODE_T_OVER,
    SG_CODE_T_OTHER,
};

struct sg_code_event {
    enum sg_code_type type;
    struct sg_str id;          /* in the line, as it is written there; n 0: none */
    size_t id_from, id_to;     /* the member with one of its commas; equal: none */
    struct sg_str name, value; /* of an error, as written */
};
/* One JSON object (RFC 8259; at most SG_J_MAX_DEPTH deep) in UTF-8 with a text as "type". */
int sg_code_event_read(struct sg_str line, struct sg_code_event *ret, struct sg_err *err);
/* The line without its id. */
void sg_code_event_put(struct sg_buf *out, struct sg_str line, const struct sg_code_event *e);
