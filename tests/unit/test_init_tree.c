/* SPDX-License-Identifier: Apache-2.0 */
/* init: signals to the whole tree of an exec. */
#include "init_kept.h"
#include "base/banned.h"

static struct sg_msg to_tree(uint32_t pid, uint32_t signal)
{
    return (struct sg_msg) { .type = SG_MSG_SIGNAL, .signal = { pid, signal, SG_SIGNAL_SESSION } };
}

static void need_proc(void)
{
    if (geteuid() != 0)
        skip();
}

/* All hold the output open: it ends when the last of them does. */
static void a_signal_to_the_tree_reaches_other_groups_and_other_sessions(void **state)
{
    need_proc();
    struct rig *r = *state;
    struct kept_program k = start_kept(
        r, "x", SHELL("set -m; sleep 100 & setsid sh -c 'sleep 100 & echo up; wait' & wait"));
    struct kept_program other = start_kept(r, "y", ARGV("/bin/cat"));
    struct pollfd p = { .fd = k.out, .events = POLLIN };
    assert_int_equal(poll(&p, 1, RIG_PATIENCE_MS), 1);
    (void)rig_do(r, to_tree(k.pid, SIGKILL), SG_MSG_OK);
    assert_int_equal(rig_exit_of(r, k.pid).signal, SIGKILL);
    expect_text(k.out, "up\n");
    assert_int_equal(write(other.in, "alive", 5), 5);
    drop_ends(&k);
    drop_ends(&other);
}

static void what_an_ended_exec_left_behind_can_still_be_signalled(void **state)
{
    need_proc();
    struct rig *r = *state;
    struct kept_program k = start_kept(r, "x", SHELL("sleep 100 & echo left"));
    (void)rig_exit_of(r, k.pid);
    (void)rig_do(r, to_tree(k.pid, SIGTERM), SG_MSG_OK);
    expect_text(k.out, "left\n");
    drop_ends(&k);
    release(r, "x");
    rig_refuse(r, to_tree(k.pid, SIGTERM), SG_NOT_FOUND, 0);
}

static void only_execs_have_trees(void **state)
{
    struct rig *r = *state;
    rig_refuse(r, to_tree(1, SIGTERM), SG_INVALID, 0);
    rig_refuse(r, to_tree(4000000, SIGTERM), SG_NOT_FOUND, 0);
}

int main(void)
{
#define KEPT(f) cmocka_unit_test_setup_teardown(f, start_rig, stop_rig)
    const struct CMUnitTest tests[] = {
        KEPT(a_signal_to_the_tree_reaches_other_groups_and_other_sessions),
        KEPT(what_an_ended_exec_left_behind_can_still_be_signalled),
        KEPT(only_execs_have_trees),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
