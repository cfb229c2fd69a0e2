/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/answer.h"

#include <string.h>

#include "base/auto.h"
#include "check.h"
#include "base/banned.h"

static int parse(struct sg_http_answer *a, const char *text, struct sg_err *err)
{
    return sg_answer_parse(a, text, strlen(text), err);
}

static void a_head_is_read(void **state)
{
    static const char text[] = "HTTP/1.1 200 OK\r\nContent-Length: 12\r\nX-Own:  a b \r\n\r\nbody";
    struct sg_http_answer a;
    struct sg_err err;
    (void)state;
    assert_int_equal(parse(&a, text, &err), sizeof text - 1 - strlen("body"));
    assert_int_equal(a.status, 200);
    assert_true(a.has_length);
    assert_int_equal(a.length, 12);
    assert_int_equal(a.field_count, 2);
    assert_true(sg_str_is(sg_span_str(a.fields[1].value, text), "a b"));
}

static void every_part_of_a_head_is_not_enough(void **state)
{
    static const char text[] = "HTTP/1.0 404\nTransfer-Encoding: chunked\n\n";
    struct sg_http_answer a;
    struct sg_err err;
    (void)state;
    for (size_t n = 0; n < sizeof text - 1; n++)
        assert_int_equal(sg_answer_parse(&a, text, n, &err), 0);
    assert_int_equal(parse(&a, text, &err), sizeof text - 1);
    assert_int_equal(a.status, 404);
    assert_true(a.is_chunked);
}

static void what_makes_no_sense_is_refused(void **state)
{
    static const char *const rows[] = {
        "SSH-2.0-x\r\n\r\n",
        "HTTP/2 200\r\n\r\n",
        "HTTP/1.1 99 x\r\n\r\n",
        "HTTP/1.1 600 x\r\n\r\n",
        "HTTP/1.1 2000 x\r\n\r\n",
        "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        "HTTP/1.1 200 OK\r\n: no name\r\n\r\n",
        "HTTP/1.1 200 OK\r\na b: c\r\n\r\n",
        "HTTP/1.1 200 OK\r\na: b\r\n folded\r\n\r\n",
        "HTTP/1.1 200 OK\r\na: b\x01\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
    };
    (void)state;
    for (size_t i = 0; i < SG_COUNT(rows); i++) {
        struct sg_http_answer a;
        struct sg_err err;
        assert_fails(parse(&a, rows[i], &err), err, SG_INVALID);
    }
}

static void a_head_without_end_is_refused_at_last(void **state)
{
    static char text[SG_HTTP_MAX_HEAD + 1];
    struct sg_http_answer a;
    struct sg_err err;
    (void)state;
    memset(text, 'a', sizeof text);
    assert_int_equal(sg_answer_parse(&a, text, SG_HTTP_MAX_HEAD - 1, &err), 0);
    assert_fails(sg_answer_parse(&a, text, SG_HTTP_MAX_HEAD, &err), err, SG_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_head_is_read),
        cmocka_unit_test(every_part_of_a_head_is_not_enough),
        cmocka_unit_test(what_makes_no_sense_is_refused),
        cmocka_unit_test(a_head_without_end_is_refused_at_last),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
