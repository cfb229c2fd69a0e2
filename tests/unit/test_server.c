/* SPDX-License-Identifier: Apache-2.0 */
/* The server over real sockets: what is large, and who goes away. Exact bytes are in tests/wire. */
#include "http_rig.h"
#include "base/banned.h"

enum { MAX_TEXT = 80 << 20 };

#define REPLY_OK "HTTP/1.1 200 OK\r\n"

static size_t count_of(struct sg_buf *in, const char *text)
{
    size_t n = 0;
    for (const char *p = sg_buf_cstr(in); (p = strstr(p, text)); p++)
        n++;
    return n;
}

/* ---- ---- */

static void pipelined_requests_are_answered_in_order(void **state)
{
    (void)state;
    sg_auto_fd fd = rig_connect();
    sg_auto_buf in;
    sg_buf_init(&in, MAX_TEXT);
    sg_auto_buf out;
    sg_buf_init(&out, MAX_TEXT);
    for (int i = 0; i < 5000; i++)
        sg_buf_addf(&out, "GET /open/n%d HTTP/1.1\r\nHost: a\r\n\r\n", i);
    rig_send(fd, out.p, out.n);
    assert_true(rig_await(fd, &in, "n4999||-|7"));
    const char *p = sg_buf_cstr(&in);
    for (int i = 0; i < 5000; i++) {
        char want[24];
        (void)snprintf(want, sizeof want, "\r\n\r\nn%d|", i);
        p = strstr(p, want);
        assert_non_null(p);
    }
    assert_int_equal(sg_server_stats(rig.server)->requests, 5000);
    assert_int_equal(sg_server_stats(rig.server)->by_class[2], 5000);
}

static void a_request_behind_one_that_waits_is_answered_after_it(void **state)
{
    (void)state;
    sg_auto_fd fd = rig_connect();
    sg_auto_buf in;
    sg_buf_init(&in, MAX_TEXT);
    rig_say(fd,
            "GET /held HTTP/1.1\r\nHost: a\r\n\r\nGET /open/second HTTP/1.1\r\nHost: a\r\n\r\n");
    while (!rig.held)
        rig_turn(10);
    for (int i = 0; i < 5; i++)
        rig_turn(2);
    (void)rig_receive(fd, &in);
    assert_int_equal(in.n, 0);
    sg_reply_text(rig.held, 200, "text/plain", "first");
    assert_true(rig_await(fd, &in, "second|"));
    assert_true(strstr(sg_buf_cstr(&in), "first") < strstr(sg_buf_cstr(&in), "second|"));
}

static void a_client_that_does_not_read_is_not_computed_for(void **state)
{
    (void)state;
    sg_auto_fd fd = rig_connect();
    sg_auto_buf out, in;
    sg_buf_init(&out, MAX_TEXT);
    sg_buf_init(&in, MAX_TEXT);
    for (int i = 0; i < 40; i++)
        sg_buf_add_str(&out, "GET /big?n=1000000 HTTP/1.1\r\nHost: a\r\n\r\n");
    rig_send(fd, out.p, out.n);
    for (int i = 0; i < 50; i++)
        rig_turn(1);
    assert_true(sg_server_stats(rig.server)->requests < 20);
    size_t bytes = 0; /* it goes on when it reads */
    for (uint64_t until = sg_now_ns() + HTTP_PATIENCE_MS * 1000000ull;
         bytes < 40 * 1000000 && sg_now_ns() < until; sg_buf_clear(&in)) {
        rig_turn(0);
        assert_true(rig_receive(fd, &in));
        bytes += in.n;
    }
    assert_int_equal(sg_server_stats(rig.server)->requests, 40);
}

static void a_stream_waits_for_a_slow_reader_and_arrives_whole(void **state)
{
    (void)state;
    sg_auto_fd fd = rig_connect();
    sg_auto_buf in;
    sg_buf_init(&in, MAX_TEXT);
    rig_say(fd, "GET /flood?pieces=2000 HTTP/1.0\r\n\r\n"); /* 16 MiB, without chunks */
    for (int i = 0; i < 50; i++)
        rig_turn(1);
    const unsigned before =
        rig.drains; /* more than one where the kernel took its time to take more */
    assert_true(before >= 1);
    assert_true(rig_await_end(fd, &in));
    const uint8_t *body = memmem(in.p, in.n, "\r\n\r\n", 4);
    assert_non_null(body);
    assert_int_equal(in.n - (size_t)(body + 4 - in.p), 2000 * 8192);
    assert_true(rig.drains > before + 1);
}

static void a_handler_hears_once_when_its_client_goes(void **state)
{
    (void)state;
    int fd = rig_connect();
    rig_say(fd, "GET /held?watch=1 HTTP/1.1\r\nHost: a\r\n\r\n");
    while (!rig.held)
        rig_turn(10);
    (void)close(fd);
    for (int i = 0; i < 100 && !rig.gone; i++)
        rig_turn(10);
    assert_int_equal(rig.gone, 1);
    for (int i = 0; i < 3; i++)
        rig_turn(1);
    assert_int_equal(sg_server_stats(rig.server)->connections, 0);
}

static void a_client_that_resets_while_it_is_sent_a_stream_is_gone(void **state)
{
    (void)state;
    int fd = rig_connect();
    rig_say(fd, "GET /flood?pieces=100000 HTTP/1.1\r\nHost: a\r\n\r\n");
    while (!rig.drains)
        rig_turn(10);
    struct linger hard = { 1, 0 };
    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    (void)close(fd);
    for (int i = 0; i < 100 && !rig.gone; i++)
        rig_turn(10);
    assert_int_equal(rig.gone, 1);
}

static void a_client_that_only_stops_sending_still_gets_its_answer(void **state)
{
    (void)state;
    sg_auto_fd fd = rig_connect();
    sg_auto_buf in;
    sg_buf_init(&in, MAX_TEXT);
    rig_say(fd, "GET /held HTTP/1.1\r\nHost: a\r\n\r\n");
    (void)shutdown(fd, SHUT_WR);
    while (!rig.held)
        rig_turn(10);
    for (int i = 0; i < 3; i++)
        rig_turn(1);
    sg_reply_text(rig.held, 200, "text/plain", "here");
    assert_true(rig_await_end(fd, &in));
    assert_has(&in, "here");
}

static void a_call_may_end_long_after_its_client_went(void **state)
{
    (void)state;
    int fd = rig_connect();
    rig_say(fd, "GET /held HTTP/1.1\r\nHost: a\r\n\r\n");
    while (!rig.held)
        rig_turn(10);
    struct linger hard = { 1, 0 };
    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    (void)close(fd);
    for (int i = 0; i < 5; i++)
        rig_turn(1);
    assert_true(rig.held->is_gone);
    assert_int_equal(sg_server_stats(rig.server)->connections, 1);
    sg_reply_text(rig.held, 200, "text/plain", "nobody");
    rig_turn(0);
    rig_turn(0);
    assert_int_equal(sg_server_stats(rig.server)->connections, 0);
}

/* ---- bodies ---- */

static void put_count(bool is_chunked, const char *query, size_t bytes)
{
    sg_auto_fd fd = rig_connect();
    sg_auto_buf in, out;
    sg_buf_init(&in, MAX_TEXT);
    sg_buf_init(&out, MAX_TEXT);
    sg_buf_addf(&out, "PUT /count%s HTTP/1.1\r\nHost: a\r\n", query);
    if (is_chunked)
        sg_buf_add_str(&out, "Transfer-Encoding: chunked\r\n\r\n");
    else
        sg_buf_addf(&out, "Content-Length: %zu\r\n\r\n", bytes);
    for (size_t left = bytes; left;) {
        size_t n = left < 50000 ? left : 50000;
        if (is_chunked)
            sg_buf_addf(&out, "%zx\r\n", n);
        memset(sg_buf_grow(&out, n), 'x', n);
        out.n += n;
        if (is_chunked)
            sg_buf_add_str(&out, "\r\n");
        left -= n;
    }
    if (is_chunked)
        sg_buf_add_str(&out, "0\r\n\r\n");
    rig_send(fd, out.p, out.n);
    char want[40];
    (void)snprintf(want, sizeof want, "\r\n\r\n%zu bytes", bytes);
    assert_true(rig_await(fd, &in, want));
    sg_buf_clear(&in); /* and the connection goes on */
    rig_say(fd, "GET /open/next HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_true(rig_await(fd, &in, "next|"));
}

static void streamed_bodies_arrive_whole_paused_or_not(void **state)
{
    (void)state;
    static const size_t sizes[] = { 0, 1, 70000, 5000000 };
    for (size_t i = 0; i < SG_COUNT(sizes); i++) {
        put_count(false, "", sizes[i]);
        put_count(true, "", sizes[i]);
        put_count(false, "?pause=1", sizes[i]);
        put_count(true, "?pause=1", sizes[i]);
    }
}

static void a_body_that_is_cut_off_makes_the_client_gone(void **state)
{
    (void)state;
    int fd = rig_connect();
    rig_say(fd, "PUT /count HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n12345");
    for (int i = 0; i < 3; i++)
        rig_turn(2);
    (void)shutdown(fd, SHUT_WR);
    for (int i = 0; i < 100 && !rig.gone; i++)
        rig_turn(10);
    assert_int_equal(rig.gone, 1);
    (void)close(fd);
}

static void a_large_body_is_gathered_and_one_that_is_too_large_refused(void **state)
{
    (void)state;
    for (int over = 0; over < 2; over++) {
        sg_auto_fd fd = rig_connect();
        sg_auto_buf in, out;
        sg_buf_init(&in, MAX_TEXT);
        sg_buf_init(&out, MAX_TEXT);
        size_t n = SG_CALL_MAX_BODY + (size_t)over;
        sg_buf_add_str(&out,
                       "POST /body HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
        sg_buf_addf(&out, "%zx\r\n", n);
        memset(sg_buf_grow(&out, n), 'x', n);
        out.n += n;
        sg_buf_add_str(&out, "\r\n0\r\n\r\n");
        rig_send(fd, out.p, out.n);
        if (over) {
            assert_true(rig_await_end(fd, &in));
            assert_has(&in, "HTTP/1.1 413 Content Too Large\r\n");
            assert_has(&in, "Connection: close\r\n");
        } else {
            while (in.n < n)
                assert_true(rig_await(fd, &in, "x") && (rig_turn(1), rig_receive(fd, &in)));
            assert_has(&in, REPLY_OK);
        }
    }
}

static void a_length_that_is_too_large_is_refused_before_a_byte_of_it(void **state)
{
    (void)state;
    sg_auto_fd fd = rig_connect();
    sg_auto_buf in;
    sg_buf_init(&in, MAX_TEXT);
    rig_say(fd, "POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 8388609\r\n"
                "Expect: 100-continue\r\n\r\n");
    assert_true(rig_await_end(fd, &in));
    assert_has(&in, "HTTP/1.1 413");
    assert_int_equal(count_of(&in, "100 Continue"), 0);
}

static void a_refusal_is_not_taken_back_by_a_reset(void **state)
{
    (void)state;
    sg_auto_fd fd = rig_connect();
    sg_auto_buf out, in;
    sg_buf_init(&out, MAX_TEXT);
    sg_buf_init(&in, MAX_TEXT);
    sg_buf_add_str(&out, "POST /json HTTP/1.1\r\nHost: a\r\nContent-Length: 9000000\r\n\r\n");
    memset(sg_buf_grow(&out, 400000), 'x', 400000);
    out.n += 400000; /* much of it is not read yet when the answer is sent */
    rig_send(fd, out.p, out.n);
    ssize_t n = 1;
    static char piece[65536];
    for (uint64_t until = sg_now_ns() + HTTP_PATIENCE_MS * 1000000ull; n && sg_now_ns() < until;) {
        rig_turn(1);
        n = recv(fd, piece, sizeof piece, MSG_DONTWAIT);
        assert_true(n >= 0 || errno == EAGAIN); /* no ECONNRESET */
        sg_buf_add(&in, piece, n > 0 ? (size_t)n : 0);
    }
    assert_int_equal(n, 0);
    assert_has(&in, "HTTP/1.1 401 Unauthorized\r\n");
}

/* ---- files ---- */

static void get_file(size_t bytes)
{
    sg_auto_fd fd = rig_connect();
    sg_auto_buf in;
    sg_buf_init(&in, MAX_TEXT);
    char ask[80], length[60];
    (void)snprintf(ask, sizeof ask, "GET /file?n=%zu HTTP/1.0\r\n\r\n", bytes);
    (void)snprintf(length, sizeof length, "Content-Length: %zu\r\n", bytes);
    rig_say(fd, ask);
    assert_true(rig_await_end(fd, &in));
    assert_has(&in, length);
    const uint8_t *body = memmem(in.p, in.n, "\r\n\r\n", 4);
    assert_non_null(body);
    body += 4;
    assert_int_equal(in.n - (size_t)(body - in.p), bytes);
    for (size_t i = 0; i < bytes; i += 997)
        assert_int_equal(body[i], 'a' + i % 26);
}

static void files_arrive_whole(void **state)
{
    (void)state;
    get_file(0);
    get_file(1);
    get_file(20 << 20);
}

static void a_file_that_shrank_breaks_the_connection_and_nothing_else(void **state)
{
    (void)state;
    sg_auto_fd fd = rig_connect();
    sg_auto_buf in;
    sg_buf_init(&in, MAX_TEXT);
    rig_say(fd, "GET /file?n=100&lie=1 HTTP/1.1\r\nHost: a\r\n\r\n"
                "GET /open/not-reached HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_true(rig_await_end(fd, &in));
    assert_int_equal(count_of(&in, "not-reached|"), 0);
    get_file(10);
}

static size_t resident_bytes(void)
{
    sg_auto_fd fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    char text[128] = "";
    unsigned long size, resident = 0;
    assert_true(read(fd, text, sizeof text - 1) > 0);
    assert_int_equal(sscanf(text, "%lu %lu", &size, &resident), 2);
    return resident * 4096;
}

static void a_thousand_idle_connections_are_small(void **state)
{
    (void)state;
    enum { COUNT = 1000 };
    static int fds[COUNT];
    sg_auto_buf in;
    sg_buf_init(&in, MAX_TEXT);
    size_t before = resident_bytes();
    for (size_t i = 0; i < COUNT; i++) {
        fds[i] = rig_connect();
        sg_buf_clear(&in);
        rig_say(fds[i], "GET /open/a HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_true(rig_await(fds[i], &in, "a|"));
    }
    size_t after = resident_bytes();
    assert_int_equal(sg_server_stats(rig.server)->connections, COUNT);
    for (size_t i = 0; i < COUNT; i++)
        (void)close(fds[i]);
    assert_true(after < before + (3 << 20));
}

static void what_a_call_held_is_wiped(void **state)
{
    (void)state;
    char body[] = "{\"value\":\"hidden\"}", part[] = "hidden";
    struct sg_call c = { .body = sg_str_of(body) };
    sg_call_wipe(&c, sg_str_of(part));
    for (size_t i = 0; i < sizeof body; i++)
        assert_int_equal(body[i], 0);
    for (size_t i = 0; i < sizeof part; i++)
        assert_int_equal(part[i], 0);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, rig_set_up, rig_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_thousand_idle_connections_are_small),
        TEST(pipelined_requests_are_answered_in_order),
        TEST(a_request_behind_one_that_waits_is_answered_after_it),
        TEST(a_client_that_does_not_read_is_not_computed_for),
        TEST(a_stream_waits_for_a_slow_reader_and_arrives_whole),
        TEST(a_handler_hears_once_when_its_client_goes),
        TEST(a_client_that_resets_while_it_is_sent_a_stream_is_gone),
        TEST(a_client_that_only_stops_sending_still_gets_its_answer),
        TEST(a_call_may_end_long_after_its_client_went),
        TEST(streamed_bodies_arrive_whole_paused_or_not),
        TEST(a_body_that_is_cut_off_makes_the_client_gone),
        TEST(a_large_body_is_gathered_and_one_that_is_too_large_refused),
        TEST(a_length_that_is_too_large_is_refused_before_a_byte_of_it),
        TEST(a_refusal_is_not_taken_back_by_a_reset),
        TEST(files_arrive_whole),
        TEST(a_file_that_shrank_breaks_the_connection_and_nothing_else),
        cmocka_unit_test(what_a_call_held_is_wiped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
