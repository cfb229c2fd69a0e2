/* SPDX-License-Identifier: Apache-2.0 */
/* base/json: exact bytes. tests/property/prop_json.c has the laws. */
#include "base/auto.h"
#include "base/json.h"
#include "check.h"
#include "base/banned.h"

static void commas_are_placed_between_values_only(void **state)
{
    (void)state;
    sg_auto_buf b;
    struct sg_json j;
    sg_buf_init(&b, 1000);
    sg_json_init(&j, &b);
    sg_json_open(&j, '{');
    sg_json_key(&j, "empty");
    sg_json_open(&j, '[');
    sg_json_close(&j, ']');
    sg_json_key(&j, "list");
    sg_json_open(&j, '[');
    sg_json_u64(&j, 1);
    sg_json_open(&j, '{');
    sg_json_close(&j, '}');
    sg_json_bool(&j, true);
    sg_json_null(&j);
    sg_json_close(&j, ']');
    sg_json_key(&j, "last");
    sg_json_str(&j, NULL);
    sg_json_close(&j, '}');
    assert_string_equal(sg_buf_cstr(&b), "{\"empty\":[],\"list\":[1,{},true,null],\"last\":null}");
}

static void numbers_keep_every_digit(void **state)
{
    (void)state;
    sg_auto_buf b;
    struct sg_json j;
    sg_buf_init(&b, 1000);
    sg_json_init(&j, &b);
    sg_json_open(&j, '[');
    sg_json_u64(&j, UINT64_MAX);
    sg_json_i64(&j, INT64_MIN);
    static const uint64_t milli[] = { 0, 1, 10, 100, 1000, 1500, 1050, 1005, 123456789 };
    for (size_t i = 0; i < SG_COUNT(milli); i++)
        sg_json_milli(&j, milli[i]);
    sg_json_close(&j, ']');
    assert_string_equal(sg_buf_cstr(&b), "[18446744073709551615,-9223372036854775808,"
                                         "0,0.001,0.01,0.1,1,1.5,1.05,1.005,123456.789]");
}

static void text_is_escaped(void **state)
{
    (void)state;
    static const struct {
        struct sg_str text;
        const char *json;
    } cases[] = {
        { { "", 0 }, "\"\"" },
        { { "a\"b\\c/", 6 }, "\"a\\\"b\\\\c/\"" },
        { { "\n\t\r\b\f", 5 }, "\"\\n\\t\\r\\b\\f\"" },
        { { "\0\x1f", 2 }, "\"\\u0000\\u001f\"" },
        { { "\xe2\x82\xac", 3 }, "\"\xe2\x82\xac\"" },
        { { "a\xff"
            "b",
            3 },
          "\"a\xef\xbf\xbd"
          "b\"" },
        { { "\xe2\x82", 2 }, "\"\xef\xbf\xbd\xef\xbf\xbd\"" },
        { { "\xed\xa0\x80", 3 }, "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"" },
    };
    for (size_t i = 0; i < SG_COUNT(cases); i++) {
        sg_auto_buf b;
        struct sg_json j;
        sg_buf_init(&b, 1000);
        sg_json_init(&j, &b);
        sg_json_text(&j, cases[i].text);
        assert_string_equal(sg_buf_cstr(&b), cases[i].json);
    }
}

static void keys_are_escaped_too(void **state)
{
    (void)state;
    sg_auto_buf b;
    struct sg_json j;
    sg_buf_init(&b, 1000);
    sg_json_init(&j, &b);
    sg_json_open(&j, '{');
    sg_json_key(&j, "a\"b");
    sg_json_i64(&j, -1);
    sg_json_close(&j, '}');
    assert_string_equal(sg_buf_cstr(&b), "{\"a\\\"b\":-1}");
}

static void a_full_buffer_is_noticed_at_the_end(void **state)
{
    (void)state;
    sg_auto_buf b;
    struct sg_json j;
    struct sg_err err = { 0 };
    sg_buf_init(&b, 8);
    sg_json_init(&j, &b);
    sg_json_str(&j, "longer than that");
    assert_fails(sg_buf_check(&b, "reply", &err), err, SG_EXHAUSTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(commas_are_placed_between_values_only),
        cmocka_unit_test(numbers_keep_every_digit),
        cmocka_unit_test(text_is_escaped),
        cmocka_unit_test(keys_are_escaped_too),
        cmocka_unit_test(a_full_buffer_is_noticed_at_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
