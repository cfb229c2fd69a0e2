/* SPDX-License-Identifier: Apache-2.0 */
/* base/err: what is kept, what is untouched, and that nothing overflows. */
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "check.h"
#include "base/banned.h"

static void a_failure_returns_minus_one_and_keeps_kind_and_place(void **state)
{
    (void)state;
    struct sg_err err = { 0 };
    assert_int_equal(sg_fail(&err, SG_CONFLICT, "template '%s' is in use", "a"), -1);
    assert_int_equal(err.kind, SG_CONFLICT);
    assert_int_equal(err.sys, 0);
    assert_string_equal(err.msg, "template 'a' is in use");
    assert_non_null(strstr(err.where, "tests/unit/test_err.c:"));
}

static void a_system_failure_takes_kind_and_cause_from_errno(void **state)
{
    (void)state;
    struct sg_err err = { 0 };
    errno = ENOENT;
    assert_int_equal(sg_fail_sys(&err, "open '%s'", "x"), -1);
    assert_int_equal(err.kind, SG_NOT_FOUND);
    assert_int_equal(err.sys, ENOENT);
    assert_string_equal(err.msg, "open 'x': No such file or directory");
}

static void wrapping_puts_the_outer_context_first_and_keeps_the_rest(void **state)
{
    (void)state;
    struct sg_err err = { 0 };
    errno = EACCES;
    (void)sg_fail_sys(&err, "open");
    const char *where = err.where;
    assert_int_equal(sg_wrap(&err, "import %d", 7), -1);
    assert_string_equal(err.msg, "import 7: open: Permission denied");
    assert_int_equal(err.kind, SG_DENIED);
    assert_int_equal(err.sys, EACCES);
    assert_ptr_equal(err.where, where);
}

static void a_message_that_is_too_long_is_cut_and_terminated(void **state)
{
    (void)state;
    char text[1000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    struct sg_err err = { 0 };
    errno = EIO;
    (void)sg_fail_sys(&err, "%s", text);
    assert_int_equal(strlen(err.msg), sizeof err.msg - 1);
    (void)sg_wrap(&err, "%s", text);
    assert_int_equal(strlen(err.msg), sizeof err.msg - 1);
    for (int i = 0; i < 50; i++)
        (void)sg_wrap(&err, "level %d", i);
    assert_int_equal(strlen(err.msg), sizeof err.msg - 1);
    assert_memory_equal(err.msg, "level 49: level 48: ", 20);
}

static void nobody_has_to_listen(void **state)
{
    (void)state;
    errno = EIO;
    assert_int_equal(sg_fail(NULL, SG_INVALID, "x"), -1);
    assert_int_equal(sg_fail_sys(NULL, "x"), -1);
    assert_int_equal(sg_wrap(NULL, "x"), -1);
}

static void every_kind_has_a_name_and_other_numbers_are_unknown(void **state)
{
    (void)state;
    for (int kind = 0; kind < SG_KIND_COUNT; kind++) {
        const char *name = sg_kind_name((enum sg_kind)kind);
        assert_non_null(name);
        assert_string_not_equal(name, "unknown");
        for (int other = 0; other < kind; other++)
            assert_string_not_equal(name, sg_kind_name((enum sg_kind)other));
    }
    assert_string_equal(sg_kind_name(SG_KIND_COUNT), "unknown");
    assert_string_equal(sg_kind_name((enum sg_kind)99999), "unknown");
}

static void errno_values_map_to_what_a_caller_may_act_on(void **state)
{
    (void)state;
    static const struct {
        int sys;
        enum sg_kind kind;
    } cases[] = {
        { ENOENT, SG_NOT_FOUND },  { EEXIST, SG_CONFLICT },    { EPERM, SG_DENIED },
        { ENOSPC, SG_EXHAUSTED },  { EMFILE, SG_EXHAUSTED },   { ENOSYS, SG_UNSUPPORTED },
        { ETIMEDOUT, SG_TIMEOUT }, { EAGAIN, SG_UNAVAILABLE }, { EINVAL, SG_INVALID },
        { EIO, SG_INTERNAL },      { 0, SG_INTERNAL },         { -1, SG_INTERNAL },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(sg_kind_of_errno(cases[i].sys), cases[i].kind);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_failure_returns_minus_one_and_keeps_kind_and_place),
        cmocka_unit_test(a_system_failure_takes_kind_and_cause_from_errno),
        cmocka_unit_test(wrapping_puts_the_outer_context_first_and_keeps_the_rest),
        cmocka_unit_test(a_message_that_is_too_long_is_cut_and_terminated),
        cmocka_unit_test(nobody_has_to_listen),
        cmocka_unit_test(every_kind_has_a_name_and_other_numbers_are_unknown),
        cmocka_unit_test(errno_values_map_to_what_a_caller_may_act_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
