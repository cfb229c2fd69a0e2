/* SPDX-License-Identifier: Apache-2.0 */
/* tier/peer against the other end of a socketpair, which the test plays itself. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "check.h"
#include "still_clock.h"
#include "tier/peer.h"
#include "base/banned.h"

enum { EPOCH = 7 };

struct rig {
    struct sg_loop *loop;
    struct sg_peer *peer;
    int far;
    struct sg_packet got; /* at the far end */
    unsigned news, lost, late;
    enum sg_msg_type last_news;
    bool frees_in_lost, frees_in_news;
};

struct answer {
    struct rig *rig;
    unsigned calls;
    enum sg_msg_type type;
    struct sg_err err;
    int fd;
    bool frees, asks_again;
};

static void take_news(void *arg, struct sg_packet *p)
{
    struct rig *r = arg;
    r->news++;
    r->last_news = p->msg.type;
    if (r->frees_in_news) {
        sg_peer_free(r->peer);
        r->peer = NULL;
    }
}

static void note_lost(void *arg, const struct sg_err *err)
{
    struct rig *r = arg;
    assert_int_equal(err->kind, SG_UNAVAILABLE);
    r->lost++;
    if (r->frees_in_lost) {
        sg_peer_free(r->peer);
        r->peer = NULL;
    }
}

static void note_late(void *arg, struct sg_packet *p)
{
    struct rig *r = arg;
    assert_non_null(p);
    r->late++;
}

#define PATIENCE_NS 60000000u
static const struct sg_peer_ops ops = {
    .answer_role = SG_ROLE_REPLY,
    .news_role = SG_ROLE_EVENT,
    .news = take_news,
    .lost = note_lost,
    .late = note_late,
    .patience_ns = PATIENCE_NS,
    .impatient = 1u << SG_MSG_STAT,
};

static int start(void **state)
{
    struct rig *r = sg_new(struct rig);
    struct sg_err err = { 0 };
    int fds[2];
    if (!(r->loop = sg_loop_new(&err)) || sg_chan_pair(fds, &err) < 0)
        return -1;
    r->peer = sg_peer_new(r->loop, fds[0], EPOCH, &ops, r, &err);
    r->far = fds[1];
    sg_packet_init(&r->got);
    *state = r;
    return r->peer ? 0 : -1;
}

static int stop(void **state)
{
    struct rig *r = *state;
    sg_peer_free(r->peer);
    sg_loop_free(r->loop);
    sg_packet_done(&r->got);
    sg_drop_fd(&r->far);
    free(r);
    return 0;
}

static void turn(struct rig *r)
{
    struct sg_err err = { 0 };
    assert_ok(sg_loop_turn(r->loop, 0, &err), err);
}

static void take_answer(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    struct answer *a = arg;
    a->calls++;
    if (p) {
        a->type = p->msg.type;
        a->fd = p->fd_count ? sg_packet_take_fd(p, 0) : -1;
    } else {
        a->err = *err;
    }
    if (a->asks_again) {
        struct sg_msg m = { .type = SG_MSG_INFO };
        struct sg_err refused = { 0 };
        assert_fails(sg_peer_ask(a->rig->peer, &m, NULL, 0, take_answer, a, &refused), refused,
                     SG_UNAVAILABLE);
    }
    if (a->frees) {
        sg_peer_free(a->rig->peer);
        a->rig->peer = NULL;
    }
}

static void ask(struct rig *r, struct answer *a)
{
    struct sg_msg m = { .type = SG_MSG_INFO };
    struct sg_err err = { 0 };
    a->rig = r;
    a->fd = -1;
    assert_ok(sg_peer_ask(r->peer, &m, NULL, 0, take_answer, a, &err), err);
}

static void ask_in_time(struct rig *r, struct answer *a)
{
    struct sg_msg m = { .type = SG_MSG_STAT, .stat = { .path = sg_text_of("/x") } };
    struct sg_err err = { 0 };
    a->rig = r;
    a->fd = -1;
    assert_ok(sg_peer_ask(r->peer, &m, NULL, 0, take_answer, a, &err), err);
}

static void pass_time(struct rig *r, uint64_t ns)
{
    struct sg_err err = { 0 };
    for (uint64_t step = 1000000; ns; ns -= step) {
        step = ns < step ? ns : step;
        clock_pass(step);
        assert_ok(sg_loop_turn(r->loop, 0, &err), err);
    }
}

static uint32_t hear(struct rig *r)
{
    struct sg_err err = { 0 };
    assert_int_equal(sg_chan_recv(r->far, 1u << SG_ROLE_REQUEST, false, &r->got, &err),
                     SG_RECV_MESSAGE);
    assert_int_equal(r->got.msg.epoch, EPOCH);
    return r->got.msg.id;
}

static void say(struct rig *r, struct sg_msg m, int fd)
{
    struct sg_err err = { 0 };
    assert_ok(sg_chan_send(r->far, &m, &fd, fd >= 0, false, &err), err);
}

static void say_ok(struct rig *r, uint32_t id)
{
    say(r, (struct sg_msg) { .type = SG_MSG_OK, .id = id, .epoch = EPOCH }, -1);
}

static void answers_find_their_questions_in_any_order(void **state)
{
    struct rig *r = *state;
    struct answer a[20] = { 0 };
    uint32_t ids[20];
    for (unsigned i = 0; i < 20; i++) {
        ask(r, &a[i]);
        ids[i] = hear(r);
    }
    assert_int_equal(sg_peer_open_questions(r->peer), 20);
    for (unsigned i = 20; i-- > 0;) {
        say_ok(r, ids[i]);
        turn(r);
        for (unsigned k = 0; k < 20; k++)
            assert_int_equal(a[k].calls, k >= i);
    }
    assert_int_equal(a[3].type, SG_MSG_OK);
    assert_int_equal(sg_peer_open_questions(r->peer), 0);
}

static void an_answer_to_nothing_is_dropped(void **state)
{
    struct rig *r = *state;
    struct answer a = { 0 };
    ask(r, &a);
    uint32_t id = hear(r);
    say_ok(r, id + 1);
    say_ok(r, id ^ 0x10000);
    say_ok(r, 0xffff);
    say(r, (struct sg_msg) { .type = SG_MSG_OK, .id = id, .epoch = EPOCH + 1 }, -1);
    turn(r);
    assert_int_equal(a.calls, 0);
    say_ok(r, id);
    say_ok(r, id); /* twice */
    turn(r);
    assert_int_equal(a.calls, 1);
    assert_int_equal(r->lost, 0);
}

static void what_is_not_answered_in_time_is_over_and_its_descriptor_is_closed(void **state)
{
    struct rig *r = *state;
    struct answer late = { 0 }, patient = { 0 }, again = { 0 };
    int fds[2];
    char c;
    ask_in_time(r, &late);
    uint32_t id = hear(r);
    ask(r, &patient);
    uint32_t patient_id = hear(r);
    pass_time(r, PATIENCE_NS / 2);
    assert_int_equal(late.calls, 0);
    ask_in_time(r, &again);
    pass_time(r, PATIENCE_NS / 2 + 2000000);
    assert_int_equal(late.calls, 1);
    assert_int_equal(late.err.kind, SG_TIMEOUT);
    assert_int_equal(again.calls, 0);
    assert_int_equal(patient.calls, 0);
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    say(r, (struct sg_msg) { .type = SG_MSG_FD, .id = id, .epoch = EPOCH }, fds[1]);
    (void)close(fds[1]);
    say_ok(r, hear(r));
    turn(r);
    assert_int_equal(late.calls, 1);
    assert_int_equal(r->late, 1);
    assert_int_equal(read(fds[0], &c, 1), 0); /* nobody has the other end */
    (void)close(fds[0]);
    assert_int_equal(again.type, SG_MSG_OK);
    pass_time(r, PATIENCE_NS);
    assert_int_equal(again.calls, 1);
    say_ok(r, patient_id);
    turn(r);
    assert_int_equal(patient.type, SG_MSG_OK);
}

static void no_time_passes_for_one_that_is_frozen(void **state)
{
    struct rig *r = *state;
    struct answer before = { 0 }, meanwhile = { 0 };
    ask_in_time(r, &before);
    pass_time(r, PATIENCE_NS / 2);
    sg_peer_hold(r->peer, true);
    sg_peer_hold(r->peer, true);
    pass_time(r, PATIENCE_NS);
    ask_in_time(r, &meanwhile);
    pass_time(r, PATIENCE_NS);
    assert_int_equal(before.calls + meanwhile.calls, 0);
    sg_peer_hold(r->peer, false);
    pass_time(r, PATIENCE_NS / 4);
    assert_int_equal(before.calls, 0);
    pass_time(r, PATIENCE_NS / 4 + 2000000);
    assert_int_equal(before.err.kind, SG_TIMEOUT);
    assert_int_equal(meanwhile.calls, 0);
    pass_time(r, PATIENCE_NS / 2);
    assert_int_equal(meanwhile.err.kind, SG_TIMEOUT);
}

static void a_peer_may_be_freed_by_one_that_came_too_late(void **state)
{
    struct rig *r = *state;
    struct answer a[3] = { { 0 }, { .frees = true }, { 0 } };
    for (unsigned i = 0; i < 3; i++)
        ask_in_time(r, &a[i]);
    pass_time(r, PATIENCE_NS + 2000000);
    assert_int_equal(a[0].calls + a[1].calls, 2);
    assert_int_equal(a[2].calls, 0);
    assert_null(r->peer);
}

static void any_order_of_answers_leaves_the_right_ones_to_expire(void **state)
{
    struct rig *r = *state;
    struct answer a[30] = { 0 };
    uint32_t ids[30];
    for (unsigned i = 0; i < 30; i++) {
        ask_in_time(r, &a[i]);
        ids[i] = hear(r);
    }
    for (unsigned i = 0; i < 30; i += 3) {
        say_ok(r, ids[(i * 7) % 30]);
        turn(r);
    }
    pass_time(r, PATIENCE_NS + 2000000);
    for (unsigned i = 0; i < 30; i++) {
        assert_int_equal(a[i].calls, 1);
        assert_int_equal(a[i].err.kind, i % 3 ? SG_TIMEOUT : SG_OK);
    }
    assert_int_equal(sg_peer_open_questions(r->peer), 0);
}

static void an_error_message_becomes_an_error(void **state)
{
    struct rig *r = *state;
    struct answer a = { 0 };
    ask(r, &a);
    say(r,
        (struct sg_msg) { .type = SG_MSG_ERROR,
                          .id = hear(r),
                          .epoch = EPOCH,
                          .error = { SG_NOT_FOUND, 2, sg_text_of("no such file") } },
        -1);
    turn(r);
    assert_int_equal(a.calls, 1);
    assert_int_equal(a.err.kind, SG_NOT_FOUND);
    assert_int_equal(a.err.sys, 2);
    assert_string_equal(a.err.msg, "no such file");
}

static void a_question_without_interest_needs_no_place(void **state)
{
    struct rig *r = *state;
    struct sg_msg m = { .type = SG_MSG_INFO };
    struct sg_err err = { 0 };
    assert_ok(sg_peer_ask(r->peer, &m, NULL, 0, NULL, NULL, &err), err);
    assert_int_equal(sg_peer_open_questions(r->peer), 0);
    say_ok(r, hear(r));
    turn(r);
    assert_int_equal(r->lost, 0);
}

static void news_are_told(void **state)
{
    struct rig *r = *state;
    say(r, (struct sg_msg) { .type = SG_MSG_READY, .ready = { 1, 1 } }, -1);
    turn(r);
    assert_int_equal(r->news, 1);
    assert_int_equal(r->last_news, SG_MSG_READY);
}

static void a_peer_may_be_freed_by_any_callback(void **state)
{
    struct rig *r = *state;
    struct answer a = { .frees = true };
    r->frees_in_news = false;
    ask(r, &a);
    say_ok(r, hear(r));
    say(r, (struct sg_msg) { .type = SG_MSG_READY, .ready = { 1, 1 } }, -1);
    turn(r);
    assert_int_equal(a.calls, 1);
    assert_int_equal(r->news, 0);
    assert_null(r->peer);
}

static void a_peer_may_be_freed_by_its_news(void **state)
{
    struct rig *r = *state;
    r->frees_in_news = true;
    say(r, (struct sg_msg) { .type = SG_MSG_READY, .ready = { 1, 1 } }, -1);
    say(r, (struct sg_msg) { .type = SG_MSG_READY, .ready = { 1, 1 } }, -1);
    turn(r);
    assert_int_equal(r->news, 1);
}

static void the_end_answers_every_question_then_tells_once(void **state)
{
    struct rig *r = *state;
    struct answer a[9] = { 0 };
    for (unsigned i = 0; i < 9; i++)
        ask(r, &a[i]);
    a[4].asks_again = true;
    sg_drop_fd(&r->far);
    turn(r);
    turn(r);
    for (unsigned i = 0; i < 9; i++) {
        assert_int_equal(a[i].calls, 1);
        assert_int_equal(a[i].err.kind, SG_UNAVAILABLE);
    }
    assert_int_equal(r->lost, 1);
}

static void what_was_sent_before_the_end_still_arrives(void **state)
{
    struct rig *r = *state;
    struct answer a = { 0 };
    ask(r, &a);
    say_ok(r, hear(r));
    sg_drop_fd(&r->far);
    r->frees_in_lost = true;
    turn(r);
    assert_int_equal(a.type, SG_MSG_OK);
    assert_int_equal(r->lost, 1);
    assert_null(r->peer);
}

static void garbage_ends_the_connection(void **state)
{
    struct rig *r = *state;
    struct answer a = { 0 };
    ask(r, &a);
    assert_int_equal(send(r->far, "garbage", 7, 0), 7);
    turn(r);
    assert_int_equal(a.err.kind, SG_UNAVAILABLE);
    assert_int_equal(r->lost, 1);
}

static void a_message_of_our_own_side_ends_the_connection(void **state)
{
    struct rig *r = *state;
    say(r, (struct sg_msg) { .type = SG_MSG_INFO, .id = 1 }, -1);
    turn(r);
    assert_int_equal(r->lost, 1);
}

static void a_descriptor_comes_with_its_answer_or_is_closed(void **state)
{
    struct rig *r = *state;
    struct answer a = { 0 };
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    ask(r, &a);
    uint32_t id = hear(r);
    struct sg_msg m = { .type = SG_MSG_FD, .id = id, .epoch = EPOCH };
    say(r, m, ends[1]);
    m.id = 99; /* nobody asked */
    say(r, m, ends[1]);
    (void)close(ends[1]);
    turn(r);
    assert_true(a.fd >= 0);
    assert_int_equal(write(a.fd, "x", 1), 1);
    (void)close(a.fd);
    char two[2];
    assert_int_equal(read(ends[0], two, 2), 1);
    assert_int_equal(read(ends[0], two, 2), 0); /* no writer is left */
    (void)close(ends[0]);
}

static void what_finds_no_room_waits_and_keeps_its_order(void **state)
{
    struct rig *r = *state;
    enum { MANY = 40, BIG = 100 * 1024 };
    sg_auto_free char *big = sg_alloc(BIG + 1);
    memset(big, 'x', BIG);
    char *argv[] = { big, NULL };
    sg_auto_buf store;
    sg_buf_init(&store, SG_CTL_MAX_BYTES);
    struct sg_msg m = { .type = SG_MSG_SPAWN };
    struct sg_err err = { 0 };
    assert_ok(sg_texts_pack(argv, &store, &m.spawn.argv, &err), err);
    struct answer a[MANY] = { 0 };
    unsigned asked = 0;
    for (; asked < MANY; asked++) {
        int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
        m.spawn.flags = SG_SPAWN_STDOUT;
        m.spawn.rows = asked;
        a[asked].rig = r;
        int failed = sg_peer_ask(r->peer, &m, &fd, 1, take_answer, &a[asked], &err);
        (void)close(fd); /* the queue has its own */
        assert_int_equal(failed, 0);
    }
    struct answer last = { 0 };
    for (unsigned i = 0; i < MANY; i++) {
        if (i != 1)
            turn(r);
        uint32_t id = hear(r);
        if (i == 0)
            ask(r, &last); /* there is room for it now, but others were first */
        assert_int_equal(r->got.msg.type, SG_MSG_SPAWN);
        assert_int_equal(r->got.msg.spawn.rows, i);
        assert_int_equal(r->got.fd_count, 1);
        struct stat st;
        assert_int_equal(fstat(r->got.fds[0], &st), 0);
        assert_true(S_ISCHR(st.st_mode));
        say_ok(r, id);
    }
    say_ok(r, hear(r));
    for (unsigned i = 0; i < 4; i++)
        turn(r);
    for (unsigned i = 0; i < MANY; i++)
        assert_int_equal(a[i].calls, 1);
    assert_int_equal(last.calls, 1);
}

static void the_queue_has_an_end(void **state)
{
    struct rig *r = *state;
    sg_auto_free char *big = sg_alloc(100 * 1024 + 1);
    memset(big, 'x', 100 * 1024);
    char *argv[] = { big, NULL };
    sg_auto_buf store;
    sg_buf_init(&store, SG_CTL_MAX_BYTES);
    struct sg_msg m = { .type = SG_MSG_SPAWN };
    struct sg_err err = { 0 };
    assert_ok(sg_texts_pack(argv, &store, &m.spawn.argv, &err), err);
    struct answer a = { .rig = r };
    unsigned asked = 0;
    while (asked < 1000 && sg_peer_ask(r->peer, &m, NULL, 0, take_answer, &a, &err) == 0)
        asked++;
    assert_true(asked > 40 && asked < 100);
    assert_int_equal(err.kind, SG_EXHAUSTED);
    assert_int_equal(sg_peer_open_questions(r->peer), asked);
}

static void a_bad_message_is_refused_and_leaves_no_question(void **state)
{
    struct rig *r = *state;
    struct sg_msg m = { .type = SG_MSG_OPEN, .open = { .path = { "a\0b", 3 } } };
    struct answer a = { .rig = r };
    struct sg_err err = { 0 };
    assert_true(sg_peer_ask(r->peer, &m, NULL, 0, take_answer, &a, &err) < 0);
    assert_int_equal(sg_peer_open_questions(r->peer), 0);
}

static void an_end_that_we_make_answers_every_question_too(void **state)
{
    struct rig *r = *state;
    struct answer a = { 0 }, b = { .frees = true };
    struct sg_err why = { 0 };

    ask(r, &a);
    ask(r, &b);
    (void)sg_fail(&why, SG_UNAVAILABLE, "there is another one");
    sg_peer_end(r->peer, &why);
    assert_int_equal(a.calls, 1);
    assert_int_equal(b.calls, 1);
    assert_int_equal(a.err.kind, SG_UNAVAILABLE);
    assert_null(r->peer); /* freed by the second, so that nobody was told of the end */
    assert_int_equal(r->lost, 0);
}

#define EACH(test) cmocka_unit_test_setup_teardown(test, start, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        EACH(answers_find_their_questions_in_any_order),
        EACH(an_answer_to_nothing_is_dropped),
        EACH(what_is_not_answered_in_time_is_over_and_its_descriptor_is_closed),
        EACH(no_time_passes_for_one_that_is_frozen),
        EACH(a_peer_may_be_freed_by_one_that_came_too_late),
        EACH(any_order_of_answers_leaves_the_right_ones_to_expire),
        EACH(an_error_message_becomes_an_error),
        EACH(a_question_without_interest_needs_no_place),
        EACH(news_are_told),
        EACH(a_peer_may_be_freed_by_any_callback),
        EACH(a_peer_may_be_freed_by_its_news),
        EACH(the_end_answers_every_question_then_tells_once),
        EACH(what_was_sent_before_the_end_still_arrives),
        EACH(an_end_that_we_make_answers_every_question_too),
        EACH(garbage_ends_the_connection),
        EACH(a_message_of_our_own_side_ends_the_connection),
        EACH(a_descriptor_comes_with_its_answer_or_is_closed),
        EACH(what_finds_no_room_waits_and_keeps_its_order),
        EACH(the_queue_has_an_end),
        EACH(a_bad_message_is_refused_and_leaves_no_question),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
