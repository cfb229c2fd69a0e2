/* SPDX-License-Identifier: Apache-2.0 */
/* The life of sandboxes: what is written when, who is told what, and that nothing stays behind. */
#include "manager_rig.h"

#include "manager/net.h"
#include "random.h"
#include "base/banned.h"

/* ---- create and destroy ---- */

static void a_row_exists_before_its_cell_and_says_running_before_the_answer(void **state)
{
    struct rig *r = *state;
    struct sg_sandbox *s = rig_create(r, NULL);

    assert_string_equal(r->row_seen[SG_MSG_L_CREATE], "creating");
    assert_string_equal(rig_row(r, s->id.s).state, "running");
    assert_int_equal(s->state, SBX_RUNNING);
    assert_true(s->was_parked);
    assert_string_equal(s->user, "user");
    assert_string_equal(s->template, "base");
    assert_int_equal(s->limits.mem_bytes, 64 << 20);
    assert_int_equal(rig_cell(r, s->id.s)->limits.cpu_milli, 500);
    assert_true(s->expires_ms > s->created_ms);
}

static void a_row_goes_after_its_cell(void **state)
{
    struct rig *r = *state;
    struct sg_sandbox *s = rig_create(r, NULL);
    char id[SG_ID_LEN + 1];

    memcpy(id, s->id.s, sizeof id);
    struct told t = rig_do(r, sg_manager_destroy, s);
    assert_int_equal(t.well, 1);
    assert_null(t.s);
    assert_string_equal(r->row_seen[SG_MSG_L_DESTROY], "stopping");
    assert_string_equal(rig_row(r, id).state, "");
    assert_int_equal(r->cell_count, 0);
    assert_int_equal(hooks.ended, 1);
    assert_int_equal(hooks.forgotten, 1);
    assert_int_equal(r->who.org->sandboxes, 0);
    assert_int_equal(r->who.org->mem_bytes, 0);
    struct sg_err err;
    assert_null(sg_manager_find(r->m, &r->who, id, &err));
    assert_int_equal(err.kind, SG_NOT_FOUND);
}

static void all_who_destroy_the_same_are_answered(void **state)
{
    struct rig *r = *state;
    struct sg_sandbox *s = rig_create(r, NULL);
    struct told t = { 0 };
    struct sg_err err;

    for (unsigned i = 0; i < 5; i++)
        assert_ok(sg_manager_destroy(s, &r->who, tell, &t, &err), err);
    rig_turn(r);
    if (!s->life->is_gone)
        assert_ok(sg_manager_destroy(s, &r->who, tell, &t, &err), err);
    rig_until(r, t.calls >= 5);
    rig_run_ms(r, 20);
    assert_int_equal(t.calls, t.well);
    assert_int_equal(r->asked[SG_MSG_L_DESTROY], 1);
}

static void a_destroy_waits_for_the_create_that_is_under_way(void **state)
{
    struct rig *r = *state;
    struct sg_create c = { .timeout_ms = 0 };
    struct told made = { 0 }, gone = { 0 };
    struct sg_err err;

    r->holds_creates = true;
    assert_ok(sg_manager_create(r->m, &r->who, &c, tell, &made, &err), err);
    rig_until(r, r->held);
    struct sg_sandbox *s = r->m->newest;
    assert_int_equal(s->state, SBX_CREATING);
    assert_ok(sg_manager_destroy(s, &r->who, tell, &gone, &err), err);
    rig_run_ms(r, 30);
    assert_int_equal(made.calls + gone.calls, 0);
    rig_release(r);
    rig_until(r, gone.calls);
    assert_int_equal(made.well, 1);
    assert_int_equal(gone.well, 1);
    assert_int_equal(r->cell_count, 0);
    assert_int_equal(rig_row(r, NULL).count, 0);
}

static void a_create_that_fails_leaves_nothing(void **state)
{
    struct rig *r = *state;
    struct sg_create c = { .timeout_ms = 0 };
    struct told t = { 0 };
    struct sg_err err;

    r->fails[SG_MSG_L_CREATE] = 1;
    r->fail_kind = SG_NOT_FOUND;
    assert_ok(sg_manager_create(r->m, &r->who, &c, tell, &t, &err), err);
    rig_until(r, t.calls);
    assert_int_equal(t.well, 0);
    assert_int_equal(t.err.kind, SG_NOT_FOUND);
    assert_int_equal(rig_row(r, NULL).count, 0);
    assert_int_equal(r->cell_count, 0);
    assert_int_equal(r->who.org->sandboxes, 0);
    assert_int_equal(r->m->charged, 0);
}

static void a_sandbox_that_hangs_up_on_us_at_birth_is_not_handed_out(void **state)
{
    struct rig *r = *state;
    struct sg_create c = { .timeout_ms = 0 };
    struct told t = { 0 };
    struct sg_err err;

    r->hangs_up_on_hello = true;
    assert_ok(sg_manager_create(r->m, &r->who, &c, tell, &t, &err), err);
    rig_until(r, t.calls);
    assert_int_equal(t.well, 0);
    assert_int_equal(r->cell_count, 0);
    assert_int_equal(rig_row(r, NULL).count, 0);
}

static void a_create_is_tried_again_as_often_as_asked_and_says_why(void **state)
{
    struct rig *r = *state;
    struct sg_create c = { .timeout_ms = 0, .retries = 3 };

    r->fails[SG_MSG_L_CREATE] = 2;
    struct sg_sandbox *s = rig_create(r, &c);
    assert_int_equal(s->retries_used, 2);
    assert_int_equal(s->retries_left, 1);
    assert_non_null(strstr(s->cause, "the test wants it so"));
    assert_string_equal(rig_row(r, s->id.s).cause, s->cause);
    assert_int_equal(r->m->metrics.retries, 2);
    assert_int_equal(r->asked[SG_MSG_L_CREATE], 3);
}

static void what_a_fresh_attempt_cannot_change_is_not_tried_again(void **state)
{
    struct rig *r = *state;
    struct sg_create c = { .timeout_ms = 0, .retries = 3 };
    struct told t = { 0 };
    struct sg_err err;

    r->fails[SG_MSG_L_CREATE] = 1;
    r->fail_kind = SG_NOT_FOUND;
    assert_ok(sg_manager_create(r->m, &r->who, &c, tell, &t, &err), err);
    rig_until(r, t.calls);
    assert_int_equal(t.well, 0);
    assert_int_equal(r->asked[SG_MSG_L_CREATE], 1);
}

static void looked(void *arg, const struct sg_reconcile_report *report, const struct sg_err *err)
{
    assert_null(err);
    *(struct sg_reconcile_report *)arg = *report;
}

static void a_destroy_that_fails_is_told_and_the_reconciler_finishes_it(void **state)
{
    struct rig *r = *state;
    struct sg_sandbox *s = rig_create(r, NULL);
    struct sg_reconcile_report report = { 0 };
    struct sg_err err;

    r->fails[SG_MSG_L_DESTROY] = 1;
    struct told t = rig_do(r, sg_manager_destroy, s);
    assert_int_equal(t.well, 0);
    assert_int_equal(r->cell_count, 1);
    assert_string_equal(rig_row(r, s->id.s).state, "stopping");
    assert_int_equal(r->who.org->sandboxes, 1);
    rig_run_ms(r, 5);
    assert_ok(sg_manager_reconcile(r->m, looked, &report, &err), err);
    rig_until(r, report.at_ms);
    assert_int_equal(report.orphans, 1);
    assert_int_equal(r->cell_count, 0);
    assert_int_equal(rig_row(r, NULL).count, 0);
    assert_int_equal(r->who.org->sandboxes, 0);
}

static void asked_for(void *arg, unsigned count, const struct sg_err *err)
{
    unsigned *got = arg;
    assert_null(err);
    *got = count + 1;
}

static void all_of_an_organisation_are_destroyed_at_once(void **state)
{
    struct rig *r = *state;
    struct sg_err err;
    unsigned got = 0;

    assert_ok(sg_manager_destroy_all(r->m, &r->who, asked_for, &got, &err), err);
    assert_int_equal(got, 1);
    for (unsigned i = 0; i < 20; i++)
        (void)rig_create(r, NULL);
    got = 0;
    assert_ok(sg_manager_destroy_all(r->m, &r->who, asked_for, &got, &err), err);
    rig_until(r, got);
    assert_int_equal(got, 21);
    assert_int_equal(r->cell_count, 0);
    assert_int_equal(rig_row(r, NULL).count, 0);
}

/* ---- pause, stop ---- */

static void pause_and_resume_go_through_the_store(void **state)
{
    struct rig *r = *state;
    struct sg_sandbox *s = rig_create(r, NULL);

    assert_int_equal(rig_do(r, sg_manager_pause, s).well, 1);
    assert_int_equal(s->state, SBX_PAUSED);
    assert_string_equal(r->row_seen[SG_MSG_L_FREEZE], "pausing");
    assert_string_equal(rig_row(r, s->id.s).state, "paused");
    assert_true(rig_cell(r, s->id.s)->is_frozen);
    assert_int_equal(rig_do(r, sg_manager_pause, s).well, 1); /* it is so already */
    assert_int_equal(r->asked[SG_MSG_L_FREEZE], 1);
    assert_int_equal(rig_do(r, sg_manager_resume, s).well, 1);
    assert_string_equal(r->row_seen[SG_MSG_L_THAW], "resuming");
    assert_string_equal(rig_row(r, s->id.s).state, "running");
    assert_false(rig_cell(r, s->id.s)->is_frozen);
}

static void a_freeze_that_fails_leaves_a_running_sandbox(void **state)
{
    struct rig *r = *state;
    struct sg_sandbox *s = rig_create(r, NULL);

    r->fails[SG_MSG_L_FREEZE] = 1;
    assert_int_equal(rig_do(r, sg_manager_pause, s).well, 0);
    assert_int_equal(s->state, SBX_RUNNING);
    assert_int_equal(r->asked[SG_MSG_L_THAW], 1);
    rig_flush(r);
    assert_string_equal(rig_row(r, s->id.s).state, "running");
    r->fails[SG_MSG_L_THAW] = 1;
    assert_int_equal(rig_do(r, sg_manager_pause, s).well, 1);
    assert_int_equal(rig_do(r, sg_manager_resume, s).well, 0);
    assert_int_equal(s->state, SBX_PAUSED);
    assert_int_equal(rig_do(r, sg_manager_resume, s).well, 1);
}

static void what_the_matrix_refuses_is_a_conflict_and_what_is_under_way_is_joined(void **state)
{
    struct rig *r = *state;
    struct sg_sandbox *s = rig_create(r, NULL);
    struct told t = { 0 };
    struct sg_err err;

    assert_ok(sg_manager_pause(s, &r->who, tell, &t, &err), err);
    assert_ok(sg_manager_pause(s, &r->who, tell, &t, &err), err);
    assert_fails(sg_manager_resume(s, &r->who, tell, &t, &err), err, SG_CONFLICT);
    assert_fails(sg_manager_stop(s, &r->who, tell, &t, &err), err, SG_CONFLICT);
    rig_until(r, t.calls == 2);
    assert_int_equal(t.well, 2);
    assert_int_equal(r->asked[SG_MSG_L_FREEZE], 1);
    assert_fails(sg_manager_stop(s, &r->who, tell, &t, &err), err, SG_CONFLICT);
    assert_fails(sg_manager_start(s, &r->who, tell, &t, &err), err, SG_CONFLICT);
    assert_int_equal(rig_do(r, sg_manager_destroy, s).well, 1);
}

static void stop_ends_the_processes_and_start_allows_them_again(void **state)
{
    struct rig *r = *state;
    struct sg_sandbox *s = rig_create(r, NULL);
    struct sg_err err;

    assert_int_equal(rig_do(r, sg_manager_stop, s).well, 1);
    assert_int_equal(hooks.killed, 1);
    assert_string_equal(rig_row(r, s->id.s).state, "stopped");
    assert_fails(sg_sandbox_demand_running(s, &err), err, SG_CONFLICT);
    assert_int_equal(rig_do(r, sg_manager_start, s).well, 1);
    assert_string_equal(rig_row(r, s->id.s).state, "running");
    assert_ok(sg_sandbox_demand_running(s, &err), err);
    hooks.kill_fails = true;
    assert_int_equal(rig_do(r, sg_manager_stop, s).well, 0);
    assert_int_equal(s->state, SBX_RUNNING);
}

/* ---- death ---- */

static void a_sandbox_that_dies_has_failed_and_says_why(void **state)
{
    struct rig *r = *state;
    struct sg_sandbox *s = rig_create(r, NULL);
    struct sg_err err;

    rig_kill_cell(r, s->id.s, SG_L_END_MEMORY, true);
    rig_until(r, s->state == SBX_FAILED && s->life->op == OP_NONE);
    assert_non_null(strstr(s->cause, "memory"));
    assert_string_equal(rig_row(r, s->id.s).state, "failed");
    assert_int_equal(hooks.ended, 1);
    assert_null(s->peer);
    assert_int_equal(r->cell_count, 0);
    assert_int_equal(r->who.org->mem_bytes, 0);
    assert_int_equal(r->who.org->sandboxes, 1); /* it is there until it is destroyed */
    assert_fails(sg_manager_pause(s, &r->who, tell, NULL, &err), err, SG_CONFLICT);
    assert_int_equal(rig_do(r, sg_manager_destroy, s).well, 1);
    assert_int_equal(r->who.org->sandboxes, 0);
    assert_int_equal(rig_row(r, NULL).count, 0);
}

static void a_connection_that_ends_without_a_word_is_a_death_too(void **state)
{
    struct rig *r = *state;
    struct sg_sandbox *s = rig_create(r, NULL);

    rig_kill_cell(r, s->id.s, 0, false);
    rig_in_time(r, s->state == SBX_FAILED && s->life->op == OP_NONE);
    assert_non_null(strstr(s->cause, "connection"));
    assert_int_equal(r->cell_count, 0);
}

static void a_fresh_one_takes_the_place_of_one_that_died_where_asked(void **state)
{
    struct rig *r = *state;
    struct sg_create c = { .timeout_ms = 0, .retries = 1 };
    struct sg_sandbox *s = rig_create(r, &c);
    char id[SG_ID_LEN + 1];

    memcpy(id, s->id.s, sizeof id);
    rig_kill_cell(r, id, SG_L_END_EXIT, true);
    rig_until(r, r->m->metrics.creates == 2 && s->life->op == OP_NONE);
    assert_int_equal(s->state, SBX_RUNNING);
    assert_string_equal(s->id.s, id);
    assert_int_equal(s->retries_used, 1);
    assert_non_null(strstr(s->cause, "exited"));
    assert_int_equal(r->who.org->sandboxes, 1);
    assert_int_equal(r->who.org->mem_bytes, 64 << 20);
    assert_string_equal(rig_row(r, id).state, "running");
    rig_kill_cell(r, id, SG_L_END_EXIT, true);
    rig_until(r, s->state == SBX_FAILED && s->life->op == OP_NONE);
    assert_string_equal(rig_row(r, id).state, "failed");
}

static void a_death_in_the_middle_of_a_pause_is_not_lost(void **state)
{
    struct rig *r = *state;
    struct sg_sandbox *s = rig_create(r, NULL);
    struct told t = { 0 };
    struct sg_err err;

    assert_ok(sg_manager_pause(s, &r->who, tell, &t, &err), err);
    rig_kill_cell(r, s->id.s, SG_L_END_KILLED, true);
    rig_until(r, s->state == SBX_FAILED && s->life->op == OP_NONE);
    assert_int_equal(t.calls, 1);
}

/* ---- all at once ---- */

struct chaos {
    unsigned asked, calls;
};

static void count_call(void *arg, struct sg_sandbox *s, const struct sg_err *err)
{
    struct chaos *c = arg;
    (void)s;
    (void)err;
    c->calls++;
}

static struct sg_sandbox *pick(struct rig *r, struct rng *rng)
{
    struct sg_sandbox *s = r->m->newest;
    for (uint64_t i = rng_below(rng, 12); s && i; i--)
        s = s->older;
    return s;
}

static void stir(struct rig *r, struct rng *rng, struct chaos *c)
{
    static rig_change *const changes[] = { sg_manager_pause, sg_manager_resume, sg_manager_stop,
                                           sg_manager_start, sg_manager_destroy };
    static const enum sg_msg_type breakable[] = { SG_MSG_L_CREATE, SG_MSG_L_FREEZE, SG_MSG_L_THAW,
                                                  SG_MSG_L_LIMIT, SG_MSG_L_DESTROY };
    struct sg_sandbox *s = pick(r, rng);
    struct sg_create spec = { .timeout_ms = rng_below(rng, 4) ? 0 : 20,
                              .idle_ms = rng_below(rng, 4) ? 0 : 15,
                              .on_expiry = (enum sg_expiry)rng_below(rng, 2),
                              .retries = (unsigned)rng_below(rng, 3) };
    struct sg_sandbox_limits l = { .mem_bytes = (1 + rng_below(rng, 9)) << 20 };
    struct sg_err err;
    uint64_t dice = rng_below(rng, 16);

    if (dice < 4)
        c->asked += sg_manager_create(r->m, &r->who, &spec, count_call, c, &err) == 0;
    else if (dice < 11 && s)
        c->asked +=
            changes[rng_below(rng, SG_COUNT(changes))](s, &r->who, count_call, c, &err) == 0;
    else if (dice == 11 && s)
        c->asked += sg_manager_set_limits(s, &r->who, &l, count_call, c, &err) == 0;
    else if (dice == 12)
        r->fails[breakable[rng_below(rng, SG_COUNT(breakable))]] = 1;
    else if (dice == 13 && s && rig_cell(r, s->id.s))
        rig_kill_cell(r, s->id.s, (uint32_t)rng_below(rng, 3), rng_below(rng, 4) > 0);
    else
        rig_turn(r);
}

static void whatever_happens_every_caller_is_answered_once_and_nothing_stays(void **state)
{
    struct rig *r = *state;
    struct rng rng = rng_start("lifecycle");
    struct chaos c = { 0 };
    struct sg_err err;
    unsigned got = 0;

    for (unsigned i = 0; i < 3000; i++)
        stir(r, &rng, &c);
    memset(r->fails, 0, sizeof r->fails);
    rig_in_time(r, c.calls == c.asked);
    /* Those that could not be destroyed are asked for once more. */
    assert_ok(sg_manager_destroy_all(r->m, &r->who, asked_for, &got, &err), err);
    rig_until(r, got && !r->m->newest);
    rig_flush(r);
    assert_int_equal(c.calls, c.asked);
    assert_int_equal(r->cell_count, 0);
    assert_int_equal(rig_row(r, NULL).count, 0);
    assert_int_equal(r->m->charged, 0);
    assert_int_equal(r->who.org->sandboxes + r->who.org->mem_bytes + r->who.org->cpu_milli +
                         r->who.org->disk_bytes,
                     0);
}

static void an_ending_service_answers_everybody_and_leaves_the_cells(void **state)
{
    struct rig *r = *state;
    struct rng rng = rng_start("ending");
    struct chaos c = { 0 };

    for (unsigned i = 0; i < 300; i++)
        stir(r, &rng, &c);
    unsigned cells = r->cell_count;
    sg_manager_free(r->m);
    assert_int_equal(c.calls, c.asked);
    assert_int_equal(r->cell_count, cells);
    r->m = NULL;
}

/* One waits for the store, the other for a gate that says nothing. */
static void an_ending_service_answers_each_change_of_a_network_once(void **state)
{
    struct rig *r = *state;
    struct sg_sandbox *s = rig_create(r, NULL);
    const struct sg_policy all = { .mode = SG_MODE_OPEN };
    struct told asked = { 0 }, unsaved = { 0 };
    struct sg_err err;
    int fds[2];

    assert_ok(sg_chan_pair(fds, &err), err);
    sg_net_gate(r->m, fds[0]);
    assert_ok(sg_manager_set_network(s, &r->who, &all, tell, &asked, &err), err);
    rig_until(r, r->asked[SG_MSG_L_NET]);
    rig_run_ms(r, 20);
    assert_int_equal(asked.calls, 0);
    assert_ok(sg_manager_set_network(s, &r->who, &all, tell, &unsaved, &err), err);
    sg_manager_free(r->m);
    r->m = NULL;
    assert_int_equal(asked.calls, 1);
    assert_int_equal(unsaved.calls, 1);
    assert_int_equal(asked.well + unsaved.well, 0);
    (void)close(fds[1]);
}

/* The next gate's connection may be there before the end of the last one's. */
static void a_change_that_a_replaced_gate_never_answered_is_answered(void **state)
{
    struct rig *r = *state;
    struct sg_sandbox *s = rig_create(r, NULL);
    const struct sg_policy all = { .mode = SG_MODE_OPEN };
    struct told asked = { 0 };
    struct sg_err err;
    int old[2], next[2];

    assert_ok(sg_chan_pair(old, &err), err);
    assert_ok(sg_chan_pair(next, &err), err);
    sg_net_gate(r->m, old[0]);
    assert_ok(sg_manager_set_network(s, &r->who, &all, tell, &asked, &err), err);
    rig_until(r, r->asked[SG_MSG_L_NET]);
    rig_run_ms(r, 20);
    assert_int_equal(asked.calls, 0);
    sg_net_gate(r->m, next[0]);
    rig_until(r, asked.calls == 1);
    assert_int_equal(asked.well, 1); /* the new one is told of every policy */
    (void)close(old[1]);
    (void)close(next[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_TEST(a_row_exists_before_its_cell_and_says_running_before_the_answer),
        RIG_TEST(a_row_goes_after_its_cell),
        RIG_TEST(all_who_destroy_the_same_are_answered),
        RIG_TEST(a_destroy_waits_for_the_create_that_is_under_way),
        RIG_TEST(a_create_that_fails_leaves_nothing),
        RIG_TEST(a_sandbox_that_hangs_up_on_us_at_birth_is_not_handed_out),
        RIG_TEST(a_create_is_tried_again_as_often_as_asked_and_says_why),
        RIG_TEST(what_a_fresh_attempt_cannot_change_is_not_tried_again),
        RIG_TEST(a_destroy_that_fails_is_told_and_the_reconciler_finishes_it),
        RIG_TEST(all_of_an_organisation_are_destroyed_at_once),
        RIG_TEST(pause_and_resume_go_through_the_store),
        RIG_TEST(a_freeze_that_fails_leaves_a_running_sandbox),
        RIG_TEST(what_the_matrix_refuses_is_a_conflict_and_what_is_under_way_is_joined),
        RIG_TEST(stop_ends_the_processes_and_start_allows_them_again),
        RIG_TEST(a_sandbox_that_dies_has_failed_and_says_why),
        RIG_TEST(a_connection_that_ends_without_a_word_is_a_death_too),
        RIG_TEST(a_fresh_one_takes_the_place_of_one_that_died_where_asked),
        RIG_TEST(a_death_in_the_middle_of_a_pause_is_not_lost),
        RIG_TEST(whatever_happens_every_caller_is_answered_once_and_nothing_stays),
        RIG_TEST(an_ending_service_answers_everybody_and_leaves_the_cells),
        RIG_TEST(an_ending_service_answers_each_change_of_a_network_once),
        RIG_TEST(a_change_that_a_replaced_gate_never_answered_is_answered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
