/* SPDX-License-Identifier: Apache-2.0 */
/* The files of frozen sandboxes: when they go to the disk, when they are forgotten, and what they
 * are worth when the memory is lost. */
#include "manager_rig.h"

#include "base/banned.h"

enum { AFTER_MS = 100, AGAIN_MS = 600000 };

static int setup(void **state)
{
    struct rig *r = sg_new(struct rig);
    rig_init(r);
    r->has_pool = true;
    r->o.pause_files_ms = AFTER_MS;
    rig_start_manager(r);
    *state = r;
    return 0;
}

#define KEEP_TEST(name) cmocka_unit_test_setup_teardown(name, setup, rig_teardown)

static struct sg_sandbox *paused(struct rig *r)
{
    const struct sg_create endless = { .timeout_ms = 0 };
    struct sg_sandbox *s = rig_create(r, &endless);
    assert_int_equal(rig_do(r, sg_manager_pause, s).well, 1);
    return s;
}

static struct sg_sandbox *kept(struct rig *r)
{
    struct sg_sandbox *s = paused(r);
    rig_in_time(r, s->paused_files && s->life->op == OP_NONE);
    assert_int_equal(r->snapshots, 1);
    return s;
}

static void files_go_to_the_disk_after_a_while_and_a_resume_forgets_them(void **state)
{
    struct rig *r = *state;
    struct sg_sandbox *s = paused(r);

    rig_run_ms(r, AFTER_MS / 2);
    assert_int_equal(r->asked[SG_MSG_L_SNAPSHOT], 0);
    rig_in_time(r, s->paused_files);
    assert_string_equal(r->row_seen[SG_MSG_L_SNAPSHOT], "paused");
    rig_run_ms(r, 3 * AFTER_MS);
    assert_int_equal(r->asked[SG_MSG_L_SNAPSHOT], 1);
    assert_int_equal(s->state, SBX_PAUSED);
    assert_null(s->paused_snapshot);
    assert_int_equal(rig_do(r, sg_manager_resume, s).well, 1);
    assert_false(rig_cell(r, s->id.s)->is_frozen);
    rig_until(r, r->snapshots == 0);
    assert_null(s->paused_files);
    assert_int_equal(rig_do(r, sg_manager_pause, s).well, 1);
    rig_in_time(r, s->paused_files); /* those of now */
    assert_int_equal(rig_do(r, sg_manager_destroy, s).well, 1);
    rig_until(r, r->snapshots == 0);
}

static void a_short_pause_makes_no_snapshot(void **state)
{
    struct rig *r = *state;
    struct sg_sandbox *s = paused(r);

    assert_int_equal(rig_do(r, sg_manager_resume, s).well, 1);
    rig_run_ms(r, 3 * AFTER_MS);
    assert_int_equal(r->asked[SG_MSG_L_SNAPSHOT], 0);
}

static void a_resume_waits_for_the_snapshot_under_way(void **state)
{
    struct rig *r = *state;
    struct sg_sandbox *s = paused(r);
    struct told resumed = { 0 };
    struct sg_err err;

    r->holds_snapshots = true;
    rig_in_time(r, r->held_snapshot);
    assert_int_equal(rig_do(r, sg_manager_pause, s).well, 1); /* it is so already */
    assert_ok(sg_manager_resume(s, &r->who, tell, &resumed, &err), err);
    assert_ok(sg_manager_resume(s, &r->who, tell, &resumed, &err), err);
    assert_fails(sg_manager_stop(s, &r->who, tell, &resumed, &err), err, SG_CONFLICT);
    rig_run_ms(r, AFTER_MS);
    assert_int_equal(resumed.calls, 0);
    assert_int_equal(r->asked[SG_MSG_L_THAW], 0);
    struct sg_msg snapped = { .type = SG_MSG_L_SNAPPED };
    rig_reply(r, &snapped, r->held_snapshot, NULL, 0);
    r->snapshots++;
    rig_until(r, resumed.calls == 2);
    assert_int_equal(resumed.well, 2);
    assert_int_equal(s->state, SBX_RUNNING);
    rig_until(r, r->snapshots == 0);
}

static void a_frozen_cell_that_dies_leaves_a_sandbox_that_is_paused_with_its_files(void **state)
{
    struct rig *r = *state;
    struct sg_sandbox *s = kept(r);
    char id[SG_ID_LEN + 1];

    (void)snprintf(id, sizeof id, "%s", s->paused_files);
    rig_kill_cell(r, s->id.s, SG_L_END_KILLED, true);
    rig_until(r, s->paused_snapshot && s->life->op == OP_NONE);
    assert_int_equal(s->state, SBX_PAUSED);
    assert_string_equal(s->paused_snapshot, id);
    assert_null(s->paused_files);
    assert_int_equal(r->cell_count, 0);
    assert_string_equal(rig_row(r, s->id.s).state, "paused");
    assert_int_equal(rig_do(r, sg_manager_resume, s).well, 1);
    assert_string_equal(rig_cell(r, s->id.s)->template, id);
    rig_until(r, r->snapshots == 0);
}

static void what_could_not_be_kept_is_tried_again_and_lost_until_then(void **state)
{
    struct rig *r = *state;
    struct sg_sandbox *s = paused(r), *other = paused(r);

    r->fails[SG_MSG_L_SNAPSHOT] = 2;
    rig_in_time(r, r->asked[SG_MSG_L_SNAPSHOT] == 2 && s->life->op == OP_NONE &&
                       other->life->op == OP_NONE);
    assert_null(s->paused_files);
    assert_true(rig_cell(r, s->id.s)->is_frozen);
    rig_kill_cell(r, other->id.s, SG_L_END_KILLED, true);
    rig_until(r, other->state == SBX_FAILED);
    clock_pass((uint64_t)AGAIN_MS * 1000000);
    rig_in_time(r, s->paused_files);
}

static void one_that_dies_while_a_resume_waits_is_no_resume(void **state)
{
    struct rig *r = *state;
    struct sg_sandbox *s = paused(r);
    struct told resumed = { 0 };
    struct sg_err err;
    const struct sg_msg_error gone = { .kind = SG_NOT_FOUND, .text = sg_text_of("it has ended") };

    r->holds_snapshots = true;
    rig_in_time(r, r->held_snapshot);
    assert_ok(sg_manager_resume(s, &r->who, tell, &resumed, &err), err);
    rig_kill_cell(r, s->id.s, SG_L_END_KILLED, true);
    rig_until(r, s->life->has_died);
    struct sg_msg m = { .type = SG_MSG_L_FAILED, .error = gone };
    rig_reply(r, &m, r->held_snapshot, NULL, 0);
    rig_until(r, resumed.calls == 1);
    assert_int_equal(resumed.err.kind, SG_CONFLICT);
    rig_until(r, s->state == SBX_FAILED);
}

static struct sg_sandbox *restarted(struct rig *r, struct sg_sandbox *s, bool has_cells)
{
    const struct sg_id id = s->id;
    rig_stop_manager(r);
    while (!has_cells && r->cells)
        rig_remove_cell(r, r->cells);
    rig_start_manager(r);
    return sg_map_find(&r->m->sandboxes, id.s);
}

static void after_the_end_of_the_machine_it_is_paused_with_its_files(void **state)
{
    struct rig *r = *state;
    struct sg_sandbox *s = restarted(r, kept(r), false);

    assert_non_null(s);
    rig_until(r, s->paused_snapshot && s->life->op == OP_NONE);
    assert_int_equal(s->state, SBX_PAUSED);
    s = restarted(r, s, false); /* and stays so */
    assert_int_equal(s->state, SBX_PAUSED);
    assert_non_null(s->paused_snapshot);
    assert_int_equal(rig_do(r, sg_manager_resume, s).well, 1);
}

static void after_a_restart_of_the_service_it_is_as_it_was(void **state)
{
    struct rig *r = *state;
    struct sg_sandbox *s = restarted(r, kept(r), true);

    rig_run_ms(r, 3 * AFTER_MS);
    assert_int_equal(s->state, SBX_PAUSED);
    assert_true(s->paused_files && !s->paused_snapshot);
    assert_int_equal(r->asked[SG_MSG_L_SNAPSHOT], 1);
    s = restarted(r, paused(r), true); /* one whose files are not kept yet */
    rig_in_time(r, s->paused_files);
    assert_int_equal(r->snapshots, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        KEEP_TEST(files_go_to_the_disk_after_a_while_and_a_resume_forgets_them),
        KEEP_TEST(a_short_pause_makes_no_snapshot),
        KEEP_TEST(a_resume_waits_for_the_snapshot_under_way),
        KEEP_TEST(a_frozen_cell_that_dies_leaves_a_sandbox_that_is_paused_with_its_files),
        KEEP_TEST(what_could_not_be_kept_is_tried_again_and_lost_until_then),
        KEEP_TEST(one_that_dies_while_a_resume_waits_is_no_resume),
        KEEP_TEST(after_the_end_of_the_machine_it_is_paused_with_its_files),
        KEEP_TEST(after_a_restart_of_the_service_it_is_as_it_was),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
