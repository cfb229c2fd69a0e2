/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "check.h"
#include "wire/chunked.h"
#include "wire/http1.h"
#include "wire/reply.h"
#include "base/banned.h"

static int parse(struct sg_http_head *h, const char *p, size_t n, struct sg_err *err)
{
    sg_http1_init(h);
    return sg_http1_parse(h, p, n, err);
}

static void assert_span(struct sg_span s, const char *head, const char *want)
{
    assert_int_equal(s.n, strlen(want));
    assert_memory_equal(head + s.at, want, s.n);
}

static void reads_a_request_head(void **state)
{
    (void)state;
    static const char text[] =
        "POST /v1/a%20b?x=1&y HTTP/1.1\r\nHost: sand.glass:80\r\n"
        "content-LENGTH: 12\r\nX-Empty:\r\nX-Wide: \t a \xc3\xa9 b \t\r\n"
        "Connection: foo , Keep-Alive,UPGRADE\r\nExpect: 100-Continue\r\n\r\n";
    struct sg_http_head h;
    struct sg_err err = { 0 };
    assert_int_equal(parse(&h, text, sizeof text - 1, &err), sizeof text - 1);
    assert_span(h.method, text, "POST");
    assert_span(h.target, text, "/v1/a%20b?x=1&y");
    assert_span(h.path, text, "/v1/a%20b");
    assert_span(h.query, text, "x=1&y");
    assert_span(h.host, text, "sand.glass:80");
    assert_int_equal(h.minor, 1);
    assert_true(h.has_length && h.content_length == 12 && !h.is_chunked);
    assert_true(h.wants_keep_alive && h.wants_upgrade && !h.wants_close && h.expects_continue);
    assert_int_equal(h.field_count, 6);
    const struct sg_http_field *f = sg_http1_find(h.fields, h.field_count, text, "x-wide");
    assert_non_null(f);
    assert_span(f->value, text, "a \xc3\xa9 b");
    assert_span(sg_http1_find(h.fields, h.field_count, text, "X-EMPTY")->value, text, "");
    assert_null(sg_http1_find(h.fields, h.field_count, text, "X-Emp"));
}

static void accepts_the_forms_of_a_target(void **state)
{
    (void)state;
    static const struct {
        const char *text, *path, *query;
    } rows[] = {
        { "GET / HTTP/1.1\r\nHost: a\r\n\r\n", "/", "" },
        { "GET /? HTTP/1.0\r\n\r\n", "/", "" },
        { "GET /a?b?c HTTP/1.0\r\n\r\n", "/a", "b?c" },
        { "OPTIONS * HTTP/1.1\r\nHost:\r\n\r\n", "*", "" },
        { "GET http://A.b:8/c?d HTTP/1.1\r\nHost: a.B:8\r\n\r\n", "/c", "d" },
        { "GET HTTPS://a/ HTTP/1.1\r\nHost: a\r\n\r\n", "/", "" },
        { "\r\nGET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n", "/", "" },
    };
    for (size_t i = 0; i < SG_COUNT(rows); i++) {
        struct sg_http_head h;
        struct sg_err err = { 0 };
        int n = parse(&h, rows[i].text, strlen(rows[i].text), &err);
        if (n < 0)
            fail_msg("%s: %s", rows[i].text, err.msg);
        assert_int_equal(n, strlen(rows[i].text));
        assert_span(h.path, rows[i].text, rows[i].path);
        assert_span(h.query, rows[i].text, rows[i].query);
    }
}

#define GET "GET / HTTP/1.1\r\nHost: a\r\n"

static void refuses_what_could_be_read_in_two_ways(void **state)
{
    (void)state;
    static const struct {
        int status;
        struct sg_str text;
    } rows[] = {
#define ROW(status, text)                                                                          \
    {                                                                                              \
        status,                                                                                    \
        {                                                                                          \
            text, sizeof(text) - 1                                                                 \
        }                                                                                          \
    }
        ROW(400, GET "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n"),
        ROW(400, GET "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n"),
        ROW(400, GET "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n"),
        ROW(501, GET "Transfer-Encoding: chunked, chunked\r\n\r\n"),
        ROW(501, GET "Transfer-Encoding: gzip, chunked\r\n\r\n"),
        ROW(501, GET "Transfer-Encoding: identity\r\n\r\n"),
        ROW(400, GET "Transfer-Encoding: \x0b"
                     "chunked\r\n\r\n"),
        ROW(501, GET "Transfer-Encoding:\r\n\r\n"),
        ROW(400, "GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"),
        ROW(400, GET "Content-Length: 3\r\nContent-Length: 3\r\n\r\n"),
        ROW(400, GET "Content-Length: 3, 3\r\n\r\n"),
        ROW(400, GET "Content-Length: +3\r\n\r\n"),
        ROW(400, GET "Content-Length: -3\r\n\r\n"),
        ROW(400, GET "Content-Length: 0x3\r\n\r\n"),
        ROW(400, GET "Content-Length: 3 3\r\n\r\n"),
        ROW(400, GET "Content-Length:\r\n\r\n"),
        ROW(400, GET "Content-Length: 9223372036854775808\r\n\r\n"),
        ROW(400, GET "Content-Length: 18446744073709551619\r\n\r\n"),
        ROW(400, GET "Content-Length : 3\r\n\r\n"),
        ROW(400, GET " Content-Length: 3\r\n\r\n"),
        ROW(400, GET "X: a\r\n b\r\n\r\n"),
        ROW(400, GET "X: a\r\n\tb\r\n\r\n"),
        ROW(400, GET "X: a\nY: b\r\n\r\n"),
        ROW(400, GET "X: a\rb\r\n\r\n"),
        ROW(400, GET "X: a\0b\r\n\r\n"),
        ROW(400, GET "X\0: a\r\n\r\n"),
        ROW(400, GET "X: a\x7f\r\n\r\n"),
        ROW(400, GET "X: a\r\r\n\r\n"),
        ROW(400, GET "X(y): a\r\n\r\n"),
        ROW(400, GET ": a\r\n\r\n"),
        ROW(400, GET "no colon\r\n\r\n"),
        ROW(400, GET "\n"),
        ROW(400, "GET / HTTP/1.1\nHost: a\r\n\r\n"),
        ROW(400, "GET / HTTP/1.1\r\n\r\n"),
        ROW(400, "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n"),
        ROW(400, "GET / HTTP/1.1\r\nHost: a b\r\n\r\n"),
        ROW(400, "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n"),
        ROW(400, "GET / HTTP/1.1\r\nHost: u@a\r\n\r\n"),
        ROW(400, "GET / HTTP/1.1\r\nHost: a, b\r\n\r\n"),
        ROW(400, "GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n"),
        ROW(400, "GET http://a:80/ HTTP/1.1\r\nHost: a\r\n\r\n"),
        ROW(400, "GET http://u@a/ HTTP/1.0\r\n\r\n"),
        ROW(400, "GET http://a?b=/c HTTP/1.0\r\n\r\n"),
        ROW(400, "GET http:///c HTTP/1.0\r\n\r\n"),
        ROW(400, "GET http://a HTTP/1.0\r\n\r\n"),
        ROW(400, "GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n"),
        ROW(400, "GET a HTTP/1.1\r\nHost: a\r\n\r\n"),
        ROW(400, "GET * HTTP/1.1\r\nHost: a\r\n\r\n"),
        ROW(400, "CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n"),
        ROW(400, "GET /#f HTTP/1.1\r\nHost: a\r\n\r\n"),
        ROW(400, "GET /\xc3\xa9 HTTP/1.1\r\nHost: a\r\n\r\n"),
        ROW(400, "GET / b HTTP/1.1\r\nHost: a\r\n\r\n"),
        ROW(400, "GET  / HTTP/1.1\r\nHost: a\r\n\r\n"),
        ROW(400, "GET / HTTP/1.1 \r\nHost: a\r\n\r\n"),
        ROW(400, "GET\t/\tHTTP/1.1\r\nHost: a\r\n\r\n"),
        ROW(400, "GET /\r\n\r\n"),
        ROW(400, "GET / http/1.1\r\nHost: a\r\n\r\n"),
        ROW(400, "G@T / HTTP/1.1\r\nHost: a\r\n\r\n"),
        ROW(400, "\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"),
        ROW(400, "\x16\x03\x01"),
        ROW(505, "GET / HTTP/2.0\r\nHost: a\r\n\r\n"),
        ROW(505, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
        ROW(505, "GET / HTTP/1.2\r\nHost: a\r\n\r\n"),
        ROW(417, GET "Expect: cake\r\n\r\n"),
#undef ROW
    };
    for (size_t i = 0; i < SG_COUNT(rows); i++) {
        struct sg_http_head h;
        struct sg_err err = { 0 };
        int n = parse(&h, rows[i].text.p, rows[i].text.n, &err);
        if (n != -1 || h.status != rows[i].status || err.kind != SG_INVALID)
            fail_msg("row %zu: %d, status %d, not %d: %s", i, n, h.status, rows[i].status,
                     sg_quote_str(rows[i].text).s);
    }
}

static void a_folded_line_is_called_so(void **state)
{
    (void)state;
    struct sg_http_head h;
    struct sg_err err = { 0 };
    static const char text[] = GET "X: a\r\n Content-Length: 5\r\n\r\n";
    assert_fails(parse(&h, text, sizeof text - 1, &err), err, SG_INVALID);
    assert_string_equal(err.msg, "a folded header line");
}

static void the_head_has_a_limit_and_fits_up_to_it(void **state)
{
    (void)state;
    sg_auto_buf b;
    sg_buf_init(&b, 2 * SG_HTTP_MAX_HEAD);
    sg_buf_add_str(&b, GET "X: ");
    while (b.n < SG_HTTP_MAX_HEAD - 4)
        sg_buf_add_str(&b, "x");
    sg_buf_add_str(&b, "\r\n\r\n");
    struct sg_http_head h;
    struct sg_err err = { 0 };
    assert_int_equal(parse(&h, (const char *)b.p, b.n, &err), SG_HTTP_MAX_HEAD);
    /* one more byte, in one piece and cut at the limit */
    b.n -= 4;
    sg_buf_add_str(&b, "x\r\n\r\n");
    assert_fails(parse(&h, (const char *)b.p, b.n, &err), err, SG_INVALID);
    assert_int_equal(h.status, 431);
    assert_fails(parse(&h, (const char *)b.p, SG_HTTP_MAX_HEAD, &err), err, SG_INVALID);
    assert_int_equal(parse(&h, (const char *)b.p, SG_HTTP_MAX_HEAD - 1, &err), 0);
    memset(b.p, 'x', b.n);
    assert_fails(parse(&h, (const char *)b.p, b.n, &err), err, SG_INVALID);
    assert_int_equal(h.status, 414);
}

static void the_target_and_the_fields_have_limits(void **state)
{
    (void)state;
    for (int over = 0; over < 2; over++) {
        sg_auto_buf b;
        sg_buf_init(&b, SG_HTTP_MAX_HEAD);
        sg_buf_add_str(&b, "GET /");
        for (int i = 1; i < SG_HTTP_MAX_TARGET + over; i++)
            sg_buf_add_str(&b, "a");
        sg_buf_add_str(&b, " HTTP/1.1\r\nHost: a\r\n\r\n");
        struct sg_http_head h;
        struct sg_err err = { 0 };
        int n = parse(&h, (const char *)b.p, b.n, &err);
        assert_int_equal(n, over ? -1 : (int)b.n);
        assert_int_equal(h.status, over ? 414 : 0);

        sg_buf_clear(&b);
        sg_buf_add_str(&b, GET);
        for (int i = 1; i < SG_HTTP_MAX_FIELDS + over; i++)
            sg_buf_add_str(&b, "a: b\r\n");
        sg_buf_add_str(&b, "\r\n");
        n = parse(&h, (const char *)b.p, b.n, &err);
        assert_int_equal(n, over ? -1 : (int)b.n);
        assert_int_equal(h.status, over ? 431 : 0);
    }
}

/* ---- chunked ---- */

/* The body, or NULL when it is refused or not complete; `*ret_rest`: what is behind it. */
static enum sg_chunked_got unchunk(struct sg_str text, struct sg_buf *body, size_t *ret_rest)
{
    struct sg_chunked c;
    sg_chunked_init(&c);
    struct sg_input in = { (uint8_t *)(uintptr_t)text.p, text.n }, piece;
    enum sg_chunked_got got;
    while ((got = sg_chunked_next(&c, &in, &piece, NULL)) == SG_CHUNKED_DATA)
        sg_buf_add(body, piece.p, piece.n);
    *ret_rest = in.n;
    return got;
}

static void reads_chunked_bodies(void **state)
{
    (void)state;
    static const struct {
        const char *text, *body;
        enum sg_chunked_got got;
        size_t rest;
    } rows[] = {
        { "3\r\nabc\r\n0\r\n\r\nGET", "abc", SG_CHUNKED_END, 3 },
        { "1\r\na\r\n00002\r\nbc\r\n0;x\r\nT: v\r\nU:\r\n\r\n", "abc", SG_CHUNKED_END, 0 },
        { "A;name=value;q=\"x\ty\"\r\n0123456789\r\n000\r\n\r\n", "0123456789", SG_CHUNKED_END, 0 },
        { "3\r\nabc\r\n0\r\n\r", "abc", SG_CHUNKED_MORE, 0 },
        { "3\r\nab", "ab", SG_CHUNKED_MORE, 0 },
        { "7fffffffffffffff\r\nab", "ab", SG_CHUNKED_MORE, 0 },
    };
    for (size_t i = 0; i < SG_COUNT(rows); i++) {
        sg_auto_buf body;
        sg_buf_init(&body, 1000);
        size_t rest = 0;
        assert_int_equal(unchunk(sg_str_of(rows[i].text), &body, &rest), rows[i].got);
        assert_string_equal(sg_buf_cstr(&body), rows[i].body);
        assert_int_equal(rest, rows[i].rest);
    }
}

static void refuses_malformed_chunks(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "\r\n",
        "g\r\n",
        " 3\r\nabc\r\n",
        "3 \r\nabc\r\n",
        "3 ;x\r\nabc\r\n",
        "+3\r\nabc\r\n",
        "0x3\r\nabc\r\n",
        "-1\r\n",
        "3\nabc\r\n",
        "3\r\rabc",
        "3\r\nabc\n",
        "3\r\nabcd\r\n",
        "3\r\nabc\r\r",
        "8000000000000000\r\n",
        "10000000000000003\r\nabc\r\n",
        "ffffffffffffffffffff3\r\n",
        "3;a\nb\r\n",
        "3;\x01\r\n",
        "0\r\nT v\r\n\r\n",
        "0\r\nT : v\r\n\r\n",
        "0\r\n: v\r\n\r\n",
        "0\r\nT: v\n\r\n",
        "0\r\n fold\r\n\r\n",
        "0\r\n\n",
        "0\n\r\n",
        "0\r\n\r\r",
    };
    for (size_t i = 0; i < SG_COUNT(rows); i++) {
        sg_auto_buf body;
        sg_buf_init(&body, 1000);
        size_t rest;
        if (unchunk(sg_str_of(rows[i]), &body, &rest) != SG_CHUNKED_BAD)
            fail_msg("row %zu: %s", i, sg_quote(rows[i]).s);
    }
}

static void extensions_and_trailers_are_bounded(void **state)
{
    (void)state;
    sg_auto_buf text, body;
    sg_buf_init(&text, 1 << 20);
    sg_buf_init(&body, 1 << 20);
    size_t rest;
    sg_buf_add_str(&text, "1;");
    for (int i = 0; i < SG_CHUNK_MAX_LINE; i++)
        sg_buf_add_str(&text, "x");
    assert_int_equal(unchunk((struct sg_str) { (char *)text.p, text.n }, &body, &rest),
                     SG_CHUNKED_BAD);
    sg_buf_clear(&text);
    for (int i = 0; i < SG_CHUNK_MAX_EXTENSIONS / 100 + 1; i++) {
        sg_buf_add_str(&text, "1;");
        for (int k = 0; k < 100; k++)
            sg_buf_add_str(&text, "x");
        sg_buf_add_str(&text, "\r\na\r\n");
    }
    assert_int_equal(unchunk((struct sg_str) { (char *)text.p, text.n }, &body, &rest),
                     SG_CHUNKED_BAD);
    sg_buf_clear(&text);
    sg_buf_add_str(&text, "0\r\n");
    while (text.n < 2 * SG_CHUNK_MAX_TRAILER)
        sg_buf_add_str(&text, "T: v\r\n");
    assert_int_equal(unchunk((struct sg_str) { (char *)text.p, text.n }, &body, &rest),
                     SG_CHUNKED_BAD);
}

static void a_chunk_head_reads_as_its_size(void **state)
{
    (void)state;
    static const struct {
        size_t n;
        const char *text;
    } rows[] = {
        { 1, "1\r\n" },         { 15, "f\r\n" },          { 16, "10\r\n" },
        { 65536, "10000\r\n" }, { 0xabcde, "abcde\r\n" }, { SIZE_MAX, "ffffffffffffffff\r\n" },
    };
    for (size_t i = 0; i < SG_COUNT(rows); i++) {
        char out[SG_CHUNK_HEAD];
        size_t n = sg_chunk_head(out, rows[i].n);
        assert_int_equal(n, strlen(rows[i].text));
        assert_memory_equal(out, rows[i].text, n);
    }
}

/* ---- replies ---- */

static void writes_reply_heads(void **state)
{
    (void)state;
    struct sg_http_date date = { 0 };
    assert_string_equal(sg_http1_date(&date, 784111777), "Sun, 06 Nov 1994 08:49:37 GMT");
    assert_string_equal(sg_http1_date(&date, 784111778), "Sun, 06 Nov 1994 08:49:38 GMT");
    sg_auto_buf out, extra;
    sg_buf_init(&out, 4096);
    sg_buf_init(&extra, 4096);
    assert_true(sg_http1_write_field(&extra, "Allow", "GET, HEAD"));
    struct sg_http_reply r = {
        .status = 200,
        .framing = SG_HTTP_LENGTH,
        .length = 1234567890123,
        .type = "text/plain",
        .date = sg_http1_date(&date, 784111777),
        .request_id = "r1",
        .extra = { (const char *)extra.p, extra.n },
        .connection = "close",
    };
    sg_http1_write_head(&out, &r);
    assert_string_equal(sg_buf_cstr(&out),
                        "HTTP/1.1 200 OK\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n"
                        "Content-Type: text/plain\r\nContent-Length: 1234567890123\r\n"
                        "Connection: close\r\nX-Request-Id: r1\r\nAllow: GET, HEAD\r\n\r\n");
    sg_buf_clear(&out);
    sg_http1_write_head(&out, &(struct sg_http_reply) { .status = 204 });
    assert_string_equal(sg_buf_cstr(&out), "HTTP/1.1 204 No Content\r\n\r\n");
    sg_buf_clear(&out);
    sg_http1_write_head(&out,
                        &(struct sg_http_reply) { .status = 299, .framing = SG_HTTP_CHUNKED });
    assert_string_equal(sg_buf_cstr(&out),
                        "HTTP/1.1 299 Unknown\r\nTransfer-Encoding: chunked\r\n\r\n");
}

static void a_field_cannot_smuggle_another(void **state)
{
    (void)state;
    sg_auto_buf out;
    sg_buf_init(&out, 4096);
    assert_false(sg_http1_write_field(&out, "X", "a\r\nY: b"));
    assert_false(sg_http1_write_field(&out, "X: a\r\nY", "b"));
    assert_false(sg_http1_write_field(&out, "", "b"));
    assert_int_equal(out.n, 0);
}

static void events_keep_their_lines(void **state)
{
    (void)state;
    sg_auto_buf out;
    sg_buf_init(&out, 4096);
    sg_sse_write(&out, "7", "made", sg_str_of("a\nb\r\nc\rd"));
    sg_sse_write(&out, NULL, NULL, sg_str_of(""));
    sg_sse_write(&out, NULL, NULL, sg_str_of("x\n"));
    assert_string_equal(sg_buf_cstr(&out),
                        "id: 7\nevent: made\ndata: a\ndata: b\ndata: c\ndata: d\n\n"
                        "data: \n\ndata: x\n\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_a_request_head),
        cmocka_unit_test(accepts_the_forms_of_a_target),
        cmocka_unit_test(refuses_what_could_be_read_in_two_ways),
        cmocka_unit_test(a_folded_line_is_called_so),
        cmocka_unit_test(the_head_has_a_limit_and_fits_up_to_it),
        cmocka_unit_test(the_target_and_the_fields_have_limits),
        cmocka_unit_test(reads_chunked_bodies),
        cmocka_unit_test(refuses_malformed_chunks),
        cmocka_unit_test(extensions_and_trailers_are_bounded),
        cmocka_unit_test(a_chunk_head_reads_as_its_size),
        cmocka_unit_test(writes_reply_heads),
        cmocka_unit_test(a_field_cannot_smuggle_another),
        cmocka_unit_test(events_keep_their_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
