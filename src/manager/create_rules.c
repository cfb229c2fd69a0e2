/* SPDX-License-Identifier: Apache-2.0 */
/* What a create may ask for, and what it gets: names, pairs and times are checked, a template's
 * name is followed, defaults are filled in, the tier is chosen, quota and budget are asked. Nothing
 * is changed here but the counters of the quota's own rate. */
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/str.h"
#include "image/unnamed.h"
#include "manager/budget.h"
#include "manager/built.h"
#include "manager/capture.h"
#include "manager/create_internal.h"
#include "manager/net.h"
#include "manager/snapshot.h"
#include "manager/volume.h"
#include "tier/tier.h"

#include "base/banned.h"

enum {
    RETRIES_MAX = 10,
    TEMPLATE_NAME_MAX = 64,
    PAIRS_MAX = 256,
    NAME_BYTES_MAX = 256,
    VALUE_BYTES_MAX = 32 << 10,
    ALL_BYTES_MAX = 128 << 10,
};
#define TIME_MAX_MS 315360000000u /* ten years: sums of times do not overflow */

int sg_pairs_check(const char *what, const struct sg_pair *v, size_t n, bool is_env,
                   struct sg_err *err)
{
    size_t all = 0;

    if (n > PAIRS_MAX)
        return sg_fail(err, SG_INVALID, "%s has more than %d members", what, PAIRS_MAX);
    for (size_t i = 0; i < n; i++) {
        size_t name = strlen(v[i].name), value = strlen(v[i].value);
        if (name == 0 || name > NAME_BYTES_MAX || (is_env && strchr(v[i].name, '=')))
            return sg_fail(err, SG_INVALID, "%s: %s is no name", what, sg_quote(v[i].name).s);
        if (value > VALUE_BYTES_MAX)
            return sg_fail(err, SG_INVALID, "%s: the value of %s is over %d bytes", what,
                           sg_quote(v[i].name).s, VALUE_BYTES_MAX);
        all += name + value;
    }
    if (all > ALL_BYTES_MAX)
        return sg_fail(err, SG_INVALID, "%s is over %d bytes", what, ALL_BYTES_MAX);
    return 0;
}

int sg_timeout_check(const struct sg_manager *m, uint64_t *inout_ms, struct sg_err *err)
{
    if (*inout_ms == UINT64_MAX)
        *inout_ms = m->o.default_timeout_ms;
    if (m->o.max_timeout_ms && (*inout_ms == 0 || *inout_ms > m->o.max_timeout_ms))
        return sg_fail(err, SG_INVALID, "timeoutMs must be 1 to %llu on this server",
                       (unsigned long long)m->o.max_timeout_ms);
    if (*inout_ms > TIME_MAX_MS)
        return sg_fail(err, SG_INVALID, "timeoutMs must be at most ten years");
    return 0;
}

/* As of src/image/template.h, which is the launcher's: a path would be another matter to it. */
int sg_template_name_check(const char *name, struct sg_err *err)
{
    static const char some[] = "abcdefghijklmnopqrstuvwxyz0123456789._-";
    size_t n = strlen(name);

    if (n == 0 || n > TEMPLATE_NAME_MAX || strspn(name, some) != n || strchr("._-", name[0]))
        return sg_fail(err, SG_INVALID, "%s is not a template name", sg_quote(name).s);
    return 0;
}

/* One of an Engine's, in place of a template: the launcher's settings say which may be. */
static bool is_image(const char *name)
{
    return strpbrk(name, ":/@");
}

static int check_image_name(const char *name, struct sg_err *err)
{
    static const char some[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:/@-";
    const size_t n = strlen(name);

    if (n > TEMPLATE_NAME_MAX || strspn(name, some) != n || strchr("._:/@-", name[0]))
        return sg_fail(err, SG_INVALID, "%s is neither a template name nor that of an image",
                       sg_quote(name).s);
    return 0;
}

/* `is_found`: the name is what something of the caller's stands on, and not his own word. */
static int check_permitted(const struct sg_who *who, const char *name, bool may_be_image,
                           bool is_found, struct sg_err *err)
{
    char **permitted = who->key ? who->key->templates : NULL;

    const bool is_named = may_be_image && is_image(name);

    if (!(is_found && sg_templates_is_image(name)) &&
        (is_named ? check_image_name(name, err) : sg_template_name_check(name, err)) < 0)
        return -1;
    for (size_t i = 0; permitted; i++) {
        if (!permitted[i])
            return sg_fail(err, SG_DENIED, "this key may not use template %s", sg_quote(name).s);
        if (strcmp(permitted[i], name) == 0)
            break;
    }
    return 0;
}

int sg_template_permitted(const struct sg_who *who, const char *name, bool is_found,
                          struct sg_err *err)
{
    return check_permitted(who, name, false, is_found, err);
}

/* A template of the caller's own, then a snapshot, goes before a template of the server's. What a
 * key may use goes by what is below the snapshot. The launcher takes any snapshot's id for a
 * template: one that is not the caller's must not get there. */
static int find_snapshot(struct sg_manager *m, const struct sg_who *who, const struct sg_create *c,
                         struct sg_plan *p, struct sg_err *err)
{
    struct sg_build *build = NULL;
    const struct sg_built *b = NULL;
    const struct sg_snapshot *t = NULL;
    p->snapshot = c->snapshot;
    p->traits = c->traits;
    p->built = c->built;
    if (!c->snapshot && !c->is_internal && !(b = sg_built_find(m, who, p->template, &build, NULL)))
        t = sg_snapshot_find(m, who, p->template, NULL);
    if (b) {
        p->snapshot = build->snapshot[0] ? build->snapshot : NULL;
        p->template = build->base;
        p->traits = &build->traits;
        p->built = b->id.s;
        p->build = build->id;
        if (!p->limits.mem_bytes)
            p->limits.mem_bytes = build->limits.mem_bytes;
        if (!p->limits.cpu_milli)
            p->limits.cpu_milli = build->limits.cpu_milli;
    } else if (t) {
        p->snapshot = t->id.s;
        p->template = t->template;
        p->traits = &t->traits;
    }
    if (!p->snapshot && sg_id_is_valid(p->template, 't'))
        return sg_fail(err, SG_NOT_FOUND, "no snapshot %s", sg_quote(p->template).s);
    return 0;
}

/* Clients of other systems' doors have no member for it, but all of them have metadata. */
static int wish_of(const struct sg_create *c, int *ret, struct sg_err *err)
{
    for (size_t i = 0; i < c->metadata_n; i++) {
        if (strcmp(c->metadata[i].name, SG_TIER_METADATA) != 0)
            continue;
        *ret = sg_router_word(sg_wall_names, SG_WALL_COUNT, "tier", sg_str_of(c->metadata[i].value),
                              err);
        return *ret < 0 ? sg_wrap(err, "metadata " SG_TIER_METADATA) : 0;
    }
    return 0;
}

/* What the settings say of a template; they were checked when they were read. */
static int wish_of_template(const struct sg_manager *m, const char *template)
{
    const size_t n = strlen(template);
    for (size_t i = 0; i < m->o.template_tiers_n; i++) {
        const char *row = m->o.template_tiers[i];
        if (strncmp(row, template, n) == 0 && row[n] == '=')
            return sg_router_word(sg_wall_names, SG_WALL_COUNT, "tier", sg_str_of(row + n + 1),
                                  NULL);
    }
    return -1;
}

/* What the router takes for available may be more than there is (router.tiers). */
static int choose_wall(struct sg_manager *m, const struct sg_who *who, const struct sg_create *c,
                       struct sg_plan *p, struct sg_err *err)
{
    if (c->ask)
        p->ask = *c->ask;
    else
        sg_ask_init(&p->ask, SG_OPERATION_DEFAULT);
    p->ask.needs_sandbox = true;
    if (p->ask.wish < 0 && wish_of(c, &p->ask.wish, err) < 0)
        return -1;
    if (p->ask.wish < 0)
        p->ask.wish = wish_of_template(m, p->template);
    p->ask.network = (enum sg_need_net)(p->network ? p->network->mode : SG_MODE_NONE);
    if (p->network && p->network->networks.n && p->ask.network == SG_NEED_NET_NONE)
        p->ask.network = SG_NEED_NET_FILTERED; /* a tier that has a gate */
    if (sg_manager_route(m, who, &p->ask, &p->decision, err) < 0 ||
        sg_decision_error(&p->decision, err) < 0)
        return -1;
    if (is_image(p->template) && p->decision.wall != SG_WALL_DOCKER)
        return sg_fail(err, SG_INVALID, "%s is an image, which tier docker can run, not %s",
                       sg_quote(p->template).s, sg_wall_names[p->decision.wall]);
    enum sg_l_tier ignored;
    return sg_rules_tier(m, p->decision.wall, &ignored, err);
}

char *sg_plan_decision(const struct sg_plan *p)
{
    sg_auto_buf out;
    struct sg_json j;

    sg_buf_init(&out, 4096);
    sg_json_init(&j, &out);
    sg_decision_put(&j, &p->decision, &p->ask, false);
    return out.has_overflowed ? NULL : sg_strdup(sg_buf_cstr(&out));
}

int sg_plan_make(struct sg_manager *m, const struct sg_who *who, const struct sg_create *c,
                 struct sg_plan *ret, struct sg_err *err)
{
    struct sg_plan p = { .template = c->template ? c->template : m->o.default_template,
                         .limits = c->limits,
                         .timeout_ms = c->timeout_ms };

    if (sg_tenant_demand(who, SG_SCOPE_EXEC, err) < 0 || find_snapshot(m, who, c, &p, err) < 0 ||
        check_permitted(who, p.template, true, p.snapshot || c->is_internal, err) < 0 ||
        sg_quota_fits(m, &p.limits, err) < 0 || sg_timeout_check(m, &p.timeout_ms, err) < 0 ||
        sg_pairs_check("metadata", c->metadata, c->metadata_n, false, err) < 0 ||
        sg_pairs_check("env", c->env, c->env_n, true, err) < 0 ||
        sg_mounts_check(m, who, c->mounts, c->mounts_n, err) < 0 ||
        sg_captures_check(c->captures, c->captures_n, err) < 0)
        return -1;
    if ((c->captures_n || c->checkpoint_every) && !(sg_tier_flags(m->tier) & SG_L_POOL))
        return sg_fail(err, SG_UNSUPPORTED,
                       "there is no storage pool: no files are kept, and there are no checkpoints");
    if (c->checkpoint_every > SG_CHECKPOINT_EVERY_MAX)
        return sg_fail(err, SG_INVALID, "checkpointEvery must be at most %d",
                       SG_CHECKPOINT_EVERY_MAX);
    if (c->drops_memory && !(sg_tier_flags(m->tier) & SG_L_POOL))
        return sg_fail(err, SG_UNSUPPORTED, "there is no storage pool: a pause keeps the memory");
    if (c->on_expiry == SG_EXPIRY_PAUSE && !(sg_tier_flags(m->tier) & SG_L_FREEZER))
        return sg_fail(err, SG_UNSUPPORTED, "this host has no freezer: onExpiry must be kill");
    if (c->idle_ms > TIME_MAX_MS)
        return sg_fail(err, SG_INVALID, "idleTimeoutMs must be at most ten years");
    if (c->door && strlen(c->door) > SG_DOOR_MAX)
        return sg_fail(err, SG_INVALID, "its settings are over %d bytes", SG_DOOR_MAX);
    if (c->retries > RETRIES_MAX)
        return sg_fail(err, SG_INVALID, "retries must be 0 to %d", RETRIES_MAX);
    if (c->network && sg_policy_check(c->network, err) < 0)
        return -1;
    p.network =
        c->network || c->is_internal ? c->network : sg_netlayer_default(m, who->org, p.template);
    if (choose_wall(m, who, c, &p, err) < 0 || sg_budget_admit(m, who->org, err) < 0 ||
        (!c->is_standby && sg_quota_admit(m, who->org, &p.limits, err) < 0))
        return -1;
    *ret = p;
    return 0;
}
