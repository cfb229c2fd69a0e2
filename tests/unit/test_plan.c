/* SPDX-License-Identifier: Apache-2.0 */
#include "check.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "engine/plan.h"
#include "base/banned.h"

static struct sg_plan *plan_with(struct sg_step step)
{
    struct sg_plan *p = sg_new(struct sg_plan);
    sg_plan_add(p, step);
    return p;
}

static void no_failure_explains_to_nothing(void **state)
{
    (void)state;
    struct sg_err err = { .msg = "untouched" };
    sg_auto_free struct sg_plan *p = plan_with((struct sg_step) { .op = STEP_EXEC });
    assert_int_equal(sg_plan_explain(p, &err), 0);
    assert_string_equal(err.msg, "untouched");
}

static void a_failure_names_its_step_its_object_and_the_reason(void **state)
{
    (void)state;
    static const struct {
        struct sg_step step;
        const char *text;
    } rows[] = {
        { { STEP_JOIN_CGROUP, .text = "memory" },
          "join the cgroup 'memory': Operation not permitted" },
        { { STEP_ATTACH, .path = "dev/shm" }, "attach 'dev/shm': Operation not permitted" },
        { { .op = STEP_SECCOMP }, "install the seccomp filter: Operation not permitted" },
        { { STEP_HOSTNAME, .text = "a\nb" },
          "set the host name 'a\\x0ab': Operation not permitted" },
    };
    for (size_t i = 0; i < SG_COUNT(rows); i++) {
        struct sg_err err = { 0 };
        sg_auto_free struct sg_plan *p = plan_with(rows[i].step);
        p->failed_at = 1;
        p->failed_sys = EPERM;
        assert_int_equal(sg_plan_explain(p, &err), -1);
        assert_string_equal(err.msg, rows[i].text);
        assert_int_equal(err.sys, EPERM);
    }
}

static void every_step_has_words(void **state)
{
    (void)state;
    for (unsigned op = 0; op < STEP_OP_COUNT; op++) {
        struct sg_err err = { 0 };
        sg_auto_free struct sg_plan *p = plan_with((struct sg_step) { .op = op });
        p->failed_at = 1;
        p->failed_sys = ENOSYS;
        assert_int_equal(sg_plan_explain(p, &err), -1);
        if (err.msg[0] == '(' || err.msg[0] == ':')
            fail_msg("step %u: '%s'", op, err.msg);
    }
}

static void steps_are_seen_once_they_are_published(void **state)
{
    (void)state;
    sg_auto_free struct sg_plan *p = plan_with((struct sg_step) { .op = STEP_EXEC });
    assert_int_equal(p->published, 0);
    sg_plan_publish(p);
    assert_int_equal(p->published, 1);
}

static void a_cancelled_plan_keeps_its_count_and_says_so(void **state)
{
    (void)state;
    sg_auto_free struct sg_plan *p = plan_with((struct sg_step) { .op = STEP_EXEC });
    sg_plan_publish(p);
    sg_plan_cancel(p);
    assert_int_equal(p->published, 1 | SG_PLAN_CANCELLED);
}

static void waiting_ends_with_the_child_or_at_the_deadline(void **state)
{
    (void)state;
    sg_auto_free struct sg_plan *p = plan_with((struct sg_step) { .op = STEP_EXEC });
    p->child_tid = 1;
    assert_false(sg_plan_wait(p, 2));
    p->child_tid = 0;
    assert_true(sg_plan_wait(p, 2));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_failure_explains_to_nothing),
        cmocka_unit_test(a_failure_names_its_step_its_object_and_the_reason),
        cmocka_unit_test(every_step_has_words),
        cmocka_unit_test(steps_are_seen_once_they_are_published),
        cmocka_unit_test(a_cancelled_plan_keeps_its_count_and_says_so),
        cmocka_unit_test(waiting_ends_with_the_child_or_at_the_deadline),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
