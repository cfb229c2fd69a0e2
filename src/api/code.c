/* SPDX-License-Identifier: Apache-2.0 */
#include "api/code.h"

#include "base/auto.h"
#include "manager/manager.h"
#include "base/banned.h"

enum { TURN_BYTES = 1 << 20 };
#define SILENCE_NS 5000000000u
static const char ALIVE[] = "{\"type\":\"keepalive\"}\n";

/* In the call's arena. */
struct stream {
    struct sg_call *call;
    struct sg_loop *loop;
    struct sg_code_client client;
    struct sg_later more;
    struct sg_timer silence;
    bool is_full;    /* the client has to catch up first */
    bool interrupts; /* where it goes away */
};

static void let_go(struct stream *t)
{
    sg_later_cancel(t->loop, &t->more);
    sg_timer_stop(t->loop, &t->silence);
    sg_code_leave(&t->client, t->interrupts);
}

static void hear_nothing(struct sg_timer *timer, uint64_t now_ns)
{
    struct stream *t = SG_OWNER(timer, struct stream, silence);
    if (!t->is_full && !sg_reply_add(t->call, ALIVE, sizeof ALIVE - 1))
        t->is_full = true;
    sg_timer_set(t->loop, timer, now_ns + SILENCE_NS);
}

static void send_line(struct stream *t, struct sg_str line)
{
    (void)sg_reply_add(t->call, line.p, line.n);
    t->is_full |= !sg_reply_add(t->call, "\n", 1);
    sg_timer_set(t->loop, &t->silence, sg_loop_now(t->loop) + SILENCE_NS);
}

static void start(struct stream *t)
{
    if (t->call->has_started || !sg_code_has_begun(&t->client))
        return;
    sg_reply_header(t->call, "X-Execution-Id", sg_code_run_id(&t->client));
    sg_reply_start(t->call, 200, "application/x-ndjson");
    sg_timer_set(t->loop, &t->silence, sg_loop_now(t->loop) + SILENCE_NS);
}

/* True: the call goes on. */
static bool end_as(struct stream *t, enum sg_code_got got, const struct sg_err *err)
{
    struct sg_call *c = t->call;
    switch (got) {
    case SG_CODE_LATER:
        sg_later_call(t->loop, &t->more);
        return true;
    case SG_CODE_NOTHING:
    case SG_CODE_EVENT:
        return true;
    case SG_CODE_END:
        let_go(t);
        sg_reply_end(c);
        return false;
    case SG_CODE_FAILED:
        let_go(t);
        sg_reply_error(c, err);
        return false;
    case SG_CODE_GONE:
        let_go(t);
        sg_reply_abort(c);
        return false;
    }
    return false;
}

static void pump(struct stream *t)
{
    start(t);
    for (size_t sent = 0; !t->is_full;) {
        struct sg_str line;
        struct sg_err err = { 0 };
        const enum sg_code_got got = sg_code_next(&t->client, &line, &err);
        if (got != SG_CODE_EVENT) {
            (void)end_as(t, got, &err);
            return;
        }
        send_line(t, line);
        sent += line.n;
        if (sent > TURN_BYTES) {
            sg_later_call(t->loop, &t->more);
            return;
        }
    }
}

static void go_on(struct sg_later *later)
{
    pump(SG_OWNER(later, struct stream, more));
}

static void wake(struct sg_code_client *client)
{
    pump(SG_OWNER(client, struct stream, client));
}

static void drained(struct sg_call *c)
{
    struct stream *t = c->state;
    t->is_full = false;
    sg_later_call(t->loop, &t->more);
}

static void gone(struct sg_call *c)
{
    let_go(c->state);
    sg_reply_end(c);
}

static struct stream *new_stream(struct sg_call *c, struct sg_err *err)
{
    struct stream *t = sg_arena_alloc(&c->arena, sizeof *t);
    if (!t) {
        (void)sg_fail(err, SG_EXHAUSTED, "no room for the call");
        return NULL;
    }
    *t = (struct stream) { .call = c,
                           .loop = sg_manager_loop(c->manager),
                           .client.wake = wake,
                           .more.call = go_on,
                           .silence.fire = hear_nothing };
    return t;
}

/* What was asked for is under way. */
static void follow(struct sg_call *c, struct stream *t)
{
    c->state = t;
    c->on_drain = drained;
    c->on_gone = gone;
    sg_later_call(t->loop, &t->more);
}

int sg_code_reply(struct sg_call *c, struct sg_code_context *context,
                  const struct sg_code_spec *spec, struct sg_err *err)
{
    struct stream *t = new_stream(c, err);
    if (!t || sg_code_run(context, &c->who, spec, &t->client, err) < 0)
        return -1;
    t->interrupts = true;
    follow(c, t);
    return 0;
}

int sg_code_reply_again(struct sg_call *c, struct sg_code_context *context, const char *run,
                        struct sg_err *err)
{
    struct stream *t = new_stream(c, err);
    if (!t || sg_code_attach(context, &c->who, run, &t->client, err) < 0)
        return -1;
    follow(c, t);
    return 0;
}
