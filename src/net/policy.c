/* SPDX-License-Identifier: Apache-2.0 */
#include "net/policy.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "net/resolvers.h"
#include "base/banned.h"

enum { DNS_OVER_TLS = 853, NETS_MAX = 64 };

static const struct {
    const char *name;
    enum sg_net_mode mode;
} modes[] = { /* the first of each is its name */
              { "none", SG_MODE_NONE },
              { "filtered", SG_MODE_FILTERED },
              { "open", SG_MODE_OPEN },
              { "isolated", SG_MODE_FILTERED },
              { "bridge", SG_MODE_OPEN }
};

const char *sg_net_mode_name(enum sg_net_mode m)
{
    return modes[m].name;
}

int sg_net_mode_parse(const char *text, enum sg_net_mode *ret, struct sg_err *err)
{
    for (size_t i = 0; i < SG_COUNT(modes); i++)
        if (strcmp(modes[i].name, text) == 0) {
            *ret = modes[i].mode;
            return 0;
        }
    return sg_fail(err, SG_INVALID, "the network's mode is none, filtered or open, not %s",
                   sg_quote(text).s);
}

/* ---- lists ---- */

/* Room for one more, by powers of two. */
static void *grow(void *v, size_t n, size_t size)
{
    if (n & (n - 1) || !size)
        return v;
    void *more = realloc(v, (n ? 2 * n : 1) * size);
    if (!more)
        abort(); /* as sg_alloc() */
    return more;
}

int sg_netrules_add(struct sg_netrules *r, struct sg_str text, struct sg_err *err)
{
    struct sg_netrule one;
    if (r->n == SG_POLICY_RULES)
        return sg_fail(err, SG_EXHAUSTED, "over %d rules", SG_POLICY_RULES);
    if (sg_netrule_parse(text, &one, err) < 0)
        return -1;
    r->v = grow(r->v, r->n, sizeof *r->v);
    r->v[r->n++] = one;
    return 0;
}

static void rules_done(struct sg_netrules *r)
{
    for (size_t i = 0; i < r->n; i++)
        sg_netrule_done(&r->v[i]);
    free(r->v);
}

void sg_policy_done(struct sg_policy *p)
{
    rules_done(&p->allow);
    rules_done(&p->deny);
    sg_netnames_done(&p->networks);
    sg_egress_done(&p->egress);
    *p = (struct sg_policy) { 0 };
}

bool sg_policy_has_way(const struct sg_policy *p)
{
    return p->mode != SG_MODE_NONE || p->networks.n;
}

/* One for a member is not needed; one for a host of the world that is called so would be in vain.
 */
static bool is_of_network(const struct sg_policy *p, const struct sg_netrule *r)
{
    struct sg_str who;
    if (r->kind == SG_NETRULE_NAME)
        return sg_netnames_of(&p->networks, r->name, &who);
    sg_auto_free char *below = sg_printf("x.%s", r->kind == SG_NETRULE_BELOW ? r->name : "");
    return sg_netnames_of(&p->networks, below, &who);
}

int sg_policy_check(const struct sg_policy *p, struct sg_err *err)
{
    if (p->mode == SG_MODE_NONE && (p->allow.n || p->learns))
        return sg_fail(err, SG_INVALID, "mode none allows nothing: use filtered with these rules");
    if (p->mode == SG_MODE_NONE && p->egress.address)
        return sg_fail(err, SG_INVALID,
                       "mode none has nothing for a proxy: use filtered or open with egressProxy");
    if (p->mode == SG_MODE_OPEN && p->learns)
        return sg_fail(err, SG_INVALID, "mode open has nothing to learn: use filtered");
    for (size_t i = 0; i < p->allow.n; i++)
        if (is_of_network(p, &p->allow.v[i]))
            return sg_fail(err, SG_INVALID,
                           "rule %s could never count: names of its private networks are their "
                           "members'",
                           sg_quote(p->allow.v[i].text).s);
    for (size_t i = 0; i < p->allow.n && !p->allow_first; i++)
        for (size_t k = 0; k < p->deny.n; k++)
            if (strcmp(p->allow.v[i].text, p->deny.v[k].text) == 0)
                return sg_fail(err, SG_INVALID, "rule %s is both allowed and denied",
                               sg_quote(p->allow.v[i].text).s);
    return 0;
}

int sg_nets_add(struct sg_nets *n, struct sg_str text, struct sg_err *err)
{
    struct sg_cidr one;
    if (n->n == NETS_MAX)
        return sg_fail(err, SG_EXHAUSTED, "over %d networks", NETS_MAX);
    if (sg_cidr_parse(text, &one, err) < 0)
        return -1;
    n->v = grow(n->v, n->n, sizeof *n->v);
    n->v[n->n++] = one;
    return 0;
}

void sg_nets_done(struct sg_nets *n)
{
    free(n->v);
    *n = (struct sg_nets) { 0 };
}

bool sg_nets_has(const struct sg_nets *n, const struct sg_addr *a)
{
    for (size_t i = 0; i < n->n; i++)
        if (sg_cidr_has(&n->v[i], a))
            return true;
    return false;
}

/* ---- judging ---- */

/* Of a name alone (port 0) `needs_all` asks for a rule that holds for every port. */
static const struct sg_netrule *find(const struct sg_netrules *r, const struct sg_target *t,
                                     bool needs_all)
{
    for (size_t i = 0; i < r->n; i++)
        if (sg_netrule_matches(&r->v[i], t) && !(needs_all && !t->port && r->v[i].port_count))
            return &r->v[i];
    return NULL;
}

__attribute__((format(printf, 3, 4))) static void say(struct sg_netverdict *v, bool is_allowed,
                                                      const char *fmt, ...)
{
    va_list ap;
    v->is_allowed = is_allowed;
    v->is_learned = v->is_by_name = false;
    va_start(ap, fmt);
    (void)vsnprintf(v->rule, sizeof v->rule, fmt, ap);
    va_end(ap);
}

/* UDP, the port of DNS over TLS and the servers of DNS over HTTPS carry whatever one likes past
 * every name: only where a rule says so. */
static bool needs_rule(const struct sg_policy *p, const struct sg_target *t)
{
    return p->mode == SG_MODE_FILTERED || t->is_udp || t->port == DNS_OVER_TLS ||
           sg_net_is_resolver(t);
}

/* A rule for everything does not mean those. */
static bool means_it(const struct sg_netrule *r, const struct sg_target *t)
{
    return !(t->port == DNS_OVER_TLS && !sg_netrule_names_port(r)) &&
           !(r->kind == SG_NETRULE_ANY && sg_net_is_resolver(t));
}

/* `is_bound`: of a policy above, where what it does not deny or filter is left to those below. */
static void judge_one(const struct sg_policy *p, const struct sg_nets *permitted,
                      const struct sg_target *t, bool is_bound, struct sg_netverdict *ret)
{
    if (p->mode == SG_MODE_NONE) {
        say(ret, false, "mode none");
        return;
    }
    const struct sg_netrule *allow = find(&p->allow, t, false), *deny = find(&p->deny, t, true);
    const char *special = t->addr ? sg_addr_special(t->addr) : NULL;
    if (allow && !means_it(allow, t))
        allow = NULL;
    if (special && !(permitted && sg_nets_has(permitted, t->addr)))
        say(ret, false, "always refused: %s", special);
    else if (deny && !(p->allow_first && allow))
        say(ret, false, "deny %s", deny->text);
    else if (allow) {
        say(ret, true, "allow %s", allow->text);
        ret->is_by_name = allow->name != NULL;
    } else if (is_bound ? p->mode == SG_MODE_OPEN : !needs_rule(p, t))
        say(ret, true, "mode open");
    else {
        say(ret, p->learns && !is_bound, p->learns && !is_bound ? "learned" : "no rule allows it");
        ret->is_learned = p->learns && !is_bound;
    }
}

static bool is_within(const struct sg_policy *p, const struct sg_nets *permitted,
                      const struct sg_target *t, struct sg_netverdict *ret)
{
    if (!p)
        return true;
    if (!is_within(p->above, permitted, t, ret))
        return false;
    judge_one(p, permitted, t, true, ret);
    if (ret->is_allowed)
        return true;
    const struct sg_netverdict own = *ret;
    say(ret, false, "%s: %.*s", p->layer ? p->layer : "above", SG_NETRULE_TEXT + 8, own.rule);
    return false;
}

/* P6 */
static void judge_member(const struct sg_policy *p, const char *network, const struct sg_target *t,
                         struct sg_netverdict *ret)
{
    const struct sg_netrule *deny = find(&p->deny, t, true);
    if (deny)
        say(ret, false, "deny %s", deny->text);
    else if (t->is_udp || t->addr)
        say(ret, false, "network %s: only by name, and by TCP", network);
    else
        say(ret, true, "network %s", network);
}

void sg_policy_judge(const struct sg_policy *p, const struct sg_nets *permitted,
                     const struct sg_target *t, struct sg_netverdict *ret)
{
    struct sg_str who;
    if (!p) {
        say(ret, false, "no policy yet");
        return;
    }
    const char *network = t->name ? sg_netnames_of(&p->networks, t->name, &who) : NULL;
    if (!is_within(p->above, permitted, t, ret))
        return;
    if (network)
        judge_member(p, network, t, ret);
    else
        judge_one(p, permitted, t, false, ret);
}

void sg_policy_judge_egress(const struct sg_policy *p, const struct sg_nets *permitted,
                            const struct sg_target *t, struct sg_netverdict *ret)
{
    const struct sg_policy any = { .mode = SG_MODE_OPEN };
    if (is_within(p->above, permitted, t, ret))
        judge_one(&any, permitted, t, true, ret);
}

bool sg_policy_denies_name(const struct sg_policy *p, const char *name, struct sg_netverdict *ret)
{
    const struct sg_target t = { .name = name };
    const struct sg_netrule *deny = NULL;
    for (; p && !deny; p = p->above)
        deny = find(&p->deny, &t, true);
    if (deny)
        say(ret, false, "deny %s", deny->text);
    return deny != NULL;
}

bool sg_policy_is_filtered(const struct sg_policy *p)
{
    for (; p; p = p->above)
        if (p->mode == SG_MODE_FILTERED)
            return true;
    return false;
}

uint64_t sg_policy_limit(const struct sg_policy *p, size_t offset)
{
    uint64_t least = 0;
    for (; p; p = p->above) {
        const uint64_t one = *(const uint64_t *)(const void *)((const char *)p + offset);
        if (one && (!least || one < least))
            least = one;
    }
    return least;
}

bool sg_policy_names_server(const struct sg_policy *p, const struct sg_target *t)
{
    for (size_t i = 0; p && p->mode != SG_MODE_NONE && i < p->allow.n; i++)
        if (p->allow.v[i].kind == SG_NETRULE_CIDR && sg_netrule_names_port(&p->allow.v[i]) &&
            sg_netrule_matches(&p->allow.v[i], t))
            return true;
    return false;
}

bool sg_policy_minds_names(const struct sg_policy *p)
{
    if (!p)
        return true;
    for (; p; p = p->above) {
        if (p->mode == SG_MODE_FILTERED)
            return true;
        for (size_t i = 0; i < p->deny.n; i++)
            if (p->deny.v[i].kind == SG_NETRULE_NAME || p->deny.v[i].kind == SG_NETRULE_BELOW)
                return true;
    }
    return false;
}
