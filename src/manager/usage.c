/* SPDX-License-Identifier: Apache-2.0 */
/* What sandboxes use: asked of the launcher once a minute and at the end, added up by the hour.
 *
 * The question goes out a few sandboxes at a time, so that a thousand of them do not hold up a
 * create; the amounts are by the time that really passed, so that it does not matter when. */
#include <string.h>

#include "base/auto.h"
#include "manager/life.h"
#include "tier/tier.h"

#include "base/banned.h"

#define NS_PER_MS   1000000u
#define TICK_NS     1000000000u
#define ROUND_NS    60000000000u
#define POOL_NS     5000000000u
#define UNKNOWN     UINT64_MAX /* what the kernel does not tell */
#define MS_PER_HOUR 3600000
enum { ASKED_A_TICK = 64 };

static void add_usage(struct sg_sandbox *s, struct sg_usage_row *row)
{
    row->org = s->org->id.s;
    row->sandbox = s->id.s;
    row->hour = sg_manager_unix_ms() / MS_PER_HOUR;
    sg_store_add_usage(s->manager->store, row);
}

void sg_sandbox_used(struct sg_sandbox *s, uint64_t execs, uint64_t bytes_in, uint64_t bytes_out)
{
    struct sg_usage_row row = { .execs = (int64_t)execs,
                                .bytes_in = (int64_t)bytes_in,
                                .bytes_out = (int64_t)bytes_out };
    add_usage(s, &row);
}

void sg_usage_created(struct sg_sandbox *s)
{
    struct sg_usage_row row = { .creates = 1 };
    add_usage(s, &row);
}

void sg_usage_reset(struct sg_sandbox *s, bool is_adopted)
{
    s->life->usage_at_ns = sg_loop_now(s->manager->loop);
    s->life->usage_cpu_ns = is_adopted ? UNKNOWN : 0;
    s->life->oom_kills = 0;
}

static void count(struct sg_sandbox *s, const struct sg_msg_l_stated *st)
{
    struct sg_life *life = s->life;
    uint64_t now = sg_loop_now(s->manager->loop);
    uint64_t ms = (now - life->usage_at_ns) / NS_PER_MS;
    struct sg_usage_row row = { .wall_ms = (int64_t)ms };

    if (st->mem_bytes != UNKNOWN)
        row.mem_mib_ms = (int64_t)((st->mem_bytes >> 20) * ms);
    if (st->cpu_ns != UNKNOWN) {
        if (life->usage_cpu_ns != UNKNOWN && st->cpu_ns > life->usage_cpu_ns)
            row.cpu_ns = (int64_t)(st->cpu_ns - life->usage_cpu_ns);
        life->usage_cpu_ns = st->cpu_ns;
    }
    life->usage_at_ns = now;
    add_usage(s, &row);
}

static void answered(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    struct sg_sandbox *s = arg;

    s->life->is_usage_asked = false;
    if (!err && p && !s->manager->is_ending)
        count(s, &p->msg.l_stated);
    sg_life_drop(s);
}

static void ask(struct sg_sandbox *s)
{
    s->life->is_usage_asked = true;
    sg_life_hold(s);
    sg_tier_stats(s->manager->tier, s->id.s, answered, s);
}

void sg_usage_last(struct sg_sandbox *s)
{
    if (s->life->has_cell && !s->life->is_usage_asked)
        ask(s);
}

/* ---- the clock ---- */

static void pool_answered(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    struct sg_manager *m = arg;
    struct sg_text one;

    if (err || !p || m->is_ending)
        return;
    for (size_t i = 0; i < m->pool_n; i++)
        free(m->pool[i]);
    free(m->pool);
    struct sg_texts names = p->msg.l_listed.names;
    m->pool = sg_alloc((names.count + 1) * sizeof *m->pool);
    for (m->pool_n = 0; sg_text_next(&names, &one); m->pool_n++)
        m->pool[m->pool_n] = sg_strdup(one.p);
}

static void storage_answered(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    struct sg_manager *m = arg;

    if (err || !p || m->is_ending)
        return;
    m->storage.total_bytes = p->msg.l_stored.total_bytes;
    m->storage.free_bytes = p->msg.l_stored.free_bytes;
    m->storage.is_full = (p->msg.l_stored.flags & SG_L_FULL) != 0;
    m->storage.is_counting = !(p->msg.l_stored.flags & SG_L_NOT_COUNTING);
    m->storage.errors = p->msg.l_stored.errors;
    m->storage.errands = p->msg.l_stored.errands;
    m->storage.is_known = true;
}

static void tick(struct sg_timer *t, uint64_t now_ns)
{
    struct sg_manager *m = SG_OWNER(t, struct sg_manager, usage);
    unsigned asked = 0;

    for (struct sg_sandbox *s = m->oldest; s && asked < ASKED_A_TICK; s = s->newer) {
        const struct sg_life *life = s->life;
        if (life->has_cell && life->op == OP_NONE && !life->is_usage_asked &&
            now_ns - life->usage_at_ns >= ROUND_NS) {
            ask(s);
            asked++;
        }
    }
    if (now_ns - m->pool_at_ns >= POOL_NS) {
        m->pool_at_ns = now_ns;
        sg_tier_pool(m->tier, pool_answered, m);
        if (sg_tier_flags(m->tier) & SG_L_POOL)
            sg_tier_storage(m->tier, storage_answered, m);
    }
    sg_timer_set(m->loop, t, now_ns + TICK_NS);
}

void sg_usage_start(struct sg_manager *m)
{
    m->usage.fire = tick;
    sg_timer_set(m->loop, &m->usage, sg_loop_now(m->loop) + TICK_NS);
}

/* ---- statistics for callers ---- */

struct asked {
    struct sg_sandbox *s;
    sg_stats_cb *cb;
    void *arg;
};

static void stats_answered(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    struct asked *a = arg;
    struct sg_stats st = { 0 };

    if (!err) {
        const struct sg_msg_l_stated *v = &p->msg.l_stated;
        st = (struct sg_stats) { v->mem_bytes, v->mem_peak_bytes, v->mem_limit_bytes,
                                 v->cpu_ns,    v->pids,           v->pids_peak,
                                 v->oom_kills, v->disk_bytes,     v->disk_used_bytes };
    }
    a->cb(a->arg, err ? NULL : &st, err);
    sg_life_drop(a->s);
    free(a);
}

int sg_manager_stats(struct sg_sandbox *s, const struct sg_who *who, sg_stats_cb *cb, void *arg,
                     struct sg_err *err)
{
    if (sg_tenant_demand(who, SG_SCOPE_READ, err) < 0)
        return sg_manager_denied(s->manager, who, "sandbox.stats", s, err);
    if (!s->life->has_cell)
        return sg_fail(err, SG_CONFLICT, "a sandbox that is %s has no statistics",
                       sg_state_name(s->state));
    struct asked *a = sg_new(struct asked);
    *a = (struct asked) { s, cb, arg };
    sg_life_hold(s);
    sg_tier_stats(s->manager->tier, s->id.s, stats_answered, a);
    return 0;
}

/* ---- out of memory? ---- */

struct sg_oom_question {
    struct sg_oom_question *next;
    struct sg_sandbox *s;
    sg_oom_cb *cb; /* NULL: nobody is interested any more */
    void *arg;
    uint64_t seen;
};

/* Each compares with what was known when it asked, so that several that died together all learn
 * of it. */
static void oom_answered(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    struct sg_oom_question *q = arg, **link = &q->s->life->oom_questions;
    uint64_t kills = q->seen;

    while (*link != q)
        link = &(*link)->next;
    *link = q->next;
    if (!err && p->msg.l_stated.oom_kills != UNKNOWN)
        kills = p->msg.l_stated.oom_kills;
    if (kills > q->s->life->oom_kills) {
        q->s->manager->metrics.hits[SG_HIT_OOM] += kills - q->s->life->oom_kills;
        q->s->life->oom_kills = kills;
    }
    if (q->cb)
        q->cb(q->arg, kills > q->seen);
    sg_life_drop(q->s);
    free(q);
}

void sg_manager_oom_check(struct sg_sandbox *s, sg_oom_cb *cb, void *arg)
{
    struct sg_oom_question *q = sg_new(struct sg_oom_question);

    *q = (struct sg_oom_question) {
        .next = s->life->oom_questions, .s = s, .cb = cb, .arg = arg, .seen = s->life->oom_kills
    };
    s->life->oom_questions = q;
    sg_life_hold(s);
    sg_tier_stats(s->manager->tier, s->id.s, oom_answered, q);
}

void sg_usage_forget(struct sg_sandbox *s)
{
    for (struct sg_oom_question *q = s->life->oom_questions; q; q = q->next)
        q->cb = NULL;
}
