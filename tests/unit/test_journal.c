/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "check.h"
#include "manager/journal.h"
#include "manager/nowait.h"
#include "base/banned.h"

enum { KEEP = 1 << 20, ALL = 1 << 30 };

struct rig {
    char path[64];
    int dir_fd;
    struct sg_journal j;
    int pipes[SG_STREAM_COUNT][2];
    struct sg_err err;
};

static void open_rig(struct rig *r, uint64_t keep)
{
    *r = (struct rig) { .path = "/tmp/test-journal-XXXXXX" };
    assert_non_null(mkdtemp(r->path));
    r->dir_fd = open(r->path, O_DIRECTORY | O_CLOEXEC);
    assert_true(r->dir_fd >= 0);
    struct sg_id id = sg_id_new('x');
    sg_journal_init(&r->j, r->dir_fd, &id, keep);
    for (unsigned i = 0; i < SG_STREAM_COUNT; i++)
        assert_int_equal(pipe2(r->pipes[i], O_CLOEXEC), 0);
}

static void close_rig(struct rig *r)
{
    sg_journal_remove(&r->j);
    for (unsigned i = 0; i < SG_STREAM_COUNT; i++)
        for (unsigned k = 0; k < 2; k++)
            sg_drop_fd(&r->pipes[i][k]);
    (void)close(r->dir_fd);
    assert_int_equal(rmdir(r->path), 0); /* nothing was left behind */
}

static void say(struct rig *r, enum sg_stream stream, const void *p, size_t n)
{
    assert_int_equal(write(r->pipes[stream][1], p, n), n);
    enum sg_taken t = sg_journal_take(&r->j, stream, r->pipes[stream][0], ALL, &r->err);
    assert_int_equal(t, SG_TAKEN_ALL);
}

/* All from `at` on: each piece as "o" or "e" and its bytes; what is gone as "-n". */
static void read_all(struct rig *r, uint64_t at, struct sg_buf *out)
{
    struct sg_journal_place place = { at, SG_RUN_UNKNOWN };
    for (;;) {
        enum sg_stream stream = SG_STREAM_OUT;
        uint64_t lost = 0;
        char bytes[4096];
        ssize_t n = sg_journal_read(&r->j, &place, &stream, bytes, sizeof bytes, &lost, &r->err);
        if (n < 0)
            fail_msg("%s", r->err.msg);
        if (lost)
            sg_buf_addf(out, "-%llu", (unsigned long long)lost);
        if (!n)
            return;
        sg_buf_add_str(out, stream == SG_STREAM_OUT ? "o" : "e");
        sg_buf_add(out, bytes, (size_t)n);
    }
}

static void expect(struct rig *r, uint64_t at, const char *wanted)
{
    sg_auto_buf out;
    sg_buf_init(&out, ALL);
    read_all(r, at, &out);
    assert_string_equal(sg_buf_cstr(&out), wanted);
}

/* As a new daemon would: a journal of the same id from its files alone. */
static void reload(struct rig *r)
{
    struct sg_journal fresh;
    sg_journal_init(&fresh, r->dir_fd, &r->j.id, r->j.keep_bytes);
    sg_journal_close(&r->j);
    assert_ok(sg_journal_load(&fresh, &r->err), r->err);
    assert_int_equal(sg_journal_total(&fresh), sg_journal_total(&r->j));
    r->j = fresh;
}

static unsigned files_in(struct rig *r)
{
    unsigned n = 0;
    DIR *d = opendir(r->path);
    while (d && readdir(d))
        n++;
    (void)closedir(d);
    return n - 2;
}

static void keeps_both_streams_in_the_order_in_which_they_came(void **state)
{
    (void)state;
    struct rig r;
    open_rig(&r, KEEP);
    say(&r, SG_STREAM_OUT, "one", 3);
    say(&r, SG_STREAM_ERR, "two", 3);
    say(&r, SG_STREAM_ERR, "!", 1);
    say(&r, SG_STREAM_OUT, "three", 5);
    expect(&r, 0,
           "oonee"
           "two!"
           "othree");
    expect(&r, 4, "ewo!othree");
    expect(&r, 12, "");
    reload(&r);
    expect(&r, 0,
           "oonee"
           "two!"
           "othree");
    say(&r, SG_STREAM_ERR, "four", 4);
    expect(&r, 7,
           "othree"
           "efour");
    reload(&r);
    expect(&r, 6,
           "e!"
           "othree"
           "efour");
    close_rig(&r);
}

static void makes_files_only_for_what_was_said(void **state)
{
    (void)state;
    struct rig r;
    open_rig(&r, KEEP);
    assert_int_equal(sg_journal_take(&r.j, SG_STREAM_OUT, r.pipes[0][0], ALL, &r.err),
                     SG_TAKEN_ALL);
    sg_drop_fd(&r.pipes[1][1]);
    assert_int_equal(sg_journal_take(&r.j, SG_STREAM_ERR, r.pipes[1][0], ALL, &r.err),
                     SG_TAKEN_END);
    assert_int_equal(files_in(&r), 0);
    say(&r, SG_STREAM_OUT, "x", 1);
    assert_int_equal(files_in(&r), 1);
    reload(&r);
    expect(&r, 0, "ox");
    close_rig(&r);
}

static void tells_some_all_and_end_apart(void **state)
{
    (void)state;
    struct rig r;
    open_rig(&r, KEEP);
    int *p = r.pipes[0];
    assert_int_equal(write(p[1], "12345", 5), 5);
    assert_int_equal(sg_journal_take(&r.j, SG_STREAM_OUT, p[0], 3, &r.err), SG_TAKEN_SOME);
    expect(&r, 0, "o123");
    sg_drop_fd(&p[1]);
    assert_int_equal(sg_journal_take(&r.j, SG_STREAM_OUT, p[0], 9, &r.err), SG_TAKEN_END);
    expect(&r, 0, "o12345");
    close_rig(&r);
}

static void gives_back_what_is_old_and_tells_how_much(void **state)
{
    (void)state;
    struct rig r;
    open_rig(&r, 64 * 1024);
    char block[4096];
    memset(block, '.', sizeof block);
    say(&r, SG_STREAM_ERR, "early", 5);
    for (unsigned i = 0; i < 100; i++)
        say(&r, SG_STREAM_OUT, block, sizeof block);
    const uint64_t start = r.j.streams[SG_STREAM_OUT].start;
    assert_true(start >= (100 - 16 - 2) * 4096 && start <= (100 - 16) * 4096);

    sg_auto_buf out;
    sg_buf_init(&out, ALL);
    read_all(&r, 0, &out);
    char head[64];
    (void)snprintf(head, sizeof head, "eearly-%lluo", (unsigned long long)start);
    assert_memory_equal(out.p, head, strlen(head));
    reload(&r);
    sg_auto_buf again;
    sg_buf_init(&again, ALL);
    read_all(&r, 0, &again);
    assert_int_equal(again.n, out.n);
    assert_memory_equal(again.p, out.p, out.n);

    struct stat st;
    assert_int_equal(fstat(r.j.streams[SG_STREAM_OUT].fd, &st), 0);
    assert_int_equal(st.st_size, 100 * 4096);
    assert_true((uint64_t)st.st_blocks * 512 <= 20 * 4096); /* the holes are real */
    close_rig(&r);
}

static void a_window_that_was_smaller_once_shows_no_zeros(void **state)
{
    (void)state;
    struct rig r;
    open_rig(&r, 16 * 1024);
    char block[4096];
    memset(block, 'x', sizeof block);
    for (unsigned i = 0; i < 32; i++)
        say(&r, SG_STREAM_OUT, block, sizeof block);
    r.j.keep_bytes = KEEP;
    reload(&r);
    sg_auto_buf out;
    sg_buf_init(&out, ALL);
    read_all(&r, 0, &out);
    assert_null(memchr(out.p, 0, out.n));
    assert_int_equal(out.p[0], '-');
    close_rig(&r);
}

/* A program that mixes its streams byte by byte must cost no memory and keep its order. */
static void passes_over_many_lost_runs_at_once(void **state)
{
    (void)state;
    struct rig r;
    open_rig(&r, 4096);
    enum { PAIRS = 20000 };
    for (unsigned i = 0; i < PAIRS; i++) {
        say(&r, SG_STREAM_OUT, "a", 1);
        say(&r, SG_STREAM_ERR, "b", 1);
    }
    assert_true(r.j.first_run > PAIRS);
    for (unsigned round = 0; round < 2; round++) {
        sg_auto_buf out;
        sg_buf_init(&out, ALL);
        read_all(&r, 17, &out);
        assert_int_equal(out.p[0], '-');
        const char *p = strchr(sg_buf_cstr(&out), 'o');
        assert_true(strlen(p) >= 4 * 4096 - 4);
        for (; *p; p += 4)
            assert_memory_equal(p, "oaeb", 4);
        const uint64_t first = r.j.first_run;
        reload(&r);
        assert_int_equal(r.j.first_run, first);
    }
    close_rig(&r);
}

static void a_reader_that_falls_behind_is_told(void **state)
{
    (void)state;
    struct rig r;
    open_rig(&r, 4096);
    struct sg_journal_place place = { 0, SG_RUN_UNKNOWN };
    enum sg_stream stream;
    uint64_t lost;
    char bytes[8192] = { 0 };
    say(&r, SG_STREAM_ERR, "e", 1);
    assert_int_equal(sg_journal_read(&r.j, &place, &stream, bytes, 8, &lost, &r.err), 1);
    for (unsigned i = 0; i < 5; i++) {
        say(&r, SG_STREAM_OUT, bytes, 4096);
        say(&r, SG_STREAM_ERR, bytes, 4096);
    }
    uint64_t seen = 1;
    for (ssize_t n; (n = sg_journal_read(&r.j, &place, &stream, bytes, 8192, &lost, &r.err)) > 0;)
        seen += (uint64_t)n + lost;
    assert_int_equal(seen, sg_journal_total(&r.j));
    assert_int_equal(place.at, seen);
    close_rig(&r);
}

static uint64_t on_disk(struct rig *r)
{
    uint64_t bytes = 0;
    DIR *d = opendir(r->path);
    for (struct dirent *e; d && (e = readdir(d));) {
        struct stat st;
        if (e->d_name[0] == 'x' && fstatat(r->dir_fd, e->d_name, &st, 0) == 0)
            bytes += (uint64_t)st.st_blocks * 512;
    }
    (void)closedir(d);
    return bytes;
}

static void one_that_was_emptied_takes_nothing_and_still_tells_how_much_there_was(void **state)
{
    (void)state;
    struct rig r;
    char bytes[5000] = { 0 };
    open_rig(&r, KEEP);
    say(&r, SG_STREAM_OUT, bytes, sizeof bytes);
    say(&r, SG_STREAM_ERR, "two", 3);
    say(&r, SG_STREAM_OUT, "three", 5);
    assert_int_equal(sg_journal_held(&r.j), 8192 + 4096 + 4096);
    assert_int_equal(on_disk(&r), sg_journal_held(&r.j));
    reload(&r);
    assert_int_equal(sg_journal_held(&r.j), 8192 + 4096 + 4096);
    assert_ok(sg_journal_empty(&r.j, &r.err), r.err);
    for (unsigned i = 0; i < 2; i++, reload(&r)) {
        expect(&r, 0, "-5008");
        expect(&r, 5001, "-7");
        expect(&r, 5008, "");
        assert_int_equal(sg_journal_held(&r.j), 0);
        assert_int_equal(on_disk(&r), 0);
        assert_int_equal(files_in(&r), 2);
    }
    say(&r, SG_STREAM_ERR, "more", 4);
    expect(&r, 0, "-5008emore");
    close_rig(&r);
}

static void a_tail_that_the_index_does_not_know_is_stdout_first(void **state)
{
    (void)state;
    struct rig r;
    open_rig(&r, KEEP);
    say(&r, SG_STREAM_OUT, "1", 1);
    say(&r, SG_STREAM_ERR, "2", 1);
    int fd = r.j.streams[SG_STREAM_OUT].fd; /* as a power cut may leave it */
    assert_int_equal(pwrite(fd, "3", 1, 1), 1);
    r.j.streams[SG_STREAM_OUT].bytes++;
    reload(&r);
    expect(&r, 0,
           "o1"
           "o3"
           "e2");
    say(&r, SG_STREAM_OUT, "4", 1);
    reload(&r);
    expect(&r, 1,
           "o3"
           "e2"
           "o4");
    close_rig(&r);
}

static void an_index_that_knows_too_much_is_cut(void **state)
{
    (void)state;
    struct rig r;
    open_rig(&r, KEEP);
    say(&r, SG_STREAM_OUT, "1111", 4);
    say(&r, SG_STREAM_ERR, "22", 2);
    say(&r, SG_STREAM_OUT, "3", 1);
    assert_int_equal(ftruncate(r.j.streams[SG_STREAM_ERR].fd, 1), 0);
    r.j.streams[SG_STREAM_ERR].bytes = 1;
    reload(&r);
    expect(&r, 0,
           "o1111"
           "o3"
           "e2");
    close_rig(&r);
}

/* ---- the promise: kill -9 loses no byte ---- */

static void drain_forever(struct rig *r)
{
    for (struct sg_err err;;)
        for (unsigned i = 0; i < SG_STREAM_COUNT; i++)
            (void)sg_journal_take(&r->j, i, r->pipes[i][0], 40000, &err);
}

/* Writes 32-bit counters, so that a gap or a repetition shows. */
static void write_counters(struct rig *r, unsigned limit)
{
    uint32_t next[SG_STREAM_COUNT] = { 0 };
    for (unsigned i = 0; next[0] + next[1] < limit; i++) {
        enum sg_stream stream = i % 3 ? SG_STREAM_OUT : SG_STREAM_ERR;
        uint32_t some[512];
        for (unsigned k = 0; k < SG_COUNT(some); k++)
            some[k] = next[stream]++;
        if (write(r->pipes[stream][1], some, sizeof some) != sizeof some)
            _exit(1);
    }
    _exit(0);
}

static void check_counters(struct rig *r, unsigned limit)
{
    uint32_t next[SG_STREAM_COUNT] = { 0 };
    struct sg_journal_place place = { 0, SG_RUN_UNKNOWN };
    for (;;) {
        enum sg_stream stream;
        uint64_t lost;
        uint32_t some[1024];
        ssize_t n = sg_journal_read(&r->j, &place, &stream, some, sizeof some, &lost, &r->err);
        if (n == 0)
            break;
        assert_true(n > 0 && n % 4 == 0 && lost == 0);
        for (unsigned k = 0; k < (size_t)n / 4; k++)
            assert_int_equal(some[k], next[stream]++);
    }
    assert_true(next[0] + next[1] >= limit);
}

static void a_kill_in_the_midst_of_it_loses_no_byte(void **state)
{
    (void)state;
    struct rig r;
    open_rig(&r, ALL);
    enum { LIMIT = 6 << 20, KILLS = 150 };
    pid_t writer = fork();
    assert_true(writer >= 0);
    if (writer == 0)
        write_counters(&r, LIMIT);
    for (unsigned i = 0; i < SG_STREAM_COUNT; i++)
        sg_drop_fd(&r.pipes[i][1]);
    for (unsigned i = 0; i < KILLS; i++) {
        pid_t daemon = fork();
        assert_true(daemon >= 0);
        if (daemon == 0)
            drain_forever(&r);
        struct timespec t = { .tv_nsec = 100000 + (i * 7919 % 40) * 10000 };
        (void)nanosleep(&t, NULL);
        (void)kill(daemon, SIGKILL);
        assert_int_equal(waitpid(daemon, NULL, 0), daemon);
        struct sg_journal fresh;
        sg_journal_init(&fresh, r.dir_fd, &r.j.id, ALL);
        sg_journal_close(&r.j);
        assert_ok(sg_journal_load(&fresh, &r.err), r.err);
        assert_true(sg_journal_total(&fresh) >= sg_journal_total(&r.j));
        r.j = fresh;
    }
    for (unsigned ended = 0; ended != 3;)
        for (unsigned i = 0; i < SG_STREAM_COUNT; i++) {
            enum sg_taken t = sg_journal_take(&r.j, i, r.pipes[i][0], ALL, &r.err);
            assert_true(t != SG_TAKEN_ERROR);
            ended |= t == SG_TAKEN_END ? 1u << i : 0;
        }
    int status;
    assert_int_equal(waitpid(writer, &status, 0), writer);
    assert_int_equal(status, 0);
    check_counters(&r, LIMIT);
    close_rig(&r);
}

/* ---- pipes that somebody else shares ---- */

static void waits_for_nobody_who_shares_the_pipe(void **state)
{
    (void)state;
    struct rig r; /* its pipes block: as if somebody had cleared the flag */
    open_rig(&r, KEEP);
    char bytes[SG_NOWAIT_MAX] = "abc";
    (void)alarm(20);
    assert_int_equal(sg_nowait_read(r.pipes[0][0], bytes, 10), -1);
    assert_int_equal(errno, EAGAIN);
    assert_int_equal(sg_nowait_write(r.pipes[0][1], "hello", 5), 5);
    assert_int_equal(sg_nowait_read(r.pipes[0][0], bytes, 10), 5);
    assert_memory_equal(bytes, "hello", 5);

    size_t put = 0;
    ssize_t n;
    while ((n = sg_nowait_write(r.pipes[0][1], bytes, sizeof bytes)) > 0)
        put += (size_t)n;
    assert_int_equal(errno, EAGAIN);
    assert_true(put >= 4096);
    size_t got = 0;
    while ((n = sg_nowait_read(r.pipes[0][0], bytes, 1000)) > 0)
        got += (size_t)n;
    assert_int_equal(got, put);

    assert_int_equal(sg_nowait_write(r.pipes[0][1], "12", 2), 2);
    assert_int_equal(sg_journal_discard(r.pipes[0][0], ALL), SG_TAKEN_ALL);
    sg_drop_fd(&r.pipes[0][1]);
    assert_int_equal(sg_journal_discard(r.pipes[0][0], ALL), SG_TAKEN_END);
    sg_drop_fd(&r.pipes[1][0]);
    assert_int_equal(sg_nowait_write(r.pipes[1][1], "x", 1), -1);
    assert_int_equal(errno, EPIPE);
    (void)alarm(0);
    close_rig(&r);
}

int main(void)
{
    (void)signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keeps_both_streams_in_the_order_in_which_they_came),
        cmocka_unit_test(makes_files_only_for_what_was_said),
        cmocka_unit_test(tells_some_all_and_end_apart),
        cmocka_unit_test(gives_back_what_is_old_and_tells_how_much),
        cmocka_unit_test(a_window_that_was_smaller_once_shows_no_zeros),
        cmocka_unit_test(passes_over_many_lost_runs_at_once),
        cmocka_unit_test(a_reader_that_falls_behind_is_told),
        cmocka_unit_test(one_that_was_emptied_takes_nothing_and_still_tells_how_much_there_was),
        cmocka_unit_test(a_tail_that_the_index_does_not_know_is_stdout_first),
        cmocka_unit_test(an_index_that_knows_too_much_is_cut),
        cmocka_unit_test(a_kill_in_the_midst_of_it_loses_no_byte),
        cmocka_unit_test(waits_for_nobody_who_shares_the_pipe),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
