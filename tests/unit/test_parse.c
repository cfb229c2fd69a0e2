/* SPDX-License-Identifier: Apache-2.0 */
/* base/parse: the whole string, an explicit range, never a guess. */
#include <inttypes.h>

#include "base/auto.h"
#include "base/parse.h"
#include "check.h"
#include "base/banned.h"

typedef int parse_fn(struct sg_str, uint64_t, uint64_t, uint64_t *, struct sg_err *);

struct good {
    const char *text;
    uint64_t value;
};

static void expect_values(parse_fn *parse, const struct good *cases, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t v = 0;
        struct sg_err err = { 0 };
        assert_ok(parse(sg_str_of(cases[i].text), 0, UINT64_MAX, &v, &err), err);
        if (v != cases[i].value)
            fail_msg("%s gave %" PRIu64, cases[i].text, v);
    }
}

static void expect_refusals(parse_fn *parse, const char *const *cases, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t v = 4711;
        struct sg_err err = { 0 };
        if (parse(sg_str_of(cases[i]), 0, UINT64_MAX, &v, &err) == 0)
            fail_msg("'%s' was accepted as %" PRIu64, cases[i], v);
        assert_int_equal(err.kind, SG_INVALID);
        assert_int_equal(v, 4711); /* on failure every output is untouched */
    }
}

static void whole_numbers_are_read(void **state)
{
    (void)state;
    static const struct good cases[] = {
        { "0", 0 }, { "007", 7 }, { "42", 42 }, { "18446744073709551615", UINT64_MAX }
    };
    expect_values(sg_parse_u64, cases, SG_COUNT(cases));
}

static void anything_beside_digits_is_refused(void **state)
{
    (void)state;
    static const char *const cases[] = { "",
                                         " 1",
                                         "1 ",
                                         "+1",
                                         "-1",
                                         "0x10",
                                         "1e3",
                                         "1.0",
                                         "١",
                                         "12a",
                                         "18446744073709551616",
                                         "99999999999999999999999999" };
    expect_refusals(sg_parse_u64, cases, SG_COUNT(cases));
}

static void sizes_have_units_of_1024(void **state)
{
    (void)state;
    static const struct good cases[] = {
        { "1048576", 1048576 },
        { "512m", 512ULL << 20 },
        { "512MB", 512ULL << 20 },
        { "512MiB", 512ULL << 20 },
        { "1.5g", 1536ULL << 20 },
        { "64KiB", 65536 },
        { "0.5k", 512 },
        { "2T", 2ULL << 40 },
        { "7b", 7 },
        { "16777215t", 16777215ULL << 40 },
    };
    expect_values(sg_parse_bytes, cases, SG_COUNT(cases));
}

static void sizes_that_are_not_sizes_are_refused(void **state)
{
    (void)state;
    static const char *const cases[] = {
        "",    "m",     "-1m",  "1 m",    "1mm",       "1x",   ".5g",
        "1.g", "1..5g", "1,5g", "1.5.5g", "16777216t", "1m\n",
    };
    expect_refusals(sg_parse_bytes, cases, SG_COUNT(cases));
}

static void durations_are_milliseconds_and_bare_numbers_seconds(void **state)
{
    (void)state;
    static const struct good cases[] = {
        { "300", 300000 },   { "300s", 300000 }, { "1.5m", 90000 }, { "2h", 7200000 },
        { "250ms", 250 },    { "1d", 86400000 }, { "0.001", 1 },    { "0", 0 },
        { "1.5min", 90000 }, { "0.25S", 250 },
    };
    expect_values(sg_parse_duration_ms, cases, SG_COUNT(cases));
    static const char *const bad[] = { "", "s", "5 s", "5y", "1h30m", "-5s", "inf" };
    expect_refusals(sg_parse_duration_ms, bad, SG_COUNT(bad));
}

static void fractions_become_thousandths(void **state)
{
    (void)state;
    static const struct good cases[] = {
        { "0.5", 500 },
        { "2", 2000 },
        { "1.001", 1001 },
        { "0.0009", 0 },
        { "1.9999999999999", 1999 },
    };
    expect_values(sg_parse_milli, cases, SG_COUNT(cases));
    static const char *const bad[] = { "", "1k", "0.5.", "1e1", "nan" };
    expect_refusals(sg_parse_milli, bad, SG_COUNT(bad));
}

static void both_ends_of_the_range_are_inside_it(void **state)
{
    (void)state;
    uint64_t v = 0;
    struct sg_err err = { 0 };
    assert_ok(sg_parse_u64(sg_str_of("2"), 2, 9, &v, &err), err);
    assert_ok(sg_parse_u64(sg_str_of("9"), 2, 9, &v, &err), err);
    assert_int_equal(v, 9);
    assert_fails(sg_parse_u64(sg_str_of("1"), 2, 9, &v, &err), err, SG_INVALID);
    assert_fails(sg_parse_u64(sg_str_of("10"), 2, 9, &v, &err), err, SG_INVALID);
    assert_string_equal(err.msg, "'10' is not between 2 and 9");
    assert_ok(sg_parse_bytes(sg_str_of("4k"), 4096, 8192, &v, &err), err);
    assert_ok(sg_parse_bytes(sg_str_of("8k"), 4096, 8192, &v, &err), err);
    assert_fails(sg_parse_bytes(sg_str_of("4095"), 4096, 8192, &v, &err), err, SG_INVALID);
    assert_fails(sg_parse_bytes(sg_str_of("8193"), 4096, 8192, &v, &err), err, SG_INVALID);
}

static void a_view_ends_where_it_ends(void **state)
{
    (void)state;
    uint64_t v = 0;
    struct sg_err err = { 0 };
    assert_ok(sg_parse_u64((struct sg_str) { "123456", 3 }, 0, 1000, &v, &err), err);
    assert_int_equal(v, 123);
    assert_fails(sg_parse_u64((struct sg_str) { "1\0", 2 }, 0, 9, &v, &err), err, SG_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_numbers_are_read),
        cmocka_unit_test(anything_beside_digits_is_refused),
        cmocka_unit_test(sizes_have_units_of_1024),
        cmocka_unit_test(sizes_that_are_not_sizes_are_refused),
        cmocka_unit_test(durations_are_milliseconds_and_bare_numbers_seconds),
        cmocka_unit_test(fractions_become_thousandths),
        cmocka_unit_test(both_ends_of_the_range_are_inside_it),
        cmocka_unit_test(a_view_ends_where_it_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
