/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/auto.h"
#include "gate/creds.h"
#include "gate/proxy.h"
#include "base/banned.h"

/* 198.18.0.0/15: nobody's in the world, and ours in here. Its first addresses are kept for servers
 * of our own (the one that resolv.conf names is 198.18.0.1). */
#define SYNTHETIC       0xc6120000u
#define SYNTHETIC_MASK  0xfffe0000u
#define SYNTHETIC_FIRST 256u
#define SYNTHETIC_COUNT (31u * SG_BOX_NAMES)

enum { FIRST_NAMES = 16, BURST_MS = 50 };
static const int64_t LEAST_BURST = 64 << 10;

bool sg_bucket_take(struct sg_bucket *b, uint64_t rate, uint64_t burst, uint64_t n, uint64_t now_ns)
{
    const uint64_t elapsed_us = b->at_ns ? (now_ns - b->at_ns) / 1000 : UINT64_MAX;
    const uint64_t most = burst * 1000;
    b->at_ns = now_ns;
    if (elapsed_us >= most * 1000 / (rate ? rate : 1)) /* long enough to be full */
        b->milli = most;
    else
        b->milli += elapsed_us * rate / 1000;
    if (b->milli > most)
        b->milli = most;
    if (b->milli < n * 1000)
        return false;
    b->milli -= n * 1000;
    return true;
}

/* ---- life ---- */

struct sg_gate_box *sg_gate_box_find(struct sg_gate *g, const char *id, bool makes)
{
    struct sg_gate_box *b = sg_map_find(&g->boxes, id);
    if (b || !makes)
        return b;
    b = sg_new(struct sg_gate_box);
    b->gate = g;
    (void)snprintf(b->id, sizeof b->id, "%s", id);
    b->udp.fd = b->tcp.io.fd = b->link_fd = b->raw_fds[0] = b->raw_fds[1] = -1;
    sg_map_init(&b->by_name);
    sg_map_put(&g->boxes, b->id, b);
    return b;
}

static bool is_kind(int fd, int type, bool listens)
{
    int got_type = 0, got_listens = 0;
    socklen_t n = sizeof got_type, m = sizeof got_listens;
    return getsockopt(fd, SOL_SOCKET, SO_TYPE, &got_type, &n) == 0 && got_type == type &&
           getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &got_listens, &m) == 0 &&
           (got_listens != 0) == listens;
}

static void drop_sockets(struct sg_gate_box *b)
{
    if (!b->has_sockets)
        return;
    b->has_sockets = false;
    sg_acceptor_close(&b->tcp);
    sg_io_drop(b->gate->loop, &b->udp);
    sg_drop_fd(&b->link_fd);
    sg_drop_fd(&b->raw_fds[0]);
    sg_drop_fd(&b->raw_fds[1]);
}

int sg_gate_box_attach(struct sg_gate_box *b, struct sg_packet *p, struct sg_err *err)
{
    if (p->fd_count != SG_G_FD_COUNT || !is_kind(p->fds[SG_G_TCP], SOCK_STREAM, true) ||
        !is_kind(p->fds[SG_G_UDP], SOCK_DGRAM, false) ||
        !is_kind(p->fds[SG_G_RAW4], SOCK_RAW, false) ||
        !is_kind(p->fds[SG_G_RAW6], SOCK_RAW, false))
        return sg_fail(err, SG_INVALID, "these are not the sockets of a sandbox");
    drop_sockets(b);
    b->has_sockets = true;
    b->link_fd = sg_packet_take_fd(p, SG_G_LINK);
    b->raw_fds[0] = sg_packet_take_fd(p, SG_G_RAW4);
    b->raw_fds[1] = sg_packet_take_fd(p, SG_G_RAW6);
    b->udp = (struct sg_io) { .fd = sg_packet_take_fd(p, SG_G_UDP), .ready = sg_gate_udp_ready };
    if (sg_acceptor_open(&b->tcp, b->gate->loop, sg_packet_take_fd(p, SG_G_TCP), sg_gate_flow_came,
                         err) < 0)
        return -1;
    sg_gate_meet_changed(b);
    return sg_io_want(b->gate->loop, &b->udp, EPOLLIN, err);
}

static void drop_policies(struct sg_policy v[SG_LAYER_COUNT]);

static void forget_names(struct sg_gate_box *b)
{
    for (uint32_t i = 0; i < b->bound_cap; i++)
        if (b->bound[i]) {
            free(b->bound[i]->name);
            free(b->bound[i]);
        }
    free(b->bound);
    sg_map_done(&b->by_name);
}

void sg_gate_box_free(struct sg_gate_box *b)
{
    drop_sockets(b);
    sg_gate_dns_forget(b);
    sg_gate_flow_forget(b);
    sg_gate_udp_forget(b);
    sg_gate_meet_leave(b);
    forget_names(b);
    sg_policy_done(&b->policy);
    drop_policies(b->layers);
    drop_policies(b->coming);
    sg_creds_free(b->creds);
    sg_creds_free(b->coming_creds);
    sg_proxy_free(b->proxy);
    (void)sg_map_remove(&b->gate->boxes, b->id);
    free(b);
}

/* ---- policy ---- */

static int add_all(struct sg_netrules *r, struct sg_texts list, struct sg_err *err)
{
    for (struct sg_text one; sg_text_next(&list, &one);)
        if (sg_netrules_add(r, (struct sg_str) { one.p, one.n }, err) < 0)
            return -1;
    return 0;
}

static int add_networks(struct sg_netnames *n, const struct sg_msg_g_policy *m, struct sg_err *err)
{
    struct sg_texts list = m->networks;
    for (struct sg_text one; sg_text_next(&list, &one);)
        if (sg_netnames_add(n, (struct sg_str) { one.p, one.n }, err) < 0)
            return -1;
    return m->name.n ? sg_netnames_call(n, (struct sg_str) { m->name.p, m->name.n }, err) : 0;
}

static int read_policy(const struct sg_msg_g_policy *m, struct sg_policy *ret, struct sg_err *err)
{
    static const char *const words[] = { NULL, "template", "organisation" };
    struct sg_policy p = { .mode = (enum sg_net_mode)m->mode,
                           .learns = m->flags & SG_G_LEARNS,
                           .allow_first = m->flags & SG_G_ALLOW_FIRST,
                           .mbps = m->mbps,
                           .max_bytes = m->max_bytes,
                           .max_connections = m->max_connections,
                           .connections_per_s = m->connections_per_s,
                           .layer = words[m->layer] };
    if (m->mbps > SG_POLICY_MBPS_MAX || add_all(&p.allow, m->allow, err) < 0 ||
        add_all(&p.deny, m->deny, err) < 0 || add_networks(&p.networks, m, err) < 0) {
        sg_policy_done(&p);
        return m->mbps > SG_POLICY_MBPS_MAX ? sg_fail(err, SG_INVALID, "mbps is too large") : -1;
    }
    const char *const egress[] = { m->proxy.p, m->proxy_user.p, m->proxy_box.p };
    char **const to[] = { &p.egress.address, &p.egress.user, &p.egress.sealed };
    for (size_t i = 0; i < SG_COUNT(to); i++)
        *to[i] = *egress[i] ? sg_strdup(egress[i]) : NULL;
    *ret = p;
    return 0;
}

static void drop_policies(struct sg_policy v[SG_LAYER_COUNT])
{
    for (unsigned i = 0; i < SG_LAYER_COUNT; i++)
        sg_policy_done(&v[i]);
}

/* Those above come first. */
static void keep_layer(struct sg_gate_box *b, uint32_t layer, const struct sg_policy *p)
{
    sg_policy_done(&b->coming[layer]);
    b->coming[layer] = *p;
    b->coming_mask |= 1u << layer;
}

/* Each with the least of what it and those above it grant. */
static void take_limits(struct sg_policy *p)
{
    static const size_t limits[] = { offsetof(struct sg_policy, mbps),
                                     offsetof(struct sg_policy, max_bytes),
                                     offsetof(struct sg_policy, max_connections),
                                     offsetof(struct sg_policy, connections_per_s) };
    for (size_t i = 0; i < SG_COUNT(limits); i++)
        *(uint64_t *)(void *)((char *)p + limits[i]) = sg_policy_limit(p, limits[i]);
}

static void take_layers(struct sg_gate_box *b, struct sg_policy *p)
{
    const struct sg_policy *above = NULL;
    drop_policies(b->layers);
    memcpy(b->layers, b->coming, sizeof b->layers);
    memset(b->coming, 0, sizeof b->coming);
    for (unsigned i = SG_LAYER_COUNT; i-- > SG_LAYER_OWN + 1;)
        if (b->coming_mask >> i & 1) {
            b->layers[i].above = above;
            above = &b->layers[i];
        }
    b->coming_mask = 0;
    p->above = above;
    take_limits(p);
}

/* What goes another way than it should ends before that way is forgotten. */
static int take_proxy(struct sg_gate_box *b, const struct sg_policy *p, const char *org,
                      struct sg_err *err)
{
    const bool is_same = sg_egress_is_same(&b->policy.egress, &p->egress);
    struct sg_proxy *fresh;
    if (is_same && !p->egress.address)
        return 0;
    const int got = sg_proxy_open(b, &p->egress, org, &fresh, err);
    if (is_same && b->proxy && got == 0) { /* those that are under way use it */
        sg_proxy_free(fresh);
        return 0;
    }
    sg_gate_flow_reroute(b);
    sg_proxy_free(b->proxy);
    b->proxy = fresh;
    return got;
}

/* The new one is whole before the old one goes; what it no longer allows ends at once. One that
 * comes without what should lie above it is none, and closes the sandbox. */
int sg_gate_box_policy(struct sg_gate_box *b, const struct sg_msg_g_policy *m, struct sg_err *err)
{
    struct sg_policy p;
    if (read_policy(m, &p, err) < 0)
        return -1;
    if (m->layer != SG_LAYER_OWN) {
        keep_layer(b, m->layer, &p);
        return 0;
    }
    const bool is_whole = m->above == b->coming_mask;
    const int got = take_proxy(b, &p, m->org.p, err);
    take_layers(b, &p);
    sg_policy_done(&b->policy);
    b->policy = p;
    b->has_policy = is_whole;
    (void)snprintf(b->org, sizeof b->org, "%s", m->org.p);
    b->flow_rate = (struct sg_bucket) { 0 };
    b->allowance_at_ns = 0;
    sg_gate_flow_recheck(b);
    sg_gate_udp_recheck(b);
    sg_gate_meet_changed(b);
    return is_whole ? got : sg_fail(err, SG_INVALID, "a policy without those above it");
}

const struct sg_policy *sg_gate_box_rules(const struct sg_gate_box *b)
{
    return b->has_policy ? &b->policy : NULL;
}

/* ---- names ---- */

bool sg_gate_box_name_of(const struct sg_gate_box *b, const struct sg_addr *a,
                         const char **ret_name)
{
    *ret_name = NULL;
    if (!sg_addr_is_v4(a) || (sg_addr_to_v4(a) & SYNTHETIC_MASK) != SYNTHETIC)
        return false;
    const uint32_t index = (sg_addr_to_v4(a) & ~SYNTHETIC_MASK) - SYNTHETIC_FIRST;
    const struct sg_bound *n = b->bound_cap ? b->bound[index % b->bound_cap] : NULL;
    if (n && n->index == index)
        *ret_name = n->name;
    return true;
}

/* Live indices are the last `bound_cap` ones, so that no two of them share a place, neither here
 * nor in a table twice as large; as long as its size divides the count of addresses. */
static void grow_names(struct sg_gate_box *b)
{
    const uint32_t cap = b->bound_cap ? b->bound_cap * 2 : FIRST_NAMES;
    struct sg_bound **grown = sg_alloc(cap * sizeof(struct sg_bound *));
    for (uint32_t i = 0; i < b->bound_cap; i++)
        if (b->bound[i])
            grown[b->bound[i]->index % cap] = b->bound[i];
    free(b->bound);
    b->bound = grown;
    b->bound_cap = cap;
}
_Static_assert(SYNTHETIC_FIRST + SYNTHETIC_COUNT < 131072, "within the range");

struct sg_addr sg_gate_box_bind(struct sg_gate_box *b, const char *name)
{
    struct sg_bound *n = sg_map_find(&b->by_name, name);
    if (!n) {
        if (b->by_name.n >= b->bound_cap && b->bound_cap < SG_BOX_NAMES)
            grow_names(b);
        struct sg_bound **place = &b->bound[b->next_index % b->bound_cap];
        if (*place) { /* the oldest: its address is never another's, only nobody's */
            (void)sg_map_remove(&b->by_name, (*place)->name);
            free((*place)->name);
            free(*place);
        }
        n = sg_new(struct sg_bound);
        n->index = b->next_index;
        n->name = sg_strdup(name);
        *place = n;
        sg_map_put(&b->by_name, n->name, n);
        b->next_index = (b->next_index + 1) % SYNTHETIC_COUNT;
    }
    return sg_addr_v4(SYNTHETIC + SYNTHETIC_FIRST + n->index);
}

/* ---- allowances ---- */

size_t sg_gate_box_allow(struct sg_gate_box *b, size_t wanted)
{
    if (!b->policy.mbps)
        return wanted;
    const uint64_t now = sg_loop_now(b->gate->loop), rate = b->policy.mbps * 125000;
    int64_t burst = (int64_t)(rate / 1000 * BURST_MS);
    if (burst < LEAST_BURST)
        burst = LEAST_BURST;
    if (!b->allowance_at_ns)
        b->allowance = burst;
    else
        b->allowance += (int64_t)((now - b->allowance_at_ns) / 1000 * rate / 1000000);
    if (b->allowance > burst)
        b->allowance = burst;
    b->allowance_at_ns = now;
    if (b->allowance <= 0)
        return 0;
    return wanted < (size_t)b->allowance ? wanted : (size_t)b->allowance;
}

void sg_gate_box_count(struct sg_gate_box *b, uint64_t out, uint64_t in)
{
    b->usage.bytes_out += out;
    b->usage.bytes_in += in;
    b->total_bytes += out + in;
    if (b->policy.mbps)
        b->allowance -= (int64_t)(out + in);
}

bool sg_gate_box_is_spent(const struct sg_gate_box *b)
{
    return b->policy.max_bytes && b->total_bytes >= b->policy.max_bytes;
}
