/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "gate/rewrite.h"
#include "base/banned.h"

enum state { HEAD, LENGTH, CHUNKS, REST, OVER };

void sg_rewrite_down_init(struct sg_rewrite_down *d)
{
    *d = (struct sg_rewrite_down) { 0 };
    sg_buf_init(&d->held, SG_REWRITE_OUT);
}

void sg_rewrite_down_done(struct sg_rewrite_down *d)
{
    sg_buf_done(&d->held);
}

void sg_rewrite_down_next(struct sg_rewrite_down *d)
{
    sg_rewrite_down_done(d);
    sg_rewrite_down_init(d);
}

static enum sg_rewrite_got bad(struct sg_rewrite_down *d, const char *why)
{
    (void)snprintf(d->why, sizeof d->why, "%s", why);
    return SG_REWRITE_BAD;
}

/* ---- the head ---- */

/* Frames are our own; what invites to another protocol would lead past us. */
static bool is_ours(struct sg_str name)
{
    static const char *const names[] = { "transfer-encoding", "content-length", "trailer",
                                         "alt-svc" };
    for (size_t i = 0; i < SG_COUNT(names); i++)
        if (sg_http1_same(name, names[i]))
            return true;
    return false;
}

static bool is_coded(const struct sg_http_answer *a, const char *text)
{
    const struct sg_http_field *f =
        sg_http1_find(a->fields, a->field_count, text, "content-encoding");
    return f && f->value.n && !sg_http1_same(sg_span_str(f->value, text), "identity");
}

static bool has_body(const struct sg_http_answer *a, const struct sg_rewrite_up *u)
{
    return !u->is_head && a->status >= 200 && a->status != 204 && a->status != 304 &&
           !(a->has_length && !a->is_chunked && !a->length);
}

static void put_head(const struct sg_http_answer *a, const char *text, bool is_framed,
                     struct sg_buf *out)
{
    sg_buf_add(out, text, strcspn(text, "\r\n"));
    sg_buf_add_str(out, "\r\n");
    for (unsigned i = 0; i < a->field_count; i++) {
        const struct sg_str name = sg_span_str(a->fields[i].name, text),
                            value = sg_span_str(a->fields[i].value, text);
        if (is_ours(name))
            continue;
        sg_buf_add(out, name.p, name.n);
        sg_buf_add_str(out, ": ");
        sg_buf_add(out, value.p, value.n);
        sg_buf_add_str(out, "\r\n");
    }
    if (a->is_chunked && is_framed)
        sg_buf_add_str(out, "Transfer-Encoding: chunked\r\n");
    else if (a->has_length && a->status >= 200 && a->status != 204)
        sg_buf_addf(out, "Content-Length: %llu\r\n", (unsigned long long)a->length);
    sg_buf_add_str(out, "\r\n");
}

static enum state behind(struct sg_rewrite_down *d, const struct sg_http_answer *a,
                         const struct sg_rewrite_up *u)
{
    d->is_tunnel = a->status == 101;
    if (d->is_tunnel)
        return REST;
    if (a->status < 200)
        return HEAD; /* the answer itself comes behind it */
    if (!has_body(a, u))
        return OVER;
    if (a->is_chunked)
        return CHUNKS;
    return a->has_length ? LENGTH : REST;
}

/* 1: there was one. */
static int take_head(struct sg_rewrite_down *d, const struct sg_rewrite_up *u,
                     const struct sg_swaps *s, struct sg_buf *out)
{
    struct sg_http_answer a;
    struct sg_err err = { 0 };
    const char *text = sg_buf_cstr(&d->held);
    const int n = sg_answer_parse(&a, text, d->held.n, &err);
    if (n < 0)
        (void)bad(d, err.msg);
    if (n <= 0)
        return n;
    if (a.status == 101 && !u->wants_upgrade) {
        (void)bad(d, "the server changes the protocol unasked");
        return -1;
    }
    if (s->pattern_count && has_body(&a, u) && is_coded(&a, text)) {
        (void)bad(d,
                  "the server compresses although it was asked not to: secrets could hide in it");
        return -1;
    }
    sg_scrub(s, d->held.p, (size_t)n);
    put_head(&a, text, has_body(&a, u), out);
    d->state = (uint8_t)behind(d, &a, u);
    d->left = a.length;
    sg_chunked_init(&d->chunked);
    memmove(d->held.p, d->held.p + n, d->held.n - (size_t)n);
    d->held.n -= (size_t)n;
    return 1;
}

/* ---- bodies ---- */

static void put_piece(const struct sg_rewrite_down *d, const void *p, size_t n, struct sg_buf *out)
{
    char line[SG_CHUNK_HEAD];
    if (!n)
        return;
    if (d->state == CHUNKS)
        sg_buf_add(out, line, sg_chunk_head(line, n));
    sg_buf_add(out, p, n);
    if (d->state == CHUNKS)
        sg_buf_add_str(out, SG_CHUNK_TAIL);
}

/* What is held is body, decoded; all but what may be a beginning goes on. */
static void pass_on(struct sg_rewrite_down *d, const struct sg_swaps *s, bool is_end,
                    struct sg_buf *out)
{
    sg_scrub(s, d->held.p, d->held.n);
    const size_t kept = is_end ? 0 : sg_scrub_held(s, d->held.p, d->held.n), n = d->held.n - kept;
    put_piece(d, d->held.p, n, out);
    if (kept)
        memmove(d->held.p, d->held.p + n, kept);
    d->held.n = kept;
}

/* How many of the bytes belong to the body; they are behind what is held. */
static enum sg_rewrite_got take_body(struct sg_rewrite_down *d, struct sg_input in, size_t *ret_n)
{
    const size_t all = in.n;
    struct sg_input piece;
    enum sg_chunked_got got;
    if (d->state != CHUNKS) {
        const size_t n = d->state == LENGTH && all > d->left ? (size_t)d->left : all;
        sg_buf_add(&d->held, in.p, n);
        d->left -= d->state == LENGTH ? n : 0;
        *ret_n = n;
        return d->state == LENGTH && !d->left ? SG_REWRITE_END : SG_REWRITE_ON;
    }
    while ((got = sg_chunked_next(&d->chunked, &in, &piece, NULL)) == SG_CHUNKED_DATA)
        sg_buf_add(&d->held, piece.p, piece.n);
    *ret_n = all - in.n;
    if (got == SG_CHUNKED_BAD)
        return bad(d, "the answer's body cannot be followed");
    return got == SG_CHUNKED_END ? SG_REWRITE_END : SG_REWRITE_ON;
}

static enum sg_rewrite_got body(struct sg_rewrite_down *d, const struct sg_swaps *s, uint8_t *p,
                                size_t *inout_n, struct sg_buf *out)
{
    const enum sg_rewrite_got got = take_body(d, (struct sg_input) { p, *inout_n }, inout_n);
    if (got == SG_REWRITE_BAD)
        return got;
    if (d->held.has_overflowed)
        return bad(d, "the answer cannot be kept");
    pass_on(d, s, got == SG_REWRITE_END, out);
    if (got != SG_REWRITE_END)
        return got;
    if (d->state == CHUNKS)
        sg_buf_add_str(out, SG_CHUNK_LAST);
    d->state = OVER;
    return got;
}

/* ---- all ---- */

/* The head is put together in `held`; what came with it of the body is handed back. */
static enum sg_rewrite_got head(struct sg_rewrite_down *d, const struct sg_rewrite_up *u,
                                const struct sg_swaps *s, uint8_t *p, size_t *inout_n,
                                struct sg_buf *out)
{
    const size_t n = *inout_n;
    int got;
    sg_buf_add(&d->held, p, n);
    while ((got = take_head(d, u, s, out)) > 0 && d->state == HEAD && d->held.n)
        ;
    if (got < 0)
        return SG_REWRITE_BAD;
    if (d->state == HEAD)
        return SG_REWRITE_ON;
    const size_t rest = d->held.n; /* of this piece: a head is never behind it */
    *inout_n = n - (rest < n ? rest : n);
    sg_buf_clear(&d->held);
    return d->state == OVER ? SG_REWRITE_END : SG_REWRITE_ON;
}

enum sg_rewrite_got sg_rewrite_down(struct sg_rewrite_down *d, const struct sg_rewrite_up *u,
                                    const struct sg_swaps *s, uint8_t *p, size_t *inout_n,
                                    struct sg_buf *out)
{
    const size_t all = *inout_n;
    enum sg_rewrite_got got = SG_REWRITE_ON;
    size_t used = 0;
    if (d->state == HEAD) {
        used = all;
        got = head(d, u, s, p, &used, out);
    }
    if (got == SG_REWRITE_ON && d->state != HEAD && d->state != OVER && used < all) {
        size_t more = all - used;
        got = body(d, s, p + used, &more, out);
        used += more;
    }
    *inout_n = used;
    return d->state == OVER && got == SG_REWRITE_ON ? SG_REWRITE_END : got;
}

enum sg_rewrite_got sg_rewrite_down_eof(struct sg_rewrite_down *d, struct sg_buf *out)
{
    if (d->state == REST) { /* what was held back is a beginning without an end */
        put_piece(d, d->held.p, d->held.n, out);
        d->held.n = 0;
        d->state = OVER;
    }
    return d->state == OVER ? SG_REWRITE_END : bad(d, "the server has gone in the middle of it");
}
