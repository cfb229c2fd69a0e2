/* SPDX-License-Identifier: Apache-2.0 */
#include "gate/flow.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/log.h"
#include "gate/creds.h"
#include "gate/proxy.h"
#include "gate/term.h"
#include "base/banned.h"

enum { DNS_PORT = 53 };
#define SECOND UINT64_C(1000000000)
static const uint64_t DIAL_NS = 15 * SECOND, LINGER_NS = 2 * SECOND;

/* ---- end ---- */

/* Somebody inside may hold it, too: it ends for them as well, and to close it must not wait for
 * whatever they have asked for. */
static void leave_peer(const struct sg_flow *f)
{
    const struct linger none = { 0 };
    if (!f->peer[0] || f->server.fd < 0)
        return;
    (void)shutdown(f->server.fd, SHUT_RDWR);
    if (f->up.is_shut && f->down.is_shut) /* else it is reset */
        (void)setsockopt(f->server.fd, SOL_SOCKET, SO_LINGER, &none, sizeof none);
}

static void free_flow(struct sg_flow *f)
{
    struct sg_loop *l = f->box->gate->loop;
    sg_resolve_cancel(&f->lookup);
    sg_via_stop(f);
    sg_gate_dns_hang_up(f);
    sg_timer_stop(l, &f->timer);
    sg_flow_stop_waiting(f);
    sg_term_free(f->term);
    leave_peer(f);
    sg_io_drop(l, &f->client);
    sg_io_drop(l, &f->server);
    sg_way_done(&f->up);
    sg_way_done(&f->down);
    sg_web_free(f->web);
    sg_buf_done(&f->web_out);
    *f->link = f->next;
    if (f->next)
        f->next->link = f->link;
    f->box->flow_count--;
    free(f->name);
    free(f->rule);
    free(f);
}

void sg_flow_tell(struct sg_flow *f, bool is_allowed, const char *rule)
{
    const struct sg_decision d = { .is_allowed = is_allowed,
                                   .is_learned = f->is_learned,
                                   .name = f->name,
                                   .addr = f->is_far_named ? NULL
                                           : f->addr_count ? &f->real
                                                           : &f->wanted,
                                   .port = f->port,
                                   .rule = rule,
                                   .began_ns = f->began_ns,
                                   .bytes_out = f->up.bytes,
                                   .bytes_in = f->down.bytes };
    if (!f->is_told)
        sg_gate_tell(f->box, &d);
    f->is_told = true; /* told once */
}

/* Its sockets are reset, not closed: what was not read must not look like an end. */
static void reset(int fd)
{
    const struct linger now = { .l_onoff = 1, .l_linger = 0 };
    if (fd >= 0)
        (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
}

void sg_flow_end(struct sg_flow *f, const char *why)
{
    const bool is_whole = f->up.is_shut && f->down.is_shut;
    sg_auto_free char *text = why ? sg_printf("%s (%s)", f->rule ? f->rule : "", why) : NULL;
    sg_flow_tell(f, f->rule != NULL, text ? text : f->rule ? f->rule : "no policy yet");
    if (!is_whole) {
        reset(f->client.fd);
        reset(f->server.fd);
    }
    free_flow(f);
}

/* ---- turned down ---- */

static void linger_over(struct sg_timer *t, uint64_t now_ns)
{
    (void)now_ns;
    free_flow(SG_OWNER(t, struct sg_flow, timer));
}

static void linger(struct sg_io *io, uint32_t events)
{
    (void)events;
    char in[4096];
    const ssize_t n = recv(io->fd, in, sizeof in, MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        free_flow(SG_OWNER(io, struct sg_flow, client));
}

/* The words are read only if the connection is not reset under them. */
static bool say_no(struct sg_flow *f, const char *rule)
{
    struct sg_loop *l = f->box->gate->loop;
    sg_auto_free char *body = sg_printf("Blocked by this sandbox's network policy: %s\n", rule);
    sg_auto_free char *text =
        sg_printf("HTTP/1.1 403 Forbidden\r\nContent-Type: text/plain\r\nContent-Length: %zu\r\n"
                  "Connection: close\r\nX-Sandglass-Rule: %s\r\n\r\n%s",
                  strlen(body), rule, body);
    if (f->down.bytes || f->down.held ||
        send(f->client.fd, text, strlen(text), MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
        return false;
    (void)shutdown(f->client.fd, SHUT_WR);
    sg_resolve_cancel(&f->lookup);
    sg_via_stop(f);
    sg_flow_stop_waiting(f);
    reset(f->server.fd);
    sg_io_drop(l, &f->server);
    f->client.ready = linger;
    f->timer.fire = linger_over;
    sg_timer_set(l, &f->timer, sg_loop_now(l) + LINGER_NS);
    return sg_io_want(l, &f->client, EPOLLIN, NULL) == 0;
}

void sg_flow_refuse(struct sg_flow *f, const char *rule, bool speaks_http)
{
    sg_flow_tell(f, false, rule);
    if (speaks_http && say_no(f, rule))
        return;
    reset(f->client.fd);
    reset(f->server.fd);
    free_flow(f);
}

static void refuse(struct sg_flow *f, const char *rule)
{
    sg_flow_refuse(f, rule, f->port == SG_HTTP_PORT);
}

/* ---- dialling ---- */

static void set_options(int fd)
{
    const int on = 1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
}

static void on_server(struct sg_io *io, uint32_t events);
static void on_client(struct sg_io *io, uint32_t events);

static void connected(struct sg_flow *f)
{
    f->is_connected = true;
    sg_timer_stop(f->box->gate->loop, &f->timer);
    sg_flow_relay(f);
}

int sg_flow_reach(struct sg_flow *f, const struct sg_addr *a, uint16_t port,
                  void (*ready)(struct sg_io *io, uint32_t events))
{
    struct sg_loop *l = f->box->gate->loop;
    struct sockaddr_storage to;
    const socklen_t n = sg_addr_to_sock(a, port, &to);
    sg_io_drop(l, &f->server);
    f->server =
        (struct sg_io) { .fd = socket(to.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0),
                         .ready = ready };
    if (f->server.fd < 0)
        return errno;
    const int got = connect(f->server.fd, (struct sockaddr *)&to, n);
    const int error = errno;
    set_options(f->server.fd); /* not before: the far end is on its way meanwhile */
    if (got < 0 && error != EINPROGRESS)
        return error;
    return sg_io_want(l, &f->server, EPOLLOUT, NULL) == 0 ? 0 : ENOMEM;
}

/* The next address that takes it. False: there was none, and the flow is over. */
static bool dial(struct sg_flow *f)
{
    int last = ECONNREFUSED;
    while (f->addr_at < f->addr_count) {
        f->real = f->addrs[f->addr_at++];
        last = sg_flow_reach(f, &f->real, f->port, on_server);
        if (last == 0)
            return true;
    }
    sg_auto_free char *why = sg_printf("connect: %s", strerror(last));
    sg_flow_end(f, why);
    return false;
}

void sg_flow_reached(struct sg_flow *f)
{
    f->server.ready = on_server;
    connected(f);
}

static void on_server(struct sg_io *io, uint32_t events)
{
    struct sg_flow *f = SG_OWNER(io, struct sg_flow, server);
    int error = 0;
    socklen_t n = sizeof error;
    if (f->is_connected) {
        sg_flow_relay(f);
    } else if (events & (EPOLLERR | EPOLLHUP) &&
               (getsockopt(io->fd, SOL_SOCKET, SO_ERROR, &error, &n) < 0 || error)) {
        if (f->addr_at < f->addr_count) {
            (void)dial(f);
            return;
        }
        sg_auto_free char *why = sg_printf("connect: %s", strerror(error));
        sg_flow_end(f, why);
    } else {
        connected(f);
    }
}

void sg_flow_met(struct sg_flow *f, int fd)
{
    f->server = (struct sg_io) { .fd = fd, .ready = on_server };
    set_options(fd);
    connected(f);
}

static void dial_late(struct sg_timer *t, uint64_t now_ns)
{
    (void)now_ns;
    sg_flow_end(SG_OWNER(t, struct sg_flow, timer), "connect: timed out");
}

/* ---- judging ---- */

static void judge(const struct sg_flow *f, const struct sg_addr *a, struct sg_netverdict *v)
{
    const struct sg_target t = { .name = f->name, .addr = a, .port = f->port };
    struct sg_gate *g = f->box->gate;
    sg_policy_judge(sg_gate_box_rules(f->box), &g->permitted, &t, v);
    if (v->is_allowed && a && !sg_nets_has(&g->permitted, a) && sg_gate_is_own(g, a)) {
        v->is_allowed = false;
        (void)snprintf(v->rule, sizeof v->rule, "always refused: this host");
    }
}

static void allow(struct sg_flow *f, const struct sg_netverdict *v)
{
    struct sg_loop *l = f->box->gate->loop;
    const struct sg_egress *e = &f->box->policy.egress;
    free(f->rule);
    f->rule = e->address ? sg_printf("%s via %s", v->rule, e->address) : sg_strdup(v->rule);
    f->is_learned = v->is_learned;
    const bool is_for_secrets = sg_creds_want(f->box, f->name, f->port, true) ||
                                sg_creds_want(f->box, f->name, f->port, false);
    f->is_sniffed =
        !is_for_secrets && (!sg_policy_minds_names(sg_gate_box_rules(f->box)) || v->is_learned);
    f->timer.fire = dial_late;
    sg_timer_set(l, &f->timer, sg_loop_now(l) + DIAL_NS);
    const bool is_going = f->box->proxy ? sg_via_begin(f, v->is_by_name) : dial(f);
    if (is_going && !f->is_sniffed && sg_io_want(l, &f->client, EPOLLIN, NULL) < 0)
        sg_flow_end(f, "out of memory");
}

/* Every address is judged, and those that may be are dialled in turn. */
static void resolved(struct sg_lookup *lookup, const struct sg_resolved *got)
{
    struct sg_flow *f = SG_OWNER(lookup, struct sg_flow, lookup);
    struct sg_netverdict v = { .rule = "the name does not exist" }, good = { 0 };
    if (got->rcode == SG_DNS_SERVFAIL)
        (void)snprintf(v.rule, sizeof v.rule, "no name server answers");
    for (unsigned i = 0; i < got->alias_count; i++)
        if (sg_policy_denies_name(sg_gate_box_rules(f->box), got->aliases[i], &v)) {
            refuse(f, v.rule);
            return;
        }
    for (unsigned i = 0; i < got->count && f->addr_count < SG_FLOW_ADDRS; i++) {
        f->real = got->addrs[i];
        judge(f, &f->real, &v);
        if (!v.is_allowed)
            continue;
        f->addrs[f->addr_count++] = f->real;
        good = v;
    }
    if (f->addr_count) {
        /* Who looks it up himself must not find what was refused here. */
        good.is_by_name &= f->addr_count == got->count;
        allow(f, &good);
        return;
    }
    if (got->count) { /* the record shows where it led */
        f->wanted = got->addrs[got->count - 1];
    }
    refuse(f, v.rule);
}

static void judge_name(struct sg_flow *f, const char *name)
{
    struct sg_netverdict v;
    const struct sg_resolved *known;
    if (!name) {
        refuse(f, "an address that no name is bound to any more");
        return;
    }
    f->name = sg_strdup(name);
    judge(f, NULL, &v);
    if (!v.is_allowed)
        refuse(f, v.rule);
    else if (sg_gate_is_private(f->box, f->name))
        sg_flow_meet(f, v.rule);
    else if (sg_resolve(f->box->gate->resolver, f->name, &f->lookup, &known))
        resolved(&f->lookup, known);
}

static void judge_address(struct sg_flow *f)
{
    struct sg_netverdict v;
    judge(f, &f->wanted, &v);
    if (!v.is_allowed) {
        refuse(f, v.rule);
        return;
    }
    f->addrs[f->addr_count++] = f->real = f->wanted;
    allow(f, &v);
}

static bool is_over_limit(struct sg_flow *f, const char **ret)
{
    struct sg_gate_box *b = f->box;
    const struct sg_policy *p = &b->policy;
    const uint64_t most =
        p->max_connections && p->max_connections < SG_BOX_FLOWS ? p->max_connections : SG_BOX_FLOWS;
    if (b->flow_count > most)
        *ret = "limit: connections";
    else if (sg_gate_box_is_spent(b))
        *ret = "limit: bytes";
    else if (p->connections_per_s && !sg_bucket_take(&b->flow_rate, p->connections_per_s,
                                                     p->connections_per_s, 1, f->began_ns))
        *ret = "limit: connections a second";
    else
        return false;
    return true;
}

/* ---- beginning ---- */

static void on_client(struct sg_io *io, uint32_t events)
{
    struct sg_flow *f = SG_OWNER(io, struct sg_flow, client);
    if (!f->is_sniffed && sg_flow_sniff(f) <= 0)
        return;
    if (!f->is_connected) {
        /* It has said enough; the rest of it waits until there is somebody to tell. */
        if (events & (EPOLLHUP | EPOLLERR))
            sg_flow_end(f, "the client is gone");
        else
            (void)sg_io_want(f->box->gate->loop, io, 0, NULL);
        return;
    }
    sg_flow_relay(f);
}

static struct sg_flow *new_flow(struct sg_gate_box *b, int fd)
{
    struct sg_flow *f = sg_new(struct sg_flow);
    f->box = b;
    f->began_ns = sg_loop_now(b->gate->loop);
    f->client = (struct sg_io) { .fd = fd, .ready = on_client };
    f->server.fd = -1;
    f->lookup.done = resolved;
    f->low_mark = 1;
    sg_buf_init(&f->web_out, SG_HTTP_MAX_HEAD + SG_WEB_PIECE);
    sg_way_init(&f->up);
    sg_way_init(&f->down);
    f->next = b->flows;
    f->link = &b->flows;
    if (f->next)
        f->next->link = &f->next;
    b->flows = f;
    b->flow_count++;
    return f;
}

void sg_gate_flow_came(struct sg_acceptor *a, int fd)
{
    struct sg_gate_box *b = SG_OWNER(a, struct sg_gate_box, tcp);
    struct sg_flow *f = new_flow(b, fd);
    struct sockaddr_storage at = { 0 };
    socklen_t n = sizeof at;
    const char *name, *limit;
    if (getsockname(fd, (struct sockaddr *)&at, &n) < 0 ||
        !sg_addr_of_sock(&at, &f->wanted, &f->port)) {
        free_flow(f);
        return;
    }
    const bool is_name = sg_gate_box_name_of(b, &f->wanted, &name);
    if (is_over_limit(f, &limit))
        sg_flow_refuse(f, limit, false);
    else if (f->port == DNS_PORT && !sg_gate_asks_server(b, &f->wanted, false))
        sg_flow_serve_names(f);
    else if (is_name)
        judge_name(f, name);
    else
        judge_address(f);
}

/* ---- all of a sandbox ---- */

void sg_gate_flow_recheck(struct sg_gate_box *b)
{
    for (struct sg_flow *f = b->flows, *next; f; f = next) {
        struct sg_netverdict v;
        next = f->next;
        if (f->is_told)
            continue;
        judge(f, f->addr_count ? &f->real : NULL, &v);
        if (!v.is_allowed || !sg_via_is_allowed(f, &v))
            sg_flow_end(f, v.rule);
    }
}

/* Those among sandboxes never went that way. */
void sg_gate_flow_reroute(struct sg_gate_box *b)
{
    for (struct sg_flow *f = b->flows, *next; f; f = next) {
        next = f->next;
        if (!f->peer[0] && !f->is_told)
            sg_flow_end(f, "the egress proxy has changed");
    }
}

void sg_gate_flow_forget(struct sg_gate_box *b)
{
    for (struct sg_flow *f = b->flows, *next; f; f = next) {
        next = f->next;
        sg_flow_end(f, "the sandbox has ended");
    }
}
