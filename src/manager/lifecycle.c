/* SPDX-License-Identifier: Apache-2.0 */
/* Pause, resume, stop, start; and what can be changed while a sandbox lives.
 *
 * F1. The store says "pausing" before the cgroup is frozen, so that a restart knows what to finish,
 *     and "paused" before anybody is told. Neither waits for the disk: what is frozen ends with the
 *     machine, and its row then says so (a pause that outlives it is pause_disk.c's).
 * F2. Every failure after a freeze thaws; no failure leaves a sandbox stuck.
 * F3. Asking for what is so already, or is under way, is no error. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "manager/budget.h"
#include "manager/life.h"
#include "tier/tier.h"

#include "base/banned.h"

/* An operation that did not work: back to where it came from, in the store as well. */
static void undo(struct sg_sandbox *s, const struct sg_err *err)
{
    struct sg_err why = *err;

    sg_life_must(s, EV_FAIL);
    sg_row_put(s, s->state, SG_STORE_NORMAL, NULL, NULL);
    sg_life_end(s, &why);
}

/* ---- pause ---- */

static void thawed_again(struct sg_sandbox *s)
{
    struct sg_err ignored;
    (void)sg_life_failed(s, &ignored); /* it may never have been frozen */
    undo(s, &s->life->why);
}

static void pause_failed(struct sg_sandbox *s, const struct sg_err *err)
{
    s->life->why = *err;
    sg_life_expect(s, 1, thawed_again);
    sg_tier_thaw(s->manager->tier, s->id.s, sg_life_tier_answer, s);
}

static void paused_written(struct sg_sandbox *s)
{
    struct sg_err err;

    if (sg_life_failed(s, &err)) {
        pause_failed(s, &err);
        return;
    }
    sg_life_must(s, EV_PAUSED);
    sg_usage_look(s); /* until here it had its processors */
    sg_sandbox_event(s, "sandbox.paused", NULL);
    sg_life_end(s, NULL);
}

static void frozen(struct sg_sandbox *s)
{
    struct sg_err err;

    if (sg_life_failed(s, &err)) {
        pause_failed(s, &err);
        return;
    }
    sg_life_expect(s, 1, paused_written);
    sg_life_put_row(s, SBX_PAUSED, SG_STORE_NORMAL);
}

static void pausing_written(struct sg_sandbox *s)
{
    struct sg_err err;

    if (sg_life_failed(s, &err)) {
        undo(s, &err);
        return;
    }
    sg_life_expect(s, 1, frozen);
    sg_tier_freeze(s->manager->tier, s->id.s, sg_life_tier_answer, s);
}

void sg_pause_begin(struct sg_sandbox *s)
{
    sg_life_begin(s, OP_PAUSE);
    sg_life_must(s, EV_PAUSE);
    sg_life_expect(s, 1, pausing_written);
    sg_life_put_row(s, SBX_PAUSING, SG_STORE_NORMAL);
}

/* ---- resume ---- */

static void running_written(struct sg_sandbox *s)
{
    struct sg_err err;

    const bool has_failed = sg_life_failed(s, &err);
    sg_pause_keep_drop(s);
    sg_life_end(s, has_failed ? &err : NULL); /* it runs, and "resuming" is finished so */
}

static void thawed(struct sg_sandbox *s)
{
    struct sg_err err;

    if (sg_life_failed(s, &err)) {
        undo(s, &err);
        return;
    }
    if (s->expires_ms == 0 || s->expires_ms <= sg_manager_unix_ms())
        sg_expiry_renew(s);
    sg_life_must(s, EV_RESUMED);
    sg_usage_look(s);
    sg_sandbox_event(s, "sandbox.resumed", NULL);
    sg_life_expect(s, 1, running_written);
    sg_life_put_row(s, SBX_RUNNING, SG_STORE_NORMAL);
}

static void resuming_written(struct sg_sandbox *s)
{
    struct sg_err err;

    if (sg_life_failed(s, &err)) {
        undo(s, &err);
        return;
    }
    sg_life_expect(s, 1, thawed);
    sg_tier_thaw(s->manager->tier, s->id.s, sg_life_tier_answer, s);
}

void sg_resume_begin(struct sg_sandbox *s)
{
    if (s->paused_snapshot) {
        sg_resume_disk_begin(s);
        return;
    }
    sg_life_begin(s, OP_RESUME);
    sg_life_must(s, EV_RESUME);
    sg_life_expect(s, 1, resuming_written);
    sg_life_put_row(s, SBX_RESUMING, SG_STORE_NORMAL);
}

/* ---- stop, start ---- */

static void stopped_written(struct sg_sandbox *s)
{
    struct sg_err err;
    bool has_failed = sg_life_failed(s, &err);

    sg_life_end(s, has_failed ? &err : NULL);
}

static void all_ended(struct sg_sandbox *s)
{
    struct sg_err err;

    if (sg_life_failed(s, &err)) {
        undo(s, &err);
        return;
    }
    sg_life_must(s, EV_STOPPED);
    sg_sandbox_event(s, "sandbox.stopped", NULL);
    sg_life_expect(s, 1, stopped_written);
    sg_life_put_row(s, SBX_STOPPED, SG_STORE_NORMAL);
}

static void killed(struct sg_sandbox *s, void *arg, const struct sg_err *err)
{
    (void)arg;
    sg_life_got(s, err);
}

static void stopping_written(struct sg_sandbox *s)
{
    struct sg_err err;

    if (sg_life_failed(s, &err)) {
        undo(s, &err);
        return;
    }
    sg_life_expect(s, 1, all_ended);
    sg_exec_kill_all(s, killed, NULL);
}

void sg_stop_begin(struct sg_sandbox *s)
{
    sg_life_begin(s, OP_STOP);
    sg_life_must(s, EV_STOP);
    sg_life_expect(s, 1, stopping_written);
    sg_life_put_row(s, SBX_STOPPING, SG_STORE_NORMAL);
}

static void start_begin(struct sg_sandbox *s)
{
    sg_life_begin(s, OP_START);
    sg_life_must(s, EV_START);
    sg_sandbox_event(s, "sandbox.started", NULL);
    sg_life_expect(s, 1, stopped_written);
    sg_life_put_row(s, SBX_RUNNING, SG_STORE_NORMAL);
}

/* ---- the doors' side ---- */

static const struct change {
    const char *action;
    enum sg_state_event event;
    enum sg_state goal;
    void (*begin)(struct sg_sandbox *s);
} changes[OP_COUNT] = {
    [OP_PAUSE] = { "sandbox.pause", EV_PAUSE, SBX_PAUSED, sg_pause_begin },
    [OP_RESUME] = { "sandbox.resume", EV_RESUME, SBX_RUNNING, sg_resume_begin },
    [OP_STOP] = { "sandbox.stop", EV_STOP, SBX_STOPPED, sg_stop_begin },
    [OP_START] = { "sandbox.start", EV_START, SBX_RUNNING, start_begin },
};

static int demand(struct sg_sandbox *s, const struct sg_who *who, const char *action,
                  struct sg_err *err)
{
    if (s->life->is_gone)
        return sg_fail(err, SG_NOT_FOUND, "no sandbox '%s'", s->id.s);
    if (sg_tenant_demand(who, SG_SCOPE_EXEC, err) < 0)
        return sg_manager_denied(s->manager, who, action, s, err);
    return 0;
}

static int change_by(struct sg_sandbox *s, const struct sg_who *who, enum sg_op op,
                     void (*begin)(struct sg_sandbox *s), sg_sandbox_cb *cb, void *arg,
                     struct sg_err *err)
{
    const struct change *c = &changes[op];
    enum sg_state next;

    if (demand(s, who, c->action, err) < 0)
        return -1;
    if ((s->life->op == OP_NONE || s->life->op == OP_KEEP) && s->state == c->goal &&
        !s->life->has_died) {
        sg_life_soon(s, cb, arg);
        return 0;
    }
    if (c->goal == SBX_RUNNING && sg_budget_admit(s->manager, s->org, err) < 0)
        return sg_manager_denied(s->manager, who, c->action, s, err);
    if (s->life->op == OP_KEEP && op == OP_RESUME && !s->life->has_died) {
        if (!s->life->wants_resume)
            sg_manager_audit(s->manager, who, c->action, s, NULL);
        s->life->wants_resume = true;
    } else if (s->life->op != op) {
        if (sg_state_next(s->state, c->event, &next, err) < 0)
            return -1;
        if (s->life->op != OP_NONE || s->life->has_died)
            return sg_fail(err, SG_CONFLICT, "the sandbox is being changed; try again");
        sg_manager_audit(s->manager, who, c->action, s, NULL);
        begin(s);
    }
    sg_life_wait(&s->life->waiting, cb, arg);
    return 0;
}

static int change(struct sg_sandbox *s, const struct sg_who *who, enum sg_op op, sg_sandbox_cb *cb,
                  void *arg, struct sg_err *err)
{
    return change_by(s, who, op, changes[op].begin, cb, arg, err);
}

int sg_manager_pause_disk(struct sg_sandbox *s, const struct sg_who *who, sg_sandbox_cb *cb,
                          void *arg, struct sg_err *err)
{
    if (!s->is_pooled)
        return sg_snapshot_refuse(s, err);
    if (s->state == SBX_PAUSED && !s->paused_snapshot)
        return sg_fail(err, SG_CONFLICT, "the sandbox is paused with its memory; resume it first");
    return change_by(s, who, OP_PAUSE, sg_pause_disk_begin, cb, arg, err);
}

int sg_manager_pause(struct sg_sandbox *s, const struct sg_who *who, sg_sandbox_cb *cb, void *arg,
                     struct sg_err *err)
{
    if (!(sg_tier_flags(s->manager->tier) & SG_L_FREEZER))
        return sg_fail(err, SG_UNSUPPORTED, "this host has no freezer for sandboxes");
    return change(s, who, OP_PAUSE, cb, arg, err);
}

int sg_manager_resume(struct sg_sandbox *s, const struct sg_who *who, sg_sandbox_cb *cb, void *arg,
                      struct sg_err *err)
{
    return change(s, who, OP_RESUME, cb, arg, err);
}

int sg_manager_stop(struct sg_sandbox *s, const struct sg_who *who, sg_sandbox_cb *cb, void *arg,
                    struct sg_err *err)
{
    return change(s, who, OP_STOP, cb, arg, err);
}

int sg_manager_start(struct sg_sandbox *s, const struct sg_who *who, sg_sandbox_cb *cb, void *arg,
                     struct sg_err *err)
{
    return change(s, who, OP_START, cb, arg, err);
}

/* ---- times and metadata: the memory changes at once, the answer waits for the row ----
 *
 * A change that cannot be written is taken back, unless another one has come since. */

struct unsaved {
    struct sg_sandbox *s;
    sg_sandbox_cb *cb;
    void *arg;
    struct sg_pairs before;    /* owned */
    const struct sg_pair *now; /* to compare with only */
    uint64_t timeout_ms;
    int64_t expires_ms, new_expires_ms;
    bool is_about_time, is_about_metadata;
};

static void take_back(struct unsaved *u)
{
    struct sg_sandbox *s = u->s;

    if (u->is_about_metadata && s->metadata.v == u->now) {
        struct sg_pairs refused = s->metadata;
        s->metadata = u->before;
        u->before = refused;
    }
    if (u->is_about_time && s->expires_ms == u->new_expires_ms) {
        s->timeout_ms = u->timeout_ms;
        s->expires_ms = u->expires_ms;
        sg_expiry_update(s);
    }
}

static void change_saved(void *arg, struct sg_sandbox *s, const struct sg_err *err)
{
    struct unsaved *u = arg;

    if (err && !u->s->manager->is_ending)
        take_back(u);
    u->cb(u->arg, s, err);
    sg_pairs_done(&u->before);
    free(u);
}

static struct unsaved *unsaved_new(struct sg_sandbox *s, sg_sandbox_cb *cb, void *arg)
{
    struct unsaved *u = sg_new(struct unsaved);

    *u = (struct unsaved) { .s = s, .cb = cb, .arg = arg };
    return u;
}

int sg_manager_set_timeout(struct sg_sandbox *s, const struct sg_who *who, uint64_t timeout_ms,
                           sg_sandbox_cb *cb, void *arg, struct sg_err *err)
{
    if (demand(s, who, "sandbox.timeout", err) < 0 ||
        sg_timeout_check(s->manager, &timeout_ms, err) < 0)
        return -1;
    struct unsaved *u = unsaved_new(s, cb, arg);
    u->is_about_time = true;
    u->timeout_ms = s->timeout_ms;
    u->expires_ms = s->expires_ms;
    s->timeout_ms = timeout_ms;
    sg_expiry_renew(s);
    sg_expiry_update(s);
    u->new_expires_ms = s->expires_ms;
    char text[24];
    (void)snprintf(text, sizeof text, "%" PRIu64, timeout_ms);
    sg_manager_audit_value(s->manager, who, "sandbox.timeout", s, "timeoutMs", text);
    sg_life_save(s, change_saved, u);
    return 0;
}

int sg_manager_set_metadata(struct sg_sandbox *s, const struct sg_who *who, const struct sg_pair *v,
                            size_t n, sg_sandbox_cb *cb, void *arg, struct sg_err *err)
{
    struct sg_pairs fresh;

    if (demand(s, who, "sandbox.metadata", err) < 0 ||
        sg_pairs_check("metadata", v, n, false, err) < 0)
        return -1;
    sg_pairs_copy(&fresh, v, n);
    struct unsaved *u = unsaved_new(s, cb, arg);
    u->is_about_metadata = true;
    u->before = s->metadata;
    u->now = fresh.v;
    s->metadata = fresh;
    sg_manager_audit(s->manager, who, "sandbox.metadata", s, NULL);
    sg_life_save(s, change_saved, u);
    return 0;
}

int sg_manager_set_door(struct sg_sandbox *s, const struct sg_who *who, const char *door,
                        sg_sandbox_cb *cb, void *arg, struct sg_err *err)
{
    if (demand(s, who, "sandbox.settings", err) < 0)
        return -1;
    if (strlen(door) > SG_DOOR_MAX)
        return sg_fail(err, SG_INVALID, "its settings are over %d bytes", SG_DOOR_MAX);
    char *fresh = sg_strdup(door);
    free(s->door);
    s->door = fresh;
    sg_manager_audit(s->manager, who, "sandbox.settings", s, NULL);
    sg_life_save(s, cb, arg);
    return 0;
}

/* ---- limits ---- */

static void limits_written(struct sg_sandbox *s)
{
    struct sg_err err;
    bool has_failed = sg_life_failed(s, &err);

    sg_life_end(s, has_failed ? &err : NULL);
}

static void limited(struct sg_sandbox *s)
{
    struct sg_err err;

    if (sg_life_failed(s, &err)) {
        sg_quota_charge(s); /* as it was */
        sg_life_end(s, &err);
        return;
    }
    s->limits = s->life->wanted;
    sg_sandbox_event(s, "sandbox.limited", NULL);
    sg_life_expect(s, 1, limits_written);
    sg_life_put_row(s, s->life->row_state, SG_STORE_NORMAL);
}

static uint64_t or_else(uint64_t v, uint64_t otherwise)
{
    return v ? v : otherwise;
}

int sg_manager_set_limits(struct sg_sandbox *s, const struct sg_who *who,
                          const struct sg_sandbox_limits *l, sg_sandbox_cb *cb, void *arg,
                          struct sg_err *err)
{
    struct sg_sandbox_limits to = {
        or_else(l->mem_bytes, s->limits.mem_bytes),
        or_else(l->cpu_milli, s->limits.cpu_milli),
        or_else(l->pids, s->limits.pids),
        or_else(l->disk_bytes, s->limits.disk_bytes),
    };
    bool has_cell = s->state == SBX_RUNNING || s->state == SBX_PAUSED || s->state == SBX_STOPPED;

    if (demand(s, who, "sandbox.limit", err) < 0)
        return -1;
    if (!has_cell || s->life->op != OP_NONE || s->life->has_died)
        return sg_fail(err, SG_CONFLICT, "cannot limit a sandbox that is %s",
                       has_cell ? "being changed" : sg_state_name(s->state));
    if (sg_quota_fits(s->manager, &to, err) < 0)
        return -1;
    if (sg_quota_change(s, &to, err) < 0)
        return sg_manager_denied(s->manager, who, "sandbox.limit", s, err);
    sg_manager_audit(s->manager, who, "sandbox.limit", s, NULL);
    sg_life_begin(s, OP_LIMIT);
    s->life->wanted = to;
    sg_life_wait(&s->life->waiting, cb, arg);
    struct sg_tier_limits limits = sg_cell_limits(&to);
    sg_life_expect(s, 1, limited);
    sg_tier_limit(s->manager->tier, s->id.s, &limits, sg_life_tier_answer, s);
    return 0;
}
