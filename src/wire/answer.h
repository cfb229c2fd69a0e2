/* SPDX-License-Identifier: Apache-2.0 */
/* Heads of HTTP/1.x answers, as a proxy receives them. Lines may end in CRLF or LF: what is handed
 * on is written anew, so that nobody after us reads it another way. */
#pragma once

#include "wire/http1.h"

struct sg_http_answer {
    int status; /* 100 to 599 */
    bool has_length, is_chunked;
    uint64_t length;
    unsigned field_count;
    struct sg_http_field fields[SG_HTTP_MAX_FIELDS]; /* spans from the first byte on */
};

/* `p` is the answer from its first byte on. Returns the length of its head, 0 where more must come,
 * or -1 (SG_INVALID). */
int sg_answer_parse(struct sg_http_answer *a, const char *p, size_t n, struct sg_err *err);
