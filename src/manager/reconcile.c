/* SPDX-License-Identifier: Apache-2.0 */
/* The reconciler: sandboxes against cells, journals against execs, on a timer and on demand.
 *
 * Only what did not move since the look began is judged: an operation that runs meanwhile explains
 * any difference. When all is well every count of the report is zero. */
#include "base/auto.h"
#include "base/log.h"
#include "manager/life.h"
#include "tier/tier.h"

#include "base/banned.h"

#define NS_PER_MS 1000000u

struct waiter {
    struct waiter *next;
    sg_reconcile_cb *cb;
    void *arg;
};

struct sg_reconcile {
    struct waiter *waiters;
    uint64_t began_ns;
    unsigned left; /* ends under way */
};

const struct sg_reconcile_report *sg_manager_report(const struct sg_manager *m)
{
    return &m->report;
}

static void tell(struct sg_manager *m, const struct sg_err *err)
{
    struct sg_reconcile *r = sg_take_ptr(&m->reconciling);
    struct waiter *w = r->waiters;

    while (w) {
        struct waiter *next = w->next;
        w->cb(w->arg, err ? NULL : &m->report, err);
        free(w);
        w = next;
    }
    free(r);
}

static void one_less(struct sg_manager *m)
{
    const struct sg_reconcile_report *c = &m->counting;

    if (m->is_ending || --m->reconciling->left > 0)
        return;
    m->counting.at_ms = sg_manager_unix_ms();
    m->report = m->counting;
    if (c->lost || c->orphans || c->stale_journals || c->unknown_execs)
        sg_log(SG_LOG_WARN, "reconciler put something right");
    tell(m, NULL);
}

static void orphan_gone(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    (void)p;
    if (err)
        sg_log(SG_LOG_ERROR, "cell without a row could not be destroyed", SG_KV("error", err->msg));
    one_less(arg);
}

static void destroy_orphan(struct sg_manager *m, const char *id)
{
    m->counting.orphans++;
    m->reconciling->left++;
    sg_tier_destroy(m->tier, id, orphan_gone, m);
}

static void sandbox_gone(void *arg, struct sg_sandbox *s, const struct sg_err *err)
{
    (void)s;
    (void)err;
    one_less(arg);
}

static void judge(struct sg_sandbox *s, bool is_listed)
{
    struct sg_manager *m = s->manager;
    struct sg_life *life = s->life;

    if (life->op != OP_NONE || life->settled_ns >= m->reconciling->began_ns)
        return;
    if (life->is_ending) { /* the launcher could not end it the last time */
        m->counting.orphans++;
        m->reconciling->left++;
        sg_life_wait(&life->destroying, sandbox_gone, m);
        sg_destroy_begin(s);
    } else if (life->has_cell && !is_listed && !life->has_died) {
        m->counting.lost++;
        sg_death_report(s, EV_CRASH, "its cell is gone");
    } else if (!life->has_cell && is_listed) {
        destroy_orphan(m, s->id.s);
    }
}

/* Not one that was destroyed between the launcher's answer and now. */
static bool is_orphan(const struct sg_manager *m, const char *id)
{
    if (sg_map_find(&m->sandboxes, id))
        return false;
    const struct sg_gone *gone = sg_list_gone(m, id);
    return !gone || gone->at_ns < m->reconciling->began_ns;
}

static void listed(struct sg_manager *m, struct sg_cells *c, const struct sg_err *err)
{
    size_t cursor = 0;

    if (m->is_ending)
        return;
    if (err) {
        tell(m, err);
        return;
    }
    m->reconciling->left = 1;
    m->counting.cells = (unsigned)c->ids.n;
    m->counting.rows = (unsigned)m->sandboxes.n;
    for (struct sg_sandbox *s = m->oldest, *next; s; s = next) {
        next = s->newer;
        judge(s, sg_map_find(&c->ids, s->id.s) != NULL);
    }
    for (const char *id; (id = sg_map_next(&c->ids, &cursor));) {
        if (is_orphan(m, id))
            destroy_orphan(m, id);
    }
    m->counting.stale_journals = sg_journal_sweep(m);
    sg_snapshots_reconcile(m);
    one_less(m);
}

static void begin(struct sg_manager *m)
{
    m->reconciling = sg_new(struct sg_reconcile);
    m->reconciling->began_ns = sg_loop_now(m->loop);
    m->counting = (struct sg_reconcile_report) { 0 };
    sg_cells_list(m, listed);
}

int sg_manager_reconcile(struct sg_manager *m, sg_reconcile_cb *cb, void *arg, struct sg_err *err)
{
    if (!m->is_ready || m->is_ending)
        return sg_fail(err, SG_UNAVAILABLE, "the service is %s",
                       m->is_ending ? "ending" : "starting");
    if (!m->reconciling)
        begin(m);
    struct waiter *w = sg_new(struct waiter);
    *w = (struct waiter) { m->reconciling->waiters, cb, arg };
    m->reconciling->waiters = w;
    return 0;
}

static void tick(struct sg_timer *t, uint64_t now_ns)
{
    struct sg_manager *m = SG_OWNER(t, struct sg_manager, reconcile);

    if (!m->reconciling)
        begin(m);
    sg_timer_set(m->loop, t, now_ns + m->o.reconcile_ms * NS_PER_MS);
}

void sg_reconcile_start(struct sg_manager *m)
{
    m->reconcile.fire = tick;
    if (m->o.reconcile_ms)
        sg_timer_set(m->loop, &m->reconcile, sg_loop_now(m->loop) + m->o.reconcile_ms * NS_PER_MS);
}

void sg_reconcile_free(struct sg_manager *m)
{
    struct sg_err err = { 0 };

    (void)sg_fail(&err, SG_UNAVAILABLE, "the service is ending");
    if (m->reconciling)
        tell(m, &err);
}
