/* SPDX-License-Identifier: Apache-2.0 */
/* Prices: what the file may say, and that no use is lost by rounding. */
#include "check.h"

#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "meter/price.h"
#include "base/banned.h"

static int parse(const char *text, struct sg_prices *ret, struct sg_err *err)
{
    return sg_prices_parse(sg_str_of(text), "p.toml", ret, err);
}

static void the_built_in_file_names_hosted_providers_and_a_cost_of_its_own(void **state)
{
    (void)state;
    struct sg_prices p;
    sg_prices_builtin(&p);
    assert_string_equal(p.currency, "USD");
    assert_true(p.own.pico[0] > 0 && p.own.pico[1] > 0);
    assert_true(p.elsewhere_count >= 2);
    /* an hour of two processors and one GiB, by the public price of 0.0504 and 0.0162 an hour */
    const struct sg_amounts hour = { .vcpu_milli_ms = UINT64_C(2000) * 3600000,
                                     .allotted_mib_ms = UINT64_C(1024) * 3600000 };
    assert_string_equal(p.elsewhere[0].name, "e2b");
    assert_string_equal(sg_money_text(sg_price_of(&p.elsewhere[0], &hour)).s, "0.117");
}

static void every_rate_prices_its_own_amount(void **state)
{
    (void)state;
    static const struct {
        const char *key;
        struct sg_amounts a;
    } rows[] = {
        { "cpu_second", { .cpu_ns = 1000000000 } },
        { "memory_gib_second", { .mem_mib_ms = 1024000 } },
        { "vcpu_second", { .vcpu_milli_ms = 1000000 } },
        { "allotted_gib_second", { .allotted_mib_ms = 1024000 } },
        { "disk_gib_second", { .disk_mib_ms = 1024000 } },
        { "sandbox_second", { .wall_ms = 1000 } },
        { "network_gib", { .net_bytes = 1u << 30 } },
        { "create", { .creates = 1 } },
    };
    for (size_t i = 0; i < SG_COUNT(rows); i++) {
        struct sg_prices p;
        struct sg_err err = { 0 };
        char text[80];
        (void)snprintf(text, sizeof text, "[own]\n%s = 0.000000000003\n", rows[i].key);
        assert_ok(parse(text, &p, &err), err);
        for (size_t k = 0; k < SG_COUNT(rows); k++)
            assert_int_equal(sg_price_of(&p.own, &rows[k].a), k == i ? 3 : 0);
    }
}

static void many_small_amounts_cost_what_their_sum_costs(void **state)
{
    (void)state;
    struct sg_prices p;
    struct sg_amounts sum = { 0 };
    const struct sg_amounts small = { .cpu_ns = 1, .net_bytes = 1 };
    sg_prices_builtin(&p);
    assert_int_equal(sg_price_of(&p.own, &small), 0);
    for (unsigned i = 0; i < 1000000; i++)
        sg_amounts_add(&sum, &small);
    assert_int_equal(sum.cpu_ns, 1000000);
    assert_int_equal(sg_price_of(&p.own, &sum), p.own.pico[0] / 1000);
}

static void the_largest_use_at_the_largest_price_stops_at_the_largest_sum(void **state)
{
    (void)state;
    struct sg_prices p;
    struct sg_err err = { 0 };
    assert_ok(parse("[own]\ncreate = 1000000\ncpu_second = 1000000", &p, &err), err);
    const struct sg_amounts most = { .creates = UINT64_MAX, .cpu_ns = UINT64_MAX };
    assert_int_equal(sg_price_of(&p.own, &most), UINT64_MAX);
}

static void money_is_a_number_without_needless_zeros(void **state)
{
    (void)state;
    assert_string_equal(sg_money_text(0).s, "0");
    assert_string_equal(sg_money_text(1).s, "0.000000000001");
    assert_string_equal(sg_money_text(SG_PICO).s, "1");
    assert_string_equal(sg_money_text(10 * SG_PICO + SG_PICO / 2).s, "10.5");
    assert_string_equal(sg_money_text(UINT64_MAX).s, "18446744.073709551615");
}

static void mistakes_are_told_with_their_place(void **state)
{
    (void)state;
    static const struct {
        const char *text, *place, *word;
    } rows[] = {
        { "[own]\ncpu_secnd = 1", "p.toml:2:1", "did you mean 'cpu_second'" },
        { "[own]\ncpu_second = \"1\"", "p.toml:2:", "a number" },
        { "[own]\ncpu_second = -1", "p.toml:2:", "not negative" },
        { "[own]\ncpu_second = 1e-5", "p.toml:2:", "plain number" },
        { "[own]\ncpu_second = 0.0000000000001", "p.toml:2:", "12 decimals" },
        { "[own]\ncpu_second = 1000001", "p.toml:2:", "1000000" },
        { "[own]\ncpu_second = nan", "p.toml:2:", "plain number" },
        { "currency = \"a b\"", "p.toml:1:", "letters" },
        { "currency = \"much too long\"", "p.toml:1:", "short" },
        { "other = 1", "p.toml:1:", "currency, own and elsewhere" },
        { "own = 1", "p.toml:1:", "table" },
        { "elsewhere = 1", "p.toml:1:", "list of tables" },
        { "[[elsewhere]]\ncreate = 1", "p.toml:1:", "name is missing" },
        { "[[elsewhere]]\nname = \"a\"\n[[elsewhere]]\nname = \"a\"", "p.toml:3:", "twice" },
        { "[own", "p.toml", "1:" },
    };
    for (size_t i = 0; i < SG_COUNT(rows); i++) {
        struct sg_prices p;
        struct sg_err err = { 0 };
        assert_int_equal(parse(rows[i].text, &p, &err), -1);
        assert_int_equal(err.kind, SG_INVALID);
        if (!strstr(err.msg, rows[i].place) || !strstr(err.msg, rows[i].word))
            fail_msg("%s: %s", rows[i].text, err.msg);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_built_in_file_names_hosted_providers_and_a_cost_of_its_own),
        cmocka_unit_test(every_rate_prices_its_own_amount),
        cmocka_unit_test(many_small_amounts_cost_what_their_sum_costs),
        cmocka_unit_test(the_largest_use_at_the_largest_price_stops_at_the_largest_sum),
        cmocka_unit_test(money_is_a_number_without_needless_zeros),
        cmocka_unit_test(mistakes_are_told_with_their_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
