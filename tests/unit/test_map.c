/* SPDX-License-Identifier: Apache-2.0 */
/* base/map, base/id */
#include <string.h>

#include "base/auto.h"
#include "base/id.h"
#include "base/map.h"
#include "check.h"
#include "random.h"
#include "base/banned.h"

struct thing {
    char key[16];
    unsigned seen;
};

static void what_was_put_is_found(void **state)
{
    (void)state;
    struct sg_map m;
    int a, b;
    sg_map_init(&m);
    assert_null(sg_map_find(&m, "a"));
    assert_null(sg_map_remove(&m, "a"));
    sg_map_put(&m, "a", &a);
    sg_map_put(&m, "", &b);
    assert_ptr_equal(sg_map_find(&m, "a"), &a);
    assert_ptr_equal(sg_map_find(&m, ""), &b);
    assert_null(sg_map_find(&m, "b"));
    sg_map_put(&m, "a", &b);
    assert_ptr_equal(sg_map_find(&m, "a"), &b);
    assert_int_equal(m.n, 2);
    sg_map_done(&m);
}

/* A random walk against a plain array. */
static void puts_and_removals_agree_with_a_list(void **state)
{
    (void)state;
    enum { THINGS = 400, STEPS = 40000 };
    struct rng rng = rng_start(__func__);
    static struct thing things[THINGS];
    static bool is_in[THINGS];
    memset(is_in, 0, sizeof is_in);
    struct sg_map m;
    sg_map_init(&m);
    size_t count = 0;
    for (size_t i = 0; i < THINGS; i++)
        (void)snprintf(things[i].key, sizeof things[i].key, "key-%zu", i * 7919);
    for (int step = 0; step < STEPS; step++) {
        size_t i = (size_t)rng_below(&rng, THINGS);
        if (rng_below(&rng, 2)) {
            sg_map_put(&m, things[i].key, &things[i]);
            count += !is_in[i];
            is_in[i] = true;
        } else {
            void *removed = sg_map_remove(&m, things[i].key);
            assert_ptr_equal(removed, is_in[i] ? &things[i] : NULL);
            count -= is_in[i];
            is_in[i] = false;
        }
        size_t other = (size_t)rng_below(&rng, THINGS);
        assert_ptr_equal(sg_map_find(&m, things[other].key), is_in[other] ? &things[other] : NULL);
        assert_int_equal(m.n, count);
    }
    sg_map_done(&m);
}

static void a_walk_meets_every_entry_once(void **state)
{
    (void)state;
    static struct thing things[1000];
    struct sg_map m;
    sg_map_init(&m);
    for (size_t i = 0; i < SG_COUNT(things); i++) {
        (void)snprintf(things[i].key, sizeof things[i].key, "%zu", i);
        things[i].seen = 0;
        sg_map_put(&m, things[i].key, &things[i]);
    }
    size_t cursor = 0, n = 0;
    for (struct thing *t; (t = sg_map_next(&m, &cursor)); n++)
        t->seen++;
    assert_int_equal(n, SG_COUNT(things));
    for (size_t i = 0; i < SG_COUNT(things); i++)
        assert_int_equal(things[i].seen, 1);
    sg_map_done(&m);
}

static void two_maps_hash_differently(void **state)
{
    (void)state;
    struct sg_map a, b;
    sg_map_init(&a);
    sg_map_init(&b);
    sg_map_put(&a, "same", &a);
    sg_map_put(&b, "same", &b);
    uint64_t hashes[2] = { 0, 0 };
    for (size_t i = 0; i < a.cap; i++)
        hashes[0] |= a.slots[i].hash;
    for (size_t i = 0; i < b.cap; i++)
        hashes[1] |= b.slots[i].hash;
    assert_true(hashes[0] != hashes[1]);
    sg_map_done(&a);
    sg_map_done(&b);
}

static void an_id_has_its_kind_and_is_valid(void **state)
{
    (void)state;
    struct sg_id a = sg_id_new('s'), b = sg_id_new('s');
    assert_int_equal(strlen(a.s), SG_ID_LEN);
    assert_int_equal(a.s[0], 's');
    assert_string_not_equal(a.s, b.s);
    assert_true(sg_id_is_valid(a.s, 's'));
    assert_false(sg_id_is_valid(a.s, 'x'));
}

static void what_is_no_id_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = { "",
                                       "s",
                                       "s123456789012345678",
                                       "s12345678901234567890",
                                       "s12345678901234567-9",
                                       "s12345678901234567A9",
                                       "s1234567890123456../",
                                       "s123456789012345678\n" };
    assert_true(sg_id_is_valid("s1234567890123456789", 's'));
    for (size_t i = 0; i < SG_COUNT(bad); i++)
        assert_false(sg_id_is_valid(bad[i], 's'));
}

static void every_letter_of_the_alphabet_is_used(void **state)
{
    (void)state;
    bool seen[256] = { false };
    for (int i = 0; i < 1000; i++) {
        struct sg_id id = sg_id_new('x');
        for (size_t k = 1; k < SG_ID_LEN; k++)
            seen[(uint8_t)id.s[k]] = true;
    }
    unsigned count = 0;
    for (size_t i = 0; i < 256; i++)
        count += seen[i];
    assert_int_equal(count, 36);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_put_is_found),
        cmocka_unit_test(puts_and_removals_agree_with_a_list),
        cmocka_unit_test(a_walk_meets_every_entry_once),
        cmocka_unit_test(two_maps_hash_differently),
        cmocka_unit_test(an_id_has_its_kind_and_is_valid),
        cmocka_unit_test(what_is_no_id_is_refused),
        cmocka_unit_test(every_letter_of_the_alphabet_is_used),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
