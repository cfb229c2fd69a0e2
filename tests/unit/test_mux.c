/* SPDX-License-Identifier: Apache-2.0 */
/* A host's end and a guest's, in one process, with a channel between them. */
#include "mux/mux.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "check.h"
#include "mux/frame.h"
#include "base/banned.h"

struct rig {
    struct sg_mux *host, *guest;
    int daemon_fd; /* what a daemon has of the connection */
    int init_fd;   /* what init has of it */
    bool host_over, guest_over;
    struct sg_err err;
    struct sg_packet got;
};

static void opened(void *arg, int fd)
{
    struct rig *r = arg;
    sg_drop_fd(&r->init_fd);
    r->init_fd = fd;
}

static const struct sg_mux_ops host_ops = { .roles = 1u << SG_ROLE_REQUEST };
static const struct sg_mux_ops guest_ops = { .roles = 1u << SG_ROLE_REPLY | 1u << SG_ROLE_EVENT,
                                             .opened = opened };

/* Until neither has anything to do. */
static void settle(struct rig *r)
{
    for (int i = 0, quiet = 0; i < 10000 && quiet < 3; i++) {
        struct pollfd p[] = { { sg_mux_fd(r->host), POLLIN, 0 },
                              { sg_mux_fd(r->guest), POLLIN, 0 } };
        quiet = poll(p, 2, 0) > 0 ? 0 : quiet + 1;
        r->host_over = r->host_over || sg_mux_turn(r->host, &r->err) < 0;
        r->guest_over = r->guest_over || sg_mux_turn(r->guest, &r->err) < 0;
        if (r->host_over || r->guest_over)
            return;
    }
}

static void attach(struct rig *r)
{
    int pair[2];
    assert_ok(sg_chan_pair(pair, &r->err), r->err);
    sg_drop_fd(&r->daemon_fd);
    r->daemon_fd = pair[0];
    sg_mux_attach(r->host, pair[1]);
    settle(r);
    assert_true(r->init_fd >= 0);
}

static int set_up(void **state)
{
    struct rig *r = sg_new(struct rig);
    int channel[2];
    r->daemon_fd = r->init_fd = -1;
    sg_packet_init(&r->got);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, channel), 0);
    r->host = sg_mux_new(channel[0], SG_MUX_HOST, &host_ops, r, &r->err);
    r->guest = sg_mux_new(channel[1], SG_MUX_GUEST, &guest_ops, r, &r->err);
    assert_non_null(r->host);
    assert_non_null(r->guest);
    attach(r);
    *state = r;
    return 0;
}

static int tear_down(void **state)
{
    struct rig *r = *state;
    sg_mux_free(r->host);
    sg_mux_free(r->guest);
    sg_drop_fd(&r->daemon_fd);
    sg_drop_fd(&r->init_fd);
    sg_packet_done(&r->got);
    free(r);
    return 0;
}

static void say(struct rig *r, int fd, struct sg_msg m, const int *fds, unsigned n)
{
    assert_ok(sg_chan_send(fd, &m, fds, n, false, &r->err), r->err);
    settle(r);
}

static enum sg_msg_type hear(struct rig *r, int fd)
{
    if (sg_chan_recv(fd, ~0u, false, &r->got, &r->err) != SG_RECV_MESSAGE)
        return SG_MSG_NONE;
    return r->got.msg.type;
}

static struct sg_msg spawn(const char *tag, unsigned flags)
{
    const struct sg_text none = sg_text_of("");
    struct sg_msg m = { .type = SG_MSG_SPAWN, .id = 7 };
    m.spawn.flags = flags;
    m.spawn.user = m.spawn.cwd = none;
    m.spawn.tag = sg_text_of(tag);
    return m;
}

/* As a daemon does: pipes, of which the far ends go in. Then init has them. */
static void start(struct rig *r, const char *tag, int near[2], int inside[2])
{
    int in[2], out[2];
    assert_int_equal(pipe2(in, O_CLOEXEC | O_NONBLOCK), 0);
    assert_int_equal(pipe2(out, O_CLOEXEC | O_NONBLOCK), 0);
    say(r, r->daemon_fd, spawn(tag, SG_SPAWN_STDIN | SG_SPAWN_STDOUT), (int[]) { in[0], out[1] },
        2);
    (void)close(in[0]);
    (void)close(out[1]);
    near[0] = in[1];
    near[1] = out[0];
    assert_int_equal(hear(r, r->init_fd), SG_MSG_SPAWN);
    assert_int_equal(r->got.fd_count, 2);
    inside[0] = sg_packet_take_fd(&r->got, 0);
    inside[1] = sg_packet_take_fd(&r->got, 1);
}

static size_t drain(int fd, char *room, size_t cap)
{
    size_t n = 0;
    for (ssize_t got; n < cap && (got = read(fd, room + n, cap - n)) > 0;)
        n += (size_t)got;
    return n;
}

static void close_all(int *fds, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        sg_drop_fd(&fds[i]);
}

/* ---- tests ---- */

static void messages_and_streams_cross_in_both_directions(void **state)
{
    struct rig *r = *state;
    int near[2], inside[2];
    char text[64];
    start(r, "x1", near, inside);
    assert_int_equal(write(near[0], "to the program", 14), 14);
    assert_int_equal(write(inside[1], "from it", 7), 7);
    settle(r);
    assert_int_equal(read(inside[0], text, sizeof text), 14);
    assert_int_equal(read(near[1], text, sizeof text), 7);
    assert_memory_equal(text, "from it", 7);
    sg_drop_fd(&near[0]); /* ends are told, each way */
    sg_drop_fd(&inside[1]);
    settle(r);
    assert_int_equal(read(inside[0], text, sizeof text), 0);
    assert_int_equal(read(near[1], text, sizeof text), 0);
    say(r, r->init_fd, (struct sg_msg) { .type = SG_MSG_SPAWNED, .id = 7, .spawned = { 5 } }, NULL,
        0);
    assert_int_equal(hear(r, r->daemon_fd), SG_MSG_SPAWNED);
    assert_int_equal(r->got.msg.spawned.pid, 5);
    close_all(near, 2);
    close_all(inside, 2);
}

static void a_stream_that_nobody_reads_holds_up_no_other(void **state)
{
    struct rig *r = *state;
    int near[2][2], inside[2][2];
    static char room[8 << 20];
    start(r, "x1", near[0], inside[0]);
    start(r, "x2", near[1], inside[1]);
    (void)fcntl(inside[0][1], F_SETFL, O_NONBLOCK);
    size_t sent = 0;
    for (int i = 0; i < 200; i++) {
        const ssize_t n = write(inside[0][1], room, 65536);
        sent += n > 0 ? (size_t)n : 0;
        settle(r);
    }
    assert_true(sent > SG_MUX_WINDOW && sent < 4 * SG_MUX_WINDOW); /* its window, and pipes */
    assert_int_equal(write(inside[1][1], "quick", 5), 5);
    settle(r);
    assert_int_equal(read(near[1][1], room, sizeof room), 5);
    size_t got = 0;
    for (size_t n; settle(r), (n = drain(near[0][1], room, sizeof room)) > 0;)
        got += n;
    assert_int_equal(got, sent); /* and nothing of it is lost */
    close_all(near[0], 2), close_all(near[1], 2);
    close_all(inside[0], 2), close_all(inside[1], 2);
}

static void an_end_does_not_overtake_the_last_bytes(void **state)
{
    struct rig *r = *state;
    int near[2], inside[2];
    static char room[1 << 20];
    const struct sg_msg end = { .type = SG_MSG_EXITED, .exited = { .tag = sg_text_of("x1") } };
    start(r, "x1", near, inside);
    size_t sent = 0;
    (void)fcntl(inside[1], F_SETFL, O_NONBLOCK);
    for (int i = 0; i < 20; i++) {
        const ssize_t n = write(inside[1], room, 65536);
        sent += n > 0 ? (size_t)n : 0;
        settle(r);
    }
    sg_drop_fd(&inside[1]);
    say(r, r->init_fd, end, NULL, 0);
    assert_int_equal(hear(r, r->daemon_fd), SG_MSG_NONE);
    size_t got = 0;
    while (hear(r, r->daemon_fd) != SG_MSG_EXITED) {
        const size_t n = drain(near[1], room, sizeof room);
        assert_true(n > 0); /* or it would never come */
        got += n;
        settle(r);
    }
    assert_int_equal(got + drain(near[1], room, sizeof room), sent);
    close_all(near, 2);
    close_all(inside, 2);
}

static void who_writes_for_nobody_is_told(void **state)
{
    struct rig *r = *state;
    int near[2], inside[2];
    start(r, "x1", near, inside);
    sg_drop_fd(&near[1]);
    settle(r);
    assert_int_equal(write(inside[1], "x", 1), -1);
    assert_int_equal(errno, EPIPE);
    close_all(near, 2);
    close_all(inside, 2);
}

static void a_file_arrives_whole_and_sealed(void **state)
{
    struct rig *r = *state;
    char path[] = "/tmp/sg-mux-XXXXXX";
    static char data[3 << 20], back[sizeof data];
    sg_auto_fd file = mkstemp(path);
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (char)(i * 31 >> 3);
    assert_int_equal(write(file, data, sizeof data), sizeof data);
    sg_auto_fd reader = open(path, O_RDONLY | O_CLOEXEC);
    (void)unlink(path);
    say(r, r->init_fd, (struct sg_msg) { .type = SG_MSG_FD, .id = 3, .fd = { sizeof data, 0 } },
        &reader, 1);
    assert_int_equal(hear(r, r->daemon_fd), SG_MSG_FD);
    assert_int_equal(r->got.fd_count, 1);
    assert_int_equal(read(r->got.fds[0], back, sizeof back), sizeof data);
    assert_memory_equal(back, data, sizeof data);
    assert_int_equal(write(r->got.fds[0], "x", 1), -1);
}

static void a_connection_goes_both_ways_and_ends_by_halves(void **state)
{
    struct rig *r = *state;
    int pair[2];
    char text[16];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    say(r, r->init_fd, (struct sg_msg) { .type = SG_MSG_FD, .id = 3 }, &pair[1], 1);
    sg_drop_fd(&pair[1]);
    assert_int_equal(hear(r, r->daemon_fd), SG_MSG_FD);
    sg_auto_fd ours = sg_packet_take_fd(&r->got, 0);
    assert_int_equal(write(ours, "ask", 3), 3);
    assert_int_equal(shutdown(ours, SHUT_WR), 0);
    settle(r);
    assert_int_equal(read(pair[0], text, sizeof text), 3);
    assert_int_equal(read(pair[0], text, sizeof text), 0);
    assert_int_equal(write(pair[0], "answer", 6), 6);
    sg_drop_fd(&pair[0]);
    settle(r);
    assert_int_equal(read(ours, text, sizeof text), 6);
    assert_int_equal(read(ours, text, sizeof text), 0);
}

static void a_host_that_comes_back_gets_a_connection_of_its_own(void **state)
{
    struct rig *r = *state;
    int near[2], inside[2];
    char text[16];
    start(r, "x1", near, inside);
    const int old = fcntl(r->init_fd, F_DUPFD_CLOEXEC, 3);
    sg_drop_fd(&r->daemon_fd);
    settle(r);
    assert_int_equal(recv(old, text, sizeof text, MSG_DONTWAIT), 0); /* init sees its end */
    assert_int_equal(write(inside[1], "still", 5), 5);
    attach(r);
    assert_int_equal(read(near[1], text, sizeof text), 5); /* streams outlive connections */
    say(r, r->init_fd, (struct sg_msg) { .type = SG_MSG_OK, .id = 9 }, NULL, 0);
    assert_int_equal(hear(r, r->daemon_fd), SG_MSG_OK);
    (void)close(old);
    close_all(near, 2);
    close_all(inside, 2);
}

static void thousands_of_streams_come_and_go(void **state)
{
    struct rig *r = *state;
    for (int i = 0; i < 3 * SG_MUX_STREAMS / 2; i++) {
        int near[2], inside[2];
        start(r, "x", near, inside);
        close_all(near, 2);
        close_all(inside, 2);
        settle(r);
    }
    assert_false(r->host_over || r->guest_over);
}

static void noise_before_the_greeting_is_skipped(void **state)
{
    int channel[2];
    struct sg_err err = { 0 };
    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, channel), 0);
    struct sg_mux *m = sg_mux_new(channel[0], SG_MUX_HOST, &host_ops, NULL, &err);
    static const char noise[] = "[    0.000000] Linux version\r\n\nSGMUX0" SG_FRAME_GREETING;
    assert_int_equal(write(channel[1], noise, sizeof noise - 1), sizeof noise - 1);
    assert_ok(sg_mux_turn(m, &err), err);
    const uint8_t wrong[SG_FRAME_HEAD_BYTES] = { 0, 0, 0, 0, 200 };
    assert_int_equal(write(channel[1], wrong, sizeof wrong), sizeof wrong);
    assert_int_equal(sg_mux_turn(m, &err), -1); /* a frame now, and no good one */
    assert_int_equal(err.kind, SG_INVALID);
    sg_mux_free(m);
    (void)close(channel[1]);
}

/* What a guest may not do, each ends the channel. */
static void refuses(const struct sg_buf *frames)
{
    int channel[2], pair[2];
    struct sg_err err = { 0 };
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, channel), 0);
    struct sg_mux *m = sg_mux_new(channel[0], SG_MUX_HOST, &host_ops, NULL, &err);
    assert_ok(sg_chan_pair(pair, &err), err);
    sg_mux_attach(m, pair[1]);
    assert_int_equal(write(channel[1], SG_FRAME_GREETING, SG_FRAME_GREETING_BYTES),
                     SG_FRAME_GREETING_BYTES);
    int ret = 0;
    (void)fcntl(channel[1], F_SETFL, O_NONBLOCK);
    for (size_t at = 0; at < frames->n && ret == 0; ret = sg_mux_turn(m, &err)) {
        const ssize_t n = write(channel[1], frames->p + at, frames->n - at);
        at += n > 0 ? (size_t)n : 0;
    }
    for (int i = 0; i < 64 && ret == 0; i++)
        ret = sg_mux_turn(m, &err);
    assert_int_equal(ret, -1);
    assert_int_equal(err.kind, SG_INVALID);
    sg_mux_free(m);
    (void)close(channel[1]);
    (void)close(pair[0]);
}

static void what_breaks_the_rules_ends_the_channel(void **state)
{
    const struct sg_msg fd = { .type = SG_MSG_FD, .id = 1 };
    const struct sg_msg request = { .type = SG_MSG_INFO, .id = 1 };
    const uint32_t id = 0x80000003u;
    sg_auto_buf out, packet, wrong_way;
    static const char piece[SG_FRAME_PIECE];
    (void)state;
    sg_buf_init(&out, 4 << 20);
    sg_buf_init(&packet, 4096);
    sg_buf_init(&wrong_way, 4096);
    assert_int_equal(sg_msg_encode(&fd, &packet, NULL), 0);
    assert_int_equal(sg_msg_encode(&request, &wrong_way, NULL), 0);
    const struct sg_frame_fd socket = { id, SG_KIND_BOTH }, ours = { id - 1, SG_KIND_BOTH };

    sg_frame_put_message(&out, 1, &socket, 1, packet.p, packet.n);
    for (int i = 0; i <= 8 * SG_MUX_WINDOW / SG_FRAME_PIECE; i++)
        sg_frame_put(&out, SG_FRAME_DATA, id, piece, sizeof piece); /* its window and a socket */
    refuses(&out);
    sg_buf_clear(&out);
    sg_frame_put_message(&out, 1, &socket, 1, packet.p, packet.n);
    sg_frame_put_message(&out, 1, &socket, 1, packet.p, packet.n); /* one that is open */
    refuses(&out);
    sg_buf_clear(&out);
    sg_frame_put_message(&out, 1, &ours, 1, packet.p, packet.n); /* one of ours */
    refuses(&out);
    sg_buf_clear(&out);
    sg_frame_put_message(&out, 1, NULL, 0, wrong_way.p, wrong_way.n); /* a host's own question */
    refuses(&out);
    sg_buf_clear(&out);
    sg_frame_put_u32(&out, SG_FRAME_CREDIT, 0, 1); /* more than there is */
    refuses(&out);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(messages_and_streams_cross_in_both_directions),
        TEST(a_stream_that_nobody_reads_holds_up_no_other),
        TEST(an_end_does_not_overtake_the_last_bytes),
        TEST(who_writes_for_nobody_is_told),
        TEST(a_file_arrives_whole_and_sealed),
        TEST(a_connection_goes_both_ways_and_ends_by_halves),
        TEST(a_host_that_comes_back_gets_a_connection_of_its_own),
        TEST(thousands_of_streams_come_and_go),
        cmocka_unit_test(noise_before_the_greeting_is_skipped),
        cmocka_unit_test(what_breaks_the_rules_ends_the_channel),
    };
    const struct sigaction ignored = { .sa_handler = SIG_IGN };
    (void)sigaction(SIGPIPE, &ignored, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
