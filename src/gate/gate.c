/* SPDX-License-Identifier: Apache-2.0 */
/* Both connections are other people's words: a packet that is none ends the gate (launcher) or the
 * connection (daemon). What is told to the daemon waits in a bounded queue while there is none, so
 * that the record has no gap when it is back. */
#include "gate/gate.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>

#include "base/auto.h"
#include "base/log.h"
#include "gate/creds.h"
#include "gate/resolve.h"
#include "gate/term.h"
#include "base/banned.h"

enum {
    MESSAGES_A_TURN = 32,
    TOLD_MAX = 8192,
    TOLD_A_SECOND = 200,
    TOLD_BURST = 1000,
    TOLD_AT_ONCE = 64
};
static const uint64_t USAGE_NS = 1000000000, TELL_NS = 20000000;

struct sg_told {
    struct sg_told *next;
    size_t n;
    uint8_t bytes[];
};

/* ---- to the daemon ---- */

static void flush(struct sg_gate *g)
{
    while (g->told && g->daemon.fd >= 0) {
        struct sg_told *t = g->told;
        struct sg_err err = { 0 };
        if (sg_chan_send_bytes(g->daemon.fd, t->bytes, t->n, NULL, 0, false, &err) < 0)
            break; /* no room; or its end, which is read in its own time */
        g->told = t->next;
        if (!g->told)
            g->told_end = &g->told;
        g->told_count--;
        free(t);
    }
    if (g->daemon.fd >= 0)
        (void)sg_io_want(g->loop, &g->daemon, EPOLLIN | (g->told ? EPOLLOUT : 0u), NULL);
}

static void tell_now(struct sg_timer *t, uint64_t now_ns)
{
    (void)now_ns;
    flush(SG_OWNER(t, struct sg_gate, telling));
}

/* Answers are never left out: there are as many as questions, and those come from one who waits.
 * News wait a moment for others: to wake the daemon for every connection takes as long as to make
 * one, of a processor that both ends of it need. */
static void send_daemon(struct sg_gate *g, const struct sg_msg *m)
{
    struct sg_err err = { 0 };
    sg_buf_clear(&g->out);
    if (sg_msg_encode(m, &g->out, &err) < 0) {
        sg_log(SG_LOG_ERROR, "a message cannot be written", SG_KV("error", err.msg));
        return;
    }
    if (g->told_count >= TOLD_MAX && !m->id) {
        g->lost++;
        return;
    }
    struct sg_told *t = sg_alloc(sizeof *t + g->out.n);
    t->n = g->out.n;
    memcpy(t->bytes, g->out.p, g->out.n);
    *g->told_end = t;
    g->told_end = &t->next;
    g->told_count++;
    if (m->id || g->told_count > TOLD_AT_ONCE)
        flush(g);
    else if (!sg_timer_is_set(&g->telling))
        sg_timer_set(g->loop, &g->telling, sg_loop_now(g->loop) + TELL_NS);
}

static uint64_t unix_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

void sg_gate_tell(struct sg_gate_box *b, const struct sg_decision *d)
{
    const uint64_t now = sg_loop_now(b->gate->loop);
    char address[SG_ADDR_TEXT] = "", rule[SG_G_RULE_MAX + 1];
    if (!d->is_question)
        *(d->is_allowed ? &b->usage.connections : &b->usage.refused) += 1;
    if (!sg_bucket_take(&b->log_rate, TOLD_A_SECOND, TOLD_BURST, 1, now)) {
        b->skipped++;
        return;
    }
    if (d->addr)
        sg_addr_format(d->addr, address);
    (void)snprintf(rule, sizeof rule, "%s", d->rule); /* with its reasons it may be longer */
    const uint64_t ms = d->began_ns ? (now - d->began_ns) / 1000000 : 0;
    struct sg_msg m = { .type = SG_MSG_G_DECISION };
    m.g_decision = (struct sg_msg_g_decision) {
        .sandbox = sg_text_of(b->id),
        .is_allowed = d->is_allowed,
        .flags = (d->is_udp ? SG_G_UDP_FLOW : 0u) | (d->is_learned ? SG_G_LEARNED : 0u) |
                 (d->is_question ? SG_G_DNS_QUERY : 0u),
        .port = d->port,
        .skipped = b->skipped,
        .at_ms = unix_ms() - ms,
        .duration_ms = ms,
        .bytes_out = d->bytes_out,
        .bytes_in = d->bytes_in,
        .name = sg_text_of(d->name ? d->name : ""),
        .address = sg_text_of(address),
        .rule = sg_text_of(rule),
    };
    b->skipped = 0;
    send_daemon(b->gate, &m);
}

/* Somebody waits: at once, or not at all. */
bool sg_gate_ask_meet(struct sg_gate_box *b, const char *to, uint32_t ticket, uint16_t port)
{
    struct sg_msg m = { .type = SG_MSG_G_MEET };
    if (b->gate->daemon.fd < 0)
        return false;
    m.g_meet = (struct sg_msg_g_meet) { sg_text_of(b->id), sg_text_of(to), ticket, port };
    send_daemon(b->gate, &m);
    flush(b->gate);
    return true;
}

static void tell_usage(struct sg_timer *t, uint64_t now_ns)
{
    struct sg_gate *g = SG_OWNER(t, struct sg_gate, usage);
    size_t cursor = 0;
    for (struct sg_gate_box *b; (b = sg_map_next(&g->boxes, &cursor));) {
        struct sg_msg m = { .type = SG_MSG_G_USAGE, .g_usage = b->usage };
        const struct sg_msg_g_usage *u = &b->usage;
        if (!(u->bytes_out | u->bytes_in | u->connections | u->refused))
            continue;
        m.g_usage.sandbox = sg_text_of(b->id);
        b->usage = (struct sg_msg_g_usage) { 0 };
        send_daemon(g, &m);
    }
    sg_timer_set(g->loop, t, now_ns + USAGE_NS);
}

/* ---- of the daemon ---- */

static void answer(struct sg_gate *g, uint32_t id, uint32_t epoch, const struct sg_err *err)
{
    struct sg_msg m = { .type = err ? SG_MSG_G_FAILED : SG_MSG_G_DONE, .id = id, .epoch = epoch };
    if (err)
        m.error = (struct sg_msg_error) { .kind = err->kind,
                                          .sys = (uint32_t)err->sys,
                                          .text = sg_text_of(err->msg) };
    send_daemon(g, &m);
}

static void set_policy(struct sg_gate *g, const struct sg_msg *q)
{
    struct sg_err err = { 0 };
    struct sg_gate_box *b = sg_gate_box_find(g, q->g_policy.sandbox.p, true);
    const int ret = sg_gate_box_policy(b, &q->g_policy, &err);
    answer(g, q->id, q->epoch, ret < 0 ? &err : NULL);
}

static void set_cred(struct sg_gate *g, const struct sg_msg *q)
{
    struct sg_err err = { 0 };
    struct sg_gate_box *b = sg_gate_box_find(g, q->g_cred.sandbox.p, true);
    const int ret = sg_creds_order(b, &q->g_cred, &err);
    answer(g, q->id, q->epoch, ret < 0 ? &err : NULL);
}

static void take_met(struct sg_gate *g, const struct sg_msg *q)
{
    const uint32_t id = q->id, epoch = q->epoch;
    sg_gate_met(g, &g->packet);
    answer(g, id, epoch, NULL);
}

/* One row for each message of SG_ROLE_GATE_ASK. */
static void (*const heard[])(struct sg_gate *g, const struct sg_msg *q) = {
    [SG_MSG_G_POLICY] = set_policy,
    [SG_MSG_G_CRED] = set_cred,
    [SG_MSG_G_MET] = take_met,
};

static void lose_daemon(struct sg_gate *g)
{
    sg_io_drop(g->loop, &g->daemon);
    /* Policies stay: what was allowed goes on until somebody says otherwise. What never got its
     * sockets was of a sandbox that the daemon gave up. */
    size_t cursor = 0;
    for (struct sg_gate_box *b; (b = sg_map_next(&g->boxes, &cursor));)
        if (!b->has_sockets) {
            sg_gate_box_free(b);
            cursor = 0;
        }
}

static void on_daemon(struct sg_io *io, uint32_t events)
{
    struct sg_gate *g = SG_OWNER(io, struct sg_gate, daemon);
    if (events & EPOLLOUT)
        flush(g);
    for (unsigned i = 0; i < MESSAGES_A_TURN && io->fd >= 0; i++) {
        struct sg_err err = { 0 };
        switch (sg_chan_recv(io->fd, 1u << SG_ROLE_GATE_ASK, false, &g->packet, &err)) {
        case SG_RECV_MESSAGE:
            heard[g->packet.msg.type](g, &g->packet.msg);
            break;
        case SG_RECV_AGAIN:
            return;
        case SG_RECV_ERROR:
            if (err.kind == SG_EXHAUSTED) /* no descriptor was left for it: who waits gives up */
                break;
            sg_log(SG_LOG_ERROR, "the daemon's connection is over", SG_KV("why", err.msg));
            lose_daemon(g);
            return;
        case SG_RECV_CLOSED:
            lose_daemon(g);
            return;
        }
    }
}

static void take_daemon(struct sg_gate *g, struct sg_packet *p)
{
    if (g->daemon.fd >= 0)
        lose_daemon(g);
    g->daemon = (struct sg_io) { .fd = sg_packet_take_fd(p, 0), .ready = on_daemon };
    if (g->daemon.fd >= 0 && sg_io_want(g->loop, &g->daemon, EPOLLIN, NULL) < 0)
        sg_io_drop(g->loop, &g->daemon);
    flush(g);
}

/* ---- of the launcher ---- */

static void obey(struct sg_gate *g, struct sg_packet *p)
{
    const struct sg_msg *m = &p->msg;
    struct sg_err err = { 0 };
    struct sg_gate_box *b;
    if (m->type == SG_MSG_G_DAEMON) {
        take_daemon(g, p);
    } else if (m->type == SG_MSG_G_DETACH) {
        b = sg_gate_box_find(g, m->l_name.sandbox.p, false);
        if (b)
            sg_gate_box_free(b);
    } else if (m->type == SG_MSG_G_ATTACH) {
        b = sg_gate_box_find(g, m->l_name.sandbox.p, true);
        if (sg_gate_box_attach(b, p, &err) < 0) {
            sg_log(SG_LOG_ERROR, "a sandbox's sockets cannot be used", SG_KV("sandbox", b->id),
                   SG_KV("error", err.msg));
            sg_gate_box_free(b);
        }
    }
}

static void on_launcher(struct sg_io *io, uint32_t events)
{
    (void)events;
    struct sg_gate *g = SG_OWNER(io, struct sg_gate, launcher);
    for (unsigned i = 0; i < MESSAGES_A_TURN; i++) {
        struct sg_err err = { 0 };
        switch (sg_chan_recv(io->fd, 1u << SG_ROLE_ORDER, false, &g->packet, &err)) {
        case SG_RECV_MESSAGE:
            obey(g, &g->packet);
            break;
        case SG_RECV_AGAIN:
            return;
        case SG_RECV_ERROR:
            sg_log(SG_LOG_ERROR, "an order cannot be read", SG_KV("error", err.msg));
            if (err.kind == SG_EXHAUSTED) /* no descriptor was left for it */
                return;
            sg_loop_stop(g->loop);
            return;
        case SG_RECV_CLOSED: /* the next launcher starts the next of us */
            sg_loop_stop(g->loop);
            return;
        }
    }
}

/* ---- life ---- */

static int take_settings(struct sg_gate *g, const struct sg_gate_options *o, struct sg_err *err)
{
    for (size_t i = 0; i < o->resolver_count; i++)
        if (sg_resolver_add(g->resolver, sg_str_of(o->resolvers[i]), err) < 0)
            return sg_wrap(err, "gate.resolvers");
    for (size_t i = 0; i < o->permit_count; i++)
        if (sg_nets_add(&g->permitted, sg_str_of(o->permit[i]), err) < 0)
            return sg_wrap(err, "gate.permit");
    return 0;
}

struct sg_gate *sg_gate_new(struct sg_loop *l, const struct sg_gate_options *o, struct sg_err *err)
{
    struct sg_gate *g = sg_new(struct sg_gate);
    g->loop = l;
    g->daemon.fd = -1;
    g->trust = o->trust;
    g->launcher = (struct sg_io) { .fd = o->launcher_fd, .ready = on_launcher };
    g->told_end = &g->told;
    g->usage.fire = tell_usage;
    g->telling.fire = tell_now;
    sg_packet_init(&g->packet);
    sg_buf_init(&g->out, SG_CTL_MAX_BYTES);
    sg_map_init(&g->boxes);
    sg_map_init(&g->members);
    g->resolver = sg_resolver_new(l);
    if (take_settings(g, o, err) < 0 || sg_io_want(l, &g->launcher, EPOLLIN, err) < 0) {
        sg_gate_free(g);
        return NULL;
    }
    sg_timer_set(l, &g->usage, sg_loop_now(l) + USAGE_NS);
    return g;
}

void sg_gate_free(struct sg_gate *g)
{
    if (!g)
        return;
    size_t cursor = 0;
    for (struct sg_gate_box *b; (b = sg_map_next(&g->boxes, &cursor)); cursor = 0)
        sg_gate_box_free(b);
    sg_timer_stop(g->loop, &g->usage);
    sg_timer_stop(g->loop, &g->telling);
    sg_timer_stop(g->loop, &g->refill);
    sg_io_drop(g->loop, &g->launcher);
    sg_io_drop(g->loop, &g->daemon);
    for (struct sg_told *t; (t = g->told);) {
        g->told = t->next;
        free(t);
    }
    sg_resolver_free(g->resolver);
    sg_trust_free(g->trust);
    sg_nets_done(&g->permitted);
    sg_map_done(&g->boxes);
    sg_map_done(&g->members);
    sg_packet_done(&g->packet);
    sg_buf_done(&g->out);
    free(g);
}
