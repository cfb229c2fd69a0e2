/* SPDX-License-Identifier: Apache-2.0 */
/* The law of every decoder in src/wire: the result depends on the bytes, not on how they were cut.
 *
 * Each function reads the input in pieces of `step` bytes into a transcript; two transcripts of the
 * same bytes must be equal. Used by the property test and by the fuzz targets. */
#pragma once

#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "wire/chunked.h"
#include "wire/http1.h"
#include "wire/multipart.h"
#include "wire/ws.h"

enum { ORACLE_BYTES = 64 << 20, ORACLE_MAX_MESSAGE = 4096 };

static inline void oracle_span(struct sg_buf *log, const char *what, struct sg_span s, size_t n)
{
    if (s.at > n || s.n > n - s.at)
        abort();
    sg_buf_addf(log, "%s %u+%u ", what, s.at, s.n);
}

/* Each prefix on a heap of its own size: reading past the end shows, and H3 is put to the test. */
static inline int oracle_head(struct sg_http_head *h, const uint8_t *p, size_t n, size_t step)
{
    sg_http1_init(h);
    for (size_t end = step < n ? step : n;; end = n - end < step ? n : end + step) {
        sg_auto_free char *copy = malloc(end ? end : 1);
        if (!copy)
            abort();
        if (end)
            memcpy(copy, p, end);
        int got = sg_http1_parse(h, copy, end, NULL);
        if (got || end == n)
            return got;
    }
}

static inline void oracle_body(struct sg_buf *log, const uint8_t *p, size_t n, size_t step)
{
    struct sg_chunked c;
    sg_chunked_init(&c);
    for (size_t at = 0; at < n;) {
        size_t have = n - at < step ? n - at : step;
        struct sg_input in = { (uint8_t *)(uintptr_t)p + at, have }, piece;
        enum sg_chunked_got got;
        while ((got = sg_chunked_next(&c, &in, &piece, NULL)) == SG_CHUNKED_DATA)
            sg_buf_add(log, piece.p, piece.n);
        at += have - in.n;
        if (got != SG_CHUNKED_MORE) {
            sg_buf_addf(log, got == SG_CHUNKED_END ? "END at %zu" : "BAD at %zu", at);
            return;
        }
    }
}

static inline void oracle_http1(struct sg_buf *log, const uint8_t *p, size_t n, size_t step)
{
    struct sg_http_head h;
    int got = oracle_head(&h, p, n, step);
    sg_buf_addf(log, "%d status %d ", got, h.status);
    if (got <= 0)
        return;
    size_t end = (size_t)got;
    oracle_span(log, "method", h.method, end);
    oracle_span(log, "path", h.path, end);
    oracle_span(log, "query", h.query, end);
    oracle_span(log, "host", h.host, end);
    for (unsigned i = 0; i < h.field_count; i++) {
        oracle_span(log, "name", h.fields[i].name, end);
        oracle_span(log, "value", h.fields[i].value, end);
    }
    sg_buf_addf(log, "%u %d%d%d%d%d%d %zu ", h.minor, h.has_length, h.is_chunked, h.wants_close,
                h.wants_keep_alive, h.wants_upgrade, h.expects_continue, (size_t)h.content_length);
    if (h.has_length && h.is_chunked)
        abort();
    if (h.is_chunked)
        oracle_body(log, p + end, n - end, step);
}

/* Whole messages only: how much of a broken one came out before depends on the pieces. */
static inline void oracle_ws(struct sg_buf *log, const uint8_t *p, size_t n, size_t step)
{
    struct sg_ws w;
    sg_ws_init(&w, true, ORACLE_MAX_MESSAGE);
    sg_auto_buf message;
    sg_buf_init(&message, ORACLE_MAX_MESSAGE);
    for (size_t at = 0; at < n; at += step) {
        size_t have = n - at < step ? n - at : step;
        sg_auto_free uint8_t *copy = malloc(have);
        if (!copy)
            abort();
        memcpy(copy, p + at, have);
        struct sg_input in = { copy, have }, piece;
        enum sg_ws_got got;
        while ((got = sg_ws_next(&w, &in, &piece, NULL)) != SG_WS_NEEDS_MORE) {
            if (got == SG_WS_DATA) {
                if (w.is_first && message.n)
                    abort();
                sg_buf_add(&message, piece.p, piece.n);
                if (message.has_overflowed)
                    abort();
                if (!w.is_last)
                    continue;
                sg_buf_addf(log, "%s %zu:", w.is_text ? "text" : "binary", message.n);
                sg_buf_add(log, message.p, message.n);
                if (w.is_text && !sg_utf8_valid((const char *)message.p, message.n))
                    abort();
                sg_buf_clear(&message);
                continue;
            }
            sg_buf_addf(log, "got %d code %u ", (int)got, got >= SG_WS_CLOSE ? w.code : 0u);
            if (got != SG_WS_BAD)
                sg_buf_add(log, piece.p, piece.n);
        }
    }
}

/* The first line of the input is the Content-Type. */
static inline void oracle_multipart(struct sg_buf *log, const uint8_t *p, size_t n, size_t step)
{
    sg_auto_free struct sg_multipart *m = malloc(sizeof *m);
    const uint8_t *line = n ? memchr(p, '\n', n) : NULL;
    if (!m || !line)
        return;
    sg_auto_buf type;
    sg_buf_init(&type, n);
    sg_buf_add(&type, p, (size_t)(line - p));
    if (sg_multipart_init(m, sg_buf_cstr(&type), NULL) < 0)
        return;
    for (size_t at = (size_t)(line - p) + 1; at < n; at += step) {
        size_t have = n - at < step ? n - at : step;
        struct sg_input in = { (uint8_t *)(uintptr_t)p + at, have }, piece;
        enum sg_multipart_got got;
        while ((got = sg_multipart_next(m, &in, &piece, NULL)) != SG_MULTIPART_MORE) {
            if (got == SG_MULTIPART_PART)
                sg_buf_addf(log, "[%s|%s|%s:", m->name, m->filename ? m->filename : "-",
                            m->type ? m->type : "-");
            else if (got == SG_MULTIPART_DATA)
                sg_buf_add(log, piece.p, piece.n);
            else
                sg_buf_addf(log, "got %d ", (int)got);
            if (got == SG_MULTIPART_END || got == SG_MULTIPART_BAD)
                return;
        }
    }
}

typedef void oracle_reader(struct sg_buf *log, const uint8_t *p, size_t n, size_t step);

static inline bool oracle_agrees(oracle_reader *read, const uint8_t *p, size_t n, size_t step)
{
    sg_auto_buf whole, cut;
    sg_buf_init(&whole, ORACLE_BYTES);
    sg_buf_init(&cut, ORACLE_BYTES);
    read(&whole, p, n, n ? n : 1);
    read(&cut, p, n, step);
    return whole.n == cut.n && (!whole.n || memcmp(whole.p, cut.p, whole.n) == 0);
}

/* For fuzz targets: byte by byte, and in steps that the input itself chooses. */
static inline void oracle_must_agree(oracle_reader *read, const uint8_t *p, size_t n)
{
    size_t step = n ? 2 + p[n - 1] % 61u : 1;
    if ((n <= 2048 && !oracle_agrees(read, p, n, 1)) || !oracle_agrees(read, p, n, step))
        abort();
}
