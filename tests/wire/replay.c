/* SPDX-License-Identifier: Apache-2.0 */
/* Replays every transcript of a directory at the real server (tests/support/http_rig.h has its
 * routes), three times: with each message sent whole, byte by byte, and in threes. The answers must
 * be the same.
 *
 *   # a comment
 *   > bytes to send                       \r \n \t \0 \\ \xNN; lines follow one another directly
 *   < bytes that must come, exactly      <*> stands for anything, as short as it goes
 *   . the server closes the connection, after nothing more
 *
 * Each line that begins with '>' after one that does not is sent when all before it was answered.
 */
#include <glob.h>
#include <stdio.h>

#include "http_rig.h"
#include "base/banned.h"

enum { MAX_BYTES = 1 << 20, MAX_TESTS = 600 };

static int hex_digit(char c)
{
    const char *all = "0123456789abcdef", *at = c ? strchr(all, c) : NULL;
    return at ? (int)(at - all) : -1;
}

static void unescape(struct sg_buf *out, const char *p)
{
    static const char from[] = "rnt0\\", to[] = "\r\n\t\0\\";
    for (; *p; p++) {
        char c = *p;
        if (c == '\\' && p[1] == 'x') {
            c = (char)(hex_digit(p[2]) << 4 | hex_digit(p[3]));
            p += 3;
        } else if (c == '\\') {
            const char *at = strchr(from, *++p);
            assert_true(at && *at);
            c = to[at - from];
        }
        sg_buf_add(out, &c, 1);
    }
}

/* How much of `in` the pattern takes; -1: not yet, or never. */
static ssize_t match(const struct sg_buf *in, const struct sg_buf *pattern)
{
    const uint8_t *p = in->p, *end = in->p + in->n;
    const char *w = (const char *)pattern->p, *w_end = w + pattern->n;
    for (bool is_after_gap = false; w < w_end; is_after_gap = true) {
        const char *gap = memmem(w, (size_t)(w_end - w), "<*>", 3);
        size_t n = gap ? (size_t)(gap - w) : (size_t)(w_end - w);
        const uint8_t *at = p;
        if (is_after_gap && n)
            at = p < end ? memmem(p, (size_t)(end - p), w, n) : NULL;
        else if ((size_t)(end - p) < n || (n && memcmp(p, w, n) != 0))
            at = NULL;
        if (!at)
            return -1;
        p = at + n;
        w += n + (gap ? 3 : 0);
    }
    return p - in->p;
}

static void expect(int fd, struct sg_buf *in, const struct sg_buf *pattern, const char *line)
{
    uint64_t until = sg_now_ns() + HTTP_PATIENCE_MS * 1000000ull;
    for (;;) {
        ssize_t n = in->n ? match(in, pattern) : -1;
        if (n >= 0) {
            memmove(in->p, in->p + n, in->n - (size_t)n);
            in->n -= (size_t)n;
            return;
        }
        rig_turn(1);
        bool is_open = rig_receive(fd, in);
        if (sg_now_ns() > until || (!is_open && match(in, pattern) < 0)) {
            (void)fprintf(stderr, "wanted: %s\ngot:\n%s\n", line, sg_buf_cstr(in));
            fail_msg("the answer is another one");
        }
    }
}

static void expect_end(int fd, struct sg_buf *in)
{
    if (!rig_await_end(fd, in) || in->n) {
        (void)fprintf(stderr, "wanted the end, got:\n%s\n", sg_buf_cstr(in));
        fail_msg("the connection goes on");
    }
}

static void send_cut(int fd, struct sg_buf *out, size_t step)
{
    for (size_t at = 0; at < out->n; at += step) {
        rig_send(fd, out->p + at, out->n - at < step ? out->n - at : step);
        if (step < out->n)
            rig_turn(step < 4 ? 0 : 1);
    }
    sg_buf_clear(out);
}

static void replay(const char *path, size_t step)
{
    FILE *f = fopen(path, "re");
    if (!f)
        fail_msg("cannot open %s", path);
    rig_start(&(struct sg_server_options) { 0 });
    sg_auto_fd fd = rig_connect();
    sg_auto_buf in, out, pattern;
    sg_buf_init(&in, MAX_BYTES);
    sg_buf_init(&out, MAX_BYTES);
    sg_buf_init(&pattern, MAX_BYTES);
    static char line[65536];
    while (fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = '\0';
        if (line[0] == '>') {
            unescape(&out, line + 2);
            continue;
        }
        if (line[0] != '<' && line[0] != '.')
            continue;
        send_cut(fd, &out, step);
        sg_buf_clear(&pattern);
        if (line[0] == '<') {
            unescape(&pattern, line + 2);
            expect(fd, &in, &pattern, line);
        } else {
            expect_end(fd, &in);
        }
    }
    assert_int_equal(out.n, 0); /* a transcript ends with an answer */
    (void)fclose(f);
    rig_stop();
}

static void sent_whole(void **state)
{
    replay(*state, SIZE_MAX);
}

static void sent_byte_by_byte(void **state)
{
    replay(*state, 1);
}

static void sent_in_threes(void **state)
{
    replay(*state, 3);
}

static const struct {
    const char *name;
    CMUnitTestFunction run;
} ways[] = {
    { "whole", sent_whole },
    { "byte by byte", sent_byte_by_byte },
    { "in threes", sent_in_threes },
};

int main(int argc, char **argv)
{
    static struct CMUnitTest tests[MAX_TESTS];
    size_t count = 0;
    glob_t found;
    if (argc != 2 || chdir(argv[1]) < 0 || glob("*.wire", 0, NULL, &found) != 0)
        return 2;
    for (size_t i = 0; i < found.gl_pathc && count + SG_COUNT(ways) <= MAX_TESTS; i++)
        for (size_t w = 0; w < SG_COUNT(ways); w++)
            tests[count++] = (struct CMUnitTest) {
                .name = sg_printf("%s, sent %s", found.gl_pathv[i], ways[w].name),
                .test_func = ways[w].run,
                .initial_state = found.gl_pathv[i],
            };
    int failed = _cmocka_run_group_tests("wire", tests, count, NULL, NULL);
    for (size_t i = 0; i < count; i++)
        free((char *)(uintptr_t)tests[i].name);
    globfree(&found);
    return failed;
}
