/* SPDX-License-Identifier: Apache-2.0 */
/* What sandboxes use: asked of the launcher once a minute and at the end, added up by the hour.
 *
 * The question goes out a few sandboxes at a time, so that a thousand of them do not hold up a
 * create; the amounts are by the time that really passed, so that it does not matter when.
 *
 * U1. How far the kernel's counter was read goes to the store with what was added because of it: a
 *     daemon that adopts the sandbox goes on from there, and no second is counted twice.
 * U2. A sandbox that dies by itself has its last word in the launcher's notice of the death. */
#include <string.h>

#include "base/auto.h"
#include "manager/budget.h"
#include "manager/life.h"
#include "tier/tier.h"

#include "base/banned.h"

#define NS_PER_MS   1000000u
#define TICK_NS     1000000000u
#define ROUND_NS    60000000000u
#define CLOSE_NS    2000000000u /* of one that somebody has a budget for */
#define POOL_NS     5000000000u
#define UNKNOWN     UINT64_MAX /* what the kernel does not tell */
#define MS_PER_HOUR 3600000
enum { ASKED_A_TICK = 64 };

/* Read once, out of the decision that it was made by. */
const struct sg_labels *sg_sandbox_labels(struct sg_sandbox *s)
{
    struct sg_labels *l = &s->life->labels;
    sg_auto_arena a;
    const struct sg_jval *v = NULL;
    struct sg_err err;

    sg_arena_init(&a, 256 << 10);
    if (l->is_read)
        return l;
    l->is_read = true;
    (void)snprintf(l->tier, sizeof l->tier, "%s", sg_wall_names[s->wall]);
    if (!s->decision || sg_json_parse(sg_str_of(s->decision), &a, &v, &err) < 0)
        return l;
    const struct {
        const char *key;
        char *to;
        size_t cap;
    } wanted[] = { { "operation", l->operation, sizeof l->operation },
                   { "rule", l->rule, sizeof l->rule } };
    for (size_t i = 0; i < SG_COUNT(wanted); i++) {
        const struct sg_jval *one = sg_json_get(v, wanted[i].key);
        if (one && one->kind == SG_J_STRING)
            (void)snprintf(wanted[i].to, wanted[i].cap, "%s", one->s.p);
    }
    return l;
}

void sg_usage_amounts(const struct sg_usage_row *r, struct sg_amounts *ret)
{
    *ret = (struct sg_amounts) { .cpu_ns = (uint64_t)r->cpu_ns,
                                 .mem_mib_ms = (uint64_t)r->mem_mib_ms,
                                 .vcpu_milli_ms = (uint64_t)r->vcpu_milli_ms,
                                 .allotted_mib_ms = (uint64_t)r->allotted_mib_ms,
                                 .disk_mib_ms = (uint64_t)r->disk_mib_ms,
                                 .wall_ms = (uint64_t)r->wall_ms,
                                 .net_bytes = (uint64_t)(r->net_in + r->net_out),
                                 .creates = (uint64_t)r->creates };
}

static void add_usage(struct sg_sandbox *s, struct sg_usage_row *row)
{
    const struct sg_labels *labels = sg_sandbox_labels(s);
    struct sg_amounts amounts;

    if (s->is_standby) /* its bill begins when it is somebody's */
        return;
    row->org = s->org->id.s;
    row->sandbox = s->id.s;
    row->tier = labels->tier;
    row->operation = labels->operation;
    row->hour = sg_manager_unix_ms() / MS_PER_HOUR;
    sg_store_add_usage(s->manager->store, row);
    sg_usage_amounts(row, &amounts);
    sg_amounts_add(&s->life->used, &amounts);
    sg_budget_used(s->manager, s->org, &amounts);
}

void sg_sandbox_used(struct sg_sandbox *s, uint64_t execs, uint64_t bytes_in, uint64_t bytes_out)
{
    struct sg_usage_row row = { .execs = (int64_t)execs,
                                .bytes_in = (int64_t)bytes_in,
                                .bytes_out = (int64_t)bytes_out };
    add_usage(s, &row);
}

void sg_usage_net(struct sg_sandbox *s, uint64_t bytes_in, uint64_t bytes_out)
{
    struct sg_usage_row row = { .net_in = (int64_t)bytes_in, .net_out = (int64_t)bytes_out };
    s->life->net_in += bytes_in;
    s->life->net_out += bytes_out;
    add_usage(s, &row);
}

static void fresh_meter(const struct sg_sandbox *s, struct sg_usage_row *row)
{
    row->meter_cpu_ns = (int64_t)s->life->usage_cpu_ns;
    row->meter_at_ms = sg_manager_unix_ms();
}

void sg_usage_created(struct sg_sandbox *s)
{
    struct sg_usage_row row = { .creates = 1 };
    fresh_meter(s, &row);
    add_usage(s, &row);
}

/* One that was adopted goes on where the store says that it was counted to: the kernel's counter
 * went on without us, and so did its time. Without a word there nothing was counted at all. */
static void go_on(struct sg_sandbox *s)
{
    struct sg_life *life = s->life;
    int64_t at_ms = s->started_ms;

    (void)sg_store_meter(s->manager->store, s->id.s, &life->usage_cpu_ns, &at_ms);
    const int64_t away_ms = at_ms ? sg_manager_unix_ms() - at_ms : 0;
    if (away_ms > 0 && (uint64_t)away_ms < life->usage_at_ns / NS_PER_MS)
        life->usage_at_ns -= (uint64_t)away_ms * NS_PER_MS;
}

void sg_usage_reset(struct sg_sandbox *s, bool is_adopted)
{
    struct sg_life *life = s->life;
    struct sg_usage_row row = { 0 };

    life->usage_at_ns = sg_loop_now(s->manager->loop);
    life->usage_cpu_ns = 0;
    life->usage_was_paused = s->state == SBX_PAUSED;
    life->oom_kills = 0;
    if (is_adopted) {
        go_on(s);
    } else if (life->op != OP_CREATE) { /* of which sg_usage_created() tells */
        fresh_meter(s, &row);
        add_usage(s, &row);
    }
}

static void count_cpu(struct sg_life *life, uint64_t cpu_ns, struct sg_usage_row *row)
{
    if (cpu_ns == UNKNOWN || cpu_ns < life->usage_cpu_ns) /* older than the last look */
        return;
    row->cpu_ns = (int64_t)(cpu_ns - life->usage_cpu_ns);
    life->usage_cpu_ns = cpu_ns;
    row->meter_cpu_ns = (int64_t)cpu_ns;
    row->meter_at_ms = sg_manager_unix_ms();
}

/* The time since the last look, and what was held in it. Whole milliseconds are taken off the
 * clock, the rest stays there for the next look. */
static uint64_t count_time(struct sg_sandbox *s, uint64_t mem_bytes, struct sg_usage_row *row)
{
    struct sg_life *life = s->life;
    const uint64_t ms = (sg_loop_now(s->manager->loop) - life->usage_at_ns) / NS_PER_MS;

    row->wall_ms = (int64_t)ms;
    if (mem_bytes != UNKNOWN)
        row->mem_mib_ms = (int64_t)((mem_bytes >> 20) * ms);
    if (!life->usage_was_paused) {
        row->vcpu_milli_ms = (int64_t)(s->limits.cpu_milli * ms);
        row->allotted_mib_ms = (int64_t)((s->limits.mem_bytes >> 20) * ms);
    }
    life->usage_was_paused = s->state == SBX_PAUSED;
    life->usage_at_ns += ms * NS_PER_MS;
    return ms;
}

static struct sg_stats stats_of(const struct sg_msg_l_stated *v)
{
    return (struct sg_stats) { v->mem_bytes, v->mem_peak_bytes, v->mem_limit_bytes,
                               v->cpu_ns,    v->pids,           v->pids_peak,
                               v->oom_kills, v->disk_bytes,     v->disk_used_bytes };
}

void sg_usage_count(struct sg_sandbox *s, const struct sg_stats *st)
{
    struct sg_usage_row row = { 0 };
    const uint64_t ms = count_time(s, st->mem_bytes, &row);

    if (st->disk_used_bytes != UNKNOWN) {
        s->life->disk_used_bytes = st->disk_used_bytes;
        row.disk_mib_ms = (int64_t)((st->disk_used_bytes >> 20) * ms);
    }
    count_cpu(s->life, st->cpu_ns, &row);
    add_usage(s, &row);
}

void sg_usage_died(struct sg_sandbox *s, uint64_t cpu_ns)
{
    struct sg_usage_row row = { 0 };

    if (!s->life->has_cell)
        return;
    (void)count_time(s, UNKNOWN, &row);
    count_cpu(s->life, cpu_ns, &row);
    add_usage(s, &row);
}

static void answered(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    struct sg_sandbox *s = arg;

    s->life->is_usage_asked = false;
    if (!err && p && !s->manager->is_ending) {
        const struct sg_stats st = stats_of(&p->msg.l_stated);
        sg_usage_count(s, &st);
    }
    sg_life_drop(s);
}

static void ask(struct sg_sandbox *s)
{
    s->life->is_usage_asked = true;
    sg_life_hold(s);
    sg_tier_stats(s->manager->tier, s->id.s, answered, s);
}

void sg_usage_look(struct sg_sandbox *s)
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
    m->is_memory_short = p->msg.l_listed.next != 0;
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
        if (life->has_cell && life->op == OP_NONE && !life->is_usage_asked && !s->is_standby &&
            now_ns - life->usage_at_ns >= (s->org->budget.pico ? CLOSE_NS : ROUND_NS)) {
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
    sg_budget_tick(m);
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
        st = stats_of(&p->msg.l_stated);
        sg_usage_count(a->s, &st); /* who asks sees the cost of it, too */
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
