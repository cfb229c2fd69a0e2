/* SPDX-License-Identifier: Apache-2.0 */
/* base/parse: format-then-parse is identity, and nothing but a number is one. */
#include <inttypes.h>
#include <string.h>

#include "base/auto.h"
#include "base/parse.h"
#include "check.h"
#include "random.h"
#include "base/banned.h"

enum { ROUNDS = 20000 };

static void a_printed_number_parses_to_itself(void **state)
{
    (void)state;
    struct rng rng = rng_start(__func__);
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t v = rng_magnitude(&rng), back = ~v;
        struct sg_err err = { 0 };
        sg_auto_free char *text = sg_printf("%" PRIu64, v);
        assert_ok(sg_parse_u64(sg_str_of(text), v, v, &back, &err), err);
        assert_true(back == v);
        assert_ok(sg_parse_bytes(sg_str_of(text), v, v, &back, &err), err);
        assert_true(back == v);
    }
}

static void the_range_is_exactly_the_range(void **state)
{
    (void)state;
    struct rng rng = rng_start(__func__);
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t v = rng_magnitude(&rng), a = rng_magnitude(&rng), b = rng_magnitude(&rng), got;
        uint64_t min = a < b ? a : b, max = a < b ? b : a;
        sg_auto_free char *text = sg_printf("%" PRIu64, v);
        bool is_accepted = sg_parse_u64(sg_str_of(text), min, max, &got, NULL) == 0;
        assert_true(is_accepted == (v >= min && v <= max));
    }
}

static void units_multiply_and_overflow_is_refused(void **state)
{
    (void)state;
    static const char letters[] = "bkmgt";
    struct rng rng = rng_start(__func__);
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t v = rng_magnitude(&rng), got = 0;
        unsigned unit = (unsigned)rng_below(&rng, sizeof letters - 1);
        bool fits = unit == 0 || v >> (64 - 10 * unit) == 0;
        sg_auto_free char *text = sg_printf("%" PRIu64 "%c", v, letters[unit]);
        bool is_accepted = sg_parse_bytes(sg_str_of(text), 0, UINT64_MAX, &got, NULL) == 0;
        assert_true(is_accepted == fits);
        if (fits)
            assert_true(got == v << (10 * unit));
    }
}

static void thousandths_survive_printing(void **state)
{
    (void)state;
    struct rng rng = rng_start(__func__);
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t v = rng_magnitude(&rng) / 2, got = 0;
        struct sg_err err = { 0 };
        sg_auto_free char *text = sg_printf("%" PRIu64 ".%03u", v / 1000, (unsigned)(v % 1000));
        assert_ok(sg_parse_milli(sg_str_of(text), 0, UINT64_MAX, &got, &err), err);
        assert_true(got == v);
        assert_ok(sg_parse_duration_ms(sg_str_of(text), 0, UINT64_MAX, &got, &err), err);
        assert_true(got == v);
    }
}

static void random_bytes_are_a_number_only_if_all_are_digits(void **state)
{
    (void)state;
    static const char alphabet[] = "0123456789 +-.xkmge\n";
    struct rng rng = rng_start(__func__);
    for (int i = 0; i < ROUNDS; i++) {
        char text[12];
        size_t n = (size_t)rng_below(&rng, sizeof text);
        bool is_number = n > 0;
        for (size_t k = 0; k < n; k++) {
            text[k] = rng_below(&rng, 8) ? (char)('0' + rng_below(&rng, 10))
                                         : alphabet[rng_below(&rng, sizeof alphabet)];
            is_number = is_number && text[k] >= '0' && text[k] <= '9';
        }
        uint64_t v = 0;
        bool is_accepted = sg_parse_u64((struct sg_str) { text, n }, 0, UINT64_MAX, &v, NULL) == 0;
        assert_true(is_accepted == is_number);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_printed_number_parses_to_itself),
        cmocka_unit_test(the_range_is_exactly_the_range),
        cmocka_unit_test(units_multiply_and_overflow_is_refused),
        cmocka_unit_test(thousandths_survive_printing),
        cmocka_unit_test(random_bytes_are_a_number_only_if_all_are_digits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
