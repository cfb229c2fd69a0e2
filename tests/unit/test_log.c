/* SPDX-License-Identifier: Apache-2.0 */
/* base/log: what reaches stderr. */
#include <fcntl.h>
#include <pty.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/jsonr.h"
#include "base/log.h"
#include "check.h"
#include "base/banned.h"

/* Puts `fd` in the place of stderr; gives back a copy of the real one. */
static int swap_stderr(int fd)
{
    int real = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
    assert_true(dup2(fd, STDERR_FILENO) == STDERR_FILENO);
    return real;
}

static void restore_stderr(int real)
{
    (void)dup2(real, STDERR_FILENO);
    (void)close(real);
}

static void say_things(void)
{
    sg_log(SG_LOG_DEBUG, "too quiet to hear");
    sg_log(SG_LOG_WARN, "a thing happened", SG_KV("sandbox", "s1"), SG_KV("absent", NULL),
           SG_KV("text", "two words\n\x1b[31m"));
}

static void a_line_in_a_pipe_is_json(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    int real = swap_stderr(ends[1]);
    sg_log_init("tester", "info");
    say_things();
    restore_stderr(real);
    (void)close(ends[1]);
    char line[1000] = "";
    ssize_t n = read(ends[0], line, sizeof line - 1);
    (void)close(ends[0]);
    assert_true(n > 0 && line[n - 1] == '\n');
    sg_auto_arena a;
    struct sg_err err = { 0 };
    const struct sg_jval *v;
    sg_arena_init(&a, 10000);
    assert_ok(sg_json_parse(sg_str_of(line), &a, &v, &err), err);
    static const char *const members[][2] = { { "level", "warn" },
                                              { "program", "tester" },
                                              { "message", "a thing happened" },
                                              { "sandbox", "s1" },
                                              { "text", "two words\n\x1b[31m" } };
    for (size_t i = 0; i < SG_COUNT(members); i++) {
        const struct sg_jval *m = sg_json_get(v, members[i][0]);
        assert_non_null(m);
        assert_string_equal(m->s.p, members[i][1]);
    }
    assert_null(sg_json_get(v, "absent"));
    const struct sg_jval *time = sg_json_get(v, "time");
    assert_int_equal(time->s.n, strlen("2026-01-01T00:00:00.000Z"));
}

static void a_line_on_a_terminal_is_for_people(void **state)
{
    (void)state;
    int outer, inner;
    if (openpty(&outer, &inner, NULL, NULL, NULL) < 0)
        skip();
    int real = swap_stderr(inner);
    sg_log_init("tester", "info");
    say_things();
    restore_stderr(real);
    char line[1000] = "";
    ssize_t n = read(outer, line, sizeof line - 1);
    (void)close(outer);
    (void)close(inner);
    assert_true(n > 0);
    assert_non_null(strstr(line, " warn  tester: a thing happened sandbox=s1 "
                                 "text='two words\\x0a\\x1b[31m'"));
}

static void a_line_that_is_too_long_is_still_json(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    sg_auto_free char *big = sg_alloc(20001);
    memset(big, 'x', 20000);
    int real = swap_stderr(ends[1]);
    sg_log_init("tester", "info");
    sg_log(SG_LOG_ERROR, "much to say", SG_KV("big", big));
    restore_stderr(real);
    (void)close(ends[1]);
    char line[1000] = "";
    ssize_t n = read(ends[0], line, sizeof line - 1);
    (void)close(ends[0]);
    assert_true(n > 0);
    assert_string_equal(line, "{\"level\":\"error\",\"message\":\"much to say\"}\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_in_a_pipe_is_json),
        cmocka_unit_test(a_line_on_a_terminal_is_for_people),
        cmocka_unit_test(a_line_that_is_too_long_is_still_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
