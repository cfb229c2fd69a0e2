/* SPDX-License-Identifier: Apache-2.0 */
/* After the death of the daemon: every state of a row, with and without its cell. */
#include "manager_rig.h"

#include "random.h"
#include "base/banned.h"

static int setup_bare(void **state)
{
    struct rig *r = sg_new(struct rig);
    rig_init(r);
    *state = r;
    return 0;
}

#define BARE_TEST(name) cmocka_unit_test_setup_teardown(name, setup_bare, rig_teardown)

/* A row as an earlier daemon left it, and the cell that goes with it. */
static struct sg_id leave(struct rig *r, const char *state, const char *spec, bool has_cell)
{
    struct sg_id id = sg_id_new('s');
    struct sg_sandbox_row row = {
        .id = id.s,
        .org = "odefault000000000000",
        .template = "base",
        .state = state,
        .cause = "",
        .spec = spec,
        .created_ms = 1000,
    };

    sg_store_put_sandbox(r->store, &row, SG_STORE_NORMAL, NULL, NULL);
    if (has_cell) {
        struct cell *c = sg_new(struct cell);
        *c = (struct cell) { .next = r->cells, .rig = r, .init = { .fd = -1 } };
        (void)snprintf(c->id, sizeof c->id, "%s", id.s);
        (void)snprintf(c->template, sizeof c->template, "base");
        r->cells = c;
        r->cell_count++;
    }
    rig_flush(r);
    return id;
}

static struct sg_sandbox *find(struct rig *r, const struct sg_id *id)
{
    return sg_map_find(&r->m->sandboxes, id->s);
}

static void an_acknowledged_sandbox_is_there_again(void **state)
{
    struct rig *r = *state;
    struct sg_pair env = { (char *)(uintptr_t) "A", (char *)(uintptr_t) "1" };
    struct sg_create c = { .timeout_ms = 500000,
                           .idle_ms = 77000,
                           .env = &env,
                           .env_n = 1,
                           .limits = { .mem_bytes = 100 << 20 },
                           .on_expiry = SG_EXPIRY_PAUSE,
                           .retries = 2 };
    struct sg_sandbox *s = rig_create(r, &c);
    struct sg_id id = s->id;
    int64_t expires = s->expires_ms;

    rig_stop_manager(r);
    assert_int_equal(hooks.kept, 1);
    assert_int_equal(r->cell_count, 1);
    rig_start_manager(r);
    s = find(r, &id);
    assert_non_null(s);
    assert_int_equal(s->state, SBX_RUNNING);
    assert_int_equal(s->expires_ms, expires);
    assert_int_equal(s->timeout_ms, 500000);
    assert_int_equal(s->idle_ms, 77000);
    assert_int_equal(s->on_expiry, SG_EXPIRY_PAUSE);
    assert_int_equal(s->retries_left, 2);
    assert_int_equal(s->limits.mem_bytes, 100 << 20);
    assert_string_equal(s->env.v[0].value, "1");
    assert_string_equal(s->workdir, "/workspace");
    assert_int_equal(hooks.recovered, 1);
    assert_int_equal(r->who.org->sandboxes, 1);
    assert_int_equal(r->who.org->mem_bytes, 100 << 20);
    assert_int_equal(r->m->report.lost + r->m->report.orphans, 0);
    assert_int_equal(rig_do(r, sg_manager_destroy, s).well, 1);
}

static void one_that_does_not_answer_is_no_death_and_keeps_nobody_waiting(void **state)
{
    struct rig *r = *state;
    struct sg_create c = { .timeout_ms = 500000 };
    struct sg_id quick = rig_create(r, &c)->id, slow = rig_create(r, &c)->id;
    struct sg_err err;

    rig_stop_manager(r);
    rig_cell(r, slow.s)->is_mute = true;
    uint64_t began_ns = sg_now_ns();
    rig_start_manager(r);
    assert_in_range(sg_now_ns() - began_ns, 0, 3000000000u);
    assert_int_equal(find(r, &quick)->state, SBX_RUNNING);
    assert_int_equal(find(r, &slow)->state, SBX_RUNNING);
    assert_int_equal(hooks.recovered, 2);
    rig_run_ms(r, 1500); /* longer than anybody is given to explain an end */
    assert_int_equal(find(r, &slow)->state, SBX_RUNNING);
    assert_int_equal(find(r, &slow)->life->op, OP_NONE);

    struct cell *cell = rig_cell(r, slow.s);
    cell->is_mute = false;
    assert_ok(sg_io_want(r->loop, &cell->init, EPOLLIN, &err), err);
    rig_until(r, sg_peer_open_questions(find(r, &slow)->peer) == 0);
    assert_int_equal(find(r, &slow)->state, SBX_RUNNING);
    assert_int_equal(r->m->metrics.deaths, 0);
    assert_int_equal(find(r, &slow)->life->refs, 0);
    assert_int_equal(rig_do(r, sg_manager_destroy, find(r, &slow)).well, 1);
}

static void one_that_dies_before_it_has_answered_has_failed(void **state)
{
    struct rig *r = *state;
    struct sg_create c = { .timeout_ms = 500000 };
    struct sg_id slow = rig_create(r, &c)->id;

    rig_stop_manager(r);
    rig_cell(r, slow.s)->is_mute = true;
    rig_start_manager(r);
    rig_kill_cell(r, slow.s, SG_L_END_MEMORY, true);
    rig_until(r, find(r, &slow)->state == SBX_FAILED && find(r, &slow)->life->op == OP_NONE);
    assert_non_null(strstr(find(r, &slow)->cause, "out of memory"));
    assert_int_equal(r->m->metrics.deaths, 1);
    assert_int_equal(rig_do(r, sg_manager_destroy, find(r, &slow)).well, 1);
}

static void a_service_that_ends_before_a_slow_one_has_answered_leaves_it(void **state)
{
    struct rig *r = *state;
    struct sg_create c = { .timeout_ms = 500000 };
    struct sg_id slow = rig_create(r, &c)->id;

    rig_stop_manager(r);
    rig_cell(r, slow.s)->is_mute = true;
    rig_start_manager(r);
    rig_stop_manager(r);
    rig_cell(r, slow.s)->is_mute = false;
    rig_start_manager(r);
    assert_int_equal(find(r, &slow)->state, SBX_RUNNING);
    assert_int_equal(r->m->report.lost, 0);
}

static void a_create_that_nobody_was_told_of_is_undone(void **state)
{
    struct rig *r = *state;
    (void)leave(r, "creating", "{}", true);
    (void)leave(r, "creating", "{}", false);
    rig_start_manager(r);
    assert_int_equal(r->cell_count, 0);
    assert_int_equal(rig_row(r, NULL).count, 0);
    assert_null(r->m->newest);
    assert_int_equal(r->m->charged, 0);
}

static void a_fresh_attempt_for_a_known_sandbox_goes_on(void **state)
{
    struct rig *r = *state;
    struct sg_id id = leave(r, "creating", "{\"isKnown\":true}", false);

    rig_start_manager(r);
    rig_until(r, find(r, &id)->state == SBX_RUNNING);
    assert_int_equal(r->cell_count, 1);
    assert_string_equal(rig_row(r, id.s).state, "running");
}

static void a_fresh_attempt_that_had_its_cell_starts_over(void **state)
{
    struct rig *r = *state;
    struct sg_id id = leave(r, "creating", "{\"isKnown\":true}", true);

    rig_start_manager(r);
    rig_until(r, find(r, &id)->state == SBX_RUNNING);
    assert_int_equal(r->cell_count, 1);
    assert_int_equal(r->asked[SG_MSG_L_DESTROY], 1);
    assert_int_equal(find(r, &id)->retries_used, 0);
}

static void a_destroy_that_was_under_way_is_finished(void **state)
{
    struct rig *r = *state;
    struct sg_sandbox *s = rig_create(r, NULL);

    r->fails[SG_MSG_L_DESTROY] = 1;
    assert_int_equal(rig_do(r, sg_manager_destroy, s).well, 0);
    rig_stop_manager(r);
    assert_int_equal(r->cell_count, 1);
    rig_start_manager(r);
    assert_int_equal(r->cell_count, 0);
    assert_int_equal(rig_row(r, NULL).count, 0);
}

static void rows_in_transit_are_finished(void **state)
{
    struct rig *r = *state;
    struct sg_id pausing = leave(r, "pausing", "{}", true);
    struct sg_id resuming = leave(r, "resuming", "{}", true);
    struct sg_id stopping = leave(r, "stopping", "{}", true);
    struct sg_id ending = leave(r, "stopping", "{\"isEnding\":true}", true);
    struct sg_id paused = leave(r, "paused", "{}", true);
    struct sg_id stopped = leave(r, "stopped", "{}", true);

    cell_freeze(rig_cell(r, resuming.s), true);
    cell_freeze(rig_cell(r, paused.s), true);
    rig_start_manager(r);
    assert_int_equal(find(r, &pausing)->state, SBX_PAUSED);
    assert_true(rig_cell(r, pausing.s)->is_frozen);
    assert_int_equal(find(r, &resuming)->state, SBX_RUNNING);
    assert_false(rig_cell(r, resuming.s)->is_frozen);
    assert_null(find(r, &ending));
    assert_null(rig_cell(r, ending.s));
    assert_int_equal(find(r, &paused)->state, SBX_PAUSED);
    assert_int_equal(find(r, &stopped)->state, SBX_STOPPED);
    rig_until(r, find(r, &stopping)->state == SBX_STOPPED);
    rig_flush(r);
    assert_string_equal(rig_row(r, pausing.s).state, "paused");
    assert_string_equal(rig_row(r, resuming.s).state, "running");
    assert_string_equal(rig_row(r, stopping.s).state, "stopped");
    assert_string_equal(rig_row(r, ending.s).state, "");
    /* The frozen one answers after its thaw, and not before. */
    assert_int_equal(rig_do(r, sg_manager_resume, find(r, &paused)).well, 1);
    rig_until(r, sg_peer_open_questions(find(r, &paused)->peer) == 0);
}

static void a_row_without_a_cell_has_failed_and_says_so(void **state)
{
    static const char *const states[] = { "running", "pausing", "paused", "resuming", "stopped" };
    struct rig *r = *state;
    struct sg_id ids[SG_COUNT(states)];

    for (size_t i = 0; i < SG_COUNT(states); i++)
        ids[i] = leave(r, states[i], "{\"limits\":{\"memoryBytes\":1000}}", false);
    rig_start_manager(r);
    rig_flush(r);
    for (size_t i = 0; i < SG_COUNT(states); i++) {
        rig_until(r, find(r, &ids[i])->life->op == OP_NONE);
        assert_int_equal(find(r, &ids[i])->state, SBX_FAILED);
        assert_string_equal(rig_row(r, ids[i].s).state, "failed");
        assert_non_null(strstr(rig_row(r, ids[i].s).cause, "restarted"));
    }
    assert_int_equal(r->m->report.lost, SG_COUNT(states));
    assert_int_equal(r->who.org->mem_bytes, 0);
    assert_int_equal(r->who.org->sandboxes, SG_COUNT(states));
}

static void a_row_without_a_cell_gets_a_fresh_one_where_asked(void **state)
{
    struct rig *r = *state;
    struct sg_id id = leave(r, "running", "{\"retriesLeft\":1}", false);

    rig_start_manager(r);
    rig_until(r, find(r, &id)->state == SBX_RUNNING);
    assert_int_equal(find(r, &id)->retries_used, 1);
    assert_int_equal(r->cell_count, 1);
}

static void a_cell_without_a_row_is_destroyed(void **state)
{
    struct rig *r = *state;
    struct sg_id failed = leave(r, "failed", "{}", true);

    for (unsigned i = 0; i < 20; i++) {
        struct sg_id id = leave(r, "running", "{}", true);
        sg_store_remove_sandbox(r->store, id.s, NULL, NULL);
    }
    rig_flush(r);
    rig_start_manager(r);
    assert_int_equal(r->cell_count, 0);
    assert_int_equal(r->m->report.orphans, 21);
    assert_int_equal(find(r, &failed)->state, SBX_FAILED);
}

static void a_row_that_makes_no_sense_does_not_stop_the_service(void **state)
{
    struct rig *r = *state;
    struct sg_id good = leave(r, "running", "{}", true);

    (void)leave(r, "sleeping", "{}", true);
    (void)leave(r, "running", "{\"limits\":7}", true);
    rig_start_manager(r);
    rig_flush(r);
    assert_non_null(find(r, &good));
    assert_int_equal(r->cell_count, 1);
    assert_int_equal(rig_row(r, NULL).count, 1);
}

/* What it did of what it was asked is not known, so the rows say what was under way. */
static void no_row_changes_once_the_launcher_is_gone(void **state)
{
    struct rig *r = *state;
    struct sg_sandbox *running = rig_create(r, NULL), *pausing = rig_create(r, NULL);
    struct sg_id kept = running->id, frozen = pausing->id;
    struct sg_create c = { .timeout_ms = 0 };
    struct told t = { 0 };
    struct sg_err err;

    assert_ok(sg_io_want(r->loop, &r->launcher, 0, &err), err); /* it hears nothing any more */
    assert_ok(sg_manager_create(r->m, &r->who, &c, tell, &t, &err), err);
    struct sg_id made = r->m->newest->id;
    assert_ok(sg_manager_pause(pausing, &r->who, tell, &t, &err), err);
    rig_run_ms(r, 20);
    sg_io_drop(r->loop, &r->launcher);
    rig_run_ms(r, 20);
    assert_string_equal(rig_row(r, made.s).state, "creating");
    assert_string_equal(rig_row(r, frozen.s).state, "pausing");
    rig_stop_manager(r);
    assert_int_equal(t.calls, 2);
    assert_int_equal(t.well, 0);
    rig_start_manager(r);
    assert_null(find(r, &made));
    assert_int_equal(find(r, &kept)->state, SBX_RUNNING);
    assert_int_equal(find(r, &frozen)->state, SBX_PAUSED);
    assert_int_equal(r->cell_count, 2);
}

static void an_expired_lifetime_is_noticed_at_the_start(void **state)
{
    struct rig *r = *state;
    struct sg_create c = { .timeout_ms = 30 };

    (void)rig_create(r, &c);
    rig_stop_manager(r);
    clock_pass(40000000);
    rig_start_manager(r);
    rig_until(r, r->cell_count == 0 && !r->m->newest);
}

static void the_order_of_the_list_survives(void **state)
{
    struct rig *r = *state;
    struct sg_id ids[5];
    struct sg_sandbox *page[5];
    struct sg_list_query q = { .limit = 5 };
    bool more;

    for (unsigned i = 0; i < 5; i++) {
        ids[i] = rig_create(r, NULL)->id;
        rig_run_ms(r, 3);
    }
    rig_stop_manager(r);
    rig_start_manager(r);
    assert_int_equal(sg_manager_list(r->m, &r->who, &q, page, &more), 5);
    for (unsigned i = 0; i < 5; i++)
        assert_string_equal(page[i]->id.s, ids[4 - i].s);
}

/* ---- the reconciler ---- */

struct looked {
    unsigned calls, found; /* found: by all of them */
    struct sg_reconcile_report report;
};

static void look(void *arg, const struct sg_reconcile_report *report, const struct sg_err *err)
{
    struct looked *l = arg;
    assert_null(err);
    l->calls++;
    l->report = *report;
    l->found += report->lost + report->orphans + report->stale_journals;
}

static struct looked reconcile(struct rig *r)
{
    struct looked l = { 0 };
    struct sg_err err;

    rig_run_ms(r, 2);
    assert_ok(sg_manager_reconcile(r->m, look, &l, &err), err);
    rig_until(r, l.calls);
    return l;
}

static void the_report_reads_zero_when_all_is_well_and_says_what_was_put_right(void **state)
{
    struct rig *r = *state;
    struct sg_sandbox *s = NULL;

    for (unsigned i = 0; i < 20; i++)
        s = rig_create(r, NULL);
    struct looked l = reconcile(r);
    assert_int_equal(l.report.rows, 20);
    assert_int_equal(l.report.cells, 20);
    assert_int_equal(l.report.lost + l.report.orphans + l.report.stale_journals, 0);

    (void)leave(r, "running", "{}", true); /* a cell that memory does not know */
    cell_freeze(rig_cell(r, s->id.s), true);
    rig_remove_cell(r, rig_cell(r, s->id.s)); /* and one that is gone without a word */
    hooks.stale = 3;
    l = reconcile(r);
    assert_int_equal(l.report.orphans, 1);
    assert_int_equal(l.report.lost, 1);
    assert_int_equal(l.report.stale_journals, 3);
    rig_until(r, s->state == SBX_FAILED && s->life->op == OP_NONE);
    l = reconcile(r);
    assert_int_equal(l.report.lost + l.report.orphans + l.report.stale_journals, 0);
    assert_int_equal(sg_manager_report(r->m)->cells, 19);
}

static void the_reconciler_does_not_mistake_what_moves(void **state)
{
    struct rig *r = *state;
    struct told t = { 0 };
    struct looked l = { 0 };
    struct sg_err err;
    unsigned looks = 0;

    for (unsigned i = 0; i < 40; i++)
        (void)rig_create(r, NULL);
    for (unsigned round = 0; round < 40; round++) {
        struct sg_create c = { .timeout_ms = 0 };
        assert_ok(sg_manager_reconcile(r->m, look, &l, &err), err);
        looks++;
        assert_ok(sg_manager_create(r->m, &r->who, &c, tell, &t, &err), err);
        assert_ok(sg_manager_destroy(r->m->oldest, &r->who, tell, &t, &err), err);
        for (unsigned i = 0; i <= round % 7; i++)
            rig_turn(r);
    }
    rig_until(r, l.calls == looks && t.calls == 80);
    assert_int_equal(t.well, 80);
    assert_int_equal(l.found, 0);
}

/* ---- killed at any moment ---- */

static void note(void *arg, struct sg_sandbox *s, const struct sg_err *err)
{
    struct sg_id *id = arg;
    if (!err && s)
        *id = s->id;
}

/* The daemon goes after some turns of the loop, whatever is under way; whoever was told of a
 * sandbox finds it again, and what nobody was told of is gone. */
static void no_acknowledged_sandbox_is_lost_whenever_the_daemon_dies(void **state)
{
    enum { MADE = 6 };
    struct rig *r = *state;
    struct rng rng = rng_start("recovery");

    r->looks_into_store = false;
    for (unsigned round = 0; round < 60; round++) {
        struct sg_id made[MADE] = { 0 };
        struct sg_create c = { .timeout_ms = 0 };
        struct told ignored = { 0 };
        struct sg_err err;

        for (unsigned i = 0; i < MADE; i++)
            assert_ok(sg_manager_create(r->m, &r->who, &c, note, &made[i], &err), err);
        for (uint64_t i = rng_below(&rng, 12); i; i--) {
            rig_turn(r);
            if (r->m->newest && rng_below(&rng, 2))
                (void)sg_manager_pause(r->m->newest, &r->who, tell, &ignored, &err);
            if (r->m->newest && rng_below(&rng, 2))
                (void)sg_manager_resume(r->m->newest, &r->who, tell, &ignored, &err);
            struct sg_id *one = &made[rng_below(&rng, MADE)];
            if (one->s[0] && rng_below(&rng, 4) == 0) { /* may be gone then, or not */
                (void)sg_manager_destroy(find(r, one), &r->who, tell, &ignored, &err);
                one->s[0] = '\0';
            }
        }
        rig_stop_manager(r);
        rig_start_manager(r);
        unsigned known = 0;
        for (unsigned i = 0; i < MADE; i++) {
            if (!made[i].s[0])
                continue;
            known++;
            struct sg_sandbox *s = find(r, &made[i]);
            assert_non_null(s);
            assert_true(s->state == SBX_RUNNING || s->state == SBX_PAUSED);
            assert_int_equal(rig_cell(r, made[i].s)->is_frozen, s->state == SBX_PAUSED);
        }
        /* One whose row said "running" just before it was told may be there, too. */
        assert_true(r->m->sandboxes.n >= known);
        assert_int_equal(r->cell_count, r->m->sandboxes.n);
        assert_int_equal(reconcile(r).report.orphans, 0);
        unsigned gone = 0, all = 0;
        for (struct sg_sandbox *s = r->m->newest, *older; s; s = older) {
            older = s->older;
            assert_ok(sg_manager_destroy(s, &r->who, tell, &ignored, &err), err);
            all++;
        }
        gone = ignored.calls;
        rig_until(r, ignored.calls >= gone + all);
        assert_int_equal(r->cell_count, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_TEST(an_acknowledged_sandbox_is_there_again),
        RIG_TEST(one_that_does_not_answer_is_no_death_and_keeps_nobody_waiting),
        RIG_TEST(one_that_dies_before_it_has_answered_has_failed),
        RIG_TEST(a_service_that_ends_before_a_slow_one_has_answered_leaves_it),
        BARE_TEST(a_create_that_nobody_was_told_of_is_undone),
        BARE_TEST(a_fresh_attempt_for_a_known_sandbox_goes_on),
        BARE_TEST(a_fresh_attempt_that_had_its_cell_starts_over),
        RIG_TEST(a_destroy_that_was_under_way_is_finished),
        BARE_TEST(rows_in_transit_are_finished),
        BARE_TEST(a_row_without_a_cell_has_failed_and_says_so),
        BARE_TEST(a_row_without_a_cell_gets_a_fresh_one_where_asked),
        BARE_TEST(a_cell_without_a_row_is_destroyed),
        BARE_TEST(a_row_that_makes_no_sense_does_not_stop_the_service),
        RIG_TEST(no_row_changes_once_the_launcher_is_gone),
        RIG_TEST(an_expired_lifetime_is_noticed_at_the_start),
        RIG_TEST(the_order_of_the_list_survives),
        RIG_TEST(the_report_reads_zero_when_all_is_well_and_says_what_was_put_right),
        RIG_TEST(the_reconciler_does_not_mistake_what_moves),
        RIG_TEST(no_acknowledged_sandbox_is_lost_whenever_the_daemon_dies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
