/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "gate/rewrite.h"
#include "wire/base64.h"
#include "base/banned.h"

enum state { HEAD, GATHER, LENGTH, CHUNKS, WHOLE, TUNNEL };

void sg_rewrite_up_init(struct sg_rewrite_up *u, bool (*check)(void *arg, struct sg_str host),
                        void *arg)
{
    *u = (struct sg_rewrite_up) { .check = check, .arg = arg };
    sg_buf_init(&u->held, SG_HTTP_MAX_HEAD + SG_REWRITE_GATHER + SG_REWRITE_PIECE);
    sg_http1_init(&u->head);
}

void sg_rewrite_up_done(struct sg_rewrite_up *u)
{
    sg_buf_done(&u->held);
}

static enum sg_rewrite_got bad(struct sg_rewrite_up *u, const char *why)
{
    (void)snprintf(u->why, sizeof u->why, "%s", why);
    return SG_REWRITE_BAD;
}

static void take(struct sg_buf *b, size_t n)
{
    if (n && n < b->n)
        memmove(b->p, b->p + n, b->n - n);
    b->n -= n;
    if (!b->n) { /* an idle connection keeps no memory for it */
        const size_t max = b->max;
        sg_buf_done(b);
        sg_buf_init(b, max);
    }
}

/* ---- fields ---- */

/* Those that are written anew, or that would ask for what we do not understand. */
static bool is_ours(const struct sg_rewrite_up *u, struct sg_str name)
{
    static const char *const always[] = { "accept-encoding", "te", "trailer", "transfer-encoding",
                                          "content-length" };
    for (size_t i = 0; i < SG_COUNT(always); i++)
        if (sg_http1_same(name, always[i]))
            return true;
    return u->state == GATHER && sg_http1_same(name, "expect");
}

static int put_field(const struct sg_swaps *s, struct sg_str name, struct sg_str value,
                     bool is_rule, struct sg_buf *out)
{
    sg_buf_add(out, name.p, name.n);
    sg_buf_add_str(out, ": ");
    if (sg_swap(s, value, SG_SWAP_FIELD, is_rule, out) < 0)
        return -1;
    sg_buf_add_str(out, "\r\n");
    return 0;
}

static bool is_basic(struct sg_str name, struct sg_str value)
{
    return sg_http1_same(name, "authorization") && value.n > 6 &&
           sg_http1_same((struct sg_str) { value.p, 6 }, "basic ");
}

/* "Basic" carries user and password as base64: looked into, and written anew. */
static int put_basic(const struct sg_swaps *s, struct sg_str name, struct sg_str value,
                     struct sg_buf *out)
{
    sg_auto_buf plain, swapped;
    sg_buf_init(&plain, SG_HTTP_MAX_HEAD);
    sg_buf_init(&swapped, SG_REWRITE_OUT);
    if (sg_base64_decode(&plain, (struct sg_str) { value.p + 6, value.n - 6 }, NULL) < 0)
        return put_field(s, name, value, false, out); /* not what it says: as any other */
    if (sg_swap(s, (struct sg_str) { (char *)plain.p, plain.n }, SG_SWAP_FIELD, false, &swapped) <
        0)
        return -1;
    sg_buf_add(out, name.p, name.n);
    sg_buf_add_str(out, ": Basic ");
    sg_base64_encode(out, swapped.p, swapped.n);
    sg_buf_add_str(out, "\r\n");
    if (swapped.p)
        explicit_bzero(swapped.p, swapped.n);
    return 0;
}

static int put_fields(const struct sg_rewrite_up *u, const struct sg_swaps *s, const char *text,
                      struct sg_buf *out)
{
    for (unsigned i = 0; i < u->head.field_count; i++) {
        const struct sg_str name = sg_span_str(u->head.fields[i].name, text),
                            value = sg_span_str(u->head.fields[i].value, text);
        if (is_ours(u, name) || sg_swaps_has_field(s, name))
            continue;
        if ((is_basic(name, value) ? put_basic(s, name, value, out)
                                   : put_field(s, name, value, false, out)) < 0)
            return -1;
    }
    for (size_t i = 0; i < s->field_count; i++)
        if (put_field(s, sg_str_of(s->fields[i].name), sg_str_of(s->fields[i].value), true, out) <
            0)
            return -1;
    return 0;
}

/* `length` of the body as it goes out. */
static int put_head(const struct sg_rewrite_up *u, const struct sg_swaps *s, uint64_t length,
                    struct sg_buf *out)
{
    const char *text = (const char *)u->held.p;
    const struct sg_str method = sg_span_str(u->head.method, text);
    sg_buf_add(out, method.p, method.n);
    sg_buf_add_str(out, " ");
    (void)sg_swap(s, sg_span_str(u->head.target, text), SG_SWAP_PERCENT, false, out);
    sg_buf_addf(out, " HTTP/1.%u\r\n", u->head.minor);
    if (put_fields(u, s, text, out) < 0)
        return -1;
    sg_buf_add_str(out, "Accept-Encoding: identity\r\n");
    if (u->head.is_chunked)
        sg_buf_add_str(out, "Transfer-Encoding: chunked\r\n");
    else if (u->head.has_length)
        sg_buf_addf(out, "Content-Length: %llu\r\n", (unsigned long long)length);
    sg_buf_add_str(out, "\r\n");
    return 0;
}

static struct sg_str find_field(const struct sg_rewrite_up *u, const char *name)
{
    const char *text = (const char *)u->held.p;
    const struct sg_http_field *f = sg_http1_find(u->head.fields, u->head.field_count, text, name);
    return f ? sg_span_str(f->value, text) : (struct sg_str) { "", 0 };
}

static enum sg_swap_form form_of(struct sg_str type)
{
    if (type.n >= 33 &&
        sg_http1_same((struct sg_str) { type.p, 33 }, "application/x-www-form-urlencoded"))
        return SG_SWAP_PERCENT;
    const size_t n = type.n ? strcspn(type.p, ";\r") : 0; /* a field's line has an end */
    return n >= 4 && n <= type.n && sg_http1_same((struct sg_str) { type.p + n - 4, 4 }, "json")
               ? SG_SWAP_JSON
               : SG_SWAP_PLAIN;
}

static enum state behind(const struct sg_rewrite_up *u, const struct sg_swaps *s)
{
    if (u->head.is_chunked)
        return CHUNKS;
    if (!u->head.content_length)
        return WHOLE;
    return s->pair_count && !u->is_coded && u->head.content_length <= SG_REWRITE_GATHER ? GATHER
                                                                                        : LENGTH;
}

/* 1: a head is there, and what is to be done with it is known. */
static int take_head(struct sg_rewrite_up *u, const struct sg_swaps *s, struct sg_buf *back)
{
    const char *text = (const char *)u->held.p;
    const int n = sg_http1_parse(&u->head, text, u->held.n, NULL);
    if (n <= 0) {
        if (n < 0)
            (void)bad(u, "a request that cannot be read");
        return n;
    }
    if (sg_str_is(sg_span_str(u->head.method, text), "CONNECT")) {
        (void)bad(u, "CONNECT hides where it goes");
        return -1;
    }
    if (!u->check(u->arg, sg_span_str(u->head.host, text))) {
        (void)bad(u, "the request's host is another one");
        return -1;
    }
    u->head_n = (size_t)n;
    u->is_head = sg_str_is(sg_span_str(u->head.method, text), "HEAD");
    u->wants_upgrade = u->head.wants_upgrade;
    u->form = (uint8_t)form_of(find_field(u, "content-type"));
    u->is_coded = find_field(u, "content-encoding").n > 0;
    u->state = (uint8_t)behind(u, s);
    u->left = u->head.content_length;
    sg_chunked_init(&u->chunked);
    if (u->state == GATHER && u->head.expects_continue)
        sg_buf_add_str(back, "HTTP/1.1 100 Continue\r\n\r\n");
    return 1;
}

/* ---- bodies ---- */

static enum sg_rewrite_got end_gather(struct sg_rewrite_up *u, const struct sg_swaps *s,
                                      struct sg_buf *out)
{
    const size_t n = (size_t)u->head.content_length;
    const struct sg_str body = { (const char *)u->held.p + u->head_n, n };
    sg_auto_buf swapped;
    sg_buf_init(&swapped, SG_REWRITE_OUT / 2);
    (void)sg_swap(s, body, (enum sg_swap_form)u->form, false, &swapped);
    const int got = swapped.has_overflowed ? -2 : put_head(u, s, swapped.n, out);
    sg_buf_add(out, swapped.p, swapped.n);
    if (swapped.p)
        explicit_bzero(swapped.p, swapped.n);
    if (got < 0)
        return bad(u, got == -2 ? "the body is too long with its secrets"
                                : "a secret with line breaks cannot stand in a header");
    take(&u->held, u->head_n + n);
    u->state = WHOLE;
    return SG_REWRITE_END;
}

static void put_chunk(struct sg_buf *out, const struct sg_buf *piece)
{
    char line[SG_CHUNK_HEAD];
    if (!piece->n)
        return;
    sg_buf_add(out, line, sg_chunk_head(line, piece->n));
    sg_buf_add(out, piece->p, piece->n);
    sg_buf_add_str(out, SG_CHUNK_TAIL);
}

/* What is held is coded, and what of it was decoded before stands in front, `head_n` bytes. */
static enum sg_rewrite_got do_chunks(struct sg_rewrite_up *u, const struct sg_swaps *s,
                                     struct sg_buf *out)
{
    struct sg_input in = { u->held.p + u->head_n, u->held.n - u->head_n }, piece;
    sg_auto_buf plain, swapped;
    enum sg_chunked_got got;
    sg_buf_init(&plain, SG_REWRITE_OUT);
    sg_buf_init(&swapped, SG_REWRITE_OUT);
    sg_buf_add(&plain, u->held.p, u->head_n);
    while ((got = sg_chunked_next(&u->chunked, &in, &piece, NULL)) == SG_CHUNKED_DATA)
        sg_buf_add(&plain, piece.p, piece.n);
    if (got == SG_CHUNKED_BAD)
        return bad(u, "a body that cannot be followed");
    const size_t kept =
        got == SG_CHUNKED_END || u->is_coded ? 0 : sg_swap_held(s, plain.p, plain.n);
    const struct sg_str text = { (const char *)plain.p, plain.n - kept };
    if (u->is_coded)
        sg_buf_add(&swapped, text.p, text.n);
    else
        (void)sg_swap(s, text, (enum sg_swap_form)u->form, false, &swapped);
    if (plain.has_overflowed || swapped.has_overflowed)
        return bad(u, "the body is too long with its secrets");
    put_chunk(out, &swapped);
    if (swapped.p)
        explicit_bzero(swapped.p, swapped.n);
    if (got == SG_CHUNKED_END)
        sg_buf_add_str(out, SG_CHUNK_LAST);
    sg_auto_buf rest;
    sg_buf_init(&rest, u->held.max);
    sg_buf_add(&rest, plain.p ? plain.p + text.n : NULL, kept);
    sg_buf_add(&rest, in.p, in.n);
    take(&u->held, u->held.n);
    sg_buf_add(&u->held, rest.p, rest.n);
    u->head_n = kept;
    if (got != SG_CHUNKED_END)
        return SG_REWRITE_ON;
    u->state = WHOLE;
    return SG_REWRITE_END;
}

static enum sg_rewrite_got do_length(struct sg_rewrite_up *u, struct sg_buf *out)
{
    const size_t n = u->held.n < u->left ? u->held.n : (size_t)u->left;
    sg_buf_add(out, u->held.p, n);
    take(&u->held, n);
    u->left -= n;
    if (u->left)
        return SG_REWRITE_ON;
    u->state = WHOLE;
    return SG_REWRITE_END;
}

/* ---- all ---- */

static enum sg_rewrite_got begin(struct sg_rewrite_up *u, const struct sg_swaps *s,
                                 struct sg_buf *out, struct sg_buf *back)
{
    const int got = take_head(u, s, back);
    if (got <= 0)
        return got < 0 ? SG_REWRITE_BAD : SG_REWRITE_ON;
    if (u->state == GATHER)
        return SG_REWRITE_ON;
    if (put_head(u, s, u->head.content_length, out) < 0)
        return bad(u, "a secret with line breaks cannot stand in a header");
    take(&u->held, u->head_n);
    u->head_n = 0;
    return u->state == WHOLE ? SG_REWRITE_END : SG_REWRITE_ON;
}

enum sg_rewrite_got sg_rewrite_up(struct sg_rewrite_up *u, const struct sg_swaps *s, const void *p,
                                  size_t n, struct sg_buf *out, struct sg_buf *back)
{
    enum sg_rewrite_got got = SG_REWRITE_ON;
    sg_buf_add(&u->held, p, n);
    if (u->held.has_overflowed)
        return bad(u, "more than can be kept was sent ahead");
    if (u->state == TUNNEL) {
        sg_buf_add(out, u->held.p, u->held.n);
        take(&u->held, u->held.n);
        return got;
    }
    if (u->state == HEAD && u->held.n)
        got = begin(u, s, out, back);
    if (got != SG_REWRITE_ON)
        return got;
    if (u->state == GATHER && u->held.n >= u->head_n + u->head.content_length)
        return end_gather(u, s, out);
    if (u->state == LENGTH)
        return do_length(u, out);
    if (u->state == CHUNKS)
        return do_chunks(u, s, out);
    return u->state == WHOLE ? SG_REWRITE_END : got;
}

void sg_rewrite_up_next(struct sg_rewrite_up *u)
{
    u->state = HEAD;
    u->head_n = 0;
    u->is_head = u->wants_upgrade = u->is_coded = false;
    sg_http1_init(&u->head);
}

void sg_rewrite_up_tunnel(struct sg_rewrite_up *u)
{
    u->state = TUNNEL;
}
