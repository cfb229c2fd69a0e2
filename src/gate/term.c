/* SPDX-License-Identifier: Apache-2.0 */
#include "gate/term.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/auto.h"
#include "base/log.h"
#include "gate/creds.h"
#include "gate/rewrite.h"
#include "link/tls_client.h"
#include "base/banned.h"

enum { ROUNDS = 8, WHY_MAX = 300 };
#define SECOND UINT64_C(1000000000)
static const uint64_t HANDSHAKE_NS = 15 * SECOND, LINGER_NS = 2 * SECOND;

struct side {
    struct sg_io *io;     /* the flow's */
    struct sg_session *s; /* NULL: in the clear */
    bool is_ready;        /* its handshake is over */
    bool has_ended;       /* it says no more */
    uint32_t wants;       /* EPOLLIN, EPOLLOUT: what it could not do */
    struct sg_buf out;    /* what it is to be told */
};

struct sg_term {
    struct sg_flow *f;
    bool is_tls;
    struct side near, far; /* the client, the server */
    struct sg_rewrite_up up;
    struct sg_rewrite_down down;
    struct sg_swaps *swaps;
    unsigned version; /* of the box's credentials that they are */
    bool is_asked;    /* something of a request has gone out, and its answer is not over */
    bool is_request_over, is_answer_over, is_tunnel;
    bool has_told;     /* the client has seen some of the answer */
    bool is_failing;   /* `page` is what is left to say */
    bool is_lingering; /* it was said */
    int status;
    char why[WHY_MAX];
};

/* ---- life ---- */

static bool check_host(void *arg, struct sg_str host)
{
    struct sg_term *t = arg;
    return sg_flow_is_named(t->f, host);
}

void sg_term_begin(struct sg_flow *f, bool is_tls)
{
    struct sg_term *t = sg_new(struct sg_term);
    f->term = t;
    t->f = f;
    t->is_tls = is_tls;
    t->near.io = &f->client;
    t->far.io = &f->server;
    t->near.is_ready = t->far.is_ready = !is_tls;
    sg_buf_init(&t->near.out, 2 * SG_REWRITE_OUT);
    sg_buf_init(&t->far.out, 2 * SG_REWRITE_OUT);
    sg_rewrite_up_init(&t->up, check_host, t);
    sg_rewrite_down_init(&t->down);
}

static void wipe_out(struct sg_buf *b)
{
    if (b->p)
        explicit_bzero(b->p, b->cap);
    sg_buf_done(b);
}

void sg_term_free(struct sg_term *t)
{
    if (!t)
        return;
    sg_session_free(t->near.s);
    sg_session_free(t->far.s);
    wipe_out(&t->near.out);
    wipe_out(&t->far.out);
    sg_rewrite_up_done(&t->up);
    sg_rewrite_down_done(&t->down);
    sg_swaps_unref(t->swaps);
    free(t);
}

/* ---- one side ---- */

static ssize_t from_socket(struct side *x, void *p, size_t n)
{
    const ssize_t got = recv(x->io->fd, p, n, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
        x->wants |= EPOLLIN;
        return 0;
    }
    x->has_ended = got <= 0;
    return got > 0 ? got : 0;
}

static bool is_later(struct side *x, enum sg_tls_got got)
{
    if (got == SG_TLS_WANTS_READ)
        x->wants |= EPOLLIN;
    else if (got == SG_TLS_WANTS_WRITE)
        x->wants |= EPOLLOUT;
    return got == SG_TLS_WANTS_READ || got == SG_TLS_WANTS_WRITE;
}

/* 0: nothing for now, or its end (has_ended). */
static size_t get(struct side *x, uint8_t *p, size_t n)
{
    size_t got = 0;
    if (!x->s)
        return (size_t)from_socket(x, p, n);
    const enum sg_tls_got how = sg_session_read(x->s, p, n, &got);
    if (how == SG_TLS_DONE)
        return got;
    if (!is_later(x, how))
        x->has_ended = true;
    return 0;
}

/* Some of what it is to be told: how much, 0: later, -1: it is gone. */
static ssize_t put(struct side *x)
{
    size_t n = 0;
    if (!x->s) {
        const ssize_t got = send(x->io->fd, x->out.p, x->out.n, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
            x->wants |= EPOLLOUT;
            return 0;
        }
        return got;
    }
    const enum sg_tls_got how = sg_session_write(x->s, x->out.p, x->out.n, &n);
    if (how == SG_TLS_DONE)
        return (ssize_t)n;
    return is_later(x, how) ? 0 : -1;
}

static int flush(struct side *x, uint64_t *ret_n)
{
    while (x->out.n) {
        const ssize_t n = put(x);
        if (n <= 0)
            return (int)n;
        *ret_n += (uint64_t)n;
        memmove(x->out.p, x->out.p + n, x->out.n - (size_t)n);
        x->out.n -= (size_t)n;
    }
    if (x->out.cap) { /* an idle connection keeps no memory for it */
        const size_t max = x->out.max;
        wipe_out(&x->out);
        sg_buf_init(&x->out, max);
    }
    return 0;
}

/* ---- failure ---- */

/* What the client reads in place of an answer, unless it has begun to read one. */
static void fail(struct sg_term *t, int status, const char *why)
{
    struct sg_flow *f = t->f;
    if (t->is_failing)
        return;
    t->is_failing = true;
    t->status = status;
    (void)snprintf(t->why, sizeof t->why, "%s", why);
    sg_log(SG_LOG_WARN, "a request with credentials failed", SG_KV("sandbox", f->box->id),
           SG_KV("host", f->name), SG_KV("why", t->why));
    sg_auto_free char *rule = sg_printf("%s: %s", t->is_tls ? "tls" : "http", t->why);
    rule[strlen(rule) < SG_NETRULE_TEXT ? strlen(rule) : SG_NETRULE_TEXT] = '\0';
    sg_flow_tell(f, false, rule);
    sg_buf_clear(&t->far.out);
    sg_session_free(sg_take_ptr(&t->far.s));
    sg_io_drop(f->box->gate->loop, &f->server);
}

static void put_page(struct sg_term *t)
{
    const char *words = t->status == 502 ? "Bad Gateway" : "Forbidden";
    sg_auto_free char *body =
        sg_printf("Sandglass could not pass this request on to %s: %s\n", t->f->name, t->why);
    sg_buf_clear(&t->near.out);
    sg_buf_addf(&t->near.out,
                "HTTP/1.1 %d %s\r\nContent-Type: text/plain\r\nContent-Length: %zu\r\n"
                "Connection: close\r\nX-Sandglass-Error: %s\r\n\r\n%s",
                t->status, words, strlen(body), t->why, t->up.is_head ? "" : body);
}

static void linger_over(struct sg_timer *timer, uint64_t now_ns)
{
    (void)now_ns;
    sg_flow_end(SG_OWNER(timer, struct sg_flow, timer), NULL);
}

/* -1: the flow is to end. A client is told when it has asked; what it still says is read, so that
 * the answer is not lost to a reset. */
static int say_failure(struct sg_term *t)
{
    static uint8_t in[SG_REWRITE_PIECE];
    struct sg_loop *l = t->f->box->gate->loop;
    uint64_t n = 0;
    if (t->has_told || t->near.has_ended)
        return -1;
    if (!t->is_lingering && get(&t->near, in, sizeof in) + t->up.held.n + t->is_asked) {
        put_page(t);
        t->is_lingering = true;
        t->f->timer.fire = linger_over;
        sg_timer_set(l, &t->f->timer, sg_loop_now(l) + LINGER_NS);
    }
    if (!t->is_lingering)
        return t->near.has_ended ? -1 : 0;
    if (flush(&t->near, &n) < 0)
        return -1;
    if (t->near.out.n)
        return 0;
    if (t->near.s)
        sg_session_say_end(t->near.s);
    (void)shutdown(t->f->client.fd, SHUT_WR);
    while (!t->near.has_ended && get(&t->near, in, sizeof in))
        ;
    return t->near.has_ended ? -1 : 0;
}

/* ---- beginning ---- */

static void handshake_late(struct sg_timer *timer, uint64_t now_ns)
{
    (void)now_ns;
    struct sg_flow *f = SG_OWNER(timer, struct sg_flow, timer);
    if (!f->term->near.is_ready) {
        sg_flow_end(f, "tls: the client's handshake timed out");
        return;
    }
    fail(f->term, 502, "the server's TLS handshake timed out");
    sg_term_pump(f);
}

static int open_sessions(struct sg_term *t)
{
    struct sg_flow *f = t->f;
    struct sg_gate *g = f->box->gate;
    struct sg_err err = { 0 };
    if (!t->is_tls || t->near.s || t->is_failing)
        return 0;
    t->near.s = sg_trust_near(g->trust, f->client.fd, f->name, &err);
    t->far.s = t->near.s ? sg_trust_far(g->trust, f->server.fd, f->name, &err) : NULL;
    if (!t->near.s)
        return -1;
    f->timer.fire = handshake_late;
    sg_timer_set(g->loop, &f->timer, sg_loop_now(g->loop) + HANDSHAKE_NS);
    if (!t->far.s)
        fail(t, 502, err.msg);
    return 0;
}

/* -1: the client does not go on. */
static int shake_hands(struct sg_term *t)
{
    struct sg_err why = { 0 };
    if (!t->near.is_ready) {
        const enum sg_tls_got got = sg_session_handshake(t->near.s);
        t->near.is_ready = got == SG_TLS_DONE;
        if (!t->near.is_ready && !is_later(&t->near, got)) {
            sg_flow_tell(t->f, false,
                         "tls: the client did not accept the gate's certificate, or left");
            return -1;
        }
    }
    if (!t->far.is_ready && !t->is_failing) {
        const enum sg_tls_got got = sg_session_handshake(t->far.s);
        t->far.is_ready = got == SG_TLS_DONE;
        if (!t->far.is_ready && !is_later(&t->far, got)) {
            sg_session_why(t->far.s, &why);
            fail(t, 502, why.msg);
        }
    }
    if (t->near.is_ready && t->far.is_ready && sg_timer_is_set(&t->f->timer))
        sg_timer_stop(t->f->box->gate->loop, &t->f->timer);
    return 0;
}

/* ---- requests and answers ---- */

/* What holds is asked anew for each request. */
static void refresh(struct sg_term *t)
{
    const struct sg_flow *f = t->f;
    if (t->swaps && t->version == f->box->creds_version)
        return;
    sg_swaps_unref(t->swaps);
    t->swaps = sg_creds_swaps(f->box, f->name, f->port, t->is_tls);
    t->version = f->box->creds_version;
}

static void next_request(struct sg_term *t)
{
    if (!t->is_request_over || !t->is_answer_over)
        return;
    t->is_asked = t->is_request_over = t->is_answer_over = t->has_told = false;
    sg_rewrite_up_next(&t->up);
    sg_rewrite_down_next(&t->down);
    refresh(t);
}

static void ask(struct sg_term *t, const uint8_t *p, size_t n)
{
    refresh(t);
    const size_t before = t->far.out.n;
    switch (sg_rewrite_up(&t->up, t->swaps, p, n, &t->far.out, &t->near.out)) {
    case SG_REWRITE_ON:
        break;
    case SG_REWRITE_END:
        t->is_request_over = !t->is_tunnel;
        break;
    case SG_REWRITE_BAD:
        fail(t, 403, t->up.why);
        return;
    }
    t->is_asked |= t->far.out.n > before;
    if (t->far.out.has_overflowed)
        fail(t, 403, "the request is too long with its secrets");
}

/* 1: something came. */
static int read_client(struct sg_term *t, uint8_t *in, size_t cap)
{
    const bool has_more = t->up.held.n && !t->is_request_over && !t->is_asked;
    if (t->far.out.n || (t->is_request_over && t->up.held.n))
        return 0;
    if (has_more) { /* a request that came together with the one before */
        const size_t held = t->up.held.n;
        ask(t, NULL, 0);
        if (t->up.held.n != held || t->is_failing)
            return 1;
    }
    const size_t n = t->near.has_ended ? 0 : get(&t->near, in, cap);
    if (n && !t->is_request_over)
        ask(t, in, n);
    else if (n)
        sg_buf_add(&t->up.held, in, n);
    return n > 0;
}

static void become_tunnel(struct sg_term *t)
{
    t->is_tunnel = true;
    t->is_request_over = false;
    sg_rewrite_up_tunnel(&t->up);
}

/* -1: the server says what nobody asked for. */
static int answer(struct sg_term *t, uint8_t *p, size_t n)
{
    const size_t before = t->near.out.n;
    size_t used = n;
    if (!t->is_asked || t->is_answer_over)
        return -1;
    const enum sg_rewrite_got got =
        sg_rewrite_down(&t->down, &t->up, t->swaps, p, &used, &t->near.out);
    if (got == SG_REWRITE_BAD || t->near.out.has_overflowed) {
        sg_buf_clear(&t->near.out);
        fail(t, 502, t->down.why[0] ? t->down.why : "the answer cannot be kept");
        return 0;
    }
    t->has_told |= t->near.out.n > before;
    t->is_answer_over = got == SG_REWRITE_END;
    if (t->down.is_tunnel && !t->is_tunnel)
        become_tunnel(t);
    return used == n ? 0 : -1;
}

static int read_server(struct sg_term *t, uint8_t *in, size_t cap)
{
    struct sg_flow *f = t->f;
    if (t->near.out.n || t->far.has_ended)
        return 0;
    const size_t allowed = sg_gate_box_allow(f->box, cap);
    if (!allowed) {
        sg_flow_wait_for_allowance(f);
        return 0;
    }
    const size_t n = get(&t->far, in, allowed);
    f->down.bytes += n;
    sg_gate_box_count(f->box, 0, n);
    if (n && answer(t, in, n) < 0)
        return -1;
    if (t->far.has_ended && t->is_asked && !t->is_answer_over &&
        sg_rewrite_down_eof(&t->down, &t->near.out) == SG_REWRITE_BAD)
        fail(t, 502, t->down.why);
    return n > 0;
}

/* One turn: 1: there may be more, 0: not now, -1: this was the end. */
static int turn(struct sg_term *t)
{
    static uint8_t in[SG_REWRITE_PIECE];
    struct sg_flow *f = t->f;
    uint64_t up = 0, down = 0;
    if (flush(&t->near, &down) < 0 || flush(&t->far, &up) < 0)
        return -1;
    f->up.bytes += up;
    sg_gate_box_count(f->box, up, 0);
    next_request(t);
    const int asked = t->is_failing ? 0 : read_client(t, in, sizeof in);
    const int told = t->is_failing ? 0 : read_server(t, in, sizeof in);
    if (told < 0)
        return -1;
    if (t->far.has_ended && !t->is_failing && !t->near.out.n)
        return -1;
    if (t->near.has_ended && !t->is_asked && !t->far.out.n)
        return -1;
    return t->is_failing || asked || told ? 1 : 0;
}

/* ---- all ---- */

static void end(struct sg_term *t)
{
    struct sg_flow *f = t->f;
    if (t->near.s && t->near.is_ready)
        sg_session_say_end(t->near.s);
    if (t->far.s && t->far.is_ready)
        sg_session_say_end(t->far.s);
    /* What was cut short must not look whole. */
    f->up.is_shut = f->down.is_shut = !t->is_failing || t->is_lingering;
    sg_flow_end(f, NULL);
}

static void want(struct sg_term *t)
{
    struct sg_flow *f = t->f;
    struct sg_loop *l = f->box->gate->loop;
    uint32_t near = t->near.wants | (t->near.out.n ? EPOLLOUT : 0u),
             far = t->far.wants | (t->far.out.n ? EPOLLOUT : 0u);
    if (f->is_waiting)
        far &= ~(uint32_t)EPOLLIN;
    if (sg_io_want(l, &f->client, near, NULL) < 0 ||
        (f->server.fd >= 0 && sg_io_want(l, &f->server, far, NULL) < 0))
        sg_flow_end(f, "out of memory");
}

/* Others have their turn: what is there already is told of again. */
static void want_more(struct sg_term *t)
{
    if (!t->far.out.n && !t->near.has_ended)
        t->near.wants |= EPOLLIN;
    if (!t->near.out.n && !t->far.has_ended)
        t->far.wants |= EPOLLIN;
}

/* 1: there may be more, 0: not now, -1: this was the end. */
static int step(struct sg_term *t)
{
    t->near.wants = t->far.wants = 0;
    if ((!t->near.is_ready || !t->far.is_ready) && shake_hands(t) < 0)
        return -1;
    if (!t->near.is_ready || (!t->far.is_ready && !t->is_failing))
        return 0;
    return t->is_failing ? say_failure(t) : turn(t);
}

void sg_term_pump(struct sg_flow *f)
{
    struct sg_term *t = f->term;
    int got = open_sessions(t) < 0 ? -1 : 1;
    for (unsigned i = 0; i < ROUNDS && got > 0; i++)
        got = step(t);
    if (got < 0) {
        end(t);
        return;
    }
    if (got > 0)
        want_more(t);
    if (sg_gate_box_is_spent(f->box))
        sg_flow_end(f, "limit: bytes");
    else
        want(t);
}
