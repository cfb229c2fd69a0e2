/* SPDX-License-Identifier: Apache-2.0 */
/* The helper that has the kernel take memory: one at a time, given up at once, always told of. The
 * kernel is a directory of plain files; a slow one is a pipe that nobody reads. */
#include "fake_cgroup.h"

#include <errno.h>
#include <signal.h>

#include "base/auto.h"
#include "launcher/launcher.h"
#include "base/banned.h"

enum { PATIENCE_MS = 60000 };

struct scene {
    struct sg_launcher l;
    struct sg_box boxes[2];
    struct fake_cgroup fakes[2];
    int daemon_fd;
    struct sg_packet packet;
};

static const char *const ids[2] = { "sfirst00000000000000", "ssecond0000000000000" };

/* Of main.c, which is not here: nothing in these tests ends a launcher. */
void sg_launcher_stop(struct sg_launcher *l, enum sg_stopping how)
{
    (void)l, (void)how;
    fail_msg("the launcher is ended");
}

void sg_launcher_box_gone(struct sg_launcher *l)
{
    (void)l;
}

void sg_launcher_daemon_gone(struct sg_launcher *l)
{
    (void)l;
}

static int setup(void **state)
{
    struct scene *s = sg_new(struct scene);
    struct sg_err err = { 0 };
    int pair[2];
    s->l.loop = sg_loop_new(&err);
    assert_non_null(s->l.loop);
    sg_conn_init(&s->l.conn);
    sg_packet_init(&s->packet);
    assert_ok(sg_chan_pair(pair, &err), err);
    assert_ok(sg_conn_open(&s->l, pair[0], &err), err);
    s->daemon_fd = pair[1];
    sg_reclaimer_init(&s->l.reclaimer);
    for (unsigned i = 0; i < 2; i++) {
        struct sg_box *b = &s->boxes[i];
        b->launcher = &s->l;
        b->state = SG_BOX_CLAIMED;
        b->kept = (struct sg_kept) { .pidfd = -1, .may_be_frozen = true };
        (void)snprintf(b->record.sandbox, sizeof b->record.sandbox, "%s", ids[i]);
        fake_cgroup_make(&s->fakes[i], &b->kept.cgroup);
    }
    *state = s;
    return 0;
}

static int teardown(void **state)
{
    struct scene *s = *state;
    sg_reclaimer_done(&s->l);
    for (unsigned i = 0; i < 2; i++)
        fake_cgroup_remove(&s->fakes[i]);
    sg_conn_close(&s->l);
    sg_conn_done(&s->l.conn);
    sg_packet_done(&s->packet);
    sg_drop_fd(&s->daemon_fd);
    sg_loop_free(s->l.loop);
    free(s);
    return 0;
}

/* The next that the daemon hears. */
static void hears(struct scene *s, const char *id, uint64_t bytes)
{
    struct sg_err err = { 0 };
    enum sg_recv got = SG_RECV_AGAIN;
    for (int waited = 0; waited < PATIENCE_MS && got == SG_RECV_AGAIN; waited += 10) {
        got = sg_chan_recv(s->daemon_fd, 1u << SG_ROLE_NEWS, false, &s->packet, &err);
        if (got == SG_RECV_AGAIN)
            assert_ok(sg_loop_turn(s->l.loop, 10, &err), err);
    }
    assert_int_equal(got, SG_RECV_MESSAGE);
    assert_int_equal(s->packet.msg.type, SG_MSG_L_RECLAIMED);
    assert_string_equal(s->packet.msg.l_reclaimed.sandbox.p, id);
    assert_true(s->packet.msg.l_reclaimed.bytes == bytes);
}

static void hears_nothing(struct scene *s)
{
    struct sg_err err = { 0 };
    assert_int_equal(sg_chan_recv(s->daemon_fd, 1u << SG_ROLE_NEWS, false, &s->packet, &err),
                     SG_RECV_AGAIN);
}

static void until_free(struct scene *s, const struct sg_box *b)
{
    struct sg_err err = { 0 };
    for (int waited = 0; waited < PATIENCE_MS && sg_reclaim_is_at(b); waited += 10)
        assert_ok(sg_loop_turn(s->l.loop, 10, &err), err);
    assert_false(sg_reclaim_is_at(b));
}

static void boxes_take_turns_and_each_is_told_of(void **state)
{
    struct scene *s = *state;
    struct sg_err err = { 0 };
    assert_ok(sg_reclaim_box(&s->boxes[0], &err), err);
    assert_ok(sg_reclaim_box(&s->boxes[1], &err), err);
    assert_ok(sg_reclaim_box(&s->boxes[1], &err), err); /* it is in line already */
    assert_true(sg_reclaim_is_at(&s->boxes[0]) && s->boxes[1].reclaim.is_waiting);
    hears(s, ids[0], 0);
    hears(s, ids[1], 0);
    until_free(s, &s->boxes[1]);
    hears_nothing(s);
    fake_cgroup_has(&s->fakes[1], "memory.reclaim", "4194304");
}

static void a_stop_waits_for_nobody_and_tells_what_went_so_far(void **state)
{
    struct scene *s = *state;
    struct sg_err err = { 0 };
    fake_cgroup_is_slow(&s->fakes[0]);
    assert_ok(sg_reclaim_box(&s->boxes[0], &err), err);
    const pid_t helper = s->l.reclaimer.pid;
    fake_cgroup_put(&s->fakes[0], "memory.current", "104000000");
    sg_reclaim_stop(&s->boxes[0]); /* returns while the helper would wait for ever */
    hears(s, ids[0], 857600);
    assert_true(sg_reclaim_is_at(&s->boxes[0])); /* its cgroup is not to be removed yet */
    until_free(s, &s->boxes[0]);
    assert_true(kill(helper, 0) < 0 && errno == ESRCH);
    hears_nothing(s);
}

static void one_that_stops_in_line_never_begins_and_the_next_does(void **state)
{
    struct scene *s = *state;
    struct sg_err err = { 0 };
    fake_cgroup_is_slow(&s->fakes[0]);
    assert_ok(sg_reclaim_box(&s->boxes[0], &err), err);
    assert_ok(sg_reclaim_box(&s->boxes[1], &err), err);
    sg_reclaim_stop(&s->boxes[1]);
    assert_false(s->boxes[1].reclaim.is_waiting);
    assert_ok(sg_reclaim_box(&s->boxes[1], &err), err);
    sg_reclaim_stop(&s->boxes[0]);
    hears(s, ids[0], 0);
    hears(s, ids[1], 0);
}

static void one_that_was_thawed_before_its_turn_is_left_alone(void **state)
{
    struct scene *s = *state;
    struct sg_err err = { 0 };
    fake_cgroup_is_slow(&s->fakes[0]);
    assert_ok(sg_reclaim_box(&s->boxes[0], &err), err);
    assert_ok(sg_reclaim_box(&s->boxes[1], &err), err);
    fake_cgroup_put(&s->fakes[1], "cgroup.events", "populated 1\nfrozen 0\n");
    sg_reclaim_stop(&s->boxes[0]);
    hears(s, ids[0], 0);
    hears(s, ids[1], 0);
    fake_cgroup_has(&s->fakes[1], "memory.reclaim", "");
    assert_fails(sg_reclaim_box(&s->boxes[1], &err), err, SG_CONFLICT);
}

static void a_box_that_is_freed_takes_its_helper_along(void **state)
{
    struct scene *s = *state;
    struct sg_err err = { 0 };
    fake_cgroup_is_slow(&s->fakes[0]);
    assert_ok(sg_reclaim_box(&s->boxes[0], &err), err);
    sg_reclaim_forget(&s->boxes[0]);
    assert_false(sg_reclaim_is_at(&s->boxes[0]));
    assert_ok(sg_reclaim_box(&s->boxes[1], &err), err);
    hears(s, ids[1], 0); /* and the next has its turn when the helper is gone */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(boxes_take_turns_and_each_is_told_of, setup, teardown),
        cmocka_unit_test_setup_teardown(a_stop_waits_for_nobody_and_tells_what_went_so_far, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(one_that_stops_in_line_never_begins_and_the_next_does,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(one_that_was_thawed_before_its_turn_is_left_alone, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_box_that_is_freed_takes_its_helper_along, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
