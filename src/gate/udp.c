/* SPDX-License-Identifier: Apache-2.0 */
/* Datagrams. Questions for names are answered here (dns.c); all others pass only where a rule
 * allows them, each pair of ends through a socket of its own.
 *
 * Answers must come from the address and port that was asked, which no socket of ours is bound to:
 * they are written whole, head and all, to a raw socket inside the sandbox's namespace. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/auto.h"
#include "gate/gate.h"
#include "gate/resolve.h"
#include "base/banned.h"

enum { DNS_PORT = 53, A_TURN = 32, DATA_MAX = 65507, KEPT_MAX = 2048 };
static const uint64_t IDLE_NS = UINT64_C(60000000000);

struct sg_udp {
    struct sg_gate_box *box;
    struct sg_udp *next, **link; /* link NULL: not kept yet */
    struct sg_io io;             /* outside */
    struct sg_timer idle;
    struct sg_lookup lookup;
    struct sg_addr from, to, real;
    uint16_t from_port, to_port;
    char *name, *rule; /* owned */
    bool is_learned;
    uint64_t began_ns, bytes_out, bytes_in;
    uint8_t *kept; /* owned: the first one, until there is an address */
    size_t kept_n;
};

/* ---- into the sandbox ---- */

static uint32_t sum(uint32_t so_far, const void *p, size_t n)
{
    const uint8_t *b = p;
    for (size_t i = 0; i + 1 < n; i += 2)
        so_far += (uint32_t)(b[i] << 8 | b[i + 1]);
    return n & 1 ? so_far + (uint32_t)(b[n - 1] << 8) : so_far;
}

/* RFC 8200 8.1: never zero. */
static uint16_t checksum(const struct sg_datagram *d, const struct udphdr *u)
{
    const uint16_t n = (uint16_t)(sizeof *u + d->n);
    uint32_t s = sum(0, d->from.b, 16);
    s = sum(s, d->to.b, 16) + n + IPPROTO_UDP;
    s = sum(s, u, sizeof *u);
    s = sum(s, d->p, d->n);
    while (s >> 16)
        s = (s & 0xffff) + (s >> 16);
    return (uint16_t)(~s & 0xffff ? ~s & 0xffff : 0xffff);
}

void sg_gate_udp_send(const struct sg_gate_box *b, const struct sg_datagram *d)
{
    const bool is_v4 = sg_addr_is_v4(&d->to);
    struct iphdr four = { .version = 4, .ihl = 5, .ttl = 64, .protocol = IPPROTO_UDP };
    struct ip6_hdr six = { .ip6_hops = 64, .ip6_nxt = IPPROTO_UDP };
    struct udphdr u = { .source = htons(d->from_port),
                        .dest = htons(d->to_port),
                        .len = htons((uint16_t)(sizeof u + d->n)) };
    struct sockaddr_storage to;
    if (d->n > DATA_MAX || is_v4 != sg_addr_is_v4(&d->from))
        return;
    const socklen_t to_n = sg_addr_to_sock(&d->to, 0, &to);
    memcpy(&four.saddr, d->from.b + 12, 4);
    memcpy(&four.daddr, d->to.b + 12, 4);
    six.ip6_flow = htonl(6u << 28);
    six.ip6_plen = u.len;
    memcpy(&six.ip6_src, d->from.b, 16);
    memcpy(&six.ip6_dst, d->to.b, 16);
    if (!is_v4)
        u.check = htons(checksum(d, &u));
    struct iovec v[] = { { is_v4 ? (void *)&four : (void *)&six, is_v4 ? sizeof four : sizeof six },
                         { &u, sizeof u },
                         { (void *)(uintptr_t)d->p, d->n } };
    const struct msghdr m = {
        .msg_name = &to, .msg_namelen = to_n, .msg_iov = v, .msg_iovlen = SG_COUNT(v)
    };
    (void)sendmsg(b->raw_fds[!is_v4], &m, MSG_DONTWAIT); /* what does not fit is lost, as ever */
}

/* ---- one pair of ends ---- */

/* Only what is open, or waits for its name, is on the list. */
static void keep(struct sg_udp *u)
{
    struct sg_gate_box *b = u->box;
    if (u->link)
        return;
    u->next = b->udps;
    u->link = &b->udps;
    if (u->next)
        u->next->link = &u->next;
    b->udps = u;
    b->udp_count++;
}

static void unkeep(struct sg_udp *u)
{
    if (!u->link)
        return;
    *u->link = u->next;
    if (u->next)
        u->next->link = u->link;
    u->box->udp_count--;
}

static void end_udp(struct sg_udp *u, bool is_allowed, const char *rule)
{
    struct sg_loop *l = u->box->gate->loop;
    const struct sg_decision d = { .is_allowed = is_allowed,
                                   .is_learned = u->is_learned,
                                   .is_udp = true,
                                   .name = u->name,
                                   .addr = u->rule ? &u->real : &u->to,
                                   .port = u->to_port,
                                   .rule = rule,
                                   .began_ns = u->began_ns,
                                   .bytes_out = u->bytes_out,
                                   .bytes_in = u->bytes_in };
    sg_gate_tell(u->box, &d);
    sg_resolve_cancel(&u->lookup);
    sg_timer_stop(l, &u->idle);
    sg_io_drop(l, &u->io);
    unkeep(u);
    free(u->kept);
    free(u->name);
    free(u->rule);
    free(u);
}

static void idle(struct sg_timer *t, uint64_t now_ns)
{
    (void)now_ns;
    struct sg_udp *u = SG_OWNER(t, struct sg_udp, idle);
    end_udp(u, u->rule != NULL, u->rule ? u->rule : "no answer");
}

static void send_out(struct sg_udp *u, const uint8_t *p, size_t n)
{
    struct sg_loop *l = u->box->gate->loop;
    sg_timer_set(l, &u->idle, sg_loop_now(l) + IDLE_NS);
    if (sg_gate_box_is_spent(u->box) || sg_gate_box_allow(u->box, n) < n)
        return;
    if (send(u->io.fd, p, n, MSG_DONTWAIT) < 0)
        return;
    u->bytes_out += n;
    sg_gate_box_count(u->box, n, 0);
}

static void on_reply(struct sg_io *io, uint32_t events)
{
    (void)events;
    static uint8_t in[DATA_MAX + 1];
    struct sg_udp *u = SG_OWNER(io, struct sg_udp, io);
    struct sg_loop *l = u->box->gate->loop;
    for (unsigned i = 0; i < A_TURN; i++) {
        const ssize_t n = recv(io->fd, in, sizeof in, MSG_DONTWAIT);
        if (n < 0)
            return;
        if (sg_gate_box_is_spent(u->box) || sg_gate_box_allow(u->box, (size_t)n) < (size_t)n)
            continue;
        const struct sg_datagram d = { .from = u->to,
                                       .to = u->from,
                                       .from_port = u->to_port,
                                       .to_port = u->from_port,
                                       .p = in,
                                       .n = (size_t)n };
        sg_gate_udp_send(u->box, &d);
        u->bytes_in += (uint64_t)n;
        sg_gate_box_count(u->box, 0, (uint64_t)n);
        sg_timer_set(l, &u->idle, sg_loop_now(l) + IDLE_NS);
    }
}

static void judge(const struct sg_udp *u, const struct sg_addr *a, struct sg_netverdict *v)
{
    const struct sg_target t = { .name = u->name, .addr = a, .port = u->to_port, .is_udp = true };
    struct sg_gate *g = u->box->gate;
    sg_policy_judge(sg_gate_box_rules(u->box), &g->permitted, &t, v);
    if (v->is_allowed && u->box->proxy) { /* gate/proxy.h, E3 */
        v->is_allowed = false;
        (void)snprintf(v->rule, sizeof v->rule, "egress proxy: datagrams do not go through it");
    }
    if (v->is_allowed && a && !sg_nets_has(&g->permitted, a) && sg_gate_is_own(g, a)) {
        v->is_allowed = false;
        (void)snprintf(v->rule, sizeof v->rule, "always refused: this host");
    }
}

/* False: it is refused, and gone. */
static bool open_udp(struct sg_udp *u, const struct sg_addr *a)
{
    struct sg_netverdict v;
    struct sockaddr_storage to;
    judge(u, a, &v);
    if (!v.is_allowed) {
        end_udp(u, false, v.rule);
        return false;
    }
    u->real = *a;
    u->rule = sg_strdup(v.rule);
    u->is_learned = v.is_learned;
    const socklen_t n = sg_addr_to_sock(a, u->to_port, &to);
    u->io =
        (struct sg_io) { .fd = socket(to.ss_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0),
                         .ready = on_reply };
    if (u->io.fd >= 0 && connect(u->io.fd, (struct sockaddr *)&to, n) == 0 &&
        sg_io_want(u->box->gate->loop, &u->io, EPOLLIN, NULL) == 0) {
        keep(u);
        return true;
    }
    end_udp(u, true, "there is no way there");
    return false;
}

static void resolved(struct sg_lookup *l, const struct sg_resolved *got)
{
    struct sg_udp *u = SG_OWNER(l, struct sg_udp, lookup);
    if (!got->count)
        end_udp(u, false, "the name does not exist");
    else if (open_udp(u, &got->addrs[0]))
        send_out(u, u->kept, u->kept_n);
}

static void new_udp(struct sg_gate_box *b, const struct sg_datagram *d)
{
    const struct sg_resolved *known;
    const char *name;
    struct sg_netverdict v;
    if (b->udp_count >= SG_BOX_UDP || d->n > KEPT_MAX)
        return;
    struct sg_udp *u = sg_new(struct sg_udp);
    *u = (struct sg_udp) { .box = b,
                           .io = { .fd = -1 },
                           .idle = { .fire = idle },
                           .lookup = { .done = resolved },
                           .from = d->from,
                           .to = d->to,
                           .real = d->to,
                           .from_port = d->from_port,
                           .to_port = d->to_port,
                           .began_ns = sg_loop_now(b->gate->loop) };
    u->kept = sg_alloc(d->n + 1);
    memcpy(u->kept, d->p, d->n);
    u->kept_n = d->n;
    if (!sg_gate_box_name_of(b, &d->to, &name)) {
        if (open_udp(u, &d->to))
            send_out(u, u->kept, u->kept_n);
        return;
    }
    if (!name) {
        end_udp(u, false, "an address that no name is bound to any more");
        return;
    }
    u->name = sg_strdup(name);
    judge(u, NULL, &v);
    if (!v.is_allowed)
        end_udp(u, false, v.rule);
    else if (sg_resolve(b->gate->resolver, u->name, &u->lookup, &known))
        resolved(&u->lookup, known);
    else {
        keep(u);
        sg_timer_set(b->gate->loop, &u->idle, u->began_ns + IDLE_NS);
    }
}

static void came(struct sg_gate_box *b, const struct sg_datagram *d)
{
    if (d->to_port == DNS_PORT && !sg_gate_asks_server(b, &d->to, true)) {
        sg_gate_dns(b, d);
        return;
    }
    for (struct sg_udp *u = b->udps; u; u = u->next)
        if (u->from_port == d->from_port && u->to_port == d->to_port &&
            sg_addr_is_same(&u->to, &d->to) && sg_addr_is_same(&u->from, &d->from)) {
            if (u->io.fd >= 0)
                send_out(u, d->p, d->n);
            return;
        }
    new_udp(b, d);
}

/* ---- out of the sandbox ---- */

static bool destination(struct msghdr *m, struct sg_datagram *d)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
        const bool is_v4 = c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_ORIGDSTADDR;
        const bool is_v6 = c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_ORIGDSTADDR;
        struct sockaddr_storage at = { 0 };
        if (!is_v4 && !is_v6)
            continue;
        memcpy(&at, CMSG_DATA(c), is_v4 ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6));
        return sg_addr_of_sock(&at, &d->to, &d->to_port);
    }
    return false;
}

void sg_gate_udp_ready(struct sg_io *io, uint32_t events)
{
    (void)events;
    static uint8_t in[DATA_MAX + 1];
    struct sg_gate_box *b = SG_OWNER(io, struct sg_gate_box, udp);
    for (unsigned i = 0; i < A_TURN; i++) {
        union {
            char bytes[256];
            struct cmsghdr align;
        } control;
        struct sockaddr_storage from = { 0 };
        struct iovec v = { in, sizeof in };
        struct msghdr m = { .msg_name = &from,
                            .msg_namelen = sizeof from,
                            .msg_iov = &v,
                            .msg_iovlen = 1,
                            .msg_control = &control,
                            .msg_controllen = sizeof control };
        const ssize_t n = recvmsg(io->fd, &m, MSG_DONTWAIT);
        struct sg_datagram d = { .p = in, .n = (size_t)n };
        if (n < 0)
            return;
        if (sg_addr_of_sock(&from, &d.from, &d.from_port) && destination(&m, &d))
            came(b, &d);
    }
}

void sg_gate_udp_recheck(struct sg_gate_box *b)
{
    for (struct sg_udp *u = b->udps, *next; u; u = next) {
        struct sg_netverdict v;
        next = u->next;
        judge(u, u->rule ? &u->real : NULL, &v);
        if (!v.is_allowed)
            end_udp(u, u->rule != NULL, v.rule);
    }
}

void sg_gate_udp_forget(struct sg_gate_box *b)
{
    for (struct sg_udp *u = b->udps, *next; u; u = next) {
        next = u->next;
        end_udp(u, u->rule != NULL, "the sandbox has ended");
    }
}
