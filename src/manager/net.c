/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/net.h"

#include <string.h>

#include "base/auto.h"
#include "base/log.h"
#include "manager/cred.h"
#include "manager/life.h"
#include "tier/peer.h"
#include "tier/tier.h"

#include "base/banned.h"

enum { LEARNED_ROWS = 10000 };

/* ---- to the gate ---- */

static int pack(const struct sg_netrules *r, struct sg_buf *store, struct sg_texts *ret,
                struct sg_err *err)
{
    char **v = sg_alloc((r->n + 1) * sizeof *v);
    for (size_t i = 0; i < r->n; i++)
        v[i] = r->v[i].text;
    int got = sg_texts_pack(v, store, ret, err);
    free(v);
    return got;
}

static int tell_layer(struct sg_sandbox *s, const struct sg_policy *p, uint32_t layer,
                      uint32_t above, sg_peer_answer *answered, void *arg, struct sg_err *err)
{
    sg_auto_buf allow, deny, networks;
    struct sg_msg m = { .type = SG_MSG_G_POLICY };
    sg_buf_init(&allow, SG_CTL_MAX_BYTES);
    sg_buf_init(&deny, SG_CTL_MAX_BYTES);
    sg_buf_init(&networks, SG_CTL_MAX_BYTES);
    m.g_policy = (struct sg_msg_g_policy) {
        .sandbox = sg_text_of(s->id.s),
        .mode = p->mode,
        .flags = (p->learns ? SG_G_LEARNS : 0u) | (p->allow_first ? SG_G_ALLOW_FIRST : 0u),
        .layer = layer,
        .above = above,
        .mbps = p->mbps,
        .max_bytes = p->max_bytes,
        .max_connections = p->max_connections,
        .connections_per_s = p->connections_per_s,
        .org = sg_text_of(s->org->id.s),
        .name = sg_text_of(p->networks.own ? p->networks.own : ""),
        .proxy = sg_text_of(p->egress.address ? p->egress.address : ""),
        .proxy_user = sg_text_of(p->egress.user ? p->egress.user : ""),
        .proxy_box = sg_text_of(p->egress.sealed ? p->egress.sealed : ""),
    };
    if (pack(&p->allow, &allow, &m.g_policy.allow, err) < 0 ||
        pack(&p->deny, &deny, &m.g_policy.deny, err) < 0 ||
        sg_texts_pack(p->networks.v, &networks, &m.g_policy.networks, err) < 0)
        return -1;
    return sg_peer_ask(s->manager->gate, &m, NULL, 0, answered, arg, err);
}

/* Those above first. `answered` NULL: nobody waits. -1: there is no gate for now. */
static int tell_gate(struct sg_sandbox *s, sg_peer_answer *answered, void *arg, struct sg_err *err)
{
    struct sg_policy stack[SG_LAYER_COUNT];
    uint32_t mask;
    if (!s->manager->gate)
        return sg_fail(err, SG_UNAVAILABLE, "the gate is being started");
    sg_netlayer_stack(s, stack, &mask);
    for (uint32_t i = SG_LAYER_OWN + 1; i < SG_LAYER_COUNT; i++)
        if (mask >> i & 1 && tell_layer(s, &stack[i], i, 0, NULL, NULL, err) < 0)
            return -1;
    return tell_layer(s, &stack[SG_LAYER_OWN], SG_LAYER_OWN, mask, answered, arg, err);
}

void sg_net_tell(struct sg_sandbox *s)
{
    if (!s->life->has_cell || !sg_policy_has_way(&s->network))
        return;
    sg_creds_tell(s);
    (void)tell_gate(s, NULL, NULL, NULL);
}

/* A gate that goes away meanwhile is told again when it is back (X2), and is shut until then. */
static const struct sg_err *unless_away(const struct sg_err *err)
{
    return err && err->kind == SG_UNAVAILABLE ? NULL : err;
}

/* ---- of a new cell: two answers of its step ---- */

static void opened(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    (void)p;
    sg_life_got(arg, unless_away(err));
}

unsigned sg_net_answers(const struct sg_sandbox *s)
{
    return (sg_policy_has_way(&s->network) ? 2 : 0) + sg_creds_answers(s);
}

void sg_net_open(struct sg_sandbox *s)
{
    struct sg_err err = { 0 };
    sg_creds_open(s);
    if (!sg_policy_has_way(&s->network))
        return;
    sg_tier_net(s->manager->tier, s->id.s, true, sg_life_tier_answer, s);
    if (tell_gate(s, opened, s, &err) < 0)
        opened(s, NULL, &err);
}

/* ---- of one that was adopted; the gate is told of all when it is there ---- */

static void reopened(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    struct sg_sandbox *s = arg;
    (void)p;
    if (err && err->kind != SG_UNAVAILABLE && err->kind != SG_NOT_FOUND)
        sg_log(SG_LOG_ERROR, "a sandbox is without its network", SG_KV("sandbox", s->id.s),
               SG_KV("error", err->msg));
    sg_life_drop(s);
}

void sg_net_reopen(struct sg_sandbox *s)
{
    if (!sg_policy_has_way(&s->network))
        return;
    sg_creds_tell(s);
    (void)tell_gate(s, NULL, NULL, NULL);
    sg_life_hold(s);
    sg_tier_net(s->manager->tier, s->id.s, true, reopened, s);
}

/* ---- a change ---- */

struct sg_net_change {
    struct sg_net_change *next, **link;
    struct sg_sandbox *s;
    sg_sandbox_cb *cb;
    void *arg;
    unsigned open;     /* answers that are due */
    bool is_saved;     /* the store's has come */
    struct sg_err err; /* SG_OK: none */
};

static void end_change(struct sg_net_change *c)
{
    const bool has_failed = c->err.kind != SG_OK;
    *c->link = c->next;
    if (c->next)
        c->next->link = c->link;
    c->cb(c->arg, has_failed ? NULL : c->s, has_failed ? &c->err : NULL);
    sg_life_drop(c->s);
    free(c);
}

static void one_less(struct sg_net_change *c, const struct sg_err *err)
{
    if (err && c->err.kind == SG_OK)
        c->err = *err;
    if (--c->open == 0)
        end_change(c);
}

static void sockets_changed(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    (void)p;
    one_less(arg, err);
}

static void policy_changed(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    (void)p;
    one_less(arg, unless_away(err));
}

static void trusted(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    one_less(arg, p ? NULL : err);
}

static void change_saved(void *arg, struct sg_sandbox *s, const struct sg_err *err)
{
    struct sg_net_change *c = arg;
    struct sg_err none = { 0 };
    (void)s;
    c->is_saved = true;
    if (!err && c->s->life->has_cell && !c->s->manager->is_ending) {
        if (c->s->network.mode != SG_MODE_NONE)
            sg_creds_tell(c->s);
        c->open += sg_creds_trust_answers(c->s);
        sg_creds_trust(c->s, trusted, c);
        if (tell_gate(c->s, policy_changed, c, &none) == 0)
            c->open++;
        else
            err = unless_away(&none);
        c->open++;
        sg_tier_net(c->s->manager->tier, c->s->id.s, sg_policy_has_way(&c->s->network),
                    sockets_changed, c);
    }
    one_less(c, err);
}

int sg_manager_set_network(struct sg_sandbox *s, const struct sg_who *who,
                           const struct sg_policy *p, sg_sandbox_cb *cb, void *arg,
                           struct sg_err *err)
{
    struct sg_manager *m = s->manager;
    if (s->life->is_gone)
        return sg_fail(err, SG_NOT_FOUND, "no sandbox '%s'", s->id.s);
    if (sg_tenant_demand(who, SG_SCOPE_EXEC, err) < 0)
        return sg_manager_denied(m, who, "sandbox.network", s, err);
    if (sg_policy_check(p, err) < 0)
        return -1;
    struct sg_net_change *c = sg_new(struct sg_net_change);
    *c = (struct sg_net_change) {
        .next = m->net_changes, .link = &m->net_changes, .s = s, .cb = cb, .arg = arg, .open = 1
    };
    if (c->next)
        c->next->link = &c->next;
    m->net_changes = c;
    sg_life_hold(s);
    sg_policy_done(&s->network);
    sg_net_copy(&s->network, p);
    sg_manager_audit_value(m, who, "sandbox.network", s, "mode", sg_net_mode_name(p->mode));
    sg_life_save(s, change_saved, c);
    return 0;
}

/* ---- what the gate tells ---- */

static void decided(struct sg_manager *m, const struct sg_msg_g_decision *d)
{
    struct sg_sandbox *s = sg_map_find(&m->sandboxes, d->sandbox.p);
    if (!s)
        return;
    const char *verdict = !d->is_allowed            ? "denied"
                          : d->flags & SG_G_LEARNED ? "learned"
                                                    : "allowed";
    const struct sg_connection_row row = {
        .at_ms = (int64_t)d->at_ms,
        .sandbox = s->id.s,
        .verdict = verdict,
        .protocol = d->flags & SG_G_DNS_QUERY  ? "dns"
                    : d->flags & SG_G_UDP_FLOW ? "udp"
                                               : "tcp",
        .name = d->name.p,
        .address = d->address.p,
        .rule = d->rule.p,
        .port = d->port,
        .bytes_out = (int64_t)d->bytes_out,
        .bytes_in = (int64_t)d->bytes_in,
        .duration_ms = (int64_t)d->duration_ms,
        .skipped = d->skipped,
    };
    sg_store_add_connection(m->store, &row);
}

static void used(struct sg_manager *m, const struct sg_msg_g_usage *u)
{
    struct sg_sandbox *s = sg_map_find(&m->sandboxes, u->sandbox.p);
    m->metrics.net_bytes_out += u->bytes_out;
    m->metrics.net_bytes_in += u->bytes_in;
    m->metrics.net_allowed += u->connections;
    m->metrics.net_refused += u->refused;
    if (s && (u->bytes_in || u->bytes_out))
        sg_usage_net(s, u->bytes_in, u->bytes_out);
}

static void news(void *arg, struct sg_packet *p)
{
    if (p->msg.type == SG_MSG_G_DECISION)
        decided(arg, &p->msg.g_decision);
    else if (p->msg.type == SG_MSG_G_USAGE)
        used(arg, &p->msg.g_usage);
    else if (p->msg.type == SG_MSG_G_MEET)
        sg_net_meet(arg, &p->msg.g_meet);
}

static void lost(void *arg, const struct sg_err *err)
{
    struct sg_manager *m = arg;
    (void)err; /* the launcher starts the next one */
    sg_peer_free(sg_take_ptr(&m->gate));
}

void sg_net_gate(void *arg, int fd)
{
    static const struct sg_peer_ops ops = {
        .answer_role = SG_ROLE_GATE_ANSWER,
        .news_role = SG_ROLE_GATE_NEWS,
        .news = news,
        .lost = lost,
        .patience_ns = 10000000000u,
        .is_impatient = true,
    };
    struct sg_manager *m = arg;
    struct sg_err err = { 0 };
    if (m->gate) { /* whose end has not come to us yet: who asked it is answered now */
        (void)sg_fail(&err, SG_UNAVAILABLE, "the gate was started again");
        sg_peer_end(m->gate, &err);
    }
    m->gate = sg_peer_new(m->loop, fd, m->epoch, &ops, m, &err);
    if (!m->gate)
        sg_log(SG_LOG_ERROR, "no connection to the gate", SG_KV("error", err.msg));
    for (struct sg_sandbox *s = m->oldest; s && m->gate; s = s->newer)
        sg_net_tell(s);
}

/* The tier has answered and the gate never will; what the store owes comes with the notes. */
void sg_net_free(struct sg_manager *m, const struct sg_err *err)
{
    sg_peer_free(sg_take_ptr(&m->gate));
    for (struct sg_net_change *c = m->net_changes, *next; c; c = next) {
        next = c->next;
        if (c->is_saved)
            one_less(c, err);
    }
}

/* ---- questions about it ---- */

bool sg_manager_has_gate(const struct sg_manager *m)
{
    return sg_tier_flags(m->tier) & SG_L_HAS_GATE;
}

static int may_look(struct sg_sandbox *s, const struct sg_who *who, struct sg_err *err)
{
    if (sg_tenant_demand(who, SG_SCOPE_READ, err) < 0)
        return sg_manager_denied(s->manager, who, "sandbox.network", s, err);
    return 0;
}

int sg_manager_net_explain(struct sg_sandbox *s, const struct sg_who *who, const char *to,
                           struct sg_netverdict *ret, struct sg_err *err)
{
    struct sg_name name;
    struct sg_addr addr;
    struct sg_target t;
    if (may_look(s, who, err) < 0 || sg_target_parse(sg_str_of(to), &name, &addr, &t, err) < 0)
        return -1;
    struct sg_policy stack[SG_LAYER_COUNT];
    uint32_t mask;
    sg_netlayer_stack(s, stack, &mask);
    sg_policy_judge(&stack[SG_LAYER_OWN], s->manager->o.permitted, &t, ret);
    return 0;
}

int sg_manager_connections(struct sg_sandbox *s, const struct sg_who *who, int64_t after_seq,
                           unsigned limit,
                           bool (*row)(void *arg, const struct sg_connection_row *r), void *arg,
                           struct sg_err *err)
{
    if (may_look(s, who, err) < 0)
        return -1;
    return sg_store_each_connection(s->manager->store, s->id.s, after_seq, limit, row, arg, err);
}

struct learning {
    struct sg_policy *p;
    struct sg_map seen; /* texts of the rules */
};

/* A name with the port that was used; an address where there was no name. */
static bool learn(void *arg, const struct sg_connection_row *r)
{
    struct learning *l = arg;
    const bool is_six = !r->name[0] && strchr(r->address, ':');
    sg_auto_free char *rule =
        sg_printf("%s%s%s%s:%d", strcmp(r->protocol, "udp") == 0 ? "udp:" : "", is_six ? "[" : "",
                  r->name[0] ? r->name : r->address, is_six ? "]" : "", (int)r->port);
    if (strcmp(r->verdict, "denied") == 0 || strcmp(r->protocol, "dns") == 0 ||
        sg_starts_with(r->rule, "network ") || /* no rule is needed among members */
        sg_map_find(&l->seen, rule))
        return true;
    if (sg_netrules_add(&l->p->allow, sg_str_of(rule), NULL) < 0)
        return l->p->allow.n < SG_POLICY_RULES;
    const char *kept = l->p->allow.v[l->p->allow.n - 1].text;
    sg_map_put(&l->seen, kept, (void *)(uintptr_t)kept);
    return true;
}

int sg_manager_net_learned(struct sg_sandbox *s, const struct sg_who *who, struct sg_policy *ret,
                           struct sg_err *err)
{
    struct sg_policy p = { .mode = SG_MODE_FILTERED };
    struct learning l = { .p = &p };
    sg_map_init(&l.seen);
    int got = sg_manager_connections(s, who, 0, LEARNED_ROWS, learn, &l, err);
    sg_map_done(&l.seen);
    if (got < 0)
        sg_policy_done(&p);
    else
        *ret = p;
    return got;
}
