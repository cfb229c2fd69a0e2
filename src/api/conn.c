/* SPDX-License-Identifier: Apache-2.0 */
/* A connection: bytes in, requests out, one after another.
 *
 * Input goes through feed(): it takes what the present state can take, and keeps the rest in `in`
 * (the beginning of a head, or requests behind the one under way). Reading stops only when there
 * is a rest and nothing that could take it, so that most requests cost no epoll_ctl.
 *
 * A client that closes its sending side is not gone while its request can still be answered: the
 * call goes on, unless its handler asked to be told (on_gone). It is gone when the connection is
 * broken, or when it ends in the middle of a body.
 *
 * The end: after the last reply the sending side is closed and input is thrown away for a while,
 * because a close with unread input resets the connection and can take the reply with it. */
#include <string.h>

#include "api/internal.h"
#include "base/auto.h"
#include "base/banned.h"

enum {
    MS = 1000000,
    LINGER_MS = 2000,
    LINGER_BYTES = 4 << 20,
    MAX_WAITING = SG_HTTP_MAX_HEAD + 2 * SG_SOCK_READ,
    MAX_ECHO = 16 * SG_SOCK_HIGH, /* queued by a WebSocket's handler that does not stop */
};

/* ---- deadlines: the timer is moved only when it is too late, not when it is early ---- */

static void set_timer(struct sg_conn *c, uint64_t at_ns)
{
    if (!sg_timer_is_set(&c->timer) || c->timer.at_ns > at_ns)
        sg_timer_set(c->server->loop, &c->timer, at_ns);
}

void sg_conn_set_deadline(struct sg_conn *c, uint64_t after_ms)
{
    c->deadline_ns = after_ms ? sg_loop_now(c->server->loop) + after_ms * MS : 0;
    if (after_ms)
        set_timer(c, c->deadline_ns);
}

/* A client that takes nothing for as long as an idle one may stay is given up. */
void sg_conn_watch_output(struct sg_conn *c)
{
    if (c->is_dead || sg_sock_is_empty(&c->sock)) {
        c->stall_ns = 0;
        return;
    }
    if (!c->stall_ns) {
        c->stall_ns = sg_loop_now(c->server->loop) + c->server->options.idle_ms * MS;
        c->sent_seen = sg_sock_progress(&c->sock);
    }
    set_timer(c, c->stall_ns);
}

static bool has_stalled(struct sg_conn *c, uint64_t now_ns)
{
    if (!c->stall_ns || now_ns < c->stall_ns)
        return false;
    c->stall_ns = 0; /* and perhaps watched anew */
    return !sg_sock_is_empty(&c->sock) && c->sent_seen == sg_sock_progress(&c->sock);
}

/* ---- the end ---- */

static void free_if_over(struct sg_conn *c)
{
    if (c->is_dead && !c->exchange)
        sg_later_call(c->server->loop, &c->later);
}

void sg_conn_kill(struct sg_conn *c)
{
    c->is_dead = true;
    sg_sock_done(&c->sock);
    sg_timer_stop(c->server->loop, &c->timer);
    free_if_over(c);
}

void sg_conn_gone(struct sg_conn *c)
{
    struct sg_exchange *x = c->exchange;
    if (!c->is_dead)
        sg_conn_kill(c);
    if (!x || x->call.is_gone)
        return;
    x->call.is_gone = true;
    if (x->ws)
        sg_ws_gone(x);
    else if (!x->is_handled || x->is_discarding)
        sg_exchange_end(x);
    else if (x->call.on_gone)
        x->call.on_gone(&x->call);
}

void sg_conn_free(struct sg_conn *c)
{
    struct sg_server *s = c->server;
    sg_conn_gone(c);
    if (c->exchange) /* its handler waits for something that will not come any more */
        sg_exchange_end(c->exchange);
    sg_later_cancel(s->loop, &c->later);
    sg_server_forget(s, c);
    sg_buf_done(&c->in);
    free(c->partial);
    free(c);
}

void sg_conn_finish(struct sg_conn *c)
{
    c->is_ending = true;
    if (!sg_sock_is_empty(&c->sock) || c->is_lingering || c->is_dead)
        return;
    if (c->has_input_ended) {
        sg_conn_kill(c);
        return;
    }
    sg_sock_end_output(&c->sock);
    c->is_lingering = true;
    if (!c->is_pumping) /* or the input is in use */
        sg_buf_done(&c->in);
    sg_sock_want_read(&c->sock, true);
    sg_conn_set_deadline(c, LINGER_MS);
}

/* ---- input ---- */

static bool take_head(struct sg_conn *c, struct sg_input *in)
{
    struct sg_server *s = c->server;
    struct sg_http_head *h = c->partial ? &c->partial->head : &s->head;
    if (!c->partial)
        sg_http1_init(h);
    struct sg_err err;
    const char *head = (const char *)in->p;
    int n = sg_http1_parse(h, head, in->n, &err);
    if (n == 0) {
        if (!c->partial) {
            c->partial = sg_new(struct sg_partial);
            c->partial->head = *h;
            sg_conn_set_deadline(c, s->options.head_ms);
        }
        return false;
    }
    if (n < 0) {
        (void)sg_input_take(in, in->n);
        sg_request_bad(c, h->status, &err);
    } else {
        (void)sg_input_take(in, (size_t)n);
        sg_request_begin(c, h, head, (size_t)n);
    }
    free(c->partial);
    c->partial = NULL;
    return true;
}

static bool wants_body(const struct sg_exchange *x)
{
    return !x->is_paused && !x->is_last_given;
}

/* Whether anything could be taken now. */
static bool is_open(const struct sg_conn *c)
{
    if (c->is_dead || c->is_ending)
        return false;
    if (!c->exchange)
        return !c->sock.is_full && !c->sock.files;
    if (c->exchange->ws) /* a full queue must not keep a key press out; a flooded one may */
        return !c->exchange->is_paused && c->sock.queued < MAX_ECHO;
    return wants_body(c->exchange);
}

static void take(struct sg_conn *c, struct sg_input *in)
{
    while (is_open(c)) {
        struct sg_exchange *x = c->exchange;
        bool has_more = in->n > 0;
        if (!x && (!has_more || !take_head(c, in)))
            return;
        if (x && x->ws && has_more)
            sg_ws_input(x, in);
        else if (x && !x->ws && (has_more || x->is_body_done))
            sg_request_body(x, in);
        else if (x)
            return;
    }
}

/* Keeps what was not taken; `from_waiting`: it is the end of `in` already. */
static void keep(struct sg_conn *c, struct sg_input rest, bool from_waiting)
{
    if (c->is_lingering || c->is_dead) {
        sg_buf_done(&c->in);
        return;
    }
    if (!from_waiting) {
        sg_buf_add(&c->in, rest.p, rest.n);
    } else if (!rest.n) {
        sg_buf_done(&c->in); /* A3 */
        sg_buf_init(&c->in, MAX_WAITING);
    } else if (rest.p != c->in.p) {
        memmove(c->in.p, rest.p, rest.n);
        c->in.n = rest.n;
    }
}

static void feed(struct sg_conn *c, struct sg_input in, bool from_waiting)
{
    c->is_pumping = true;
    take(c, &in);
    c->is_pumping = false;
    if (in.n || from_waiting)
        keep(c, in, from_waiting);
    if (c->is_dead || c->is_lingering)
        return;
    bool is_stuck = c->in.n && !is_open(c);
    sg_sock_want_read(&c->sock, !is_stuck && !c->has_input_ended);
}

/* Looks again at what waits: a call has ended, a body goes on, output has drained. */
static void look_again(struct sg_conn *c)
{
    if (!c->is_ending)
        feed(c, (struct sg_input) { c->in.p, c->in.n }, true);
    struct sg_exchange *x = c->exchange;
    bool is_cut = c->has_input_ended && !c->in.n;
    if (c->is_dead || !is_cut)
        return;
    if (!x)
        sg_conn_finish(c);
    else if (!x->is_body_done && wants_body(x))
        sg_conn_gone(c);
}

static void on_later(struct sg_later *later)
{
    struct sg_conn *c = SG_OWNER(later, struct sg_conn, later);
    if (!c->is_dead)
        look_again(c);
    else if (!c->exchange)
        sg_conn_free(c);
}

void sg_conn_wake(struct sg_conn *c)
{
    if (!c->is_pumping && !c->is_dead)
        sg_later_call(c->server->loop, &c->later);
}

static void input_ended(struct sg_conn *c)
{
    struct sg_exchange *x = c->exchange;
    c->has_input_ended = true;
    sg_sock_want_read(&c->sock, false);
    if (c->is_lingering)
        sg_conn_kill(c);
    else if (!x)
        sg_conn_finish(c);
    else if (x->ws || (!x->is_body_done && wants_body(x)) || (x->is_body_done && x->call.on_gone))
        sg_conn_gone(c);
}

static void on_readable(struct sg_sock *sock)
{
    struct sg_conn *c = SG_OWNER(sock, struct sg_conn, sock);
    struct sg_server *s = c->server;
    if (c->in.n && !is_open(c) && !c->is_lingering) {
        sg_sock_want_read(sock, false);
        return;
    }
    ssize_t n = sg_sock_read(sock, s->input, sizeof s->input);
    if (n < 0)
        return;
    if (n == 0) {
        input_ended(c);
        return;
    }
    if (c->is_lingering || c->is_ending) {
        c->lingered += (uint64_t)n;
        if (c->lingered > LINGER_BYTES)
            sg_conn_kill(c);
        return;
    }
    if (!c->in.n) {
        feed(c, (struct sg_input) { s->input, (size_t)n }, false);
        return;
    }
    sg_buf_add(&c->in, s->input, (size_t)n);
    feed(c, (struct sg_input) { c->in.p, c->in.n }, true);
}

/* Not reading, and the peer sends no more: what it sent before may still wait in the kernel. */
static void on_hung_up(struct sg_sock *sock)
{
    struct sg_conn *c = SG_OWNER(sock, struct sg_conn, sock);
    struct sg_exchange *x = c->exchange;
    if (x && (x->ws || (x->is_body_done && x->call.on_gone)))
        sg_conn_gone(c);
}

static void on_lost(struct sg_sock *sock)
{
    sg_conn_gone(SG_OWNER(sock, struct sg_conn, sock));
}

static void on_drained(struct sg_sock *sock, bool was_full)
{
    struct sg_conn *c = SG_OWNER(sock, struct sg_conn, sock);
    struct sg_exchange *x = c->exchange;
    if (!x && c->is_ending) {
        sg_conn_finish(c);
    } else if (!x) {
        look_again(c);
    } else if (x->ws && was_full) {
        sg_conn_wake(c);
        sg_ws_drained(x);
    } else if (was_full && x->call.on_drain && x->call.has_started) {
        x->call.on_drain(&x->call);
    }
}

/* ---- time ---- */

static void deadline_passed(struct sg_conn *c)
{
    struct sg_exchange *x = c->exchange;
    if (!x && !sg_sock_is_empty(&c->sock)) { /* not idle: it takes what was answered */
        sg_conn_set_deadline(c, c->server->options.idle_ms);
    } else if (x && x->ws) {
        sg_ws_tick(x);
    } else if (x) {
        sg_request_timed_out(x);
    } else if (c->partial && !c->is_ending) {
        struct sg_err err;
        (void)sg_fail(&err, SG_TIMEOUT, "the head of the request took too long");
        sg_request_bad(c, 408, &err);
    } else {
        sg_conn_kill(c);
    }
}

static void on_timer(struct sg_timer *t, uint64_t now_ns)
{
    struct sg_conn *c = SG_OWNER(t, struct sg_conn, timer);
    if (has_stalled(c, now_ns)) {
        sg_conn_gone(c);
    } else if (c->deadline_ns && now_ns >= c->deadline_ns) {
        c->deadline_ns = 0;
        deadline_passed(c);
    }
    if (c->is_dead)
        return;
    if (c->deadline_ns)
        set_timer(c, c->deadline_ns);
    sg_conn_watch_output(c);
}

/* ---- between requests ---- */

void sg_conn_exchange_over(struct sg_conn *c, bool closes)
{
    c->exchange = NULL;
    if (c->is_dead) {
        free_if_over(c);
        return;
    }
    sg_conn_watch_output(c);
    if (closes || c->server->is_draining) {
        sg_conn_finish(c);
        return;
    }
    sg_conn_set_deadline(c, c->server->options.idle_ms);
    if (c->in.n || c->has_input_ended || !c->sock.is_reading)
        sg_conn_wake(c);
}

struct sg_conn *sg_conn_new(struct sg_server *s, int fd, bool is_local, bool is_operator)
{
    static const struct sg_sock_ops ops = { on_readable, on_drained, on_hung_up, on_lost };
    struct sg_conn *c = sg_new(struct sg_conn);
    if (sg_sock_init(&c->sock, s->loop, fd, is_local ? NULL : s->tls, &ops, NULL) < 0) {
        free(c);
        return NULL;
    }
    c->server = s;
    c->timer.fire = on_timer;
    c->later.call = on_later;
    c->is_local = is_local;
    c->is_operator = is_operator;
    sg_buf_init(&c->in, MAX_WAITING);
    sg_conn_set_deadline(c, s->options.head_ms);
    return c;
}
