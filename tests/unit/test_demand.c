/* SPDX-License-Identifier: Apache-2.0 */
#include "check.h"

#include "launcher/demand.h"
#include "base/banned.h"

#define MS UINT64_C(1000000)
#define S  (1000 * MS)

static void take(struct sg_demand *d, unsigned n, uint64_t now_ns)
{
    for (unsigned i = 0; i < n; i++)
        sg_demand_take(d, now_ns);
}

static void a_burst_is_remembered_up_to_the_most(void **state)
{
    struct sg_demand d;
    (void)state;
    sg_demand_init(&d, 4, 128);
    assert_int_equal(d.wanted, 4);
    take(&d, 3, 10 * S);
    assert_int_equal(d.wanted, 4);
    take(&d, 60, 10 * S + 500 * MS); /* within the same second */
    assert_int_equal(d.wanted, 63);
    take(&d, 1000, 12 * S);
    assert_int_equal(d.wanted, 128);
}

static void a_steady_trickle_is_no_burst(void **state)
{
    struct sg_demand d;
    (void)state;
    sg_demand_init(&d, 4, 128);
    for (unsigned i = 0; i < 1000; i++)
        take(&d, 1, i * 300 * MS);
    assert_int_equal(d.wanted, 4);
}

static void it_falls_by_halves_once_no_burst_comes(void **state)
{
    struct sg_demand d;
    (void)state;
    sg_demand_init(&d, 10, 128);
    take(&d, 100, 10 * S);
    sg_demand_look(&d, 100 * S);
    assert_int_equal(d.wanted, 100);
    take(&d, 60, 110 * S); /* of more than half the size */
    sg_demand_look(&d, 200 * S);
    assert_int_equal(d.wanted, 100);
    sg_demand_look(&d, 231 * S);
    assert_int_equal(d.wanted, 50);
    sg_demand_look(&d, 240 * S);
    assert_int_equal(d.wanted, 50);
    sg_demand_look(&d, 262 * S);
    assert_int_equal(d.wanted, 25);
    for (unsigned i = 0; i < 10; i++)
        sg_demand_look(&d, (300 + i * 40) * S);
    assert_int_equal(d.wanted, 10);
}

static void without_room_to_grow_it_stays_what_it_is(void **state)
{
    struct sg_demand d;
    (void)state;
    sg_demand_init(&d, 8, 0);
    take(&d, 100, 10 * S);
    assert_int_equal(d.wanted, 8);
    sg_demand_init(&d, 0, 0);
    take(&d, 100, 10 * S);
    sg_demand_look(&d, 1000 * S);
    assert_int_equal(d.wanted, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_burst_is_remembered_up_to_the_most),
        cmocka_unit_test(a_steady_trickle_is_no_burst),
        cmocka_unit_test(it_falls_by_halves_once_no_burst_comes),
        cmocka_unit_test(without_room_to_grow_it_stays_what_it_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
