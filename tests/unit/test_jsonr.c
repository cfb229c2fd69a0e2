/* SPDX-License-Identifier: Apache-2.0 */
/* base/jsonr: examples. tests/property/prop_jsonr.c compares it with json-c and with the writer. */
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/jsonr.h"
#include "check.h"
#include "base/banned.h"

static const struct sg_jval *parse_ok(const char *text, struct sg_arena *a)
{
    struct sg_err err = { 0 };
    const struct sg_jval *v = NULL;
    assert_ok(sg_json_parse(sg_str_of(text), a, &v, &err), err);
    return v;
}

static void every_kind_of_value_is_read(void **state)
{
    (void)state;
    sg_auto_arena a;
    sg_arena_init(&a, 10000);
    const struct sg_jval *v =
        parse_ok(" { \"a\" : [ 1, -2, 1.5, true, false, null, \"x\", {} ] }\n", &a);
    assert_int_equal(v->kind, SG_J_OBJECT);
    v = sg_json_get(v, "a");
    assert_int_equal(v->kind, SG_J_ARRAY);
    assert_int_equal(v->list.n, 8);
    static const enum sg_jkind kinds[] = { SG_J_UINT, SG_J_INT,  SG_J_DOUBLE, SG_J_BOOL,
                                           SG_J_BOOL, SG_J_NULL, SG_J_STRING, SG_J_OBJECT };
    const struct sg_jval *m = v->list.first;
    for (size_t i = 0; i < SG_COUNT(kinds); i++, m = m->next)
        assert_int_equal(m->kind, kinds[i]);
    assert_null(m);
    m = v->list.first;
    assert_true(m->u == 1 && m->next->i == -2);
    assert_true(m->next->next->d > 1.4 && m->next->next->d < 1.6);
    assert_true(m->next->next->next->b && !m->next->next->next->next->b);
}

static void integers_are_exact_to_their_ends(void **state)
{
    (void)state;
    sg_auto_arena a;
    sg_arena_init(&a, 10000);
    assert_true(parse_ok("18446744073709551615", &a)->u == UINT64_MAX);
    assert_int_equal(parse_ok("18446744073709551616", &a)->kind, SG_J_DOUBLE);
    assert_true(parse_ok("-9223372036854775808", &a)->i == INT64_MIN);
    assert_int_equal(parse_ok("-9223372036854775809", &a)->kind, SG_J_DOUBLE);
    assert_int_equal(parse_ok("-0", &a)->kind, SG_J_UINT);
    assert_int_equal(parse_ok("1e2", &a)->kind, SG_J_DOUBLE);
}

static void escapes_are_resolved(void **state)
{
    (void)state;
    sg_auto_arena a;
    sg_arena_init(&a, 10000);
    const struct sg_jval *v =
        parse_ok("\"a\\n\\\"\\\\\\/\\u00fc\\u20ac\\ud83d\\ude42\\u0000b\"", &a);
    static const char want[] = "a\n\"\\/\xc3\xbc\xe2\x82\xac\xf0\x9f\x99\x82\0b";
    assert_int_equal(v->s.n, sizeof want - 1);
    assert_memory_equal(v->s.p, want, sizeof want); /* with the terminator */
}

static void what_is_no_json_is_refused_with_its_place(void **state)
{
    (void)state;
    static const struct {
        const char *text, *part;
    } cases[] = {
        { "", "line 1, column 1: the text ends where a value should be" },
        { "{\"a\":1,}", "column 8: '}' instead of a key" },
        { "[1,]", "column 4: ']' instead of a value" },
        { "[1\n 2]", "line 2, column 2: '2' instead of a comma or ']'" },
        { "1 2", "column 3: '2' instead of the end" },
        { "{\"a\" 1}", "instead of a colon" },
        { "{a:1}", "a key in double quotes" },
        { "{\"a\":1,\"b\":2,\"a\":3}", "'a' twice" },
        { "{\"a\\u0000\":1}", "a key holds" },
        { "\"a", "ends inside a string" },
        { "\"a\\", "ends inside a string" },
        { "\"a\nb\"", "a control character" },
        { "\"\\x\"", "instead of an escape" },
        { "\"\\u12\"", "hexadecimal" },
        { "\"\\ud800\"", "surrogate" },
        { "\"\\ud800x\"", "surrogate" },
        { "\"\\ud800\\u0041\"", "surrogate" },
        { "\"\\udc00\"", "surrogate" },
        { "\"\xff\"", "not UTF-8" },
        { "\"\xed\xa0\x80\"", "not UTF-8" },
        { "\xef\xbb\xbf{}", "instead of a value" },
        { "01", "instead of the end" },
        { "+1", "instead of a value" },
        { "-", "a digit" },
        { "1.", "a digit" },
        { ".5", "instead of a value" },
        { "1e", "a digit" },
        { "1e+", "a digit" },
        { "1e999", "too large" },
        { "NaN", "instead of a value" },
        { "tru", "instead of a value" },
        { "truee", "instead of the end" },
        { "'a'", "instead of a value" },
        { "/**/1", "instead of a value" },
    };
    for (size_t i = 0; i < SG_COUNT(cases); i++) {
        sg_auto_arena a;
        struct sg_err err;
        const struct sg_jval *v = NULL;
        sg_arena_init(&a, 10000);
        assert_fails(sg_json_parse(sg_str_of(cases[i].text), &a, &v, &err), err, SG_INVALID);
        if (!strstr(err.msg, cases[i].part))
            fail_msg("%s: %s", cases[i].text, err.msg);
        assert_null(v);
    }
}

static void the_text_need_not_be_terminated(void **state)
{
    (void)state;
    sg_auto_arena a;
    struct sg_err err = { 0 };
    const struct sg_jval *v;
    static const char text[] = "[true,123,\"ab\"]";
    sg_arena_init(&a, 100000);
    for (size_t n = 0; n < sizeof text - 1;
         n++) { /* exact blocks: a sanitizer sees one byte more */
        sg_auto_free char *exact = malloc(n + !n);
        memcpy(exact, text, n);
        assert_fails(sg_json_parse((struct sg_str) { exact, n }, &a, &v, &err), err, SG_INVALID);
    }
}

static char *nested(unsigned depth)
{
    char *text = sg_alloc(2 * (size_t)depth + 1);
    memset(text, '[', depth);
    memset(text + depth, ']', depth);
    return text;
}

static void the_depth_is_bounded(void **state)
{
    (void)state;
    sg_auto_arena a;
    struct sg_err err;
    const struct sg_jval *v;
    sg_arena_init(&a, 100000);
    sg_auto_free char *good = nested(SG_J_MAX_DEPTH), *bad = nested(SG_J_MAX_DEPTH + 1);
    (void)parse_ok(good, &a);
    assert_fails(sg_json_parse(sg_str_of(bad), &a, &v, &err), err, SG_INVALID);
}

static void a_small_arena_refuses_a_large_text(void **state)
{
    (void)state;
    sg_auto_arena a;
    struct sg_err err;
    const struct sg_jval *v;
    sg_arena_init(&a, 200);
    (void)parse_ok("[1,2]", &a);
    sg_arena_clear(&a);
    assert_fails(sg_json_parse(sg_str_of("[1,2,3,4]"), &a, &v, &err), err, SG_EXHAUSTED);
}

static void many_members_are_compared_too(void **state)
{
    (void)state;
    for (int is_twice = 0; is_twice < 2; is_twice++) {
        sg_auto_arena a;
        sg_auto_buf b;
        struct sg_err err = { 0 };
        const struct sg_jval *v;
        sg_arena_init(&a, 1 << 20);
        sg_buf_init(&b, 1 << 20);
        for (int i = 0; i < 1000; i++)
            sg_buf_addf(&b, "%c\"k%d\":%d", i ? ',' : '{', is_twice && i == 999 ? 3 : i, i);
        sg_buf_add_str(&b, "}");
        int r = sg_json_parse((struct sg_str) { (char *)b.p, b.n }, &a, &v, &err);
        assert_int_equal(r, is_twice ? -1 : 0);
        if (is_twice)
            assert_non_null(strstr(err.msg, "'k3' twice"));
    }
}

/* ---- by table ---- */

struct body {
    const char *name;
    uint64_t timeout_ms, cpu_milli;
    bool is_background;
    const struct sg_jval *metadata, *argv, *any;
};
#define AT(member) offsetof(struct body, member)
static const struct sg_jfield fields[] = {
    { "name", SG_JT_STRING, AT(name), 0, 0, true },
    { "timeoutMs", SG_JT_U64, AT(timeout_ms), 1, 1000, false },
    { "cpus", SG_JT_MILLI, AT(cpu_milli), 10, 4000, false },
    { "background", SG_JT_BOOL, AT(is_background), 0, 0, false },
    { "metadata", SG_JT_OBJECT, AT(metadata), 0, 0, false },
    { "argv", SG_JT_ARRAY, AT(argv), 0, 0, false },
    { "any", SG_JT_VALUE, AT(any), 0, 0, false },
};

static void an_object_fills_a_struct(void **state)
{
    (void)state;
    sg_auto_arena a;
    struct sg_err err = { 0 };
    sg_arena_init(&a, 10000);
    struct body body = { .timeout_ms = 7, .cpu_milli = 8 };
    const struct sg_jval *v =
        parse_ok("{\"name\":\"n\",\"timeoutMs\":null,\"cpus\":0.55,\"background\":true,"
                 "\"metadata\":{},\"argv\":[],\"any\":3}",
                 &a);
    assert_ok(sg_json_read(v, fields, SG_COUNT(fields), &body, &err), err);
    assert_string_equal(body.name, "n");
    assert_int_equal(body.timeout_ms, 7);
    assert_int_equal(body.cpu_milli, 550);
    assert_true(body.is_background && body.metadata && body.argv && body.any->u == 3);
    v = parse_ok("{\"name\":\"n\",\"timeoutMs\":300.0,\"cpus\":2}", &a);
    assert_ok(sg_json_read(v, fields, SG_COUNT(fields), &body, &err), err);
    assert_int_equal(body.timeout_ms, 300);
    assert_int_equal(body.cpu_milli, 2000);
}

static void a_bad_member_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *text, *part;
    } cases[] = {
        { "[]", "must be an object" },
        { "{}", "'name' is missing" },
        { "{\"name\":null}", "'name' is missing" },
        { "{\"name\":1}", "'name' must be a string" },
        { "{\"name\":\"a\\u0000b\"}", "U+0000" },
        { "{\"name\":\"a\",\"timeoutms\":1}",
          "unknown member 'timeoutms' (did you mean 'timeoutMs'?)" },
        { "{\"name\":\"a\",\"timeoutMs\":0}", "'timeoutMs' must be from 1 to 1000" },
        { "{\"name\":\"a\",\"timeoutMs\":1001}", "'timeoutMs' must be from 1 to 1000" },
        { "{\"name\":\"a\",\"timeoutMs\":-1}", "'timeoutMs' must be a whole number" },
        { "{\"name\":\"a\",\"timeoutMs\":1.5}", "'timeoutMs' must be a whole number" },
        { "{\"name\":\"a\",\"timeoutMs\":1e300}", "'timeoutMs' must be a whole number" },
        { "{\"name\":\"a\",\"cpus\":0.001}", "'cpus' must be a number from 0.010 to 4.000" },
        { "{\"name\":\"a\",\"cpus\":1e300}", "'cpus'" },
        { "{\"name\":\"a\",\"cpus\":18446744073709551615}", "'cpus'" },
        { "{\"name\":\"a\",\"background\":1}", "'background' must be true or false" },
        { "{\"name\":\"a\",\"metadata\":[]}", "'metadata' must be an object" },
        { "{\"name\":\"a\",\"argv\":{}}", "'argv' must be an array" },
    };
    for (size_t i = 0; i < SG_COUNT(cases); i++) {
        sg_auto_arena a;
        struct sg_err err;
        struct body body = { 0 };
        sg_arena_init(&a, 10000);
        const struct sg_jval *v = parse_ok(cases[i].text, &a);
        assert_fails(sg_json_read(v, fields, SG_COUNT(fields), &body, &err), err, SG_INVALID);
        if (!strstr(err.msg, cases[i].part))
            fail_msg("%s: %s", cases[i].text, err.msg);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_of_value_is_read),
        cmocka_unit_test(integers_are_exact_to_their_ends),
        cmocka_unit_test(escapes_are_resolved),
        cmocka_unit_test(what_is_no_json_is_refused_with_its_place),
        cmocka_unit_test(the_text_need_not_be_terminated),
        cmocka_unit_test(the_depth_is_bounded),
        cmocka_unit_test(a_small_arena_refuses_a_large_text),
        cmocka_unit_test(many_members_are_compared_too),
        cmocka_unit_test(an_object_fills_a_struct),
        cmocka_unit_test(a_bad_member_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
