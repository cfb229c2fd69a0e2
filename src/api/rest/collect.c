/* SPDX-License-Identifier: Apache-2.0 */
/* The reply to a command that was waited for: its end and its output in one JSON object.
 *
 * Nothing is held while the command runs: the journal has its output. When it is complete a first
 * pass counts, and finds out what is text. Small output is answered at once; more is streamed from
 * the journal, stdout in one pass and stderr in the next, as fast as the client takes it and some
 * at a time, so that neither a flood nor a slow client costs memory or anybody else's time. */
#include <string.h>

#include "api/rest/rest.h"
#include "base/auto.h"
#include "wire/base64.h"
#include "base/banned.h"

enum { PIECE_BYTES = 16384, SMALL_BYTES = 64 << 10, TURN_BYTES = 128 << 10, CARRY_MAX = 3 };

enum phase { PHASE_WAIT, PHASE_SCAN, PHASE_SEND };

struct sg_rest_collect {
    struct sg_call *call;
    struct sg_loop *loop;
    struct sg_reader reader;
    struct sg_later more;
    enum phase phase;
    enum sg_stream sent; /* PHASE_SEND: whose bytes go out in this pass */
    bool is_full;        /* the client has to catch up first */
    bool is_large;
    uint64_t lost;
    struct sg_buf small[SG_STREAM_COUNT];
    bool is_binary[SG_STREAM_COUNT];
    uint8_t carry[SG_STREAM_COUNT][CARRY_MAX]; /* of a character, or of a base64 group */
    size_t carry_n[SG_STREAM_COUNT];
};

static void turn(struct sg_rest_collect *k);

static void end_collect(struct sg_rest_collect *k)
{
    sg_reader_close(&k->reader);
    sg_later_cancel(k->loop, &k->more);
    for (unsigned i = 0; i < SG_STREAM_COUNT; i++)
        sg_buf_done(&k->small[i]);
}

static void fail_collect(struct sg_rest_collect *k, const struct sg_err *err)
{
    struct sg_call *c = k->call;
    end_collect(k);
    if (c->has_started)
        sg_reply_abort(c);
    else
        sg_reply_error(c, err);
}

/* ---- pieces that end in the middle of something ---- */

/* How much of it is there without a character that is cut off at the end. */
static size_t whole_characters(const uint8_t *p, size_t n)
{
    for (size_t back = 1; back <= CARRY_MAX && back <= n; back++) {
        const uint8_t b = p[n - back];
        if ((b & 0xC0) == 0x80)
            continue;
        const size_t length = b >= 0xF0 ? 4 : b >= 0xE0 ? 3 : b >= 0xC0 ? 2 : 1;
        return length > back ? n - back : n;
    }
    return n;
}

/* Puts what was carried over in front of what is at p + CARRY_MAX; returns where it begins. */
static uint8_t *join(struct sg_rest_collect *k, enum sg_stream s, uint8_t *p, size_t *inout_n)
{
    uint8_t *start = p + CARRY_MAX - k->carry_n[s];
    memcpy(start, k->carry[s], k->carry_n[s]);
    *inout_n += k->carry_n[s];
    return start;
}

static void carry(struct sg_rest_collect *k, enum sg_stream s, const uint8_t *p, size_t n)
{
    memcpy(k->carry[s], p, n);
    k->carry_n[s] = n;
}

/* ---- first pass ---- */

static void scan(struct sg_rest_collect *k, enum sg_stream s, uint8_t *room, size_t n)
{
    sg_buf_add(&k->small[s], room + CARRY_MAX, n);
    k->is_large |= k->small[s].has_overflowed;
    const uint8_t *p = join(k, s, room, &n);
    const size_t whole = whole_characters(p, n);
    k->is_binary[s] |= !sg_utf8_valid((const char *)p, whole);
    carry(k, s, p + whole, n - whole);
}

static void put_lost(struct sg_json *j, uint64_t lost)
{
    if (!lost)
        return;
    sg_json_key(j, "truncatedBytes");
    sg_json_u64(j, lost);
}

static void reply_small(struct sg_rest_collect *k)
{
    struct sg_call *c = k->call;
    sg_auto_buf out;
    sg_buf_init(&out, SG_REST_MAX_REPLY);
    struct sg_json j;
    sg_json_init(&j, &out);
    sg_json_open(&j, '{');
    sg_rest_put_exec_members(&j, k->reader.exec);
    sg_rest_put_bytes(&j, "stdout", "stdoutBase64", k->small[0].p, k->small[0].n);
    sg_rest_put_bytes(&j, "stderr", "stderrBase64", k->small[1].p, k->small[1].n);
    put_lost(&j, k->lost);
    sg_json_close(&j, '}');
    end_collect(k);
    sg_reply_json(c, 200, &out);
}

/* ---- the passes that send ---- */

static void add(struct sg_rest_collect *k, const struct sg_buf *out)
{
    k->is_full |= !sg_reply_add(k->call, out->p, out->n);
}

/* Opens the member of the stream whose turn it is; its bytes follow, then a quote. */
static void begin_pass(struct sg_rest_collect *k, struct sg_buf *out)
{
    static const char *const keys[SG_STREAM_COUNT][2] = { { "stdout", "stdoutBase64" },
                                                          { "stderr", "stderrBase64" } };
    sg_buf_addf(out, ",\"%s\":\"", keys[k->sent][k->is_binary[k->sent]]);
    add(k, out);
    k->carry_n[k->sent] = 0;
    struct sg_exec *x = k->reader.exec;
    sg_reader_close(&k->reader);
    sg_reader_open(&k->reader, x, 0);
}

static void begin_sending(struct sg_rest_collect *k)
{
    sg_auto_buf out;
    sg_buf_init(&out, SG_REST_MAX_REPLY);
    struct sg_json j;
    sg_json_init(&j, &out);
    sg_json_open(&j, '{');
    sg_rest_put_exec_members(&j, k->reader.exec);
    put_lost(&j, k->lost);
    k->phase = PHASE_SEND;
    sg_reply_start(k->call, 200, "application/json");
    begin_pass(k, &out);
}

static void send_piece(struct sg_rest_collect *k, uint8_t *room, size_t n, bool is_last)
{
    const enum sg_stream s = k->sent;
    sg_auto_buf out;
    sg_buf_init(&out, SG_REST_MAX_REPLY);
    const uint8_t *p = join(k, s, room, &n);
    const size_t whole = is_last ? n : k->is_binary[s] ? n - n % 3 : whole_characters(p, n);
    if (k->is_binary[s]) {
        sg_base64_encode(&out, p, whole);
        add(k, &out);
    } else if (whole) {
        struct sg_json j;
        sg_json_init(&j, &out);
        sg_json_text(&j, (struct sg_str) { (const char *)p, whole });
        k->is_full |= !sg_reply_add(k->call, out.p + 1, out.n - 2); /* without its quotes */
    }
    carry(k, s, p + whole, n - whole);
}

static void end_pass(struct sg_rest_collect *k)
{
    struct sg_call *c = k->call;
    uint8_t none[CARRY_MAX];
    sg_auto_buf out;
    sg_buf_init(&out, 64);
    send_piece(k, none, 0, true);
    sg_buf_add_str(&out, "\"");
    if (k->sent + 1 < SG_STREAM_COUNT) {
        k->sent++;
        begin_pass(k, &out);
        return;
    }
    sg_buf_add_str(&out, "}");
    add(k, &out);
    end_collect(k);
    sg_reply_end(c);
}

/* ---- the steps ---- */

/* The journal is at its end: false when the call is over. */
static bool next_phase(struct sg_rest_collect *k)
{
    switch (k->phase) {
    case PHASE_WAIT:
        return false;
    case PHASE_SCAN:
        for (unsigned i = 0; i < SG_STREAM_COUNT; i++)
            k->is_binary[i] |= k->carry_n[i] > 0;
        if (!k->is_large) {
            reply_small(k);
            return false;
        }
        begin_sending(k);
        return true;
    case PHASE_SEND: {
        const bool was_last = k->sent + 1 == SG_STREAM_COUNT;
        end_pass(k);
        return !was_last;
    }
    }
    return false;
}

static void turn(struct sg_rest_collect *k)
{
    uint8_t room[CARRY_MAX + PIECE_BYTES];
    for (size_t budget = TURN_BYTES; !k->is_full;) {
        enum sg_stream stream = SG_STREAM_OUT;
        uint64_t lost = 0;
        struct sg_err err;
        ssize_t n = k->reader.exec ? sg_reader_read(&k->reader, &stream, room + CARRY_MAX,
                                                    PIECE_BYTES, &lost, &err)
                                   : sg_fail(&err, SG_UNAVAILABLE, "the sandbox ended");
        if (n == 0 && lost && k->phase != PHASE_SCAN && lost != k->lost)
            n = sg_fail(&err, SG_UNAVAILABLE, "the output went while it was sent");
        if (n < 0) {
            fail_collect(k, &err);
            return;
        }
        if (k->phase == PHASE_SCAN)
            k->lost += lost;
        if (n == 0) {
            if (!next_phase(k))
                return;
            continue;
        }
        if (k->phase == PHASE_SCAN)
            scan(k, stream, room, (size_t)n);
        else if (stream == k->sent)
            send_piece(k, room, (size_t)n, false);
        if (budget <= (size_t)n) {
            sg_later_call(k->loop, &k->more);
            return;
        }
        budget -= (size_t)n;
    }
}

static void go_on(struct sg_later *later)
{
    turn(SG_OWNER(later, struct sg_rest_collect, more));
}

static void wake(struct sg_reader *reader)
{
    struct sg_rest_collect *k = SG_OWNER(reader, struct sg_rest_collect, reader);
    struct sg_err err;
    if (!reader->exec) {
        (void)sg_fail(&err, SG_UNAVAILABLE, "the sandbox ended");
        fail_collect(k, &err);
    } else if (k->phase == PHASE_WAIT && reader->exec->is_complete) {
        k->phase = PHASE_SCAN;
        turn(k);
    }
}

static void drained(struct sg_call *c)
{
    struct sg_rest_collect *k = c->state;
    k->is_full = false;
    sg_later_call(k->loop, &k->more);
}

/* The command goes on, and its output is kept: who comes back can ask for it. */
static void gone(struct sg_call *c)
{
    end_collect(c->state);
    sg_reply_end(c);
}

void sg_rest_collect(struct sg_call *c, struct sg_exec *x)
{
    struct sg_err err;
    struct sg_rest_collect *k = sg_arena_alloc(&c->arena, sizeof *k);
    if (!k || c->is_gone) {
        (void)sg_fail(&err, SG_EXHAUSTED, "no room for the call");
        sg_reply_error(c, &err);
        return;
    }
    *k = (struct sg_rest_collect) {
        .call = c, .loop = sg_manager_loop(c->manager), .reader.wake = wake, .more.call = go_on
    };
    for (unsigned i = 0; i < SG_STREAM_COUNT; i++)
        sg_buf_init(&k->small[i], SMALL_BYTES);
    c->state = k;
    c->on_drain = drained;
    c->on_gone = gone;
    sg_reader_open(&k->reader, x, 0);
    wake(&k->reader);
}
