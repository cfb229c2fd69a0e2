/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/code_event.h"

#include <string.h>

#include "base/auto.h"
#include "check.h"
#include "base/banned.h"

/* ---- lines ---- */

static void lines_are_the_same_however_the_bytes_come(void **state)
{
    static const char all[] = "one\n\ntwo\nthree\nunfinished";
    (void)state;
    for (size_t step = 1; step < sizeof all; step++) {
        struct sg_code_lines l;
        sg_auto_buf out;
        sg_buf_init(&out, 100);
        sg_code_lines_init(&l, 20, NULL, 0);
        for (size_t at = 0; at < sizeof all - 1; at += step) {
            const size_t left = sizeof all - 1 - at;
            struct sg_str in = { all + at, left < step ? left : step }, line;
            while (sg_code_lines_next(&l, &in, &line) == SG_CODE_LINE) {
                sg_buf_add(&out, line.p, line.n);
                sg_buf_add_str(&out, "|");
            }
        }
        assert_string_equal(sg_buf_cstr(&out), "one|two|three|");
        sg_code_lines_done(&l);
    }
}

static void a_line_of_the_limit_passes_and_one_past_it_does_not(void **state)
{
    struct sg_code_lines l;
    struct sg_str in = sg_str_of("12345\n123456\nafter\n"), line;
    (void)state;
    sg_code_lines_init(&l, 5, NULL, 0);
    assert_int_equal(sg_code_lines_next(&l, &in, &line), SG_CODE_LINE);
    assert_true(sg_str_is(line, "12345"));
    assert_int_equal(sg_code_lines_next(&l, &in, &line), SG_CODE_LINE_TOO_LONG);
    assert_int_equal(sg_code_lines_next(&l, &in, &line), SG_CODE_LINE);
    assert_true(sg_str_is(line, "after"));
    assert_int_equal(sg_code_lines_next(&l, &in, &line), SG_CODE_LINE_MORE);
    sg_code_lines_done(&l);
}

static void a_gap_costs_the_lines_that_it_touches(void **state)
{
    struct sg_code_lines l;
    struct sg_str in = sg_str_of("half"), line;
    (void)state;
    sg_code_lines_init(&l, 100, NULL, 0);
    assert_int_equal(sg_code_lines_next(&l, &in, &line), SG_CODE_LINE_MORE);
    sg_code_lines_gap(&l);
    in = sg_str_of("end of another\nwhole\n");
    assert_int_equal(sg_code_lines_next(&l, &in, &line), SG_CODE_LINE);
    assert_true(sg_str_is(line, "whole"));
    sg_code_lines_done(&l);
}

static void many_share_a_bound_and_give_back_what_they_held(void **state)
{
    enum { SHARED = 100 << 10 };
    uint64_t shared = 0;
    struct sg_code_lines a, b;
    static char text[90 << 10];
    struct sg_str in = { text, sizeof text }, line;
    (void)state;
    memset(text, 'x', sizeof text);
    sg_code_lines_init(&a, 1 << 20, &shared, SHARED * 2);
    sg_code_lines_init(&b, 1 << 20, &shared, SHARED * 2);
    assert_int_equal(sg_code_lines_next(&a, &in, &line), SG_CODE_LINE_MORE);
    assert_true(shared >= sizeof text);
    in = (struct sg_str) { text, sizeof text };
    assert_int_equal(sg_code_lines_next(&b, &in, &line), SG_CODE_LINE_MORE);
    in = (struct sg_str) { text, sizeof text };
    assert_int_equal(sg_code_lines_next(&b, &in, &line), SG_CODE_LINE_MORE);
    assert_true(shared <= SHARED * 2);
    in = sg_str_of("\n{}\n");
    assert_int_equal(sg_code_lines_next(&b, &in, &line), SG_CODE_LINE_TOO_LONG);
    assert_int_equal(sg_code_lines_next(&b, &in, &line), SG_CODE_LINE);
    sg_code_lines_done(&a);
    sg_code_lines_done(&b);
    assert_int_equal(shared, 0);
}

/* ---- events ---- */

static const char *without_id(const char *line, struct sg_buf *out)
{
    struct sg_code_event e;
    struct sg_err err = { 0 };
    sg_buf_clear(out);
    if (sg_code_event_read(sg_str_of(line), &e, &err) < 0)
        return "refused";
    sg_code_event_put(out, sg_str_of(line), &e);
    return sg_buf_cstr(out);
}

static void the_id_goes_wherever_it_stands(void **state)
{
    static const char *const rows[][2] = {
        { "{\"type\":\"a\",\"id\":\"x\"}", "{\"type\":\"a\"}" },
        { "{\"id\":\"x\",\"type\":\"a\"}", "{\"type\":\"a\"}" },
        { "{\"type\":\"a\",\"id\":\"x\",\"n\":1}", "{\"type\":\"a\",\"n\":1}" },
        { "{ \"id\" : \"x\" , \"type\" : \"a\" }", "{  \"type\" : \"a\" }" },
        { "{\"type\":\"a\",\"json\":{\"id\":5}}", "{\"type\":\"a\",\"json\":{\"id\":5}}" },
        { "{\"type\":\"a\",\"id\":[1,{}]}", "{\"type\":\"a\"}" },
        { "{\"type\":\"a\",\"t\":\"\\u00e4\\\\\\\"\"}",
          "{\"type\":\"a\",\"t\":\"\\u00e4\\\\\\\"\"}" },
    };
    sg_auto_buf out;
    (void)state;
    sg_buf_init(&out, 1000);
    for (size_t i = 0; i < SG_COUNT(rows); i++)
        assert_string_equal(without_id(rows[i][0], &out), rows[i][1]);
}

static void refuses_what_is_no_event(void **state)
{
    static const char *const rows[] = {
        "",
        "{}",
        "[]",
        "null",
        "5",
        "{\"type\":5}",
        "{\"type\":\"a\"",
        "{\"type\":\"a\"}}",
        "{\"type\":\"a\"} x",
        "{\"type\":\"a\",}",
        "{\"type\":\"a\" \"b\":1}",
        "{type:\"a\"}",
        "{\"type\":\"a\",\"type\":\"b\"}",
        "{\"type\":\"a\",\"id\":\"x\",\"id\":\"y\"}",
        "{\"type\":\"a\",\"n\":01}",
        "{\"type\":\"a\",\"n\":1.}",
        "{\"type\":\"a\",\"n\":.5}",
        "{\"type\":\"a\",\"n\":+1}",
        "{\"type\":\"a\",\"n\":1e}",
        "{\"type\":\"a\",\"n\":NaN}",
        "{\"type\":\"a\",\"n\":tru}",
        "{\"type\":\"a\",\"t\":\"\\x\"}",
        "{\"type\":\"a\",\"t\":\"\\u12g4\"}",
        "{\"type\":\"a\",\"t\":\"\t\"}",
        "{\"type\":\"a\",\"t\":\"\xff\"}",
        "{\"type\":\"a\",\"l\":[1 2]}",
    };
    struct sg_code_event e;
    struct sg_err err;
    (void)state;
    for (size_t i = 0; i < SG_COUNT(rows); i++) {
        err = (struct sg_err) { 0 };
        if (sg_code_event_read(sg_str_of(rows[i]), &e, &err) == 0)
            fail_msg("taken: %s", rows[i]);
        assert_int_equal(err.kind, SG_INVALID);
    }
}

static void depth_is_bounded(void **state)
{
    sg_auto_buf line;
    struct sg_code_event e;
    (void)state;
    for (unsigned depth = 60; depth < 5000; depth += depth < 70 ? 1 : 1000) {
        sg_buf_init(&line, 20000);
        sg_buf_add_str(&line, "{\"type\":\"result\",\"json\":");
        for (unsigned i = 0; i < depth; i++)
            sg_buf_add_str(&line, "[");
        for (unsigned i = 0; i < depth; i++)
            sg_buf_add_str(&line, "]");
        sg_buf_add_str(&line, "}");
        const int got = sg_code_event_read(sg_str_of(sg_buf_cstr(&line)), &e, NULL);
        assert_int_equal(got, depth < 64 ? 0 : -1);
        sg_buf_done(&line);
    }
    sg_buf_init(&line, 1);
}

static void knows_types_ids_and_the_names_of_errors(void **state)
{
    struct sg_code_event e;
    (void)state;
    assert_int_equal(
        sg_code_event_read(sg_str_of("{\"id\":\"r1\",\"type\":\"error\",\"name\":\"E\","
                                     "\"value\":\"v\"}"),
                           &e, NULL),
        0);
    assert_int_equal(e.type, SG_CODE_T_ERROR);
    assert_true(sg_str_is(e.id, "r1") && sg_str_is(e.name, "E") && sg_str_is(e.value, "v"));
    assert_int_equal(
        sg_code_event_read(sg_str_of("{\"type\":\"end_of_execution\",\"id\":7}"), &e, NULL), 0);
    assert_int_equal(e.type, SG_CODE_T_OVER);
    assert_int_equal(e.id.n, 0);
    assert_int_equal(sg_code_event_read(sg_str_of("{\"type\":\"new\"}"), &e, NULL), 0);
    assert_int_equal(e.type, SG_CODE_T_OTHER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_the_same_however_the_bytes_come),
        cmocka_unit_test(a_line_of_the_limit_passes_and_one_past_it_does_not),
        cmocka_unit_test(a_gap_costs_the_lines_that_it_touches),
        cmocka_unit_test(many_share_a_bound_and_give_back_what_they_held),
        cmocka_unit_test(the_id_goes_wherever_it_stands),
        cmocka_unit_test(refuses_what_is_no_event),
        cmocka_unit_test(depth_is_bounded),
        cmocka_unit_test(knows_types_ids_and_the_names_of_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
