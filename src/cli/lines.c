/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/lines.h"

#include <string.h>

#include "base/auto.h"
#include "base/banned.h"

enum { PIECE_BYTES = 32 << 10 };

void sg_lines_init(struct sg_lines *l, struct sg_http *http)
{
    *l = (struct sg_lines) { .http = http };
    sg_lines_allow(l, SG_LINES_MAX);
}

void sg_lines_allow(struct sg_lines *l, size_t max)
{
    l->max = max;
    sg_buf_init(&l->text, max + PIECE_BYTES);
}

void sg_lines_done(struct sg_lines *l)
{
    sg_buf_done(&l->text);
}

static bool take(struct sg_lines *l, struct sg_str *ret)
{
    const char *start = l->text.p ? (const char *)l->text.p + l->at : "";
    const char *end = memchr(start, '\n', l->text.n - l->at);
    if (!end)
        return false;
    *ret = (struct sg_str) { start, (size_t)(end - start) };
    l->at += ret->n + 1;
    return true;
}

int sg_lines_next(struct sg_lines *l, struct sg_str *ret, struct sg_err *err)
{
    while (!take(l, ret)) {
        if (l->at) {
            memmove(l->text.p, l->text.p + l->at, l->text.n - l->at);
            l->text.n -= l->at;
            l->at = 0;
        }
        if (l->text.n > l->max)
            return sg_fail(err, SG_EXHAUSTED, "a line of the answer is over %zu bytes", l->max);
        uint8_t *room = sg_buf_grow(&l->text, PIECE_BYTES);
        if (!room)
            return sg_fail(err, SG_EXHAUSTED, "no memory for the answer");
        ssize_t n = sg_http_read(l->http, room, PIECE_BYTES, err);
        if (n <= 0)
            return (int)n;
        l->text.n += (size_t)n;
    }
    return 1;
}
