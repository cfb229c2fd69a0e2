/* SPDX-License-Identifier: Apache-2.0 */
/* Spans as lines, the header that says where they belong, and the spool that they wait in. */
#include "check.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "meter/span.h"
#include "meter/spool.h"
#include "base/banned.h"

#define PARENT "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

static void a_traceparent_is_read_and_written_as_it_was(void **state)
{
    (void)state;
    struct sg_trace t = { 0 };
    assert_true(sg_traceparent_parse(sg_str_of(PARENT), &t));
    assert_true(t.is_set);
    assert_string_equal(sg_traceparent_format(&t).s, PARENT);
    assert_true(sg_traceparent_parse(
        sg_str_of("cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00-more"), &t));
}

static void what_is_no_traceparent_leaves_the_trace_alone(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "00",
        PARENT "0",
        PARENT "-more",
        "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "0g-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "00-4BF92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
        "00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0x",
        "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00more",
    };
    for (size_t i = 0; i < SG_COUNT(bad); i++) {
        struct sg_trace t = { 0 };
        if (sg_traceparent_parse(sg_str_of(bad[i]), &t) || t.is_set)
            fail_msg("taken: %s", bad[i]);
    }
}

static void ids_come_from_what_is_told_of(void **state)
{
    (void)state;
    const struct sg_trace none = { 0 };
    const struct sg_trace a = sg_trace_below(&none, "xaaa"), again = sg_trace_below(&none, "xaaa");
    const struct sg_trace b = sg_trace_below(&none, "xaab"), under = sg_trace_below(&a, "xaab");
    assert_memory_equal(&a.trace, &again.trace, sizeof a.trace);
    assert_memory_equal(&a.parent, &again.parent, sizeof a.parent);
    assert_memory_not_equal(&a.trace, &b.trace, sizeof a.trace);
    assert_memory_not_equal(&a.parent, &b.parent, sizeof a.parent);
    assert_memory_equal(&under.trace, &a.trace, sizeof a.trace);
    assert_memory_equal(&under.parent, &b.parent, sizeof a.parent);
}

static void a_span_is_the_json_of_otlp(void **state)
{
    (void)state;
    struct sg_trace above;
    sg_auto_buf out;
    struct sg_json j;
    assert_true(sg_traceparent_parse(sg_str_of(PARENT), &above));
    const struct sg_trace_span s = { .id = "x1",
                                     .name = "execute_tool exec",
                                     .trace = &above,
                                     .start_ms = 1700000000123,
                                     .end_ms = 1700000000124,
                                     .error = "exit \"3\"" };
    const char *const tags[] = { "a", "b" };
    sg_buf_init(&out, 4096);
    sg_json_init(&j, &out);
    sg_span_open(&j, &s);
    sg_span_text(&j, "t", "x");
    sg_span_text(&j, "left out", "");
    sg_span_int(&j, "n", UINT64_MAX);
    sg_span_number(&j, "d", "0.5");
    sg_span_texts(&j, "l", tags, 2);
    sg_span_close(&j, &s);
    const struct sg_trace own = sg_trace_below(&above, "x1");
    const struct sg_traceparent text = sg_traceparent_format(&own);
    sg_auto_free char *wanted = sg_printf(
        "{\"traceId\":\"4bf92f3577b34da6a3ce929d0e0e4736\",\"spanId\":\"%.16s\",\"parentSpanId\":"
        "\"00f067aa0ba902b7\",\"name\":\"execute_tool exec\",\"kind\":1,\"startTimeUnixNano\":"
        "\"1700000000123000000\",\"endTimeUnixNano\":\"1700000000124000000\",\"attributes\":["
        "{\"key\":\"t\",\"value\":{\"stringValue\":\"x\"}},"
        "{\"key\":\"n\",\"value\":{\"intValue\":\"9223372036854775807\"}},"
        "{\"key\":\"d\",\"value\":{\"doubleValue\":0.5}},"
        "{\"key\":\"l\",\"value\":{\"arrayValue\":{\"values\":[{\"stringValue\":\"a\"},"
        "{\"stringValue\":\"b\"}]}}}],\"status\":{\"code\":2,\"message\":\"exit \\\"3\\\"\"}}",
        text.s + 36);
    assert_string_equal(sg_buf_cstr(&out), wanted);
}

/* ---- the spool ---- */

static char dir[64];

static struct sg_spool *open_spool(uint64_t max)
{
    struct sg_err err = { 0 };
    struct sg_spool *s = sg_spool_open(open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC), max, &err);
    if (!s)
        fail_msg("%s", err.msg);
    return s;
}

static void add(struct sg_spool *s, const char *line)
{
    struct sg_err err = { 0 };
    assert_ok(sg_spool_add(s, sg_str_of(line), &err), err);
}

static void assert_first(struct sg_spool *s, const char *wanted)
{
    char text[256] = "";
    uint64_t number;
    sg_auto_fd fd = sg_spool_first(s, &number);
    assert_true(fd >= 0);
    assert_true(read(fd, text, sizeof text - 1) >= 0);
    assert_string_equal(text, wanted);
    sg_spool_remove(s, number);
}

static int make_dir(void **state)
{
    (void)state;
    (void)snprintf(dir, sizeof dir, "/tmp/sg-spool-XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
    (void)state;
    DIR *d = opendir(dir);
    for (const struct dirent *e; d && (e = readdir(d));)
        (void)unlinkat(dirfd(d), e->d_name, 0);
    if (d)
        (void)closedir(d);
    return rmdir(dir);
}

static void lines_wait_in_order_and_a_new_process_finds_them(void **state)
{
    (void)state;
    uint64_t number;
    struct sg_spool *s = open_spool(1 << 20);
    assert_int_equal(sg_spool_first(s, &number), -1);
    add(s, "one");
    add(s, "two");
    sg_spool_free(s);
    s = open_spool(1 << 20);
    add(s, "three");
    assert_first(s, "one\ntwo\n");
    assert_first(s, "three\n");
    assert_int_equal(sg_spool_first(s, &number), -1);
    assert_int_equal(sg_spool_bytes(s), 0);
    sg_spool_remove(s, 77); /* one that was never there */
    sg_spool_free(s);
}

static void a_file_that_is_sent_is_written_no_more(void **state)
{
    (void)state;
    uint64_t number, again;
    struct sg_spool *s = open_spool(1 << 20);
    add(s, "one");
    sg_auto_fd fd = sg_spool_first(s, &number);
    assert_true(fd >= 0);
    add(s, "two");
    sg_auto_fd same = sg_spool_first(s, &again);
    assert_true(same >= 0);
    assert_int_equal(number, again); /* it stays until somebody has taken it */
    assert_first(s, "one\n");
    assert_first(s, "two\n");
    sg_spool_free(s);
}

static void past_its_size_the_oldest_go_and_are_counted(void **state)
{
    (void)state;
    char line[1001];
    memset(line, 'x', 1000);
    line[1000] = '\0';
    struct sg_spool *s = open_spool(600 << 10);
    for (unsigned i = 0; i < 2000; i++)
        add(s, line);
    assert_true(sg_spool_bytes(s) <= 600 << 10);
    assert_true(sg_spool_bytes(s) > 256 << 10);
    assert_int_equal(sg_spool_dropped(s) * 1001 + sg_spool_bytes(s), 2000 * 1001);
    sg_spool_free(s);
}

static void a_line_too_long_or_two_in_one_are_refused(void **state)
{
    (void)state;
    struct sg_err err = { 0 };
    struct sg_spool *s = open_spool(1 << 20);
    sg_auto_free char *large = sg_alloc(SG_SPOOL_LINE_MAX + 2);
    memset(large, 'x', SG_SPOOL_LINE_MAX + 1);
    assert_int_equal(sg_spool_add(s, (struct sg_str) { large, SG_SPOOL_LINE_MAX + 1 }, &err), -1);
    assert_int_equal(err.kind, SG_EXHAUSTED);
    assert_int_equal(sg_spool_add(s, sg_str_of("a\nb"), &err), -1);
    add(s, "fine");
    assert_first(s, "fine\n");
    sg_spool_free(s);
}

#define ROW(test) cmocka_unit_test_setup_teardown(test, make_dir, remove_dir)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_traceparent_is_read_and_written_as_it_was),
        cmocka_unit_test(what_is_no_traceparent_leaves_the_trace_alone),
        cmocka_unit_test(ids_come_from_what_is_told_of),
        cmocka_unit_test(a_span_is_the_json_of_otlp),
        ROW(lines_wait_in_order_and_a_new_process_finds_them),
        ROW(a_file_that_is_sent_is_written_no_more),
        ROW(past_its_size_the_oldest_go_and_are_counted),
        ROW(a_line_too_long_or_two_in_one_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
