/* SPDX-License-Identifier: Apache-2.0 */
/* Output as it comes: a reader of the journal writes into a reply, as fast as the client takes it.
 */
#include "api/rest/rest.h"
#include "base/auto.h"
#include "base/banned.h"

/* Some at a time: what one client asked for must not hold up the others. */
enum { PIECE_BYTES = 16384, TURN_BYTES = 128 << 10 };

struct sg_rest_follow {
    struct sg_call *call;
    struct sg_reader reader;
    struct sg_loop *loop;
    struct sg_later more;
    unsigned flags;
    bool is_full; /* the client has to catch up first */
};

static const char *const stream_names[SG_STREAM_COUNT] = { "stdout", "stderr" };

static void finish(struct sg_rest_follow *f)
{
    sg_reader_close(&f->reader);
    sg_later_cancel(f->loop, &f->more);
    sg_reply_end(f->call);
}

static bool send_line(struct sg_rest_follow *f, struct sg_buf *line)
{
    sg_buf_add_str(line, "\n");
    return sg_reply_add(f->call, line->p, line->n);
}

static bool send_lost(struct sg_rest_follow *f, uint64_t lost)
{
    sg_auto_buf line;
    sg_buf_init(&line, 128);
    struct sg_json j;
    sg_json_init(&j, &line);
    sg_json_open(&j, '{');
    sg_json_key(&j, "truncated");
    sg_json_u64(&j, lost);
    sg_json_close(&j, '}');
    return send_line(f, &line);
}

static bool send_piece(struct sg_rest_follow *f, enum sg_stream stream, uint64_t offset,
                       const char *p, size_t n)
{
    if (f->flags & SG_FOLLOW_RAW)
        return sg_reply_add(f->call, p, n);
    sg_auto_buf line;
    sg_buf_init(&line, PIECE_BYTES * (size_t)8);
    struct sg_json j;
    sg_json_init(&j, &line);
    sg_json_open(&j, '{');
    sg_json_key(&j, "stream");
    sg_json_str(&j, stream_names[stream]);
    sg_json_key(&j, "offset");
    sg_json_u64(&j, offset);
    sg_rest_put_bytes(&j, "data", "base64", p, n);
    sg_json_close(&j, '}');
    return send_line(f, &line);
}

static void send_end(struct sg_rest_follow *f)
{
    const struct sg_exec *x = f->reader.exec;
    if (!(f->flags & SG_FOLLOW_RAW) && x && x->is_complete) {
        sg_auto_buf line;
        sg_buf_init(&line, SG_REST_MAX_REPLY);
        struct sg_json j;
        sg_json_init(&j, &line);
        sg_json_open(&j, '{');
        sg_json_key(&j, "end");
        sg_rest_put_exec(&j, x);
        sg_json_close(&j, '}');
        (void)send_line(f, &line);
    }
    finish(f);
}

static void pump(struct sg_rest_follow *f)
{
    char piece[PIECE_BYTES];
    for (size_t sent = 0; !f->is_full;) {
        enum sg_stream stream;
        uint64_t lost = 0;
        struct sg_err err;
        if (!f->reader.exec) { /* it went with its sandbox */
            finish(f);
            return;
        }
        ssize_t n = sg_reader_read(&f->reader, &stream, piece, sizeof piece, &lost, &err);
        if (n < 0) {
            sg_reader_close(&f->reader);
            sg_later_cancel(f->loop, &f->more);
            sg_reply_abort(f->call);
            return;
        }
        if (lost && !(f->flags & SG_FOLLOW_RAW) && !send_lost(f, lost))
            f->is_full = true;
        if (n == 0) {
            if (f->reader.exec->is_complete || !(f->flags & SG_FOLLOW_LIVE))
                send_end(f);
            return;
        }
        if (!send_piece(f, stream, f->reader.at - (uint64_t)n, piece, (size_t)n))
            f->is_full = true;
        sent += (size_t)n;
        if (sent >= TURN_BYTES) {
            sg_later_call(f->loop, &f->more);
            return;
        }
    }
}

static void go_on(struct sg_later *later)
{
    pump(SG_OWNER(later, struct sg_rest_follow, more));
}

/* Not at once: a flood wakes every reader whenever it has said something. */
static void wake(struct sg_reader *reader)
{
    struct sg_rest_follow *f = SG_OWNER(reader, struct sg_rest_follow, reader);
    sg_later_call(f->loop, &f->more);
}

static void drained(struct sg_call *c)
{
    struct sg_rest_follow *f = c->state;
    f->is_full = false;
    sg_later_call(f->loop, &f->more);
}

static void gone(struct sg_call *c)
{
    finish(c->state);
}

void sg_rest_follow(struct sg_call *c, struct sg_exec *x, uint64_t from, unsigned flags)
{
    struct sg_rest_follow *f = sg_arena_alloc(&c->arena, sizeof *f);
    if (!f || c->is_gone) {
        sg_reply_abort(c);
        return;
    }
    *f = (struct sg_rest_follow) { .call = c,
                                   .loop = sg_manager_loop(c->manager),
                                   .flags = flags,
                                   .reader.wake = wake,
                                   .more.call = go_on };
    c->state = f;
    c->on_drain = drained;
    c->on_gone = gone;
    sg_reply_start(c, 200,
                   flags & SG_FOLLOW_RAW ? "application/octet-stream" : "application/x-ndjson");
    sg_reader_open(&f->reader, x, from);
    pump(f);
}

int sg_rest_exec_output(struct sg_call *c, struct sg_err *err)
{
    static const char *const known[] = { "offset", "follow", "raw", NULL };
    uint64_t offset = 0;
    bool follows = false, is_raw = false;
    struct sg_exec *x = sg_rest_exec(c, err);
    if (!x || sg_call_query_only(c, known, err) < 0 ||
        sg_call_query_u64(c, "offset", 0, UINT64_MAX - 1, &offset, err) < 0 ||
        sg_call_query_bool(c, "follow", &follows, err) < 0 ||
        sg_call_query_bool(c, "raw", &is_raw, err) < 0)
        return -1;
    if (offset > x->total_bytes)
        return sg_fail(err, SG_INVALID, "offset is past the end of the output");
    sg_rest_follow(c, x, offset, (follows ? SG_FOLLOW_LIVE : 0) | (is_raw ? SG_FOLLOW_RAW : 0));
    return 0;
}
