/* SPDX-License-Identifier: Apache-2.0 */
/* ctl/chan: packets and descriptors cross whole or not at all, and none leaks. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "check.h"
#include "ctl/chan.h"
#include "base/banned.h"

static const unsigned REQUESTS = 1u << SG_ROLE_REQUEST;

static int fds[2];

static int open_pair(void **state)
{
    (void)state;
    struct sg_err err;
    return sg_chan_pair(fds, &err);
}

static int close_pair(void **state)
{
    (void)state;
    sg_drop_fd(&fds[0]);
    sg_drop_fd(&fds[1]);
    return 0;
}

static unsigned count_fds(void)
{
    unsigned n = 0;
    sg_auto_dir d = opendir("/proc/self/fd");
    while (d && readdir(d))
        n++;
    return n;
}

static void send_with(const struct sg_msg *m, unsigned count)
{
    struct sg_err err = { 0 };
    int many[SG_CTL_MAX_FDS];
    for (unsigned i = 0; i < count; i++)
        many[i] = fds[0];
    assert_ok(sg_chan_send(fds[0], m, many, count, false, &err), err);
}

static void a_message_and_its_descriptors_arrive_together(void **state)
{
    (void)state;
    struct sg_err err = { 0 };
    sg_auto_packet p;
    sg_packet_init(&p);
    send_with(&(struct sg_msg) { .type = SG_MSG_SPAWN, .id = 9 }, 3);
    assert_int_equal(sg_chan_recv(fds[1], REQUESTS, false, &p, &err), SG_RECV_MESSAGE);
    assert_int_equal(p.msg.type, SG_MSG_SPAWN);
    assert_int_equal(p.msg.id, 9);
    assert_int_equal(p.fd_count, 3);
    sg_auto_fd taken = sg_packet_take_fd(&p, 1);
    assert_int_equal(fcntl(taken, F_GETFD), FD_CLOEXEC);
    assert_int_equal(sg_packet_take_fd(&p, 1), -1);
    assert_int_equal(sg_chan_recv(fds[1], REQUESTS, false, &p, &err), SG_RECV_AGAIN);
}

static void refused_packets_leave_no_descriptor_and_a_usable_connection(void **state)
{
    (void)state;
    sg_auto_packet p;
    sg_packet_init(&p);
    unsigned before = count_fds();
    static const struct {
        enum sg_msg_type type;
        unsigned fd_count;
    } bad[] = { { SG_MSG_INFO, 1 }, { SG_MSG_TAR_IN, 2 }, { SG_MSG_FD, 1 }, { SG_MSG_READY, 0 } };
    for (unsigned i = 0; i < SG_COUNT(bad); i++) {
        struct sg_err err = { 0 };
        send_with(&(struct sg_msg) { .type = bad[i].type }, bad[i].fd_count);
        assert_int_equal(sg_chan_recv(fds[1], REQUESTS, false, &p, &err), SG_RECV_ERROR);
        assert_int_equal(err.kind, SG_INVALID);
        assert_int_equal(err.sys, 0);
    }
    assert_int_equal(count_fds(), before);
    struct sg_err err = { 0 };
    send_with(&(struct sg_msg) { .type = SG_MSG_INFO }, 0);
    assert_int_equal(sg_chan_recv(fds[1], REQUESTS, false, &p, &err), SG_RECV_MESSAGE);
}

static void an_empty_packet_is_the_end_and_leaks_nothing(void **state)
{
    (void)state;
    struct sg_err err = { 0 };
    sg_auto_packet p;
    sg_packet_init(&p);
    unsigned before = count_fds();
    assert_ok(sg_chan_send_bytes(fds[0], "", 0, &fds[0], 1, false, &err), err);
    assert_int_equal(sg_chan_recv(fds[1], REQUESTS, false, &p, &err), SG_RECV_CLOSED);
    assert_int_equal(count_fds(), before);
}

static void the_end_of_the_other_side_is_seen(void **state)
{
    (void)state;
    struct sg_err err = { 0 };
    sg_auto_packet p;
    sg_packet_init(&p);
    sg_drop_fd(&fds[0]);
    assert_int_equal(sg_chan_recv(fds[1], REQUESTS, false, &p, &err), SG_RECV_CLOSED);
    struct sg_msg m = { .type = SG_MSG_OK };
    assert_fails(sg_chan_send(fds[1], &m, NULL, 0, false, &err), err, SG_UNAVAILABLE);
    assert_int_equal(err.sys, EPIPE);
}

static void a_full_socket_is_told_and_not_waited_for(void **state)
{
    (void)state;
    struct sg_err err = { 0 };
    struct sg_msg m = { .type = SG_MSG_OK };
    unsigned sent = 0;
    while (sent < 1000000 && sg_chan_send(fds[1], &m, NULL, 0, false, &err) == 0)
        sent++;
    assert_in_range(sent, 10, 999999);
    assert_int_equal(err.sys, EAGAIN);
    assert_int_equal(err.kind, SG_UNAVAILABLE);
}

static void the_largest_message_fits(void **state)
{
    (void)state;
    static uint8_t zeros[SG_CTL_MAX_BYTES - SG_CTL_HEAD_BYTES - 12];
    struct sg_err err = { 0 };
    sg_auto_packet p;
    sg_packet_init(&p);
    struct sg_msg m = { .type = SG_MSG_LISTED, .listed = { 1, { zeros, sizeof zeros } } };
    assert_ok(sg_chan_send(fds[1], &m, NULL, 0, false, &err), err);
    assert_int_equal(sg_chan_recv(fds[0], 1u << SG_ROLE_REPLY, false, &p, &err), SG_RECV_MESSAGE);
    assert_int_equal(p.msg.listed.entries.n, sizeof zeros);
    static uint8_t huge[SG_CTL_MAX_BYTES + 1];
    assert_ok(sg_chan_send_bytes(fds[1], huge, sizeof huge, NULL, 0, false, &err), err);
    assert_int_equal(sg_chan_recv(fds[0], 1u << SG_ROLE_REPLY, false, &p, &err), SG_RECV_ERROR);
}

int main(void)
{
#define WITH_PAIR(f) cmocka_unit_test_setup_teardown(f, open_pair, close_pair)
    const struct CMUnitTest tests[] = {
        WITH_PAIR(a_message_and_its_descriptors_arrive_together),
        WITH_PAIR(refused_packets_leave_no_descriptor_and_a_usable_connection),
        WITH_PAIR(an_empty_packet_is_the_end_and_leaks_nothing),
        WITH_PAIR(the_end_of_the_other_side_is_seen),
        WITH_PAIR(a_full_socket_is_told_and_not_waited_for),
        WITH_PAIR(the_largest_message_fits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
