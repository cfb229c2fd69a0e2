/* SPDX-License-Identifier: Apache-2.0 */
/* A sandbox that ends by itself: out of memory, or its pid 1 is gone.
 *
 * Its state is "failed" at once, so that nobody starts anything in it; then what is left of the
 * cell is cleared away; then a fresh one is made where its caller asked for that, under the same id
 * and with the cause on record. Otherwise it stays as "failed", without a cell, until it is
 * destroyed. */
#include <stdio.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/log.h"
#include "manager/life.h"
#include "manager/traits.h"

#include "base/banned.h"

static const struct {
    enum sg_state_event event;
    const char *cause;
} ends[] = {
    [SG_L_END_EXIT] = { EV_CRASH, "its pid 1 exited" },
    [SG_L_END_MEMORY] = { EV_OOM, "it ran out of memory and its pid 1 was ended" },
    [SG_L_END_KILLED] = { EV_CRASH, "its pid 1 was killed" },
};

void sg_death_launcher(void *arg, const struct sg_msg_l_ended *e)
{
    struct sg_manager *m = arg;
    struct sg_sandbox *s = sg_map_find(&m->sandboxes, e->sandbox.p);

    if (s && !s->life->has_died && !s->life->is_cell_ending)
        sg_usage_died(s, e->cpu_ns);
    if (s)
        sg_death_report(s, ends[e->cause].event, ends[e->cause].cause);
}

void sg_death_report(struct sg_sandbox *s, enum sg_state_event e, const char *cause)
{
    struct sg_life *life = s->life;

    if (life->has_died || life->is_cell_ending || !life->has_cell)
        return;
    life->has_died = true;
    life->death = e;
    (void)snprintf(life->death_cause, sizeof life->death_cause, "%s", cause);
    sg_timer_stop(s->manager->loop, &life->grace);
    sg_cell_cut(s); /* what is under way learns of it */
    sg_start_stop(s);
    sg_life_settle(s);
}

/* What a fresh attempt cannot change is not tried again. */
static bool is_worth_another(enum sg_kind kind)
{
    return kind == SG_UNAVAILABLE || kind == SG_INTERNAL || kind == SG_TIMEOUT ||
           kind == SG_EXHAUSTED || kind == SG_CONFLICT;
}

static void retried_event(struct sg_sandbox *s)
{
    sg_auto_buf data;
    struct sg_json j;

    sg_buf_init(&data, 4096);
    sg_json_init(&j, &data);
    sg_json_open(&j, '{');
    sg_json_key(&j, "cause");
    sg_json_str(&j, s->cause);
    sg_json_key(&j, "used");
    sg_json_u64(&j, s->retries_used);
    sg_json_key(&j, "left");
    sg_json_u64(&j, s->retries_left);
    sg_json_close(&j, '}');
    sg_sandbox_event(s, "sandbox.retried", sg_buf_cstr(&data));
    sg_manager_audit(s->manager, NULL, "sandbox.retry", s, sg_buf_cstr(&data));
}

bool sg_death_retry(struct sg_sandbox *s, const struct sg_err *why)
{
    if (s->retries_left == 0 || s->life->wants_end || !is_worth_another(why->kind))
        return false;
    s->retries_left--;
    s->retries_used++;
    s->manager->metrics.retries++;
    sg_life_cause(s, why->msg);
    retried_event(s);
    return true;
}

/* ---- the operation ---- */

static void row_written(struct sg_sandbox *s)
{
    struct sg_err err;

    if (sg_life_failed(s, &err))
        sg_log(SG_LOG_ERROR, "failure of a sandbox could not be recorded",
               SG_KV("sandbox", s->id.s), SG_KV("error", err.msg));
    sg_life_end(s, NULL);
}

void sg_death_failed(struct sg_sandbox *s)
{
    sg_quota_reduce(s);
    sg_life_event(s, "sandbox.failed", "cause", s->cause);
    sg_life_expect(s, 1, row_written);
    sg_life_put_row(s, SBX_FAILED, SG_STORE_NORMAL);
}

static void cell_gone(struct sg_sandbox *s)
{
    struct sg_err stuck, why = { 0 };

    /* A cell that could not be ended is the reconciler's; no second one under the same id. */
    if (sg_life_failed(s, &stuck)) {
        sg_log(SG_LOG_ERROR, "what is left of a sandbox could not be removed",
               SG_KV("sandbox", s->id.s), SG_KV("error", stuck.msg));
        sg_death_failed(s);
        return;
    }
    (void)sg_fail(&why, SG_UNAVAILABLE, "%s", s->cause);
    if (!sg_death_retry(s, &why)) {
        sg_death_failed(s);
        return;
    }
    sg_life_must(s, EV_RETRY);
    s->life->op = OP_NONE;
    sg_create_begin(s);
}

void sg_death_begin(struct sg_sandbox *s)
{
    struct sg_life *life = s->life;
    struct sg_manager *m = s->manager;

    if (sg_pause_keep_died(s))
        return;
    sg_life_begin(s, OP_DEATH);
    sg_life_must(s, life->death);
    sg_life_cause(s, life->death_cause);
    m->metrics.deaths++;
    if (life->death == EV_OOM)
        m->metrics.hits[SG_HIT_OOM]++;
    sg_log(SG_LOG_WARN, "sandbox died", SG_KV("sandbox", s->id.s), SG_KV("cause", s->cause));
    sg_life_event(s, life->death == EV_OOM ? "sandbox.oom" : "sandbox.died", "cause", s->cause);
    sg_cell_end(s, cell_gone);
}
