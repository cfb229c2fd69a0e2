/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/auto.h"
#include "check.h"
#include "wire/base64.h"
#include "wire/url.h"
#include "base/banned.h"

static void percent_encoding_is_undone(void **state)
{
    (void)state;
    static const struct {
        const char *in, *path, *query;
    } rows[] = {
        { "", "", "" },
        { "a+b%20c", "a+b c", "a b c" },
        { "%2F%2f%C3%a9%25", "//\xc3\xa9%", "//\xc3\xa9%" },
    };
    for (size_t i = 0; i < SG_COUNT(rows); i++) {
        char out[64];
        struct sg_err err = { 0 };
        assert_ok(sg_url_decode(sg_str_of(rows[i].in), false, out, &err), err);
        assert_string_equal(out, rows[i].path);
        assert_int_equal(sg_url_decode(sg_str_of(rows[i].in), true, out, &err), strlen(out));
        assert_string_equal(out, rows[i].query);
    }
}

static void refuses_bad_encoding_nul_and_bytes_that_are_no_text(void **state)
{
    (void)state;
    static const char *const rows[] = { "%",   "a%2", "%zz", "%2x",      "%%41",
                                        "%00", "%c3", "%ff", "%ed%a0%80" };
    for (size_t i = 0; i < SG_COUNT(rows); i++) {
        char out[64];
        struct sg_err err;
        assert_fails(sg_url_decode(sg_str_of(rows[i]), false, out, &err), err, SG_INVALID);
    }
}

static void walks_a_query(void **state)
{
    (void)state;
    struct sg_str q = sg_str_of("&a=1&&b&c=&=d&e=f=g&"), name, value;
    static const char *const want[] = { "a", "1", "b", "", "c", "", "", "d", "e", "f=g" };
    for (size_t i = 0; i < SG_COUNT(want); i += 2) {
        assert_true(sg_query_next(&q, &name, &value));
        assert_true(sg_str_is(name, want[i]) && sg_str_is(value, want[i + 1]));
    }
    assert_false(sg_query_next(&q, &name, &value));
}

static void what_is_encoded_decodes_to_itself(void **state)
{
    (void)state;
    static const char text[] = "a/b c%d+e&f=g?h#i\xc3\xa9~";
    char back[64];
    struct sg_err err = { 0 };
    sg_auto_buf out;
    sg_buf_init(&out, 1000);
    sg_url_encode(&out, sg_str_of(text), true);
    assert_string_equal(sg_buf_cstr(&out), "a/b%20c%25d%2Be%26f%3Dg%3Fh%23i%C3%A9~");
    assert_ok(sg_url_decode(sg_str_of(sg_buf_cstr(&out)), true, back, &err), err);
    assert_string_equal(back, text);
}

static void base64_both_ways(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        { "", "" },
        { "f", "Zg==" },
        { "fo", "Zm8=" },
        { "foo", "Zm9v" },
        { "foob", "Zm9vYg==" },
        { "fooba", "Zm9vYmE=" },
        { "\xff\xfe\xfd~", "//79fg==" },
    };
    for (size_t i = 0; i < SG_COUNT(rows); i++) {
        sg_auto_buf out, back;
        sg_buf_init(&out, 100);
        sg_buf_init(&back, 100);
        struct sg_err err = { 0 };
        sg_base64_encode(&out, rows[i][0], strlen(rows[i][0]));
        assert_string_equal(sg_buf_cstr(&out), rows[i][1]);
        assert_int_equal(sg_base64_length(strlen(rows[i][0])), out.n);
        assert_ok(sg_base64_decode(&back, sg_str_of(rows[i][1]), &err), err);
        assert_string_equal(sg_buf_cstr(&back), rows[i][0]);
    }
}

static void base64_has_one_form_only(void **state)
{
    (void)state;
    static const char *const rows[] = { "Z",      "Zg",   "Zg=",  "Zh==", "Zm9=",
                                        "====",   "Z===", "Zg=a", "Z=g=", "Zg==Zg==",
                                        "Zm9v\n", "Zm-_", " Zm9", "Zm\0v" };
    for (size_t i = 0; i < SG_COUNT(rows); i++) {
        sg_auto_buf out;
        sg_buf_init(&out, 100);
        struct sg_err err;
        assert_fails(sg_base64_decode(&out, sg_str_of(rows[i]), &err), err, SG_INVALID);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(percent_encoding_is_undone),
        cmocka_unit_test(refuses_bad_encoding_nul_and_bytes_that_are_no_text),
        cmocka_unit_test(walks_a_query),
        cmocka_unit_test(what_is_encoded_decodes_to_itself),
        cmocka_unit_test(base64_both_ways),
        cmocka_unit_test(base64_has_one_form_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
