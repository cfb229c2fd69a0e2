/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/connect.h"

#include "check.h"
#include "base/banned.h"

static void takes_one_envelope_after_the_other(void **state)
{
    (void)state;
    struct sg_str in = { "\0\0\0\0\2{}\2\0\0\0\1x", 13 };
    struct sg_connect_frame f;
    struct sg_err err;
    assert_int_equal(sg_connect_take(&in, &f, &err), 1);
    assert_int_equal(f.flags, 0);
    assert_true(sg_str_is(f.data, "{}"));
    assert_int_equal(sg_connect_take(&in, &f, &err), 1);
    assert_int_equal(f.flags, SG_CONNECT_END);
    assert_true(sg_str_is(f.data, "x"));
    assert_int_equal(sg_connect_take(&in, &f, &err), 0);
}

static void refuses_what_is_cut_off(void **state)
{
    static const char whole[] = "\0\0\0\0\2{}";
    (void)state;
    for (size_t n = 1; n < sizeof whole - 1; n++) {
        struct sg_str in = { whole, n };
        struct sg_connect_frame f;
        struct sg_err err = { 0 };
        assert_int_equal(sg_connect_take(&in, &f, &err), -1);
        assert_int_equal(err.kind, SG_INVALID);
        assert_int_equal(in.n, n);
    }
}

static void refuses_a_length_that_goes_past_everything(void **state)
{
    struct sg_str in = { "\0\xff\xff\xff\xff{}", 7 };
    struct sg_connect_frame f;
    struct sg_err err = { 0 };
    (void)state;
    assert_int_equal(sg_connect_take(&in, &f, &err), -1);
    assert_int_equal(err.kind, SG_INVALID);
}

static void refuses_flags_that_nobody_knows(void **state)
{
    struct sg_str in = { "\4\0\0\0\0", 5 };
    struct sg_connect_frame f;
    struct sg_err err = { 0 };
    (void)state;
    assert_int_equal(sg_connect_take(&in, &f, &err), -1);
    assert_int_equal(err.kind, SG_INVALID);
}

static void what_is_written_is_read_again(void **state)
{
    sg_auto_buf out;
    (void)state;
    sg_buf_init(&out, 1 << 20);
    for (size_t n = 0; n < 70000; n = n * 3 + 1) {
        size_t mark = sg_connect_open(&out);
        for (size_t i = 0; i < n; i++)
            sg_buf_add(&out, "a", 1);
        sg_connect_close(&out, mark, n % 2 ? SG_CONNECT_END : 0);
    }
    struct sg_str in = { (const char *)out.p, out.n };
    struct sg_connect_frame f;
    struct sg_err err;
    for (size_t n = 0; n < 70000; n = n * 3 + 1) {
        assert_int_equal(sg_connect_take(&in, &f, &err), 1);
        assert_int_equal(f.data.n, n);
        assert_int_equal(f.flags, n % 2 ? SG_CONNECT_END : 0);
    }
    assert_int_equal(in.n, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_one_envelope_after_the_other),
        cmocka_unit_test(refuses_what_is_cut_off),
        cmocka_unit_test(refuses_a_length_that_goes_past_everything),
        cmocka_unit_test(refuses_flags_that_nobody_knows),
        cmocka_unit_test(what_is_written_is_read_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
