/* SPDX-License-Identifier: Apache-2.0 */
/* Creating: rules and quota (create_rules.c), then row → launcher → hello and row → answer.
 *
 * A create that fails leaves nothing: its cell is ended, its row removed, and only then is its
 * caller told. Where fresh attempts were asked for, each starts with the same id and a row that
 * says why the last one failed. The same steps make a fresh cell for a sandbox that died; such a
 * one is known to somebody, so that it ends as "failed" and does not vanish. */
#include "base/auto.h"
#include "manager/built.h"
#include "manager/capture.h"
#include "manager/create_internal.h"
#include "manager/cred.h"
#include "manager/net.h"
#include "manager/standby.h"
#include "manager/trace.h"
#include "manager/traits.h"
#include "manager/volume.h"
#include "tier/tier.h"

#include "base/banned.h"

enum { DOUBLINGS_MAX = 6 };
#define HELLO_NS 15000000000u /* until init must have answered */
#define PAUSE_NS 25000000u    /* before a fresh attempt; doubles */

/* ---- beginning ---- */

static struct sg_sandbox *new_sandbox(struct sg_manager *m, struct sg_org *org,
                                      const struct sg_create *c, const struct sg_plan *p)
{
    struct sg_id id = sg_id_new('s');
    struct sg_sandbox *s = sg_life_new(m, org, &id);
    s->state = SBX_CREATING;
    s->template = sg_strdup(p->template);
    s->snapshot = p->snapshot ? sg_strdup(p->snapshot) : NULL;
    s->is_internal = c->is_internal;
    s->is_brief = c->is_brief;
    s->is_standby = c->is_standby;
    s->built = p->built ? sg_strdup(p->built) : NULL;
    if (p->traits)
        sg_traits_copy(&s->traits, p->traits);
    s->wall = p->decision.wall;
    s->limits = p->limits;
    return s;
}

/* What only this caller has said; one that has waited knew nothing of it. */
static void take_wishes(struct sg_sandbox *s, const struct sg_who *who, const struct sg_create *c,
                        const struct sg_plan *p)
{
    s->parent = c->parent ? sg_strdup(c->parent) : NULL;
    s->drops_memory = c->drops_memory;
    s->checkpoint_every = c->checkpoint_every;
    sg_captures_copy(s, c->captures, c->captures_n);
    s->timeout_ms = p->timeout_ms;
    s->idle_ms = c->idle_ms;
    s->on_expiry = c->on_expiry;
    s->retries_left = c->retries;
    s->door = c->door ? sg_strdup(c->door) : NULL;
    free(s->decision);
    s->decision = sg_plan_decision(p);
    if (p->network)
        sg_net_copy(&s->network, p->network);
    if (c->creds)
        sg_creds_copy(&s->creds, c->creds);
    if ((unsigned)p->decision.network < (unsigned)s->network.mode) /* what the rules leave of it */
        s->network.mode = (enum sg_net_mode)p->decision.network;
    if (p->decision.network == SG_NEED_NET_NONE)
        sg_netnames_done(&s->network.networks);
    s->created_ms = sg_manager_unix_ms();
    s->life->trace = who->trace;
    sg_pairs_copy(&s->metadata, c->metadata, c->metadata_n);
    sg_pairs_copy(&s->env, c->env, c->env_n);
    sg_mounts_copy(s, who, c->mounts, c->mounts_n);
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
    struct sg_plan p;

    if (!m->is_ready || m->is_ending)
        return sg_fail(err, SG_UNAVAILABLE, "the service is %s",
                       m->is_ending ? "ending" : "starting");
    if (sg_map_find(&m->orgs, who->org->id.s) != who->org)
        return sg_fail(err, SG_NOT_FOUND, "the organisation was removed");
    if (sg_plan_make(m, who, c, &p, err) < 0)
        return c->is_standby ? -1 : sg_manager_denied(m, who, "sandbox.create", NULL, err);

    /* The start command must find its volumes. */
    struct sg_sandbox *waited =
        p.build && !c->mounts_n ? sg_standby_take(m, who->org, p.build, p.decision.wall) : NULL;
    struct sg_sandbox *s = waited ? waited : new_sandbox(m, who->org, c, &p);
    take_wishes(s, who, c, &p);
    if (waited)
        sg_list_renew(s);
    else
        sg_list_add(s);
    sg_manager_audit_value(m, who, "sandbox.create", s, "template", s->template);
    if (s->built && !s->is_standby)
        sg_built_spawned(m, s->built);
    if (waited)
        sg_standby_claim(s, &p.limits);
    else
        sg_create_begin(s);
    if (!s->is_standby)
        sg_quota_charge(s);
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

void sg_create_running(struct sg_sandbox *s)
{
    struct sg_manager *m = s->manager;
    struct sg_life *life = s->life;
    bool is_first = !life->is_known;

    life->is_known = true;
    if (s->is_standby) {
        sg_life_end(s, NULL);
        return;
    }
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
        sg_create_running(s);
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
            sg_create_running(s);
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
    sg_life_put_row(s, s->is_internal || s->is_brief ? SBX_CREATING : SBX_RUNNING, SG_STORE_NORMAL);
}

static void greeted(struct sg_sandbox *s)
{
    struct sg_err err;

    if (sg_life_failed(s, &err))
        attempt_failed(s, &err);
    else
        sg_mounts_begin(s, all_mounted);
}

static void brief_greeted(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    struct sg_sandbox *s = arg;

    (void)p;
    if (err && err->kind != SG_UNAVAILABLE) /* of the end of its connection its peer tells */
        sg_death_report(s, EV_CRASH, err->msg);
    sg_life_drop(s);
}

/* What is asked of init next comes behind hello, so nobody waits for the answer to that. */
static void begin_brief(struct sg_sandbox *s)
{
    struct sg_err err;

    sg_life_hold(s);
    if (sg_cell_hello(s, brief_greeted, &err) < 0) {
        sg_life_drop(s);
        attempt_failed(s, &err);
        return;
    }
    answered(s);
}

static bool is_plain(const struct sg_sandbox *s)
{
    return !s->mounts.n && !s->traits.start && sg_net_answers(s) == 0;
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
    if (s->is_brief && is_plain(s)) {
        begin_brief(s);
        return;
    }
    s->life->clock.fire = hello_late;
    sg_timer_set(l, &s->life->clock, sg_loop_now(l) + HELLO_NS);
    if (s->mounts.n) {
        sg_life_expect(s, 1 + sg_net_answers(s), greeted);
    } else {
        sg_life_expect(s, 2 + sg_net_answers(s), answered);
        sg_life_put_row(s, s->is_brief ? SBX_CREATING : SBX_RUNNING, SG_STORE_NORMAL);
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

static void ask_launcher(struct sg_sandbox *s)
{
    struct sg_tier_limits limits = sg_cell_limits(&s->limits);
    char *mounts[SG_MOUNTS_TEXTS];
    enum sg_l_tier tier;
    struct sg_err err;

    sg_life_expect(s, 1, cell_made);
    if (sg_rules_tier(s->manager, s->wall, &tier, &err) < 0)
        sg_life_got(s, &err);
    else
        sg_tier_create(s->manager->tier, tier, s->id.s, s->snapshot ? s->snapshot : s->template,
                       &limits, sg_mounts_ahead(s, mounts), launcher_answered, s);
}

static void row_written(struct sg_sandbox *s)
{
    struct sg_err err;

    if (sg_life_failed(s, &err)) {
        (void)sg_wrap(&err, "record the new sandbox");
        attempt_failed(s, &err);
    } else {
        ask_launcher(s);
    }
}

/* A brief one's row is not waited for: nobody looks for it after a crash, and a cell without a row
 * is ended then. What is written of its work comes behind it in the store. */
static void attempt(struct sg_sandbox *s)
{
    if (s->is_brief) {
        sg_row_put(s, SBX_CREATING, SG_STORE_NORMAL, NULL, NULL);
        ask_launcher(s);
        return;
    }
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
