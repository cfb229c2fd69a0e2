/* SPDX-License-Identifier: Apache-2.0 */
/* process.Process, input: SendInput brings one piece and is answered when all of it was taken,
 * StreamInput brings pieces as they come, and is answered at its end.
 *
 * I1. A process that does not read holds up its own caller only: the body is not taken while a
 *     piece waits, and at most one envelope is held.
 * I2. Whoever goes away takes back what the process has not taken yet. */
#include <string.h>

#include "api/e2b/e2b.h"
#include "api/e2b/process.h"
#include "base/auto.h"
#include "wire/base64.h"
#include "wire/connect.h"
#include "base/banned.h"

enum { MAX_ENVELOPE = 4 << 20, MAX_TREE = 16 << 20 };

/* In the call's arena. */
struct feeding {
    struct sg_call *call;
    struct sg_reader hold; /* reads nothing: knows when the exec goes away */
    struct sg_buf rest;    /* what is to be written, from `at` on */
    size_t at;
    void (*taken)(struct feeding *f); /* all of it was */
    /* of a stream */
    struct sg_buf in;      /* what came and is no whole envelope yet */
    struct sg_arena arena; /* of the envelope in hand */
    bool is_stream, has_started, is_last;
};

static void end_feeding(struct feeding *f)
{
    if (f->hold.exec)
        sg_exec_forget_writable(f->hold.exec, f);
    sg_reader_close(&f->hold);
    sg_buf_done(&f->rest);
    if (f->is_stream) {
        sg_buf_done(&f->in);
        sg_arena_done(&f->arena);
    }
}

static void fail(struct feeding *f, const struct sg_err *err)
{
    struct sg_call *c = f->call;
    end_feeding(f);
    sg_reply_error(c, err);
}

static void feed(void *arg);

/* 1: all was taken; 0: it is full, and `feed` is called when it is not any more. */
static int pour_in(struct feeding *f, struct sg_err *err)
{
    struct sg_exec *x = f->hold.exec;
    int result = x ? 0 : sg_fail(err, SG_NOT_FOUND, "the process is gone");
    while (result == 0 && f->at < f->rest.n) {
        ssize_t n = sg_exec_write(x, f->rest.p + f->at, f->rest.n - f->at, err);
        if (n == 0 && sg_exec_when_writable(x, feed, f, err) == 0)
            return 0;
        if (n <= 0)
            result = -1;
        else
            f->at += (size_t)n;
    }
    if (result == 0)
        return 1;
    sg_e2b_visit(f->call)->code = "internal";
    return sg_wrap(err, "error writing to stdin");
}

static void feed(void *arg)
{
    struct feeding *f = arg;
    struct sg_err err = { 0 };
    const int got = pour_in(f, &err);
    if (got > 0)
        f->taken(f);
    else if (got < 0)
        fail(f, &err);
}

static void feeder_gone(struct sg_call *c)
{
    end_feeding(sg_e2b_visit(c)->own);
    sg_reply_end(c);
}

static void ignore(struct sg_reader *r)
{
    (void)r;
}

static struct feeding *new_feeding(struct sg_call *c, void (*taken)(struct feeding *f),
                                   struct sg_err *err)
{
    struct feeding *f = sg_arena_alloc(&c->arena, sizeof *f);
    if (!f) {
        (void)sg_fail(err, SG_EXHAUSTED, "no room for the call");
        return NULL;
    }
    *f = (struct feeding) { .call = c, .hold.wake = ignore, .taken = taken };
    sg_buf_init(&f->rest, SG_CALL_MAX_BODY);
    sg_e2b_visit(c)->own = f;
    return f;
}

/* ---- one piece ---- */

/* Base64, also with the alphabet of URLs and without padding. */
static int decode(struct sg_arena *a, struct sg_str text, struct sg_buf *out, struct sg_err *err)
{
    char *copy = sg_arena_alloc(a, text.n + 4);
    size_t n = text.n;
    if (!copy)
        return sg_fail(err, SG_EXHAUSTED, "no room for the call");
    for (size_t i = 0; i < n; i++)
        copy[i] = text.p[i] == '-' ? '+' : text.p[i] == '_' ? '/' : text.p[i];
    while (n % 4)
        copy[n++] = '=';
    return sg_base64_decode(out, (struct sg_str) { copy, n }, err);
}

/* {"stdin":"..."} or {"pty":"..."}, whichever the process has, into f->rest. */
static int take_input(struct feeding *f, const struct sg_exec *x, const struct sg_jval *input,
                      struct sg_arena *a, struct sg_err *err)
{
    struct sg_call *c = f->call;
    const struct sg_jval *data = sg_e2b_get(input, "stdin"), *pty = sg_e2b_get(input, "pty");
    if (!data == !pty || (data ? data : pty)->kind != SG_J_STRING)
        return sg_fail(err, SG_INVALID, "input must have stdin or pty, as base64");
    if (x->has_tty != (pty != NULL) || !x->has_stdin)
        sg_e2b_visit(c)->code = "internal";
    if (x->has_tty != (pty != NULL))
        return sg_fail(err, SG_CONFLICT,
                       x->has_tty ? "tty assigned to process: use pty"
                                  : "tty not assigned to process: use stdin");
    if (!x->has_stdin)
        return sg_fail(err, SG_CONFLICT, "error writing to stdin: stdin not enabled or closed");
    sg_buf_clear(&f->rest);
    f->at = 0;
    return decode(a, (data ? data : pty)->s, &f->rest, err);
}

static void sent(struct feeding *f)
{
    struct sg_call *c = f->call;
    end_feeding(f);
    sg_envd_reply_nothing(c);
}

int sg_envd_send_input(struct sg_call *c, struct sg_sandbox *s, struct sg_err *err)
{
    struct sg_exec *x = sg_envd_selected(c, s, false, err);
    struct feeding *f = x ? new_feeding(c, sent, err) : NULL;
    if (!f)
        return -1;
    if (take_input(f, x, sg_e2b_get(sg_e2b_visit(c)->body, "input"), &c->arena, err) < 0) {
        end_feeding(f);
        return -1;
    }
    sg_reader_open(&f->hold, x, UINT64_MAX);
    c->on_gone = feeder_gone;
    feed(f);
    return 0;
}

/* ---- a stream of them ---- */

static void finish(struct feeding *f)
{
    struct sg_call *c = f->call;
    sg_auto_buf out;
    end_feeding(f);
    sg_buf_init(&out, 64);
    size_t mark = sg_connect_open(&out);
    sg_buf_add_str(&out, "{}");
    sg_connect_close(&out, mark, 0);
    sg_e2b_put_end(&out, NULL, NULL);
    sg_reply_bytes(c, 200, "application/connect+json", out.p, out.n);
}

/* One message: the first says which process, the others bring input, or nothing. 1: it is being
 * written, and who was waiting for room goes on. */
static int take_message(struct feeding *f, struct sg_str text, struct sg_err *err)
{
    struct sg_call *c = f->call;
    const struct sg_jval *v, *start, *data;
    sg_arena_clear(&f->arena);
    if (sg_json_parse(text, &f->arena, &v, err) < 0)
        return -1;
    start = sg_e2b_get(v, "start");
    data = sg_e2b_get(v, "data");
    if (start && !f->has_started) {
        struct sg_sandbox *s = sg_e2b_visited(c, err);
        sg_e2b_visit(c)->body = start;
        struct sg_exec *x = s ? sg_envd_selected(c, s, false, err) : NULL;
        if (!x)
            return -1;
        f->has_started = true;
        sg_reader_open(&f->hold, x, UINT64_MAX);
        return 0;
    }
    if (!f->has_started || start)
        return sg_fail(err, SG_INVALID, "the first message, and no other, has start");
    if (!data)
        return 0; /* to keep the connection alive */
    if (!f->hold.exec)
        return sg_fail(err, SG_NOT_FOUND, "the process is gone");
    if (take_input(f, f->hold.exec, sg_e2b_get(data, "input"), &f->arena, err) < 0)
        return -1;
    const int got = pour_in(f, err);
    return got < 0 ? -1 : !got;
}

/* 1: a whole one, which stays in `in` until the next call; 0: more must come. */
static int next_envelope(const struct feeding *f, struct sg_connect_frame *ret, size_t *ret_n,
                         struct sg_err *err)
{
    struct sg_str rest = { (const char *)f->in.p, f->in.n };
    const uint8_t *p = f->in.p;
    if (f->in.n < SG_CONNECT_HEAD)
        return 0;
    const size_t n = (size_t)p[1] << 24 | (size_t)p[2] << 16 | (size_t)p[3] << 8 | p[4];
    if (n > MAX_ENVELOPE)
        return sg_fail(err, SG_EXHAUSTED, "an envelope is over %d bytes", MAX_ENVELOPE);
    if (f->in.n - SG_CONNECT_HEAD < n)
        return 0;
    if (sg_connect_take(&rest, ret, err) < 0)
        return -1;
    *ret_n = f->in.n - rest.n;
    return ret->flags & SG_CONNECT_COMPRESSED
               ? sg_fail(err, SG_UNSUPPORTED, "compressed messages are not supported")
               : 1;
}

static void drop_front(struct sg_buf *b, size_t n)
{
    memmove(b->p, b->p + n, b->n - n);
    b->n -= n;
}

static void take_envelopes(struct feeding *f)
{
    struct sg_connect_frame frame;
    struct sg_err err = { 0 };
    size_t n = 0;
    int got;
    while ((got = next_envelope(f, &frame, &n, &err)) > 0) {
        if (frame.flags & SG_CONNECT_END) {
            finish(f);
            return;
        }
        sg_auto_buf copy; /* its place is given up before the message is acted upon */
        sg_buf_init(&copy, MAX_ENVELOPE);
        sg_buf_add(&copy, frame.data.p, frame.data.n);
        drop_front(&f->in, n);
        got = take_message(f, (struct sg_str) { (const char *)copy.p, copy.n }, &err);
        if (got > 0)
            return;
        if (got < 0)
            break;
    }
    if (got == 0 && f->is_last && f->in.n)
        got = sg_fail(&err, SG_INVALID, "an envelope is cut off");
    if (got < 0)
        fail(f, &err);
    else if (f->is_last)
        finish(f);
    else
        sg_call_pause_body(f->call, false);
}

static void take_piece(struct sg_call *c, const void *p, size_t n, bool is_last)
{
    struct feeding *f = sg_e2b_visit(c)->own;
    f->is_last = is_last;
    sg_call_pause_body(c, true);
    sg_buf_add(&f->in, p, n);
    take_envelopes(f);
}

int sg_envd_stream_input(struct sg_call *c, struct sg_sandbox *s, struct sg_err *err)
{
    (void)s;
    struct feeding *f = new_feeding(c, take_envelopes, err);
    if (!f)
        return -1;
    f->is_stream = true;
    sg_buf_init(&f->in, 2 * (size_t)MAX_ENVELOPE);
    sg_arena_init(&f->arena, MAX_TREE);
    c->on_body = take_piece;
    c->on_gone = feeder_gone;
    sg_call_pause_body(c, false);
    return 0;
}
