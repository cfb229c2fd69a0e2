/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes between the two sockets of a flow, by splice(2): through a pipe that is borrowed only while
 * there is something in it, so that an idle connection costs its two descriptors and little else.
 * Both sockets are our own (nobody in the sandbox shares the open file), so that they may be
 * spliced. The end of another sandbox is not: its init has dialled, and who has taken over init
 * could make us wait in a splice by taking O_NONBLOCK away. Those are copied, each call with its
 * own word on that. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "gate/flow.h"
#include "gate/term.h"
#include "base/banned.h"

enum {
    PIPE_BYTES =
        512 << 10,   /* twice as much, and a user has no room for as many pipes as are kept */
    CHUNK = 1 << 20, /* a place in it holds up to 32 KiB of a socket's */
    ROUNDS = 4,
    POOL_MAX = 64,
    PIECE = 4096,
    PIECES = 64
};
static const uint64_t REFILL_NS = 5000000;

/* ---- pipes ---- */

static struct {
    int v[POOL_MAX][2];
    unsigned n;
} pool;

void sg_way_init(struct sg_way *w)
{
    *w = (struct sg_way) { .pipe = { -1, -1 } };
}

static bool take_pipe(struct sg_way *w)
{
    if (w->pipe[0] >= 0)
        return true;
    if (pool.n > 0) {
        pool.n--;
        w->pipe[0] = pool.v[pool.n][0];
        w->pipe[1] = pool.v[pool.n][1];
        return true;
    }
    if (pipe2(w->pipe, O_CLOEXEC | O_NONBLOCK) < 0) {
        w->pipe[0] = w->pipe[1] = -1;
        return false;
    }
    (void)fcntl(w->pipe[1], F_SETPIPE_SZ, PIPE_BYTES); /* a smaller one works, too */
    return true;
}

static void give_pipe(struct sg_way *w)
{
    if (w->pipe[0] < 0 || w->held)
        return;
    if (pool.n < POOL_MAX) {
        pool.v[pool.n][0] = w->pipe[0];
        pool.v[pool.n++][1] = w->pipe[1];
        w->pipe[0] = w->pipe[1] = -1;
        return;
    }
    sg_drop_fd(&w->pipe[0]);
    sg_drop_fd(&w->pipe[1]);
}

/* One that is not empty is nobody else's. */
void sg_way_done(struct sg_way *w)
{
    give_pipe(w);
    sg_drop_fd(&w->pipe[0]);
    sg_drop_fd(&w->pipe[1]);
}

/* ---- allowances ---- */

static void refill(struct sg_timer *t, uint64_t now_ns)
{
    (void)now_ns;
    struct sg_gate *g = SG_OWNER(t, struct sg_gate, refill);
    struct sg_flow *list = g->waiting;
    g->waiting = NULL;
    for (struct sg_flow *f = list; f; f = f->next_waiting)
        f->is_waiting = false;
    while (list) {
        struct sg_flow *f = list;
        list = f->next_waiting;
        f->next_waiting = NULL;
        sg_flow_relay(f);
    }
}

void sg_flow_wait_for_allowance(struct sg_flow *f)
{
    struct sg_gate *g = f->box->gate;
    if (f->is_waiting)
        return;
    f->is_waiting = true;
    f->next_waiting = g->waiting;
    g->waiting = f;
    g->refill.fire = refill;
    if (!sg_timer_is_set(&g->refill))
        sg_timer_set(g->loop, &g->refill, sg_loop_now(g->loop) + REFILL_NS);
}

void sg_flow_stop_waiting(struct sg_flow *f)
{
    if (!f->is_waiting)
        return;
    f->is_waiting = false;
    for (struct sg_flow **at = &f->box->gate->waiting; *at; at = &(*at)->next_waiting)
        if (*at == f) {
            *at = f->next_waiting;
            break;
        }
}

/* ---- one direction: 0, or -1 where it is broken ---- */

static bool is_later(void)
{
    return errno == EAGAIN || errno == EINTR;
}

static void shut_if_done(struct sg_way *w, int to)
{
    if (!w->has_ended || w->held || w->is_shut)
        return;
    (void)shutdown(to, SHUT_WR);
    w->is_shut = true;
}

static int fill(struct sg_flow *f, struct sg_way *w, int from)
{
    const size_t n = sg_gate_box_allow(f->box, CHUNK);
    if (n == 0) {
        sg_flow_wait_for_allowance(f);
        return 1;
    }
    if (!take_pipe(w))
        return -1;
    const ssize_t got = splice(from, NULL, w->pipe[1], NULL, n, SPLICE_F_NONBLOCK | SPLICE_F_MOVE);
    if (got < 0)
        return is_later() ? 1 : -1;
    w->has_ended = got == 0;
    w->held = (size_t)got;
    return 0;
}

static int empty(struct sg_flow *f, struct sg_way *w, int to)
{
    const ssize_t put =
        splice(w->pipe[0], NULL, to, NULL, w->held, SPLICE_F_NONBLOCK | SPLICE_F_MOVE);
    if (put < 0)
        return is_later() ? 1 : -1;
    w->held -= (size_t)put;
    w->bytes += (uint64_t)put;
    sg_gate_box_count(f->box, w == &f->up ? (uint64_t)put : 0, w == &f->up ? 0 : (uint64_t)put);
    return 0;
}

static int pump(struct sg_flow *f, struct sg_way *w, int from, int to)
{
    int got = 0;
    for (unsigned i = 0; i < ROUNDS && got == 0 && !w->is_shut; i++) {
        if (!w->held && !w->has_ended)
            got = fill(f, w, from);
        if (w->held && got >= 0)
            got = empty(f, w, to);
        shut_if_done(w, to);
    }
    give_pipe(w);
    return got < 0 ? -1 : 0;
}

/* ---- the same for the ends of other sandboxes ---- */

/* What is not taken at once waits in the pipe: a piece fits into the smallest. */
static int hand_on(struct sg_flow *f, struct sg_way *w, int to, const uint8_t *p, size_t n)
{
    const ssize_t put = send(to, p, n, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (put < 0 && !is_later())
        return -1;
    const size_t done = put > 0 ? (size_t)put : 0;
    w->held = n - done;
    w->bytes += done;
    sg_gate_box_count(f->box, w == &f->up ? done : 0, w == &f->up ? 0 : done);
    if (!w->held)
        return 0;
    return take_pipe(w) && write(w->pipe[1], p + done, w->held) == (ssize_t)w->held ? 1 : -1;
}

static int copy_piece(struct sg_flow *f, struct sg_way *w, int from, int to)
{
    static uint8_t bytes[PIECE];
    if (w->held)
        return read(w->pipe[0], bytes, w->held) == (ssize_t)w->held
                   ? hand_on(f, w, to, bytes, w->held)
                   : -1;
    const size_t n = sg_gate_box_allow(f->box, sizeof bytes);
    if (n == 0) {
        sg_flow_wait_for_allowance(f);
        return 1;
    }
    const ssize_t got = recv(from, bytes, n, MSG_DONTWAIT);
    if (got < 0)
        return is_later() ? 1 : -1;
    w->has_ended = got == 0;
    return got ? hand_on(f, w, to, bytes, (size_t)got) : 0;
}

static int copy(struct sg_flow *f, struct sg_way *w, int from, int to)
{
    int got = 0;
    for (unsigned i = 0; i < PIECES && got == 0 && !w->is_shut; i++) {
        if (w->held || !w->has_ended)
            got = copy_piece(f, w, from, to);
        shut_if_done(w, to);
    }
    give_pipe(w);
    return got < 0 ? -1 : 0;
}

/* ---- the same for requests that are followed: copied, for they are looked at ---- */

/* What may go on and did not go at once is kept in the flow's buffer; 1: some is left. */
static int send_out(struct sg_flow *f, struct sg_buf *out)
{
    while (out->n) {
        const ssize_t put = send(f->server.fd, out->p, out->n, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (put < 0)
            return is_later() ? 1 : -1;
        f->up.bytes += (uint64_t)put;
        sg_gate_box_count(f->box, (uint64_t)put, 0);
        memmove(out->p, out->p + put, out->n - (size_t)put);
        out->n -= (size_t)put;
    }
    return 0;
}

/* Read and judged, but not yet sent: `held` is its size. False: the flow was refused. */
static bool read_web(struct sg_flow *f, struct sg_netverdict *v, int *ret)
{
    static uint8_t in[SG_WEB_PIECE];
    const size_t n = sg_gate_box_allow(f->box, sizeof in);
    *ret = 1;
    if (n == 0) {
        sg_flow_wait_for_allowance(f);
        return true;
    }
    const ssize_t got = recv(f->client.fd, in, n, MSG_DONTWAIT);
    if (got < 0) {
        *ret = is_later() ? 1 : -1;
        return true;
    }
    *ret = 0;
    f->up.has_ended = got == 0;
    const enum sg_web_got web = sg_web_feed(f->web, in, (size_t)got, &f->web_out, v);
    f->is_asking = web == SG_WEB_ASKED;
    return web != SG_WEB_REFUSED;
}

/* 1: the flow is over. */
static int pump_web(struct sg_flow *f)
{
    struct sg_netverdict v;
    int got = 0;
    for (unsigned i = 0; i < ROUNDS && got == 0 && !f->up.is_shut; i++) {
        got = send_out(f, &f->web_out);
        if (got == 0 && !f->up.has_ended && !f->is_asking && !read_web(f, &v, &got)) {
            sg_flow_refuse(f, v.rule, true);
            return 1;
        }
        f->up.held = f->web_out.n;
        shut_if_done(&f->up, f->server.fd);
        if (f->is_asking && !f->up.held)
            break;
    }
    f->up.held = f->web_out.n;
    return got < 0 ? -1 : 0;
}

/* An upgrade was asked for: the first line of the answer tells. 1: the flow is over. */
static int look_at_answer(struct sg_flow *f)
{
    static const char switched[] = "HTTP/1.1 101";
    char line[sizeof switched - 1];
    struct sg_netverdict v;
    const ssize_t n = recv(f->server.fd, line, sizeof line, MSG_PEEK | MSG_DONTWAIT);
    if (n < (ssize_t)sizeof line && n != 0 && !(n < 0 && !is_later()))
        return 0;
    const bool is_upgraded = n == (ssize_t)sizeof line && memcmp(line, switched, sizeof line) == 0;
    const enum sg_web_got web = sg_web_answered(f->web, is_upgraded, &f->web_out, &v);
    f->is_asking = web == SG_WEB_ASKED;
    if (web != SG_WEB_REFUSED)
        return 0;
    sg_flow_refuse(f, v.rule, false);
    return 1;
}

/* ---- both ---- */

static void want(struct sg_flow *f)
{
    struct sg_loop *l = f->box->gate->loop;
    const bool reads_up = f->is_sniffed && f->is_connected && !f->up.held && !f->up.has_ended &&
                          !f->is_waiting && !f->is_asking;
    const bool reads_down =
        f->is_connected && !f->down.held && !f->down.has_ended && !f->is_waiting;
    const uint32_t client =
        (reads_up || !f->is_sniffed ? EPOLLIN : 0u) | (f->down.held ? EPOLLOUT : 0u);
    const uint32_t server = (reads_down ? EPOLLIN : 0u) | (f->up.held ? EPOLLOUT : 0u);
    if (sg_io_want(l, &f->client, client, NULL) < 0 || sg_io_want(l, &f->server, server, NULL) < 0)
        sg_flow_end(f, "out of memory");
}

void sg_flow_relay(struct sg_flow *f)
{
    if (!f->is_connected)
        return;
    if (f->term) {
        sg_term_pump(f);
        return;
    }
    int (*const move)(struct sg_flow *, struct sg_way *, int, int) = f->peer[0] ? copy : pump;
    int got = 0;
    if (f->is_asking)
        got = look_at_answer(f);
    if (got == 0)
        got = move(f, &f->down, f->server.fd, f->client.fd);
    if (got == 0 && f->is_sniffed)
        got = f->web ? pump_web(f) : move(f, &f->up, f->client.fd, f->server.fd);
    if (got > 0)
        return;
    if (got < 0 || (f->up.is_shut && f->down.is_shut))
        sg_flow_end(f, NULL);
    else if (sg_gate_box_is_spent(f->box))
        sg_flow_end(f, "limit: bytes");
    else
        want(f);
}
