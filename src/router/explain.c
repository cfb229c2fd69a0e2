/* SPDX-License-Identifier: Apache-2.0 */
/* Decisions in words: for the caller, for the record, and as an error. */
#include <stdio.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/json.h"
#include "router/router.h"
#include "base/banned.h"

static const char *const verdict_words[SG_VERDICT_COUNT] = {
    [SG_VERDICT_CHOSEN] = "chosen",
    [SG_VERDICT_NOT_NAMED] = "not among the tiers of the rule",
    [SG_VERDICT_BELOW_FLOOR] = "weaker than the rule's floor",
    [SG_VERDICT_MISSING] = "not available here",
    [SG_VERDICT_UNABLE] = "cannot give the capabilities that are wanted",
    [SG_VERDICT_NOT_WISHED] = "another tier was asked for",
    [SG_VERDICT_LATER] = "one that comes before it is available",
    [SG_VERDICT_NO_SANDBOX] = "gives no sandbox",
};

static const char *why(const struct sg_decision *d, enum sg_wall w)
{
    if (d->verdicts[w] == SG_VERDICT_MISSING)
        return d->host->missing[w];
    return verdict_words[d->verdicts[w]];
}

int sg_decision_error(const struct sg_decision *d, struct sg_err *err)
{
    if (d->is_allowed)
        return 0;
    const enum sg_wall wish = (enum sg_wall)d->wish;
    const enum sg_wall *walls = d->wish >= 0 ? &wish : d->agent ? d->agent->walls : d->rule->walls;
    const unsigned n = d->wish >= 0 ? 1 : d->agent ? d->agent->wall_count : d->rule->wall_count;
    sg_auto_buf text;
    sg_buf_init(&text, 256);
    bool is_lack = false; /* of the host, not of permission */
    for (unsigned i = 0; i < n; i++) {
        const enum sg_verdict v = d->verdicts[walls[i]];
        is_lack |= v == SG_VERDICT_MISSING || v == SG_VERDICT_UNABLE;
        sg_buf_addf(&text, "%s%s: %s", text.n ? "; " : "", sg_wall_names[walls[i]],
                    why(d, walls[i]));
    }
    return sg_fail(err, is_lack ? SG_UNSUPPORTED : SG_DENIED,
                   "rule '%s' (floor %s) has no tier for %s: %s", d->rule->name,
                   sg_wall_names[d->rule->floor], d->operation, sg_buf_cstr(&text));
}

static void put(struct sg_json *j, const char *key, const char *value)
{
    sg_json_key(j, key);
    sg_json_str(j, value);
}

static void put_alternatives(struct sg_json *j, const struct sg_decision *d)
{
    sg_json_key(j, "alternatives");
    sg_json_open(j, '[');
    for (unsigned w = 0; w < SG_WALL_COUNT; w++) {
        sg_json_open(j, '{');
        put(j, "tier", sg_wall_names[w]);
        sg_json_key(j, "chosen");
        sg_json_bool(j, d->is_allowed && d->verdicts[w] == SG_VERDICT_CHOSEN);
        put(j, "why", why(d, w));
        sg_json_close(j, '}');
    }
    sg_json_close(j, ']');
}

static void put_considered(struct sg_json *j, const struct sg_decision *d, const struct sg_ask *a)
{
    size_t operation = 0;
    const char *reason;
    while (d->rules->operations[operation].name != d->operation)
        operation++;
    sg_json_key(j, "passedOver");
    sg_json_open(j, '[');
    for (const struct sg_rule *r = d->rules->rules; r != d->rule; r++) {
        if (!sg_rule_refuses(r, operation, d->trust, a, &reason))
            continue;
        sg_json_open(j, '{');
        put(j, "rule", r->name);
        put(j, "why", reason);
        sg_json_close(j, '}');
    }
    sg_json_close(j, ']');
}

static void put_source(struct sg_json *j, const struct sg_rules *r)
{
    sg_json_key(j, "rules");
    sg_json_open(j, '{');
    put(j, "source", r->source);
    put(j, "revision", r->revision);
    sg_json_close(j, '}');
}

static void put_outcome(struct sg_json *j, const struct sg_decision *d)
{
    struct sg_err err = { 0 };
    if (d->is_allowed) {
        put(j, "tier", sg_wall_names[d->wall]);
    } else {
        (void)sg_decision_error(d, &err);
        sg_json_key(j, "refused");
        sg_json_open(j, '{');
        put(j, "kind", sg_kind_name(err.kind));
        put(j, "message", err.msg);
        sg_json_close(j, '}');
    }
    if (d->is_allowed && d->is_fallback) {
        sg_json_key(j, "fallback");
        sg_json_open(j, '{');
        put(j, "from", sg_wall_names[d->preferred]);
        put(j, "why", why(d, d->preferred));
        sg_json_close(j, '}');
    }
}

void sg_decision_put(struct sg_json *j, const struct sg_decision *d, const struct sg_ask *a,
                     bool explain)
{
    sg_json_open(j, '{');
    put(j, "operation", d->operation);
    put(j, "trust", sg_trust_names[d->trust]);
    put_outcome(j, d);
    put(j, "rule", d->rule->name);
    put(j, "reason", d->rule->reason);
    put(j, "floor", sg_wall_names[d->rule->floor]);
    if (a->agent)
        put(j, "agent", a->agent);
    if (d->agent) {
        sg_json_key(j, "agentOverride");
        sg_json_bool(j, true);
    }
    put(j, "network", sg_need_net_names[d->network]);
    sg_json_key(j, "approval");
    sg_json_bool(j, d->needs_approval);
    put_source(j, d->rules);
    if (explain) {
        put_alternatives(j, d);
        put_considered(j, d, a);
    }
    sg_json_close(j, '}');
}
