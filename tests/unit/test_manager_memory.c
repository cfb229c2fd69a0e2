/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of frozen sandboxes: when the kernel is asked to take it, and who waits for that. */
#include "manager_rig.h"

#include "base/banned.h"

enum { AFTER_MS = 100 };
#define MIB (UINT64_C(1) << 20)

static int start(void **state, uint32_t flags, uint64_t files_ms)
{
    struct rig *r = sg_new(struct rig);
    rig_init(r);
    r->has_pool = true;
    r->more_flags = flags;
    r->o.pause_memory_ms = AFTER_MS;
    r->o.pause_files_ms = files_ms;
    rig_start_manager(r);
    *state = r;
    return 0;
}

static int setup(void **state)
{
    return start(state, SG_L_RECLAIMS, 0);
}

static int setup_old_kernel(void **state)
{
    return start(state, 0, 0);
}

static int setup_with_files(void **state)
{
    return start(state, SG_L_RECLAIMS, AFTER_MS / 2);
}

static struct sg_sandbox *paused(struct rig *r)
{
    const struct sg_create endless = { .timeout_ms = 0 };
    struct sg_sandbox *s = rig_create(r, &endless);
    assert_int_equal(rig_do(r, sg_manager_pause, s).well, 1);
    return s;
}

static void tell_reclaimed(struct rig *r, const char *id, uint64_t bytes)
{
    struct sg_msg m = { .type = SG_MSG_L_RECLAIMED };
    m.l_reclaimed = (struct sg_msg_l_reclaimed) { sg_text_of(id), bytes };
    rig_reply(r, &m, 0, NULL, 0);
}

static void it_is_asked_for_once_some_time_after_the_pause(void **state)
{
    struct rig *r = *state;
    struct sg_sandbox *s = paused(r);

    rig_run_ms(r, AFTER_MS / 2);
    assert_int_equal(r->asked[SG_MSG_L_RECLAIM], 0);
    rig_in_time(r, r->asked[SG_MSG_L_RECLAIM]);
    rig_run_ms(r, 5 * AFTER_MS);
    assert_int_equal(r->asked[SG_MSG_L_RECLAIM], 1);
    assert_int_equal(s->state, SBX_PAUSED);
    assert_int_equal(s->life->op, OP_NONE); /* nobody waits for it */
    assert_int_equal(rig_do(r, sg_manager_resume, s).well, 1);
    assert_int_equal(rig_do(r, sg_manager_pause, s).well, 1);
    rig_in_time(r, r->asked[SG_MSG_L_RECLAIM] == 2); /* each pause anew */
}

static void a_short_pause_costs_nothing(void **state)
{
    struct rig *r = *state;
    struct sg_sandbox *s = paused(r);

    assert_int_equal(rig_do(r, sg_manager_resume, s).well, 1);
    rig_run_ms(r, 5 * AFTER_MS);
    assert_int_equal(r->asked[SG_MSG_L_RECLAIM], 0);
}

static void nothing_is_attempted_where_the_kernel_cannot(void **state)
{
    struct rig *r = *state;

    (void)paused(r);
    rig_run_ms(r, 5 * AFTER_MS);
    assert_int_equal(r->asked[SG_MSG_L_RECLAIM], 0);
}

static void what_went_is_counted_and_the_use_is_looked_at_before_and_after(void **state)
{
    struct rig *r = *state;
    struct sg_sandbox *s = paused(r);

    rig_until(r, !s->life->is_usage_asked);
    const unsigned before = r->asked[SG_MSG_L_STATS];
    rig_in_time(r, r->asked[SG_MSG_L_RECLAIM] && !s->life->is_usage_asked);
    assert_int_equal(r->asked[SG_MSG_L_STATS], before + 1);
    tell_reclaimed(r, s->id.s, 300 * MIB);
    rig_until(r, r->asked[SG_MSG_L_STATS] == before + 2);
    assert_true(sg_manager_reclaimed(s) == 300 * MIB);
    assert_true(r->m->metrics.reclaimed_bytes == 300 * MIB);
    assert_int_equal(rig_do(r, sg_manager_resume, s).well, 1);
    assert_true(sg_manager_reclaimed(s) == 0);
    tell_reclaimed(r, s->id.s, 5 * MIB); /* given up for the resume, and told late */
    tell_reclaimed(r, "snobody0000000000000", 7 * MIB);
    rig_until(r, r->m->metrics.reclaimed_bytes == 312 * MIB);
    assert_true(sg_manager_reclaimed(s) == 0);
}

static void the_files_go_to_the_disk_first(void **state)
{
    struct rig *r = *state;
    struct sg_sandbox *s = paused(r);

    r->holds_snapshots = true;
    rig_in_time(r, r->held_snapshot);
    rig_run_ms(r, 5 * AFTER_MS);
    assert_int_equal(r->asked[SG_MSG_L_RECLAIM], 0);
    struct sg_msg snapped = { .type = SG_MSG_L_SNAPPED };
    rig_reply(r, &snapped, r->held_snapshot, NULL, 0);
    r->snapshots++;
    rig_in_time(r, r->asked[SG_MSG_L_RECLAIM] == 1);
    assert_non_null(s->paused_files);
}

static void a_refusal_leaves_the_pause_as_it_is(void **state)
{
    struct rig *r = *state;
    struct sg_sandbox *s = paused(r);

    r->fails[SG_MSG_L_RECLAIM] = 1;
    r->fail_kind = SG_INTERNAL;
    rig_in_time(r, r->asked[SG_MSG_L_RECLAIM] == 1);
    rig_run_ms(r, 5 * AFTER_MS);
    assert_int_equal(r->asked[SG_MSG_L_RECLAIM], 1);
    assert_int_equal(rig_do(r, sg_manager_resume, s).well, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(it_is_asked_for_once_some_time_after_the_pause, setup,
                                        rig_teardown),
        cmocka_unit_test_setup_teardown(a_short_pause_costs_nothing, setup, rig_teardown),
        cmocka_unit_test_setup_teardown(nothing_is_attempted_where_the_kernel_cannot,
                                        setup_old_kernel, rig_teardown),
        cmocka_unit_test_setup_teardown(
            what_went_is_counted_and_the_use_is_looked_at_before_and_after, setup, rig_teardown),
        cmocka_unit_test_setup_teardown(the_files_go_to_the_disk_first, setup_with_files,
                                        rig_teardown),
        cmocka_unit_test_setup_teardown(a_refusal_leaves_the_pause_as_it_is, setup, rig_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
