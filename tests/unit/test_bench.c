/* SPDX-License-Identifier: Apache-2.0 */
/* The benchmark's own arithmetic: medians, and who runs how often. */
#include "check.h"

#include "base/auto.h"
#include "race.h"
#include "series.h"
#include "base/banned.h"

static uint64_t median_of(const uint64_t *v, size_t n)
{
    sg_auto_series s;
    sg_series_init(&s, n);
    for (size_t i = 0; i < n; i++)
        sg_series_add(&s, v[i]);
    return sg_series_median(&s);
}

static void median_is_the_middle_or_between_the_middle_two(void **state)
{
    (void)state;
    assert_int_equal(median_of((const uint64_t[]) { 7 }, 1), 7);
    assert_int_equal(median_of((const uint64_t[]) { 9, 1, 5 }, 3), 5);
    assert_int_equal(median_of((const uint64_t[]) { 10, 1, 4, 100 }, 4), 7);
}

static void minimum_is_found_wherever_it_is(void **state)
{
    (void)state;
    static const uint64_t v[] = { 5, 3, 2, 8 };
    sg_auto_series s;
    sg_series_init(&s, SG_COUNT(v));
    for (size_t i = 0; i < SG_COUNT(v); i++)
        sg_series_add(&s, v[i]);
    assert_int_equal(sg_series_min(&s), 2);
}

/* An entrant that notes when it ran. */
struct runner {
    unsigned *clock, runs, last;
    unsigned longest_gap;
    unsigned fails_at; /* 0: never */
};

static int run(void *ctx, uint64_t *ret_ns, struct sg_err *err)
{
    struct runner *r = ctx;
    const unsigned now = ++*r->clock;
    if (r->runs && now - r->last > r->longest_gap)
        r->longest_gap = now - r->last;
    r->last = now;
    if (++r->runs == r->fails_at)
        return sg_fail(err, SG_INTERNAL, "broken");
    *ret_ns = now;
    return 0;
}

static void a_slow_entrant_is_spread_over_all_rounds(void **state)
{
    (void)state;
    unsigned clock = 0;
    struct runner often = { .clock = &clock }, seldom = { .clock = &clock };
    struct sg_entrant e[] = { { .name = "often", .run = run, .ctx = &often, .n = 100 },
                              { .name = "seldom", .run = run, .ctx = &seldom, .n = 20 } };
    struct sg_err err = { 0 };
    assert_int_equal(sg_race(e, SG_COUNT(e), 0, &err), 0);
    assert_int_equal(e[0].times.n, 100);
    assert_int_equal(e[1].times.n, 20);
    assert_true(seldom.longest_gap <= 12); /* every fifth round: six runs, in any order */
    assert_true(clock - seldom.last <= 12);
    sg_race_done(e, SG_COUNT(e));
}

static void the_order_changes_from_round_to_round(void **state)
{
    (void)state;
    unsigned clock = 0, first_was_first = 0;
    struct runner a = { .clock = &clock }, b = { .clock = &clock };
    struct sg_entrant e[] = { { .name = "a", .run = run, .ctx = &a, .n = 200 },
                              { .name = "b", .run = run, .ctx = &b, .n = 200 } };
    struct sg_err err = { 0 };
    assert_int_equal(sg_race(e, SG_COUNT(e), 0, &err), 0);
    for (size_t i = 0; i < 200; i++)
        first_was_first += e[0].times.v[i] < e[1].times.v[i];
    assert_in_range(first_was_first, 60, 140);
    sg_race_done(e, SG_COUNT(e));
}

static void a_failure_stops_the_race_and_names_who_failed(void **state)
{
    (void)state;
    unsigned clock = 0;
    struct runner a = { .clock = &clock }, b = { .clock = &clock, .fails_at = 10 };
    struct sg_entrant e[] = { { .name = "a", .run = run, .ctx = &a, .n = 50 },
                              { .name = "b", .run = run, .ctx = &b, .n = 50 } };
    struct sg_err err = { 0 };
    assert_int_equal(sg_race(e, SG_COUNT(e), 0, &err), -1);
    assert_string_equal(err.msg, "b: broken");
    assert_true(a.runs <= 10);
    sg_race_done(e, SG_COUNT(e));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(median_is_the_middle_or_between_the_middle_two),
        cmocka_unit_test(minimum_is_found_wherever_it_is),
        cmocka_unit_test(a_slow_entrant_is_spread_over_all_rounds),
        cmocka_unit_test(the_order_changes_from_round_to_round),
        cmocka_unit_test(a_failure_stops_the_race_and_names_who_failed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
