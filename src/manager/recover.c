/* SPDX-License-Identifier: Apache-2.0 */
/* After a restart: rows from the store, cells from the launcher, and what follows from both.
 *
 * R1. A row that was acknowledged and has a cell is adopted: a new connection, then its execs.
 * R2. A row in transit is finished: pausing is frozen, resuming thawed, stopping stopped or
 *     destroyed; creating that nobody was told of is destroyed.
 * R3. A row without a cell has died. A cell without a row is destroyed.
 * R4. Hello and execs are asked for as soon as there is a connection. A paused sandbox's init is
 *     frozen, that of one without processor time is slow: their answers come when they come, and a
 *     late one is no death. Until then rows that say "running" are believed.
 * R5. The service is ready when every living cell is connected and has answered, or our patience
 *     with all of them together is over: nobody keeps the others waiting. */
#include <string.h>

#include "base/auto.h"
#include "base/log.h"
#include "manager/capture.h"
#include "manager/life.h"
#include "manager/standby.h"
#include "manager/volume.h"
#include "tier/tier.h"

#include "base/banned.h"

#define PATIENCE_NS 1000000000u
#define LOST        "its cell is gone: the machine or the service was restarted"

struct sg_recovery {
    struct sg_manager *m;
    unsigned adopting, ending; /* how many are under way */
    struct sg_timer patience;
    bool is_late; /* it is over */
};

/* ---- rows ---- */

struct rows {
    struct sg_manager *m;
    struct sg_sandbox **v;
    size_t n, cap;
};

static bool load_one(void *arg, const struct sg_sandbox_row *r)
{
    struct rows *rows = arg;
    struct sg_err err = { 0 };
    struct sg_sandbox *s = sg_row_load(rows->m, r, &err);

    if (!s) { /* its cell, if any, is then one without a row */
        sg_log(SG_LOG_ERROR, "row of a sandbox is dropped", SG_KV("error", err.msg));
        sg_store_remove_sandbox(rows->m->store, r->id, NULL, NULL);
        return true;
    }
    if (rows->n == rows->cap) {
        rows->cap = rows->cap ? 2 * rows->cap : 64;
        struct sg_sandbox **grown = sg_alloc(rows->cap * sizeof(struct sg_sandbox *));
        if (rows->n)
            memcpy(grown, rows->v, rows->n * sizeof(struct sg_sandbox *));
        free(rows->v);
        rows->v = grown;
    }
    rows->v[rows->n++] = s;
    return true;
}

static int by_age(const void *a, const void *b)
{
    const struct sg_sandbox *x = *(struct sg_sandbox *const *)a,
                            *y = *(struct sg_sandbox *const *)b;

    if (x->created_ms != y->created_ms)
        return x->created_ms < y->created_ms ? -1 : 1;
    return strcmp(x->id.s, y->id.s);
}

int sg_recover_load(struct sg_manager *m, struct sg_err *err)
{
    struct rows rows = { .m = m };
    int r = sg_store_each_sandbox(m->store, load_one, &rows, err);

    if (rows.n)
        qsort(rows.v, rows.n, sizeof(struct sg_sandbox *), by_age);
    for (size_t i = 0; i < rows.n; i++) {
        struct sg_sandbox *s = rows.v[i];
        s->life->is_known |= s->state != SBX_CREATING;
        sg_quota_charge(s);
        if (s->state == SBX_FAILED)
            sg_quota_reduce(s);
        sg_list_add(s);
    }
    free(rows.v);
    return r < 0 ? sg_wrap(err, "load the sandboxes") : 0;
}

/* ---- the end of it ---- */

static void finish(struct sg_manager *m)
{
    m->counting.stale_journals = sg_journal_sweep(m);
    m->counting.at_ms = sg_manager_unix_ms();
    m->report = m->counting;
    sg_recover_free(m);
    m->is_ready = true;
    for (struct sg_sandbox *s = m->oldest; s; s = s->newer) {
        sg_expiry_update(s);
        sg_pause_keep_update(s);
        sg_pause_memory_update(s);
    }
    sg_usage_start(m);
    sg_gc_start(m);
    sg_samples_start(m);
    sg_rules_watch(m);
    sg_snapshots_reconcile(m);
    sg_reconcile_start(m);
    sg_volume_recover(m);
    sg_standby_start(m);
    m->ready(m->ready_arg, NULL);
}

static void finish_if_done(struct sg_manager *m)
{
    const struct sg_recovery *r = m->recovery;

    if (r && r->adopting == 0 && (r->ending == 0 || r->is_late))
        finish(m);
}

static void adopted(void *arg, struct sg_sandbox *s, const struct sg_err *err)
{
    struct sg_manager *m = arg;

    (void)s;
    (void)err; /* recorded as its cause */
    if (m->is_ending)
        return;
    m->recovery->adopting--;
    finish_if_done(m);
}

static void one_ended(struct sg_manager *m)
{
    if (m->is_ending || !m->recovery) /* it took too long to be waited for */
        return;
    m->recovery->ending--;
    finish_if_done(m);
}

static void destroyed(void *arg, struct sg_sandbox *s, const struct sg_err *err)
{
    (void)s;
    (void)err; /* recorded as its cause */
    one_ended(arg);
}

static void orphan_gone(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    struct sg_manager *m = arg;

    (void)p;
    if (err && !m->is_ending)
        sg_log(SG_LOG_ERROR, "cell without a row could not be destroyed", SG_KV("error", err->msg));
    one_ended(m);
}

/* ---- adopting one ---- */

static void adoption_over(struct sg_sandbox *s)
{
    bool was_stopping = s->state == SBX_STOPPING;

    if (was_stopping)
        sg_life_must(s, EV_FAIL); /* as if it ran; then it is stopped again */
    if (s->state != SBX_PAUSED)
        sg_pause_keep_drop(s);
    sg_life_end(s, NULL);
    if (was_stopping && s->life->op == OP_NONE && s->state == SBX_RUNNING)
        sg_stop_begin(s);
}

static void adoption_failed(struct sg_sandbox *s, const struct sg_err *err)
{
    s->manager->counting.lost++;
    sg_death_report(s, EV_CRASH, err->msg); /* begins when the operation has ended */
    sg_life_end(s, err);
}

/* Whichever comes first: its answer, or the end of our patience. */
static void let_go(struct sg_sandbox *s, const struct sg_err *err)
{
    if (!s->life->is_greeting)
        return;
    s->life->is_greeting = false;
    sg_life_got(s, err);
}

static void greeted(struct sg_sandbox *s)
{
    struct sg_err err;

    if (sg_life_failed(s, &err))
        adoption_failed(s, &err);
    else
        adoption_over(s);
}

/* Of one that was let go, the end of its connection is told by its peer. */
static void hello_answered(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    struct sg_sandbox *s = arg;

    (void)p;
    if (err && s->life->is_greeting)
        let_go(s, err);
    else if (err && err->kind != SG_UNAVAILABLE)
        sg_death_report(s, EV_CRASH, err->msg);
    sg_life_drop(s);
}

static void execs_back(struct sg_sandbox *s, void *arg)
{
    (void)arg;
    let_go(s, NULL);
    sg_life_drop(s);
}

static void connected(struct sg_sandbox *s)
{
    bool is_waited_for = s->state != SBX_PAUSED && !s->manager->recovery->is_late;
    struct sg_err err = { 0 };

    if (sg_life_failed(s, &err) || sg_cell_hello(s, hello_answered, &err) < 0) {
        adoption_failed(s, &err);
        return;
    }
    sg_net_reopen(s);
    sg_life_hold(s); /* for each of the two answers */
    sg_life_hold(s);
    if (is_waited_for) {
        s->life->is_greeting = true;
        sg_life_expect(s, 1, greeted);
    }
    sg_exec_recover(s, execs_back, NULL);
    if (!is_waited_for)
        adoption_over(s);
}

static void cell_answered(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    struct sg_sandbox *s = arg;
    struct sg_err own = { 0 };

    if (p && sg_cell_connect(s, p, &own) < 0)
        err = &own;
    sg_life_got(s, err);
}

static void adopt(struct sg_sandbox *s)
{
    sg_life_expect(s, 1, connected);
    sg_tier_adopt(s->manager->tier, s->id.s, cell_answered, s);
}

/* A row in transit is what it was on its way to; a freeze that did not work leaves it running. */
static void freezer_done(struct sg_sandbox *s)
{
    struct sg_err err;
    bool has_failed = sg_life_failed(s, &err);

    if (s->state != SBX_PAUSING && s->state != SBX_RESUMING) {
        adopt(s); /* where there is no freezer, it is as it should be */
        return;
    }
    if (s->state == SBX_PAUSING)
        sg_life_must(s, has_failed ? EV_FAIL : EV_PAUSED);
    else
        sg_life_must(s, has_failed ? EV_FAIL : EV_RESUMED);
    sg_row_put(s, s->state, s->state == SBX_PAUSED ? SG_STORE_FULL : SG_STORE_NORMAL, NULL, NULL);
    adopt(s);
}

/* The freezer is set to what the row says: what the service before us had under way may have been
 * done or not. */
static void adopt_begin(struct sg_sandbox *s)
{
    struct sg_tier *t = s->manager->tier;

    sg_life_begin(s, OP_ADOPT);
    s->life->has_cell = true;
    sg_life_expect(s, 1, freezer_done);
    if (s->state == SBX_PAUSING || s->state == SBX_PAUSED)
        sg_tier_freeze(t, s->id.s, sg_life_tier_answer, s);
    else
        sg_tier_thaw(t, s->id.s, sg_life_tier_answer, s);
}

/* ---- deciding ---- */

static void nothing(struct sg_sandbox *s, void *arg)
{
    (void)s;
    (void)arg;
}

static void destroy_orphan(struct sg_manager *m, const char *id)
{
    m->counting.orphans++;
    m->recovery->ending++;
    sg_tier_destroy(m->tier, id, orphan_gone, m);
}

/* Paused without its memory, or on the way back from that: the files are in its snapshot, and a
 * cell that is there is of no use. So is one that was frozen and has no cell any more, if its files
 * are kept. One on the way into it was promised to nobody: what has a cell goes on as one that is
 * frozen. */
static bool is_on_disk(struct sg_sandbox *s, bool has_cell)
{
    if (!has_cell && s->paused_files && (s->state == SBX_PAUSED || s->state == SBX_RESUMING))
        sg_pause_keep_fall(s, LOST);
    if (!s->paused_snapshot)
        return false;
    if (s->state == SBX_PAUSED || s->state == SBX_RESUMING)
        return true;
    free(sg_take_ptr(&s->paused_snapshot)); /* a stray from here on */
    return false;
}

static void leave_on_disk(struct sg_sandbox *s, bool has_cell)
{
    if (s->state == SBX_RESUMING) {
        sg_life_must(s, EV_FAIL);
        sg_row_put(s, SBX_PAUSED, SG_STORE_FULL, NULL, NULL);
    }
    sg_exec_recover(s, nothing, NULL);
    if (has_cell)
        destroy_orphan(s->manager, s->id.s);
}

static void decide(struct sg_sandbox *s, bool has_cell)
{
    struct sg_manager *m = s->manager;
    bool is_unknown = s->state == SBX_CREATING && !s->life->is_known;

    if (is_unknown || s->life->is_ending) {
        m->recovery->ending++;
        sg_life_wait(&s->life->destroying, destroyed, m);
        sg_destroy_begin(s);
    } else if (s->state == SBX_FAILED) {
        sg_exec_recover(s, nothing, NULL);
        if (has_cell)
            destroy_orphan(m, s->id.s);
    } else if (is_on_disk(s, has_cell)) {
        leave_on_disk(s, has_cell);
    } else if (s->state == SBX_CREATING) { /* a fresh attempt was under way */
        sg_exec_recover(s, nothing, NULL);
        sg_create_again(s);
    } else if (has_cell) {
        m->recovery->adopting++;
        sg_life_wait(&s->life->waiting, adopted, m);
        adopt_begin(s);
    } else {
        m->counting.lost++;
        sg_exec_recover(s, nothing, NULL);
        s->life->has_cell = true; /* it had one */
        sg_death_report(s, EV_CRASH, LOST);
    }
}

static void patience_over(struct sg_timer *t, uint64_t now_ns)
{
    struct sg_recovery *r = SG_OWNER(t, struct sg_recovery, patience);
    struct sg_manager *m = r->m;

    (void)now_ns;
    r->is_late = true;
    r->adopting++; /* until the walk is over */
    for (struct sg_sandbox *s = m->oldest, *next; s; s = next) {
        next = s->newer;
        if (s->life->is_greeting)
            sg_log(SG_LOG_WARN, "init of a sandbox does not answer yet", SG_KV("sandbox", s->id.s));
        let_go(s, NULL);
    }
    adopted(m, NULL, NULL);
}

static void listed(struct sg_manager *m, struct sg_cells *c, const struct sg_err *err)
{
    size_t cursor = 0;

    if (err) {
        if (!m->is_ending)
            m->ready(m->ready_arg, err);
        return;
    }
    m->recovery->adopting = 1; /* until all are decided on */
    m->counting.cells = (unsigned)c->ids.n;
    m->counting.rows = (unsigned)m->sandboxes.n;
    for (struct sg_sandbox *s = m->oldest, *next; s; s = next) {
        next = s->newer;
        decide(s, sg_map_find(&c->ids, s->id.s) != NULL);
    }
    for (const char *id; (id = sg_map_next(&c->ids, &cursor));) {
        if (!sg_map_find(&m->sandboxes, id))
            destroy_orphan(m, id);
    }
    sg_timer_set(m->loop, &m->recovery->patience, sg_loop_now(m->loop) + PATIENCE_NS);
    adopted(m, NULL, NULL);
}

static void welcomed(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    struct sg_manager *m = arg;

    (void)p;
    if (!err) {
        sg_rules_welcomed(m);
        sg_cells_list(m, listed);
    }
    if (err && !m->is_ending)
        m->ready(m->ready_arg, err);
}

void sg_recover_start(struct sg_manager *m)
{
    m->recovery = sg_new(struct sg_recovery);
    m->recovery->m = m;
    m->recovery->patience.fire = patience_over;
    sg_tier_hello(m->tier, m->epoch, welcomed, m);
}

void sg_recover_free(struct sg_manager *m)
{
    if (m->recovery)
        sg_timer_stop(m->loop, &m->recovery->patience);
    free(m->recovery);
    m->recovery = NULL;
}
