/* SPDX-License-Identifier: Apache-2.0 */
/* From one sandbox into another, where both are on a private network (net/private.h).
 *
 * M1. Who is there is looked up when a name is asked for, again when a connection comes, and
 *     whenever a member's policy changes or it ends: a connection to one who is no longer there
 *     ends with that.
 * M2. A name that two members have is nobody's.
 * M3. An answer counts for the connection and the sandbox that it was asked for, so that one that
 *     was asked for by a gate before this one leads nowhere.
 * M4. The gate opens nothing itself: the daemon, who checks once more, has the other one's init
 *     dial, and passes the socket on. Its open file is not ours alone (flow.h). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "gate/flow.h"
#include "base/banned.h"

enum { HTTP_PORT = 80 };
static const uint64_t MEET_NS = UINT64_C(15) * 1000000000;

bool sg_gate_is_private(const struct sg_gate_box *b, const char *name)
{
    struct sg_str who = { 0 };
    return b->has_policy && sg_netnames_of(&b->policy.networks, name, &who);
}

/* ---- who is there ---- */

static void leave(struct sg_gate_box *b)
{
    struct sg_map *all = &b->gate->members;
    for (unsigned i = 0; i < b->membership_count; i++) {
        struct sg_membership *m = &b->memberships[i], *first = sg_map_remove(all, m->key), **at;
        for (at = &first; *at != m; at = &(*at)->next) {
        }
        *at = m->next;
        if (first)
            sg_map_put(all, first->key, first);
        free(m->key);
    }
    b->membership_count = 0;
}

/* One without sockets is not there yet, or no longer. */
static void join(struct sg_gate_box *b)
{
    struct sg_map *all = &b->gate->members;
    const struct sg_netnames *n = &b->policy.networks;
    for (size_t i = 0; b->has_policy && b->has_sockets && i < n->n; i++) {
        struct sg_membership *m = &b->memberships[b->membership_count++];
        *m = (struct sg_membership) { .box = b };
        m->key = sg_netnames_key(b->org, n->own ? n->own : b->id, n->v[i]);
        m->next = sg_map_remove(all, m->key);
        sg_map_put(all, m->key, m);
    }
}

const struct sg_gate_box *sg_gate_member(const struct sg_gate_box *b, const char *name,
                                         struct sg_netverdict *ret)
{
    struct sg_str who = { 0 };
    const char *network = b->has_policy ? sg_netnames_of(&b->policy.networks, name, &who) : NULL;
    sg_auto_free char *key = sg_printf("%s/%s", b->org, name);
    const struct sg_membership *m = network ? sg_map_find(&b->gate->members, key) : NULL;
    if (m && !m->next)
        return m->box;
    ret->is_allowed = ret->is_learned = false;
    (void)snprintf(ret->rule, sizeof ret->rule, "network %s: %s", network ? network : "left",
                   !network ? "it is no longer on it"
                   : m      ? "several are called that"
                            : "nobody is called that");
    return NULL;
}

static void part(struct sg_gate_box *b)
{
    for (struct sg_flow *f = b->flows, *next; f; f = next) {
        struct sg_netverdict v = { .rule = "another is called that" };
        next = f->next;
        if (!f->peer[0] || f->is_told)
            continue;
        const struct sg_gate_box *to = sg_gate_member(b, f->name, &v);
        if (!to || strcmp(to->id, f->peer) != 0)
            sg_flow_end(f, v.rule);
    }
}

static void recheck(const struct sg_gate_box *changed)
{
    size_t cursor = 0;
    for (struct sg_gate_box *b; (b = sg_map_next(&changed->gate->boxes, &cursor));)
        if (strcmp(b->org, changed->org) == 0)
            part(b);
}

void sg_gate_meet_leave(struct sg_gate_box *b)
{
    const bool was_member = b->membership_count > 0;
    leave(b);
    if (was_member)
        recheck(b);
}

void sg_gate_meet_changed(struct sg_gate_box *b)
{
    const bool was_member = b->membership_count > 0;
    leave(b);
    join(b);
    if (was_member || b->membership_count)
        recheck(b);
}

/* ---- connections ---- */

static void late(struct sg_timer *t, uint64_t now_ns)
{
    (void)now_ns;
    sg_flow_end(SG_OWNER(t, struct sg_flow, timer), "connect: timed out");
}

void sg_flow_meet(struct sg_flow *f, const char *rule)
{
    static uint32_t tickets;
    struct sg_loop *l = f->box->gate->loop;
    struct sg_netverdict v;
    const struct sg_gate_box *to = sg_gate_member(f->box, f->name, &v);
    if (!to) {
        sg_flow_refuse(f, v.rule, f->port == HTTP_PORT);
        return;
    }
    f->rule = sg_strdup(rule);
    f->is_sniffed = true; /* whatever they say to each other */
    memcpy(f->peer, to->id, sizeof f->peer);
    f->ticket = ++tickets;
    f->timer.fire = late;
    sg_timer_set(l, &f->timer, sg_loop_now(l) + MEET_NS);
    if (!sg_gate_ask_meet(f->box, to->id, f->ticket, f->port))
        sg_flow_end(f, "connect: the service is being started");
}

/* One that nobody waits for any more is closed with the packet. */
void sg_gate_met(struct sg_gate *g, struct sg_packet *p)
{
    const struct sg_msg_g_met *m = &p->msg.g_met;
    const struct sg_gate_box *b = sg_gate_box_find(g, m->sandbox.p, false);
    struct sg_flow *f = b ? b->flows : NULL;
    while (f && !(f->ticket == m->ticket && strcmp(f->peer, m->to.p) == 0 && f->peer[0] &&
                  !f->is_connected && !f->is_told))
        f = f->next;
    if (!f)
        return;
    if (p->fd_count) {
        sg_flow_met(f, sg_packet_take_fd(p, 0));
        return;
    }
    sg_auto_free char *why = sg_printf("connect: %s", strerror((int)m->sys));
    sg_flow_end(f, why);
}
