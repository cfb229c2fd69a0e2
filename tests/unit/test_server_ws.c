/* SPDX-License-Identifier: Apache-2.0 */
/* The server's WebSockets over real sockets: large messages, slow readers, clients that vanish. */
#include "http_rig.h"
#include "wire/ws.h"
#include "base/banned.h"

enum { MAX_TEXT = 80 << 20 };

static int greet(struct sg_buf *in)
{
    int fd = rig_connect();
    rig_say(fd, "GET /ws HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n");
    assert_true(rig_await(fd, in, "\r\n\r\n"));
    sg_buf_clear(in);
    return fd;
}

static void add_frame(struct sg_buf *b, enum sg_ws_op op, bool is_fin, const void *p, size_t n)
{
    static const uint8_t mask[4] = { 1, 2, 3, 4 };
    uint8_t head[SG_WS_MAX_HEAD];
    sg_buf_add(b, head, sg_ws_head(head, op, is_fin, n, mask));
    size_t at = b->n;
    sg_buf_add(b, p, n);
    sg_ws_mask(b->p + at, n, mask, 0);
}

static void a_message_in_many_frames_comes_back_as_one(void **state)
{
    (void)state;
    enum { PIECES = 50, BYTES = 70000 };
    sg_auto_buf in, out;
    sg_buf_init(&in, MAX_TEXT);
    sg_buf_init(&out, MAX_TEXT);
    sg_auto_fd fd = greet(&in);
    static char data[BYTES];
    for (int i = 0; i < PIECES; i++) {
        memset(data, 'a' + i % 26, sizeof data);
        add_frame(&out, i ? SG_WS_OP_MORE : SG_WS_OP_BINARY, i == PIECES - 1, data, sizeof data);
    }
    rig_send(fd, out.p, out.n);
    while (in.n < 10 + PIECES * BYTES) {
        rig_turn(1);
        assert_true(rig_receive(fd, &in));
    }
    assert_int_equal(in.n, 10 + PIECES * BYTES);
    for (size_t i = 0; i < PIECES; i++)
        assert_int_equal(in.p[10 + i * BYTES], 'a' + i % 26);
    assert_int_equal(rig.messages, 1);
}

static void a_message_that_is_too_big_ends_the_conversation(void **state)
{
    (void)state;
    sg_auto_buf in;
    sg_buf_init(&in, MAX_TEXT);
    sg_auto_fd fd = greet(&in);
    uint8_t head[SG_WS_MAX_HEAD];
    const uint8_t mask[4] = { 0 };
    rig_send(fd, head, sg_ws_head(head, SG_WS_OP_BINARY, true, (4 << 20) + 1, mask));
    assert_true(rig_await_end(fd, &in));
    assert_true(in.n > 4 && in.p[0] == 0x88);
    assert_int_equal(in.p[2] << 8 | in.p[3], SG_WS_TOO_BIG);
    assert_int_equal(rig.closed, 1);
}

static void the_handler_hears_once_when_the_client_vanishes(void **state)
{
    (void)state;
    for (int hard = 0; hard < 2; hard++) {
        sg_auto_buf in;
        sg_buf_init(&in, MAX_TEXT);
        int fd = greet(&in);
        struct linger now = { hard, 0 };
        (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
        (void)close(fd);
        for (int i = 0; i < 100 && !rig.closed; i++)
            rig_turn(10);
        assert_int_equal(rig.closed, 1);
        for (int i = 0; i < 3; i++)
            rig_turn(1);
        assert_int_equal(sg_server_stats(rig.server)->connections, 0);
        rig.closed = 0;
    }
}

static void a_client_that_does_not_answer_a_close_is_left(void **state)
{
    (void)state;
    sg_auto_buf in, out;
    sg_buf_init(&in, MAX_TEXT);
    sg_buf_init(&out, 1000);
    sg_auto_fd fd = greet(&in);
    add_frame(&out, SG_WS_OP_TEXT, true, "quit", 4);
    add_frame(&out, SG_WS_OP_TEXT, true, "more", 4); /* is not heard any more */
    rig_send(fd, out.p, out.n);
    assert_true(rig_await_end(fd, &in)); /* within the deadline of the close */
    assert_int_equal(rig.messages, 1);
    assert_int_equal(rig.closed, 1);
}

static void the_answer_to_a_close_is_read_though_nothing_else_is(void **state)
{
    (void)state;
    sg_auto_buf in, out;
    sg_buf_init(&in, MAX_TEXT);
    sg_buf_init(&out, 1000);
    sg_auto_fd fd = greet(&in);
    uint64_t began = sg_now_ns();
    add_frame(&out, SG_WS_OP_TEXT, true, "hush", 4);
    add_frame(&out, SG_WS_OP_CLOSE, true, "\x0f\xa0", 2);
    rig_send(fd, out.p, out.n);
    assert_true(rig_await_end(fd, &in));
    assert_true(sg_now_ns() - began < 1500 * 1000000ull); /* not by the deadline */
    assert_int_equal(rig.closed, 1);
}

static void a_client_that_does_not_read_is_not_heard_for_ever(void **state)
{
    (void)state;
    enum { COUNT = 200, BYTES = 100000 };
    sg_auto_buf in, out;
    sg_buf_init(&in, MAX_TEXT);
    sg_buf_init(&out, MAX_TEXT);
    sg_auto_fd fd = greet(&in);
    static char data[BYTES];
    for (int i = 0; i < COUNT; i++)
        add_frame(&out, SG_WS_OP_BINARY, true, data, sizeof data);
    size_t at = 0; /* all is echoed: the handler does not mind a full queue */
    for (int quiet = 0; at < out.n && quiet < 20;) {
        ssize_t n = send(fd, out.p + at, out.n - at, MSG_DONTWAIT | MSG_NOSIGNAL);
        at += n > 0 ? (size_t)n : 0;
        quiet = n > 0 ? 0 : quiet + 1;
        rig_turn(2);
    }
    assert_true(at < out.n && rig.messages < COUNT / 2 + COUNT / 4);
    while (in.n < COUNT * (BYTES + 10)) {
        ssize_t n = at < out.n ? send(fd, out.p + at, out.n - at, MSG_DONTWAIT | MSG_NOSIGNAL) : 0;
        at += n > 0 ? (size_t)n : 0;
        rig_turn(1);
        assert_true(rig_receive(fd, &in));
    }
    assert_true(rig.drains > 0);
    assert_int_equal(rig.messages, COUNT);
}

static void draining_says_goodbye(void **state)
{
    (void)state;
    sg_auto_buf in;
    sg_buf_init(&in, MAX_TEXT);
    sg_auto_fd fd = greet(&in);
    sg_server_drain(rig.server, 60000, NULL, NULL);
    assert_true(rig_await(fd, &in, "the server ends"));
    assert_int_equal(in.p[2] << 8 | in.p[3], SG_WS_GOING_AWAY);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, rig_set_up, rig_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_message_in_many_frames_comes_back_as_one),
        TEST(a_message_that_is_too_big_ends_the_conversation),
        TEST(the_handler_hears_once_when_the_client_vanishes),
        TEST(a_client_that_does_not_answer_a_close_is_left),
        TEST(the_answer_to_a_close_is_read_though_nothing_else_is),
        TEST(a_client_that_does_not_read_is_not_heard_for_ever),
        TEST(draining_says_goodbye),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
