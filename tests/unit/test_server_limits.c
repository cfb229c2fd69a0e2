/* SPDX-License-Identifier: Apache-2.0 */
/* The server's limits over real sockets: how long it waits, for whom, and for how many. */
#include "http_rig.h"
#include "base/banned.h"

enum { MAX_TEXT = 80 << 20 };

static int start_hasty(void **state)
{
    (void)state;
    rig_start(&(struct sg_server_options) { .head_ms = 60, .body_ms = 60, .idle_ms = 150 });
    return 0;
}

/* ---- time ---- */

static void a_slow_head_is_answered_with_a_timeout(void **state)
{
    (void)state;
    sg_auto_fd fd = rig_connect();
    sg_auto_buf in;
    sg_buf_init(&in, MAX_TEXT);
    uint64_t began = sg_now_ns();
    const char *text = "GET /health HTTP/1.1\r\nHost: a\r\nX: ........................";
    for (size_t i = 0; text[i] && !in.n; i++) { /* a byte now and then does not help */
        rig_send(fd, text + i, 1);
        rig_turn(5);
        (void)rig_receive(fd, &in);
    }
    assert_true(rig_await_end(fd, &in));
    assert_has(&in, "HTTP/1.1 408 Request Timeout\r\n");
    assert_true(sg_now_ns() - began >= 60 * 1000000ull);
}

static void a_silent_connection_is_closed(void **state)
{
    (void)state;
    sg_auto_fd fd = rig_connect();
    sg_auto_buf in;
    sg_buf_init(&in, MAX_TEXT);
    assert_true(rig_await_end(fd, &in));
    assert_int_equal(in.n, 0);
}

static void an_idle_connection_is_kept_longer_and_then_closed(void **state)
{
    (void)state;
    sg_auto_fd fd = rig_connect();
    sg_auto_buf in;
    sg_buf_init(&in, MAX_TEXT);
    rig_say(fd, "GET /open/a HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_true(rig_await(fd, &in, "a|"));
    uint64_t began = sg_now_ns();
    assert_true(rig_await_end(fd, &in));
    assert_true(sg_now_ns() - began >= 140 * 1000000ull);
}

static void a_body_that_stops_is_answered_with_a_timeout(void **state)
{
    (void)state;
    sg_auto_fd fd = rig_connect();
    sg_auto_buf in;
    sg_buf_init(&in, MAX_TEXT);
    rig_say(fd, "POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n12345");
    assert_true(rig_await_end(fd, &in));
    assert_has(&in, "HTTP/1.1 408 Request Timeout\r\n");
    sg_buf_clear(&in);
    sg_auto_fd streamed = rig_connect();
    rig_say(streamed, "PUT /count HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n12345");
    assert_true(rig_await_end(streamed, &in));
    assert_int_equal(rig.gone, 1);
}

static void a_reader_that_stalls_is_given_up(void **state)
{
    (void)state;
    sg_auto_fd fd = rig_connect();
    rig_say(fd, "GET /flood?pieces=100000 HTTP/1.1\r\nHost: a\r\n\r\n");
    uint64_t until = sg_now_ns() + HTTP_PATIENCE_MS * 1000000ull;
    while (!rig.gone && sg_now_ns() < until)
        rig_turn(10);
    assert_int_equal(rig.gone, 1);
}

static void a_download_may_take_longer_than_an_idle_connection(void **state)
{
    (void)state;
    rig_start(&(struct sg_server_options) { .idle_ms = 500 });
    sg_auto_fd fd = rig_connect();
    int small = 65536;
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    sg_auto_buf in;
    sg_buf_init(&in, MAX_TEXT);
    rig_say(fd, "GET /file?n=30000000 HTTP/1.1\r\nHost: a\r\n\r\n");
    size_t bytes = 0;
    uint64_t began = sg_now_ns(), next = began;
    bool is_open = true;
    while (bytes < 30000000 && is_open) { /* slowly, and then as fast as it goes */
        rig_turn(1);
        if (sg_now_ns() < next)
            continue;
        next = sg_now_ns() - began < 1200000000 ? next + 20000000 : 0;
        sg_buf_clear(&in);
        is_open = rig_receive(fd, &in);
        bytes += in.n;
    }
    assert_true(bytes >= 30000000 && sg_now_ns() - began > 1200000000);
    rig_stop();
}

static void a_call_that_takes_its_time_is_not_cut_off(void **state)
{
    (void)state;
    sg_auto_fd fd = rig_connect();
    sg_auto_buf in;
    sg_buf_init(&in, MAX_TEXT);
    rig_say(fd, "GET /held?watch=1 HTTP/1.1\r\nHost: a\r\n\r\n");
    uint64_t until = sg_now_ns() + 400 * 1000000ull;
    while (sg_now_ns() < until)
        rig_turn(20);
    assert_non_null(rig.held);
    sg_reply_text(rig.held, 200, "text/plain", "late");
    assert_true(rig_await(fd, &in, "late"));
}

/* ---- who and how many ---- */

static void the_operator_needs_no_key_on_the_unix_socket(void **state)
{
    (void)state;
    rig_listen_unix(getuid());
    sg_auto_fd fd = rig_connect_unix();
    sg_auto_buf in;
    sg_buf_init(&in, MAX_TEXT);
    rig_say(fd, "GET /operator HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_true(rig_await(fd, &in, "literal"));
    sg_buf_clear(&in); /* a key that is given counts, there too */
    rig_say(fd, "GET /operator HTTP/1.1\r\nHost: a\r\nX-API-Key: good\r\n\r\n");
    assert_true(rig_await(fd, &in, "HTTP/1.1 403 Forbidden\r\n"));
    sg_auto_fd tcp = rig_connect();
    sg_buf_clear(&in);
    rig_say(tcp, "GET /operator HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_true(rig_await(tcp, &in, "HTTP/1.1 401 Unauthorized\r\n"));
}

static void more_connections_than_allowed_are_told_so(void **state)
{
    (void)state;
    rig_start(&(struct sg_server_options) { .max_connections = 3 });
    int fds[3];
    for (size_t i = 0; i < 3; i++)
        fds[i] = rig_connect();
    for (int i = 0; i < 3; i++)
        rig_turn(5);
    sg_auto_fd fd = rig_connect();
    sg_auto_buf in;
    sg_buf_init(&in, MAX_TEXT);
    assert_true(rig_await_end(fd, &in));
    assert_has(&in, "HTTP/1.1 503 Service Unavailable\r\n");
    assert_int_equal(sg_server_stats(rig.server)->refused, 1);
    rig_listen_unix(getuid()); /* the operator's door is another one */
    sg_auto_fd local = rig_connect_unix();
    sg_buf_clear(&in);
    rig_say(local, "GET /operator HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_true(rig_await(local, &in, "literal"));
    (void)close(fds[0]);
    for (int i = 0; i < 3; i++)
        rig_turn(5);
    sg_auto_fd again = rig_connect();
    sg_buf_clear(&in);
    rig_say(again, "GET /open/a HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_true(rig_await(again, &in, "a|"));
    (void)close(fds[1]);
    (void)close(fds[2]);
    rig_stop();
}

static void note_drained(void *arg)
{
    *(unsigned *)arg += 1;
}

static void draining_ends_idle_connections_and_waits_for_calls(void **state)
{
    (void)state;
    unsigned done = 0;
    sg_auto_fd idle = rig_connect(), busy = rig_connect();
    sg_auto_buf in;
    sg_buf_init(&in, MAX_TEXT);
    rig_say(busy, "GET /held HTTP/1.1\r\nHost: a\r\n\r\n");
    while (!rig.held || sg_server_stats(rig.server)->connections < 2)
        rig_turn(5);
    sg_server_drain(rig.server, 60000, note_drained, &done);
    assert_true(rig_await_end(idle, &in));
    assert_int_equal(done, 0);
    sg_reply_text(rig.held, 200, "text/plain", "last");
    assert_true(rig_await_end(busy, &in));
    assert_has(&in, "Connection: close\r\n");
    (void)shutdown(busy, SHUT_WR);
    for (int i = 0; i < 100 && !done; i++)
        rig_turn(5);
    assert_int_equal(done, 1);
}

static void draining_gives_up_in_the_end(void **state)
{
    (void)state;
    unsigned done = 0;
    sg_auto_fd fd = rig_connect();
    rig_say(fd, "GET /held HTTP/1.1\r\nHost: a\r\n\r\n");
    while (!rig.held)
        rig_turn(5);
    sg_server_drain(rig.server, 30, note_drained, &done);
    for (int i = 0; i < 100 && !done; i++)
        rig_turn(5);
    assert_int_equal(done, 1);
}

int main(void)
{
#define TEST(f)       cmocka_unit_test_setup_teardown(f, rig_set_up, rig_tear_down)
#define TEST_HASTY(f) cmocka_unit_test_setup_teardown(f, start_hasty, rig_tear_down)
    const struct CMUnitTest tests[] = {
        TEST_HASTY(a_slow_head_is_answered_with_a_timeout),
        TEST_HASTY(a_silent_connection_is_closed),
        TEST_HASTY(an_idle_connection_is_kept_longer_and_then_closed),
        TEST_HASTY(a_body_that_stops_is_answered_with_a_timeout),
        TEST_HASTY(a_reader_that_stalls_is_given_up),
        cmocka_unit_test(a_download_may_take_longer_than_an_idle_connection),
        TEST_HASTY(a_call_that_takes_its_time_is_not_cut_off),
        TEST(the_operator_needs_no_key_on_the_unix_socket),
        cmocka_unit_test(more_connections_than_allowed_are_told_so),
        TEST(draining_ends_idle_connections_and_waits_for_calls),
        TEST(draining_gives_up_in_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
