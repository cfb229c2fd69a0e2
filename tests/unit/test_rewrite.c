/* SPDX-License-Identifier: Apache-2.0 */
/* Placeholders become values, and values become stars, wherever a text is cut. */
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "gate/rewrite.h"
#include "wire/base64.h"

#include "check.h"
#include "base/banned.h"

#define MARK  "sgsecret_cabs" /* whose end looks like its beginning */
#define VALUE "s3cr3t/+ \"value"

static bool any_host(void *arg, struct sg_str host)
{
    (void)arg;
    return sg_str_is(host, "h");
}

static struct sg_swaps *swaps(void)
{
    struct sg_swaps *s = sg_swaps_new();
    sg_swaps_add(s, MARK, sg_str_of(VALUE), false);
    return s;
}

/* What goes out for a request, fed in pieces of `step` bytes; "": refused. Owned. */
static char *up(const struct sg_swaps *s, const char *text, size_t step)
{
    struct sg_rewrite_up u;
    sg_auto_buf out, back;
    enum sg_rewrite_got got = SG_REWRITE_ON;
    sg_buf_init(&out, 1 << 20);
    sg_buf_init(&back, 4096);
    sg_rewrite_up_init(&u, any_host, NULL);
    for (size_t at = 0, n = strlen(text); at < n && got == SG_REWRITE_ON; at += step)
        got = sg_rewrite_up(&u, s, text + at, n - at < step ? n - at : step, &out, &back);
    sg_rewrite_up_done(&u);
    return sg_strdup(got == SG_REWRITE_BAD ? "" : sg_buf_cstr(&out));
}

static char *down(const struct sg_swaps *s, const char *text, size_t step)
{
    struct sg_rewrite_down d;
    const struct sg_rewrite_up u = { 0 };
    sg_auto_buf out;
    sg_auto_free char *copy = sg_strdup(text);
    enum sg_rewrite_got got = SG_REWRITE_ON;
    size_t used = 0;
    sg_buf_init(&out, 1 << 20);
    sg_rewrite_down_init(&d);
    for (size_t at = 0, n = strlen(text); at < n && got == SG_REWRITE_ON; at += used) {
        used = n - at < step ? n - at : step;
        got = sg_rewrite_down(&d, &u, s, (uint8_t *)copy + at, &used, &out);
    }
    if (got == SG_REWRITE_ON)
        got = sg_rewrite_down_eof(&d, &out);
    sg_rewrite_down_done(&d);
    return sg_strdup(got == SG_REWRITE_BAD ? "" : sg_buf_cstr(&out));
}

static void check_up(const char *in, const char *const *has, const char *const *hasnt)
{
    struct sg_swaps *s = swaps();
    for (size_t step = 1; step < strlen(in) + 7; step += 6) {
        sg_auto_free char *out = up(s, in, step);
        for (size_t i = 0; has[i]; i++)
            if (!strstr(out, has[i]))
                fail_msg("no '%s' in '%s'", has[i], out);
        for (size_t i = 0; hasnt[i]; i++)
            assert_null(strstr(out, hasnt[i]));
    }
    sg_swaps_unref(s);
}
#define LIST(...) ((const char *const[]) { __VA_ARGS__, NULL })

static void swaps_in_target_fields_and_bodies(void **state)
{
    (void)state;
    check_up("GET /a?k=" MARK "&b HTTP/1.1\r\nHost: h\r\nX-Key: a " MARK "\r\n\r\n",
             LIST("GET /a?k=s3cr3t%2F%2B%20%22value&b HTTP/1.1\r\n", "X-Key: a " VALUE "\r\n",
                  "Accept-Encoding: identity\r\n"),
             LIST(MARK));
    check_up("POST / HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\n"
             "Content-Length: 21\r\n\r\n{\"a\":\"" MARK "\"}",
             LIST("\r\n\r\n{\"a\":\"s3cr3t/+ \\\"value\"}", "Content-Length: 24\r\n"), LIST(MARK));
    check_up(
        "POST / HTTP/1.1\r\nHost: h\r\nContent-Type: application/x-www-form-urlencoded; x\r\n"
        "Transfer-Encoding: chunked\r\n\r\n4\r\nk=sg\r\n9\r\nsecret_ca\r\n4\r\nbs&x\r\n0\r\n\r\n",
        LIST("s3cr3t%2F%2B%20%22value", "x\r\n0\r\n\r\n"), LIST(MARK, "Content-Length"));
}

static void swaps_inside_basic_authorization(void **state)
{
    (void)state;
    sg_auto_buf in, want;
    sg_buf_init(&in, 4096);
    sg_buf_init(&want, 4096);
    sg_buf_add_str(&in, "GET / HTTP/1.1\r\nHost: h\r\nauthorization: basic ");
    sg_base64_encode(&in, "user:" MARK, strlen("user:" MARK));
    sg_buf_add_str(&in, "\r\n\r\n");
    sg_buf_add_str(&want, ": Basic ");
    sg_base64_encode(&want, "user:" VALUE, strlen("user:" VALUE));
    check_up(sg_buf_cstr(&in), LIST(sg_buf_cstr(&want)), LIST(MARK));
}

static void added_fields_take_the_place_of_the_clients(void **state)
{
    (void)state;
    struct sg_swaps *s = sg_swaps_new();
    sg_swaps_add(s, MARK, sg_str_of("the-value"), true);
    sg_swaps_add_field(s, "Authorization", "Bearer " MARK);
    sg_auto_free char *out =
        up(s, "GET / HTTP/1.1\r\nHost: h\r\nAUTHORIZATION: mine\r\nX: " MARK "\r\n\r\n", 1000);
    assert_non_null(strstr(out, "Authorization: Bearer the-value\r\n"));
    assert_null(strstr(out, "mine"));
    assert_non_null(strstr(out, "X: " MARK "\r\n")); /* what is for rules is for nothing else */
    sg_swaps_unref(s);
}

static void refuses_what_it_cannot_follow(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "GET / HTTP/1.1\r\nHost: other\r\n\r\n",
        "CONNECT h:443 HTTP/1.1\r\nHost: h\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    };
    struct sg_swaps *s = swaps();
    for (size_t i = 0; i < SG_COUNT(bad); i++) {
        sg_auto_free char *out = up(s, bad[i], 1000);
        assert_string_equal(out, "");
    }
    struct sg_swaps *lines = sg_swaps_new();
    sg_swaps_add(lines, MARK, sg_str_of("one\r\nX: two"), false);
    sg_auto_free char *out = up(lines, "GET / HTTP/1.1\r\nHost: h\r\nA: " MARK "\r\n\r\n", 1000);
    assert_string_equal(out, ""); /* a value with a line end is no field */
    sg_swaps_unref(lines);
    sg_swaps_unref(s);
}

/* In pieces of every size; the four last bytes of the value are in none of its forms. */
static void assert_masked(const char *answer)
{
    struct sg_swaps *s = swaps();
    sg_auto_free char *text = sg_printf("HTTP/1.1 200 OK\r\n%s", answer);
    for (size_t step = 1; step < 60; step++) {
        sg_auto_free char *out = down(s, text, step);
        if (!strstr(out, "****") || strstr(out, "value") || strstr(out, "dmFsdW") ||
            strstr(out, "ZhbHVl") || strstr(out, "2YWx1Z"))
            fail_msg("by %zu: '%s'", step, out);
    }
    sg_swaps_unref(s);
}

static void values_are_masked_however_they_are_cut(void **state)
{
    (void)state;
    static const char *const heads[] = {
        "\r\nuntil the end " VALUE,
        "Transfer-Encoding: chunked\r\n\r\n6\r\nabs3cr\r\n4\r\n3t/+\r\n9\r\n "
        "\"valueef\r\n0\r\n\r\n",
        "X-Echo: " VALUE "\r\nContent-Length: 0\r\n\r\n",
    };
    static const char *const bodies[] = { "abcd" VALUE "efgh", "k=s3cr3t%2F%2B%20%22value&x",
                                          "{\"k\":\"s3cr3t/+ \\\"value\"}" };
    for (size_t i = 0; i < SG_COUNT(heads); i++)
        assert_masked(heads[i]);
    for (size_t i = 0; i < SG_COUNT(bodies); i++) {
        sg_auto_free char *text =
            sg_printf("Content-Length: %zu\r\n\r\n%s", strlen(bodies[i]), bodies[i]);
        assert_masked(text);
    }
    for (unsigned shift = 0; shift < 3; shift++) {
        sg_auto_buf coded;
        sg_auto_free char *plain = sg_printf("%.*s" VALUE "!", (int)shift, "ab");
        sg_buf_init(&coded, 4096);
        sg_base64_encode(&coded, plain, strlen(plain));
        sg_auto_free char *text =
            sg_printf("Content-Length: %zu\r\n\r\n%s", coded.n, sg_buf_cstr(&coded));
        assert_masked(text);
    }
}

static void what_is_not_masked_is_not_changed_or_held_back(void **state)
{
    (void)state;
    struct sg_swaps *s = swaps();
    struct sg_rewrite_down d;
    const struct sg_rewrite_up u = { 0 };
    sg_auto_buf out;
    char head[] = "HTTP/1.1 200 OK\r\nX: y\r\n\r\nevent: s3cr", rest[] = "am\n";
    size_t n = sizeof head - 1;
    sg_buf_init(&out, 4096);
    sg_rewrite_down_init(&d);
    assert_int_equal(sg_rewrite_down(&d, &u, s, (uint8_t *)head, &n, &out), SG_REWRITE_ON);
    assert_string_equal(sg_buf_cstr(&out), "HTTP/1.1 200 OK\r\nX: y\r\n\r\nevent: ");
    n = sizeof rest - 1;
    assert_int_equal(sg_rewrite_down(&d, &u, s, (uint8_t *)rest, &n, &out), SG_REWRITE_ON);
    assert_string_equal(sg_buf_cstr(&out), "HTTP/1.1 200 OK\r\nX: y\r\n\r\nevent: s3cram\n");
    sg_rewrite_down_done(&d);
    sg_swaps_unref(s);
}

static void compressed_answers_are_refused_where_values_could_hide(void **state)
{
    (void)state;
    static const char text[] =
        "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc";
    struct sg_swaps *s = swaps(), *none = sg_swaps_new();
    sg_auto_free char *out = down(s, text, 1000), *fine = down(none, text, 1000);
    assert_string_equal(out, "");
    assert_non_null(strstr(fine, "\r\n\r\nabc"));
    sg_swaps_unref(s);
    sg_swaps_unref(none);
}

static void a_cut_answer_is_no_whole_one(void **state)
{
    (void)state;
    struct sg_swaps *s = swaps();
    sg_auto_free char *cut = down(s, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", 1000),
                      *whole = down(s, "HTTP/1.1 204 No\r\nAlt-Svc: h3\r\n\r\n", 1000);
    assert_string_equal(cut, "");
    assert_string_equal(whole, "HTTP/1.1 204 No\r\n\r\n");
    sg_swaps_unref(s);
}

static void requests_come_one_after_the_other(void **state)
{
    (void)state;
    static const char two[] =
        "GET /1 HTTP/1.1\r\nHost: h\r\n\r\nGET /2 HTTP/1.1\r\nHost: h\r\n\r\n";
    struct sg_swaps *s = swaps();
    struct sg_rewrite_up u;
    sg_auto_buf out, back;
    sg_buf_init(&out, 4096);
    sg_buf_init(&back, 4096);
    sg_rewrite_up_init(&u, any_host, NULL);
    assert_int_equal(sg_rewrite_up(&u, s, two, sizeof two - 1, &out, &back), SG_REWRITE_END);
    assert_null(strstr(sg_buf_cstr(&out), "/2"));
    sg_rewrite_up_next(&u);
    assert_int_equal(sg_rewrite_up(&u, s, NULL, 0, &out, &back), SG_REWRITE_END);
    assert_non_null(strstr(sg_buf_cstr(&out), "/2"));
    sg_rewrite_up_done(&u);
    sg_swaps_unref(s);
}

static void a_gathered_body_is_asked_for(void **state)
{
    (void)state;
    static const char head[] = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n"
                               "Expect: 100-continue\r\n\r\n";
    struct sg_swaps *s = swaps();
    struct sg_rewrite_up u;
    sg_auto_buf out, back;
    sg_buf_init(&out, 4096);
    sg_buf_init(&back, 4096);
    sg_rewrite_up_init(&u, any_host, NULL);
    assert_int_equal(sg_rewrite_up(&u, s, head, sizeof head - 1, &out, &back), SG_REWRITE_ON);
    assert_string_equal(sg_buf_cstr(&back), "HTTP/1.1 100 Continue\r\n\r\n");
    assert_int_equal(sg_rewrite_up(&u, s, "abc", 3, &out, &back), SG_REWRITE_END);
    assert_null(strstr(sg_buf_cstr(&out), "Expect"));
    sg_rewrite_up_done(&u);
    sg_swaps_unref(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(swaps_in_target_fields_and_bodies),
        cmocka_unit_test(swaps_inside_basic_authorization),
        cmocka_unit_test(added_fields_take_the_place_of_the_clients),
        cmocka_unit_test(refuses_what_it_cannot_follow),
        cmocka_unit_test(values_are_masked_however_they_are_cut),
        cmocka_unit_test(what_is_not_masked_is_not_changed_or_held_back),
        cmocka_unit_test(compressed_answers_are_refused_where_values_could_hide),
        cmocka_unit_test(a_cut_answer_is_no_whole_one),
        cmocka_unit_test(requests_come_one_after_the_other),
        cmocka_unit_test(a_gathered_body_is_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
