/* SPDX-License-Identifier: Apache-2.0 */
#include "base/auto.h"
#include "base/hint.h"
#include "router/router.h"
#include "base/banned.h"

/* What a wall has inside once a template provides the programs; `none` runs nothing of the
 * caller's, and a wasm module sees no terminal. */
static const unsigned abilities[SG_WALL_COUNT] = {
    [SG_WALL_NONE] = 0,
    [SG_WALL_WASM] = 1u << SG_ABILITY_CODE,
    [SG_WALL_CELL] = (1u << SG_ABILITY_COUNT) - 1,
    [SG_WALL_DOCKER] = (1u << SG_ABILITY_COUNT) - 1,
    [SG_WALL_GVISOR] = (1u << SG_ABILITY_COUNT) - 1,
    [SG_WALL_MICROVM] = (1u << SG_ABILITY_COUNT) - 1,
    [SG_WALL_REMOTE] = (1u << SG_ABILITY_COUNT) - 1,
};

void sg_ask_init(struct sg_ask *a, const char *operation)
{
    *a = (struct sg_ask) { .operation = operation, .trust = -1, .wish = -1 };
}

/* ---- which rule ---- */

static bool is_among(char *const *list, const char *text)
{
    if (!list)
        return true;
    for (; *list && text; list++)
        if (strcmp(*list, text) == 0)
            return true;
    return false;
}

static bool is_in(unsigned mask, unsigned value)
{
    return !mask || (mask >> value & 1);
}

bool sg_rule_refuses(const struct sg_rule *r, size_t operation, enum sg_trust trust,
                     const struct sg_ask *a, const char **ret_why)
{
    const struct {
        bool holds;
        const char *why;
    } conditions[] = {
        { !r->operations || (r->operations >> operation & 1), "it is for another operation" },
        { is_in(r->trusts, trust), "it is for another trust level" },
        { is_in(r->networks, a->network), "it is for another need of network" },
        { is_in(r->files, a->files), "it is for another need of files" },
        { !r->abilities || (r->abilities & a->abilities), "it is for other capabilities" },
        { a->parallel >= r->min_parallel, "it is for more at a time" },
        { a->seconds >= r->min_seconds, "it is for longer work" },
        { !r->max_seconds || a->seconds <= r->max_seconds, "it is for shorter work" },
        { is_among(r->orgs, a->org), "it is for another organisation" },
        { is_among(r->agents, a->agent), "it is for another agent" },
    };
    for (size_t i = 0; i < SG_COUNT(conditions); i++)
        if (!conditions[i].holds) {
            *ret_why = conditions[i].why;
            return true;
        }
    return false;
}

static int find_operation(const struct sg_rules *r, const char *name, size_t *ret,
                          struct sg_err *err)
{
    struct sg_hint hint = { .word = sg_str_of(name) };
    for (size_t i = 0; i < r->operation_count; i++)
        if (strcmp(r->operations[i].name, name) == 0) {
            *ret = i;
            return 0;
        }
    for (size_t i = 0; i < r->operation_count; i++)
        sg_hint_try(&hint, r->operations[i].name);
    return sg_fail(err, SG_INVALID, "no operation %s%s; the rules name them", sg_quote(name).s,
                   sg_hint_text(&hint, "").s);
}

static const struct sg_agent *find_agent(const struct sg_rules *r, const char *name)
{
    for (size_t i = 0; name && i < r->agent_count; i++)
        if (strcmp(r->agents[i].name, name) == 0)
            return &r->agents[i];
    return NULL;
}

/* ---- which wall ---- */

/* What speaks against a wall that the list names; CHOSEN: nothing. */
static enum sg_verdict judge(const struct sg_decision *d, const struct sg_ask *a, enum sg_wall w)
{
    if (sg_wall_strength(w) < sg_wall_strength(d->rule->floor))
        return SG_VERDICT_BELOW_FLOOR;
    if (a->wish >= 0 && a->wish != (int)w)
        return SG_VERDICT_NOT_WISHED;
    if (a->needs_sandbox && w == SG_WALL_NONE)
        return SG_VERDICT_NO_SANDBOX;
    if (a->abilities & ~abilities[w])
        return SG_VERDICT_UNABLE;
    if (d->host->missing[w])
        return SG_VERDICT_MISSING;
    return SG_VERDICT_CHOSEN;
}

static void choose(struct sg_decision *d, const struct sg_ask *a)
{
    const enum sg_wall *walls = d->agent ? d->agent->walls : d->rule->walls;
    const unsigned n = d->agent ? d->agent->wall_count : d->rule->wall_count;
    const bool wants_other = a->wish >= 0 && a->wish < SG_WALL_COUNT;
    bool is_named = false;
    for (unsigned w = 0; w < SG_WALL_COUNT; w++)
        d->verdicts[w] = sg_wall_strength(w) < sg_wall_strength(d->rule->floor)
                             ? SG_VERDICT_BELOW_FLOOR
                             : SG_VERDICT_NOT_NAMED;
    d->preferred = walls[0];
    for (unsigned i = 0; i < n; i++) {
        enum sg_verdict v = judge(d, a, walls[i]);
        is_named |= (int)walls[i] == a->wish;
        if (v == SG_VERDICT_CHOSEN && d->is_allowed)
            v = SG_VERDICT_LATER;
        if (v == SG_VERDICT_CHOSEN) {
            d->is_allowed = true;
            d->wall = walls[i];
            d->is_fallback = i > 0 && a->wish < 0;
        }
        d->verdicts[walls[i]] = v;
    }
    /* A caller may ask for more than the rule does, not for less. */
    if (!wants_other || is_named || d->is_allowed)
        return;
    const enum sg_verdict v = judge(d, a, (enum sg_wall)a->wish);
    const bool is_stronger =
        sg_wall_strength((enum sg_wall)a->wish) > sg_wall_strength(d->rule->floor);
    if (v == SG_VERDICT_CHOSEN && is_stronger) {
        d->is_allowed = true;
        d->wall = (enum sg_wall)a->wish;
        d->verdicts[d->wall] = SG_VERDICT_CHOSEN;
    } else if (v != SG_VERDICT_CHOSEN) {
        d->verdicts[a->wish] = v;
    }
}

int sg_router_decide(const struct sg_rules *r, const struct sg_walls *h, const struct sg_ask *a,
                     struct sg_decision *ret, struct sg_err *err)
{
    struct sg_decision d = { .rules = r, .host = h };
    const char *why;
    size_t operation;
    if (find_operation(r, a->operation, &operation, err) < 0)
        return -1;
    d.operation = r->operations[operation].name;
    d.trust = a->trust >= 0 ? (enum sg_trust)a->trust : r->operations[operation].trust;
    for (size_t i = 0; i < r->rule_count && !d.rule; i++)
        if (!sg_rule_refuses(&r->rules[i], operation, d.trust, a, &why))
            d.rule = &r->rules[i];
    if (!d.rule)
        return sg_fail(err, SG_DENIED, "no rule permits %s", sg_quote(a->operation).s);
    d.agent = find_agent(r, a->agent);
    d.needs_approval = d.rule->needs_approval;
    d.network = d.rule->has_network ? d.rule->network : a->network;
    d.wish = a->wish;
    choose(&d, a);
    *ret = d;
    return 0;
}
