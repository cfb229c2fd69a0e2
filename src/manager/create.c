/* SPDX-License-Identifier: Apache-2.0 */
/* Creating: rules and quota, then row → launcher → hello and row → answer.
 *
 * A create that fails leaves nothing: its cell is ended, its row removed, and only then is its
 * caller told. Where fresh attempts were asked for, each starts with the same id and a row that
 * says why the last one failed. The same steps make a fresh cell for a sandbox that died; such a
 * one is known to somebody, so that it ends as "failed" and does not vanish. */
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/str.h"
#include "manager/budget.h"
#include "manager/built.h"
#include "manager/capture.h"
#include "manager/cred.h"
#include "manager/life.h"
#include "manager/net.h"
#include "manager/snapshot.h"
#include "manager/trace.h"
#include "manager/traits.h"
#include "manager/volume.h"
#include "tier/tier.h"

#include "base/banned.h"

enum {
    RETRIES_MAX = 10,
    DOUBLINGS_MAX = 6,
    TEMPLATE_NAME_MAX = 64,
    PAIRS_MAX = 256,
    NAME_BYTES_MAX = 256,
    VALUE_BYTES_MAX = 32 << 10,
    ALL_BYTES_MAX = 128 << 10,
};
#define TIME_MAX_MS 315360000000u /* ten years: sums of times do not overflow */
#define HELLO_NS    15000000000u  /* until init must have answered */
#define PAUSE_NS    25000000u     /* before a fresh attempt; doubles */

/* ---- rules ---- */

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

static int check_permitted(const struct sg_who *who, const char *name, bool may_be_image,
                           struct sg_err *err)
{
    char **permitted = who->key ? who->key->templates : NULL;

    const bool is_named = may_be_image && is_image(name);

    if ((is_named ? check_image_name(name, err) : sg_template_name_check(name, err)) < 0)
        return -1;
    for (size_t i = 0; permitted; i++) {
        if (!permitted[i])
            return sg_fail(err, SG_DENIED, "this key may not use template %s", sg_quote(name).s);
        if (strcmp(permitted[i], name) == 0)
            break;
    }
    return 0;
}

int sg_template_permitted(const struct sg_who *who, const char *name, struct sg_err *err)
{
    return check_permitted(who, name, false, err);
}

/* What was asked for, with the defaults filled in. */
struct plan {
    const char *template, *snapshot; /* snapshot NULL: none */
    const struct sg_traits *traits;  /* NULL: none */
    const char *built;               /* the same */
    struct sg_sandbox_limits limits;
    uint64_t timeout_ms;
    struct sg_ask ask;
    struct sg_decision decision;
    const struct sg_policy *network; /* NULL: none */
};

/* A template of the caller's own, then a snapshot, goes before a template of the server's. What a
 * key may use goes by what is below the snapshot. The launcher takes any snapshot's id for a
 * template: one that is not the caller's must not get there. */
static int find_snapshot(struct sg_manager *m, const struct sg_who *who, const struct sg_create *c,
                         struct plan *p, struct sg_err *err)
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
                       struct plan *p, struct sg_err *err)
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

static char *decision_text(const struct plan *p)
{
    sg_auto_buf out;
    struct sg_json j;

    sg_buf_init(&out, 4096);
    sg_json_init(&j, &out);
    sg_decision_put(&j, &p->decision, &p->ask, false);
    return out.has_overflowed ? NULL : sg_strdup(sg_buf_cstr(&out));
}

static int make_plan(struct sg_manager *m, const struct sg_who *who, const struct sg_create *c,
                     struct plan *ret, struct sg_err *err)
{
    struct plan p = { .template = c->template ? c->template : m->o.default_template,
                      .limits = c->limits,
                      .timeout_ms = c->timeout_ms };

    if (sg_tenant_demand(who, SG_SCOPE_EXEC, err) < 0 || find_snapshot(m, who, c, &p, err) < 0 ||
        check_permitted(who, p.template, true, err) < 0 || sg_quota_fits(m, &p.limits, err) < 0 ||
        sg_timeout_check(m, &p.timeout_ms, err) < 0 ||
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
        sg_quota_admit(m, who->org, &p.limits, err) < 0)
        return -1;
    *ret = p;
    return 0;
}

int sg_manager_create(struct sg_manager *m, const struct sg_who *who, const struct sg_create *c,
                      sg_sandbox_cb *cb, void *arg, struct sg_err *err)
{
    struct sg_sandbox *s;
    return sg_manager_create_internal(m, who, c, cb, arg, &s, err);
}

int sg_manager_create_internal(struct sg_manager *m, const struct sg_who *who,
                               const struct sg_create *c, sg_sandbox_cb *cb, void *arg,
                               struct sg_sandbox **ret, struct sg_err *err)
{
    struct plan p;

    if (!m->is_ready || m->is_ending)
        return sg_fail(err, SG_UNAVAILABLE, "the service is %s",
                       m->is_ending ? "ending" : "starting");
    if (sg_map_find(&m->orgs, who->org->id.s) != who->org)
        return sg_fail(err, SG_NOT_FOUND, "the organisation was removed");
    if (make_plan(m, who, c, &p, err) < 0)
        return sg_manager_denied(m, who, "sandbox.create", NULL, err);

    struct sg_id id = sg_id_new('s');
    struct sg_sandbox *s = sg_life_new(m, who->org, &id);
    s->state = SBX_CREATING;
    s->template = sg_strdup(p.template);
    s->snapshot = p.snapshot ? sg_strdup(p.snapshot) : NULL;
    s->is_internal = c->is_internal;
    s->built = p.built ? sg_strdup(p.built) : NULL;
    if (p.traits)
        sg_traits_copy(&s->traits, p.traits);
    s->parent = c->parent ? sg_strdup(c->parent) : NULL;
    s->drops_memory = c->drops_memory;
    s->checkpoint_every = c->checkpoint_every;
    sg_captures_copy(s, c->captures, c->captures_n);
    s->limits = p.limits;
    s->timeout_ms = p.timeout_ms;
    s->idle_ms = c->idle_ms;
    s->on_expiry = c->on_expiry;
    s->retries_left = c->retries;
    s->door = c->door ? sg_strdup(c->door) : NULL;
    s->wall = p.decision.wall;
    s->decision = decision_text(&p);
    if (p.network)
        sg_net_copy(&s->network, p.network);
    if (c->creds)
        sg_creds_copy(&s->creds, c->creds);
    if ((unsigned)p.decision.network < (unsigned)s->network.mode) /* what the rules leave of it */
        s->network.mode = (enum sg_net_mode)p.decision.network;
    if (p.decision.network == SG_NEED_NET_NONE)
        sg_netnames_done(&s->network.networks);
    s->created_ms = sg_manager_unix_ms();
    s->life->trace = who->trace;
    sg_pairs_copy(&s->metadata, c->metadata, c->metadata_n);
    sg_pairs_copy(&s->env, c->env, c->env_n);
    sg_mounts_copy(s, who, c->mounts, c->mounts_n);
    sg_quota_charge(s);
    sg_list_add(s);
    sg_manager_audit_value(m, who, "sandbox.create", s, "template", s->template);
    if (s->built)
        sg_built_spawned(m, s->built);
    sg_create_begin(s);
    sg_life_wait(&s->life->waiting, cb, arg);
    *ret = s;
    return 0;
}

/* ---- failure ---- */

static void attempt(struct sg_sandbox *s);
static void nothing_left(struct sg_sandbox *s);

static void again(struct sg_timer *t, uint64_t now_ns)
{
    (void)now_ns;
    struct sg_life *life = SG_OWNER(t, struct sg_life, clock);
    if (life->wants_end) /* somebody has had enough of it */
        nothing_left(life->s);
    else
        attempt(life->s);
}

static void row_gone(struct sg_sandbox *s)
{
    struct sg_err err = s->life->why, ignored;

    (void)sg_life_failed(s,
                         &ignored); /* a row "creating" that stays is removed at the next start */
    sg_life_event(s, "sandbox.failed", "cause", err.msg);
    sg_trace_create(s, &err);
    sg_destroy_forget(s);
    s->manager->metrics.errors[err.kind]++;
    sg_life_answer(&s->life->waiting, NULL, &err);
    sg_life_answer(&s->life->destroying, NULL, NULL);
}

static void row_removed(void *arg, const struct sg_err *err)
{
    sg_life_got(arg, err);
}

/* The cell could not be ended: the row stays, and the reconciler tries again. */
static void leave_to_reconciler(struct sg_sandbox *s)
{
    struct sg_err err = s->life->why;

    s->life->is_ending = true;
    sg_life_must(s, EV_DESTROY);
    sg_row_put(s, SBX_STOPPING, SG_STORE_NORMAL, NULL, NULL);
    sg_life_end(s, &err);
}

static void nothing_left(struct sg_sandbox *s)
{
    struct sg_life *life = s->life;
    struct sg_loop *l = s->manager->loop;
    struct sg_err stuck;
    bool is_stuck = sg_life_failed(s, &stuck);

    if (!is_stuck && sg_death_retry(s, &life->why)) {
        unsigned doublings = s->retries_used < DOUBLINGS_MAX ? s->retries_used : DOUBLINGS_MAX;
        life->clock.fire = again;
        sg_timer_set(l, &life->clock, sg_loop_now(l) + ((uint64_t)PAUSE_NS << doublings));
    } else if (life->is_known) {
        sg_life_cause(s, life->why.msg);
        sg_life_must(s, EV_FAIL);
        sg_death_failed(s);
    } else if (is_stuck) {
        leave_to_reconciler(s);
    } else {
        sg_life_expect(s, 1, row_gone);
        sg_store_remove_sandbox(s->manager->store, s->id.s, sg_note_done,
                                sg_note_new(s->manager, row_removed, s));
    }
}

static void attempt_failed(struct sg_sandbox *s, const struct sg_err *err)
{
    s->life->why = *err;
    sg_timer_stop(s->manager->loop, &s->life->clock);
    sg_cell_end(s, nothing_left);
}

/* ---- steps ---- */

static void hello_late(struct sg_timer *t, uint64_t now_ns)
{
    (void)now_ns;
    struct sg_life *life = SG_OWNER(t, struct sg_life, clock);

    if (life->err.kind == SG_OK)
        (void)sg_fail(&life->err, SG_TIMEOUT, "the new sandbox did not answer");
    sg_cell_cut(life->s);
}

static void running(struct sg_sandbox *s)
{
    struct sg_manager *m = s->manager;
    struct sg_life *life = s->life;
    bool is_first = !life->is_known;

    life->is_known = true;
    m->metrics.creates++;
    m->metrics.creates_parked += s->was_parked;
    sg_histogram_add(&m->metrics.create, sg_loop_now(m->loop) - life->began_ns);
    sg_life_event(s, is_first ? "sandbox.created" : "sandbox.recreated", "template", s->template);
    sg_usage_created(s);
    if (is_first)
        sg_trace_create(s, NULL);
    sg_life_end(s, NULL);
}

/* Of a template whose start command is to run: see traits.h. */
static void started(struct sg_sandbox *s, const struct sg_err *err)
{
    if (!err) {
        running(s);
        return;
    }
    struct sg_err why = *err;
    sg_life_must(s, EV_FAIL);
    sg_life_must(s, EV_RETRY);
    attempt_failed(s, &why);
}

static void answered(struct sg_sandbox *s)
{
    struct sg_err err;

    sg_timer_stop(s->manager->loop, &s->life->clock);
    if (sg_life_failed(s, &err)) {
        attempt_failed(s, &err);
    } else if (s->life->has_died) {
        (void)sg_fail(&err, SG_UNAVAILABLE, "the new sandbox ended: %s", s->life->death_cause);
        attempt_failed(s, &err);
    } else {
        sg_life_must(s, EV_READY);
        if (s->traits.start)
            sg_start_begin(s, started);
        else
            running(s);
    }
}

/* The row says "running" when all volumes are there: no crash leaves one without them. One of ours
 * is never told of. */
static void all_mounted(struct sg_sandbox *s)
{
    struct sg_err err;

    if (sg_life_failed(s, &err)) {
        attempt_failed(s, &err);
        return;
    }
    sg_life_expect(s, 1, answered);
    sg_life_put_row(s, s->is_internal ? SBX_CREATING : SBX_RUNNING, SG_STORE_NORMAL);
}

static void greeted(struct sg_sandbox *s)
{
    struct sg_err err;

    if (sg_life_failed(s, &err))
        attempt_failed(s, &err);
    else
        sg_mounts_begin(s, all_mounted);
}

/* Hello and the row do not wait for each other: either may fail, and then both are undone. */
static void cell_made(struct sg_sandbox *s)
{
    struct sg_loop *l = s->manager->loop;
    struct sg_err err;

    if (sg_life_failed(s, &err)) {
        attempt_failed(s, &err);
        return;
    }
    s->started_ms = sg_manager_unix_ms();
    if (s->expires_ms == 0)
        sg_expiry_renew(s);
    s->life->mount_at = 0;
    s->life->clock.fire = hello_late;
    sg_timer_set(l, &s->life->clock, sg_loop_now(l) + HELLO_NS);
    if (s->mounts.n) {
        sg_life_expect(s, 1 + sg_net_answers(s), greeted);
    } else {
        sg_life_expect(s, 2 + sg_net_answers(s), answered);
        sg_life_put_row(s, SBX_RUNNING, SG_STORE_NORMAL);
    }
    if (sg_cell_hello(s, sg_life_tier_answer, &err) < 0)
        sg_life_got(s, &err);
    sg_net_open(s);
}

static void launcher_answered(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    struct sg_sandbox *s = arg;
    struct sg_err own = { 0 };

    if (p && sg_cell_connect(s, p, &own) < 0)
        err = &own;
    sg_life_got(s, err);
}

static void row_written(struct sg_sandbox *s)
{
    struct sg_tier_limits limits = sg_cell_limits(&s->limits);
    struct sg_err err;

    if (sg_life_failed(s, &err)) {
        (void)sg_wrap(&err, "record the new sandbox");
        attempt_failed(s, &err);
        return;
    }
    enum sg_l_tier tier;
    if (sg_rules_tier(s->manager, s->wall, &tier, &err) < 0) {
        attempt_failed(s, &err);
        return;
    }
    sg_life_expect(s, 1, cell_made);
    sg_tier_create(s->manager->tier, tier, s->id.s, s->snapshot ? s->snapshot : s->template,
                   &limits, launcher_answered, s);
}

static void attempt(struct sg_sandbox *s)
{
    sg_life_expect(s, 1, row_written);
    sg_life_put_row(s, SBX_CREATING, SG_STORE_NORMAL);
}

void sg_create_attempt(struct sg_sandbox *s)
{
    attempt(s);
}

void sg_create_begin(struct sg_sandbox *s)
{
    sg_life_begin(s, OP_CREATE);
    attempt(s);
}

void sg_create_again(struct sg_sandbox *s)
{
    sg_life_begin(s, OP_CREATE);
    sg_cell_end(s, attempt);
}
