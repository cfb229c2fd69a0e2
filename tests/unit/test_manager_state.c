/* SPDX-License-Identifier: Apache-2.0 */
#include "check.h"

#include <string.h>

#include "base/auto.h"
#include "manager/state.h"
#include "random.h"
#include "base/banned.h"

static void every_name_is_read_back(void **state)
{
    (void)state;
    for (unsigned i = 0; i < SBX_STATE_COUNT; i++) {
        enum sg_state s;
        assert_int_equal(sg_state_parse(sg_state_name((enum sg_state)i), &s), 0);
        assert_int_equal(s, i);
    }
    enum sg_state untouched = SBX_FAILED;
    assert_int_equal(sg_state_parse("parked", &untouched), -1);
    assert_int_equal(untouched, SBX_FAILED);
}

static void a_refusal_names_state_and_event_and_changes_nothing(void **state)
{
    (void)state;
    struct sg_err err;
    enum sg_state s = SBX_CREATING;
    assert_fails(sg_state_next(SBX_PAUSED, EV_PAUSE, &s, &err), err, SG_CONFLICT);
    assert_int_equal(s, SBX_CREATING);
    assert_non_null(strstr(err.msg, "paused"));
    assert_non_null(strstr(err.msg, "pause"));
}

static void every_state_can_be_destroyed_and_every_one_with_a_cell_can_die(void **state)
{
    (void)state;
    struct sg_err err;
    for (unsigned i = 0; i < SBX_STATE_COUNT; i++) {
        enum sg_state next;
        assert_ok(sg_state_next((enum sg_state)i, EV_DESTROY, &next, &err), err);
        assert_int_equal(next, SBX_STOPPING);
        if (i == SBX_FAILED)
            continue;
        assert_ok(sg_state_next((enum sg_state)i, EV_CRASH, &next, &err), err);
        assert_int_equal(next, SBX_FAILED);
        assert_ok(sg_state_next((enum sg_state)i, EV_OOM, &next, &err), err);
        assert_int_equal(next, SBX_FAILED);
    }
}

/* The laws that the rest relies on, along random walks. */
static void a_random_walk_keeps_the_laws(void **state)
{
    (void)state;
    struct rng rng = rng_start("states");
    unsigned visits[SBX_STATE_COUNT] = { 0 };
    enum sg_state s = SBX_CREATING;

    for (unsigned i = 0; i < 100000; i++) {
        enum sg_state_event e = (enum sg_state_event)rng_below(&rng, EV_COUNT);
        enum sg_state next = s;
        struct sg_err err = { 0 };
        visits[s]++;
        if (sg_state_next(s, e, &next, &err) < 0) {
            assert_int_equal(next, s);
            assert_int_equal(err.kind, SG_CONFLICT);
            continue;
        }
        /* Running is entered only by what confirms or undoes; paused only from the freezer. */
        if (next == SBX_RUNNING)
            assert_true(e == EV_READY || e == EV_RESUMED || e == EV_START || e == EV_FAIL);
        if (next == SBX_PAUSED)
            assert_true(s == SBX_PAUSING || s == SBX_RESUMING);
        if (next == SBX_STOPPED)
            assert_true(s == SBX_STOPPING && e == EV_STOPPED);
        if (next == SBX_CREATING)
            assert_int_equal(e, EV_RETRY);
        if (s == SBX_FAILED)
            assert_true(next == SBX_STOPPING || next == SBX_CREATING);
        /* A stopping one may be at its end: the walk begins again, as a new sandbox. */
        s = next == SBX_STOPPING && rng_below(&rng, 4) == 0 ? SBX_CREATING : next;
    }
    for (unsigned i = 0; i < SBX_STATE_COUNT; i++)
        assert_true(visits[i] > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_name_is_read_back),
        cmocka_unit_test(a_refusal_names_state_and_event_and_changes_nothing),
        cmocka_unit_test(every_state_can_be_destroyed_and_every_one_with_a_cell_can_die),
        cmocka_unit_test(a_random_walk_keeps_the_laws),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
