/* SPDX-License-Identifier: Apache-2.0 */
/* Execs, with the real init: how they start, what they print and read, how they end. */
#include <dirent.h>
#include <errno.h>

#include "cell_rig.h"
#include "base/banned.h"

#define NOTHING ((struct sg_exec_spec) { 0 })

/* ---- start ---- */

static void runs_a_program_and_keeps_its_output_and_end(void **state)
{
    struct rig *r = *state;
    struct sg_sandbox *s = rig_create(r);
    struct sg_exec *x = rig_run(r, s, "echo out; sleep 0.1; echo err >&2; exit 3", "out\n[err\n]");
    assert_int_equal(x->ending, SG_EXEC_EXIT);
    assert_int_equal(x->code, 3);
    assert_int_equal(x->total_bytes, 8);
    assert_true(x->pid > 1 && x->ended_ms >= x->started_ms);
    assert_ptr_equal(sg_exec_find(s, x->id.s, &r->err), x);
    assert_null(sg_exec_find_pid(s, x->pid));
    size_t cursor = 0;
    assert_ptr_equal(sg_exec_next(s, &cursor), x);
    assert_null(sg_exec_next(s, &cursor));
    assert_int_equal(s->work, 0);
    assert_int_equal(r->m->metrics.exec.count, 1);
}

static void the_call_s_environment_wins_over_the_sandbox_s_over_the_template_s(void **state)
{
    struct rig *r = *state;
    struct sg_sandbox *s = rig_create(r);
    struct sg_pair env[] = { { "BOTH", "call" }, { "OWN", "a=b" } };
    struct sg_exec_spec spec = { .env = env, .env_n = 2 };
    sg_auto_free char *wanted =
        sg_printf("template sandbox sandbox /usr/bin:/bin none %s\n", r->path);
    (void)rig_run(r, s, "echo $FROM $FROM_BOX $BOTH $PATH ${TERM-none} $PWD", wanted);
    struct sg_exec *x = rig_shell(r, s, "echo $FROM $BOTH $OWN", spec);
    rig_until(r, x->is_complete);
    rig_expect(r, x, "template call a=b\n");
}

static bool count_row(void *arg, const struct sg_exec_row *row)
{
    (void)row;
    ++*(unsigned *)arg;
    return true;
}

static unsigned count_rows(struct rig *r)
{
    unsigned n = 0;
    rig_until(r, sg_store_stats(r->store).queued == 0);
    assert_ok(sg_store_each_exec(r->store, NULL, count_row, &n, &r->err), r->err);
    return n;
}

static void a_program_that_is_not_there_leaves_nothing_behind(void **state)
{
    struct rig *r = *state;
    struct sg_sandbox *s = rig_create(r);
    const char *argv[] = { "no-such-program", NULL };
    assert_null(rig_try(r, s, (struct sg_exec_spec) { .argv = argv }));
    assert_int_equal(r->err.sys, ENOENT);
    assert_int_equal(count_rows(r), 0);
    assert_int_equal(s->execs.n, 0);
    assert_int_equal(s->work, 0);
}

static void refuses_what_makes_no_sense(void **state)
{
    struct rig *r = *state;
    struct sg_sandbox *s = rig_create(r);
    const char *none[] = { NULL }, *argv[] = { "true", NULL };
    struct sg_pair bad[] = { { "A=B", "x" } };
    struct sg_exec_spec specs[] = { { .argv = none }, { .argv = argv, .env = bad, .env_n = 1 } };
    for (unsigned i = 0; i < SG_COUNT(specs); i++) {
        assert_null(rig_try(r, s, specs[i]));
        assert_int_equal(r->err.kind, SG_INVALID);
    }
    struct sg_who reader = r->who;
    reader.scopes = SG_SCOPE_READ;
    struct sg_exec_spec spec = { .argv = argv };
    assert_fails(sg_exec_start(s, &reader, &spec, tell_exec, NULL, &r->err), r->err, SG_DENIED);
    assert_int_equal(s->execs.n, 0);
}

/* ---- input ---- */

struct feeder {
    struct sg_exec *x;
    size_t left;
    unsigned waits;
    bool is_done;
};

static void feed(void *arg)
{
    static char bytes[100000];
    struct feeder *f = arg;
    struct sg_err err;
    while (f->left) {
        ssize_t n =
            sg_exec_write(f->x, bytes, f->left < sizeof bytes ? f->left : sizeof bytes, &err);
        if (n < 0)
            fail_msg("write: %s", err.msg);
        if (n == 0) {
            f->waits++;
            assert_ok(sg_exec_when_writable(f->x, feed, f, &err), err);
            return;
        }
        f->left -= (size_t)n;
    }
    assert_ok(sg_exec_close_stdin(f->x, &err), err);
    f->is_done = true;
}

static void input_waits_for_room_and_ends(void **state)
{
    struct rig *r = *state;
    struct sg_sandbox *s = rig_create(r);
    struct sg_exec *x =
        rig_shell(r, s, "sleep 0.2; wc -c", (struct sg_exec_spec) { .has_stdin = true });
    struct feeder f = { .x = x, .left = 3000000 };
    feed(&f);
    assert_fails(sg_exec_when_writable(x, feed, NULL, &r->err), r->err, SG_CONFLICT);
    rig_until(r, x->is_complete);
    assert_true(f.is_done && f.waits > 1);
    rig_expect(r, x, "3000000\n");
    assert_fails(sg_exec_write(x, "x", 1, &r->err), r->err, SG_CONFLICT);
}

static void who_has_no_input_reads_an_end(void **state)
{
    struct rig *r = *state;
    struct sg_sandbox *s = rig_create(r);
    struct sg_exec *x = rig_run(r, s, "wc -c", "0\n");
    assert_fails(sg_exec_write(x, "x", 1, &r->err), r->err, SG_CONFLICT);
}

static void a_terminal_has_a_size_and_takes_all_input_before_its_end(void **state)
{
    struct rig *r = *state;
    struct sg_sandbox *s = rig_create(r);
    struct sg_exec_spec spec = { .has_tty = true, .rows = 11, .cols = 22 };
    struct sg_exec *x =
        rig_shell(r, s, "stty -echo; stty size; read a; stty size; cat; tty -s", spec);
    rig_until(r, x->total_bytes >= 7);
    assert_ok(sg_exec_resize(x, 33, 44, &r->err), r->err);
    assert_int_equal(sg_exec_write(x, "go\n", 3, &r->err), 3);
    rig_until(r, x->total_bytes >= 14);
    assert_int_equal(sg_exec_write(x, "last words\n", 11, &r->err), 11);
    assert_ok(sg_exec_close_stdin(x, &r->err), r->err);
    rig_until(r, x->is_complete);
    rig_expect(r, x, "11 22\r\n33 44\r\nlast words\r\n");
    assert_int_equal(x->code, 0);
}

static void a_terminal_s_input_is_all_read_though_it_was_closed_at_once(void **state)
{
    struct rig *r = *state;
    struct sg_sandbox *s = rig_create(r);
    struct sg_exec *x = rig_shell(r, s, "stty -echo; echo up; sleep 1; wc -c",
                                  (struct sg_exec_spec) { .has_tty = true });
    rig_until(r, x->total_bytes);
    char lines[1000];
    memset(lines, 'x', sizeof lines);
    for (unsigned k = 49; k < sizeof lines; k += 50)
        lines[k] = '\n';
    size_t put = 0;
    for (unsigned quiet = 0; quiet < 5; rig_turn(r)) { /* until terminal and pipe are full */
        ssize_t n = sg_exec_write(x, lines, sizeof lines, &r->err);
        assert_true(n == 0 || n == sizeof lines);
        put += (size_t)n;
        quiet = n ? 0 : quiet + 1;
    }
    assert_true(put > 16000);
    assert_ok(sg_exec_close_stdin(x, &r->err), r->err);
    rig_until(r, x->is_complete);
    sg_auto_free char *wanted = sg_printf("up\r\n%zu\r\n", put);
    rig_expect(r, x, wanted);
}

/* ---- ends ---- */

static void a_signal_is_an_end_of_its_own(void **state)
{
    struct rig *r = *state;
    struct sg_sandbox *s = rig_create(r);
    struct sg_exec *x = rig_shell(r, s, "echo up; exec sleep 100", NOTHING);
    rig_until(r, x->total_bytes);
    assert_int_equal(s->work, 1);
    assert_ok(sg_exec_signal(x, &r->who, SIGINT, &r->err), r->err);
    rig_until(r, x->is_complete);
    assert_int_equal(x->ending, SG_EXEC_SIGNAL);
    assert_int_equal(x->signal, SIGINT);
    assert_fails(sg_exec_signal(x, &r->who, SIGINT, &r->err), r->err, SG_CONFLICT);
    assert_ok(sg_exec_kill(x, &r->who, &r->err), r->err);
}

static void a_kill_ends_the_whole_tree(void **state)
{
    struct rig *r = *state;
    struct sg_sandbox *s = rig_create(r);
    struct sg_exec *x =
        rig_shell(r, s, "sleep 100 & setsid sleep 100 & echo up; sleep 100; echo never", NOTHING);
    rig_until(r, x->total_bytes);
    assert_ok(sg_exec_kill(x, &r->who, &r->err), r->err);
    rig_until(r, x->is_complete);
    assert_int_equal(x->ending, SG_EXEC_SIGNAL);
    rig_until(r, rig_count(r, s, "sleep") == 0);
}

static void who_does_not_hear_term_is_killed_two_seconds_later(void **state)
{
    struct rig *r = *state;
    struct sg_sandbox *s = rig_create(r);
    struct sg_exec *x =
        rig_shell(r, s, "(trap '' TERM; echo up; exec sleep 100) & wait; echo never", NOTHING);
    rig_until(r, x->total_bytes);
    uint64_t began = sg_now_ns();
    assert_ok(sg_exec_kill(x, &r->who, &r->err), r->err);
    rig_until(r, x->is_complete);
    assert_int_equal(x->signal, SIGTERM);
    assert_int_equal(rig_count(r, s, "sleep"), 1);
    rig_until(r, rig_count(r, s, "sleep") == 0);
    assert_true(sg_now_ns() - began > 1900000000u);
}

static void a_limit_of_time_ends_it(void **state)
{
    struct rig *r = *state;
    struct sg_sandbox *s = rig_create(r);
    uint64_t began = sg_now_ns();
    struct sg_exec *x = rig_shell(r, s, "trap 'exit 7' TERM; echo up; while :; do sleep 0.05; done",
                                  (struct sg_exec_spec) { .timeout_ms = 300 });
    rig_until(r, x->is_complete);
    assert_int_equal(x->ending, SG_EXEC_TIMEOUT);
    assert_int_equal(x->code, 7);
    assert_true(sg_now_ns() - began > 290000000u);
    assert_int_equal(r->m->metrics.hits[SG_HIT_TIMEOUT], 1);
}

static void memory_is_named_as_the_cause(void **state)
{
    struct rig *r = *state;
    struct sg_sandbox *s = rig_create(r);
    struct sg_exec *x = rig_run(r, s, "kill -9 $$", "");
    assert_int_equal(x->ending, SG_EXEC_SIGNAL);
    r->oom_kills = 1;
    x = rig_run(r, s, "sh -c 'kill -9 $$'; exit 137", NULL);
    assert_int_equal(x->ending, SG_EXEC_OOM);
    x = rig_run(r, s, "kill -9 $$", "");
    assert_int_equal(x->ending, SG_EXEC_SIGNAL);
}

static void children_that_keep_the_pipe_do_not_hold_up_the_end_and_live_on(void **state)
{
    struct rig *r = *state;
    struct sg_sandbox *s = rig_create(r);
    struct sg_exec *x = rig_run(
        r, s, "(until [ -e go ]; do sleep 0.01; done; echo late; echo lived > lived) & echo now",
        "now\n");
    char *go = sg_printf("%s/go", r->path);
    assert_true(close(open(go, O_CREAT | O_WRONLY | O_CLOEXEC, 0600)) == 0);
    free(go);
    char *lived = sg_printf("%s/lived", r->path);
    rig_until(r, access(lived, F_OK) == 0);
    free(lived);
    rig_expect(r, x, "now\n");
}

static void output_beyond_the_journal_is_cut_at_the_front(void **state)
{
    struct rig *r = *state;
    struct sg_sandbox *s = rig_create(r);
    struct sg_exec *x = rig_run(r, s, "head -c 20000000 /dev/zero | tr '\\0' x; echo end", NULL);
    assert_int_equal(x->total_bytes, 20000004);
    char *text = rig_output(r, x, false);
    size_t n = strlen(text);
    assert_true(n > (4 << 20) && n < (6 << 20));
    assert_memory_equal(text, "<1", 2);
    assert_string_equal(text + n - 5, "xend\n");
    free(text);
    assert_int_equal(r->m->metrics.hits[SG_HIT_JOURNAL], 1);
}

static void a_full_disk_holds_up_the_program_and_loses_nothing(void **state)
{
    struct rig *r = *state;
    sg_auto_free char *dir = sg_printf("%s/small", r->path);
    assert_int_equal(mkdir(dir, 0700), 0);
    assert_int_equal(mount("none", dir, "tmpfs", 0, "size=256k"), 0);
    sg_auto_fd fd = open(dir, O_DIRECTORY | O_CLOEXEC);
    const int usual = r->m->o.journal_dir_fd;
    r->m->o.journal_dir_fd = fd;
    struct sg_sandbox *s = rig_create(r);
    struct sg_exec *x = rig_shell(r, s, "head -c 2000000 /dev/zero | tr '\\0' x", NOTHING);
    rig_until(r, x->total_bytes >= 200000);
    const uint64_t end = sg_now_ns() + 300000000;
    while (sg_now_ns() < end)
        rig_turn(r);
    assert_true(x->ending == SG_EXEC_RUNNING && x->total_bytes <= 256 * 1024);
    assert_int_equal(mount("none", dir, "tmpfs", MS_REMOUNT, "size=16m"), 0);
    rig_until(r, x->is_complete);
    char *text = rig_output(r, x, false);
    assert_int_equal(strspn(text, "x"), 2000000);
    free(text);
    rig_destroy(r, s);
    r->m->o.journal_dir_fd = usual;
    sg_drop_fd(&fd);
    assert_int_equal(umount2(dir, MNT_DETACH), 0);
}

struct follower {
    struct sg_reader reader;
    unsigned wakes;
    uint64_t bytes;
};

static void follow(struct sg_reader *reader)
{
    struct follower *f = SG_OWNER(reader, struct follower, reader);
    enum sg_stream stream;
    uint64_t lost;
    char bytes[4096];
    struct sg_err err;
    f->wakes++;
    if (!reader->exec)
        return;
    for (ssize_t n; (n = sg_reader_read(reader, &stream, bytes, sizeof bytes, &lost, &err)) > 0;)
        f->bytes += (uint64_t)n + lost;
    if (reader->exec->is_complete)
        sg_reader_close(reader);
}

static void readers_follow_at_their_own_pace(void **state)
{
    struct rig *r = *state;
    struct sg_sandbox *s = rig_create(r);
    struct sg_exec *x =
        rig_shell(r, s, "for i in 1 2 3 4 5; do echo $i; sleep 0.02; done", NOTHING);
    struct follower f[3] = { 0 };
    for (unsigned i = 0; i < 3; i++) {
        f[i].reader.wake = follow;
        sg_reader_open(&f[i].reader, x, 0);
    }
    assert_int_equal(s->work, 4);
    rig_until(r, !f[0].reader.exec && !f[1].reader.exec && !f[2].reader.exec);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(f[i].bytes, 10);
        assert_true(f[i].wakes > 3);
    }
    assert_int_equal(s->work, 0);
}

static unsigned journals(struct rig *r)
{
    unsigned n = 0;
    int fd = openat(r->journal_fd, ".", O_RDONLY | O_DIRECTORY);
    DIR *d = fdopendir(fd);
    for (struct dirent *e; (e = readdir(d));)
        n += e->d_name[0] == 'x';
    (void)closedir(d);
    return n;
}

static void a_destroyed_sandbox_takes_its_execs_and_journals_along(void **state)
{
    struct rig *r = *state;
    struct sg_sandbox *s = rig_create(r);
    struct follower f = { .reader.wake = follow };
    struct sg_exec *x = rig_shell(r, s, "echo up; echo up >&2; sleep 100", NOTHING);
    rig_until(r, x->total_bytes == 6);
    assert_int_equal(journals(r), 3);
    sg_reader_open(&f.reader, x, 0);
    rig_destroy(r, s);
    rig_until(r, !f.reader.exec);
    rig_until(r, journals(r) == 0);
    assert_int_equal(count_rows(r), 0);
}

static void a_sandbox_that_dies_loses_what_runs_and_keeps_what_was_printed(void **state)
{
    struct rig *r = *state;
    struct sg_sandbox *s = rig_create(r);
    struct sg_exec *x = rig_shell(r, s, "echo words; sleep 100", NOTHING);
    rig_until(r, x->total_bytes);
    struct sg_msg m = { .type = SG_MSG_L_ENDED };
    m.l_ended = (struct sg_msg_l_ended) { .sandbox = sg_text_of(s->id.s) };
    (void)kill(rig_cell(r, s->id.s)->pid, SIGKILL);
    launcher_send(r, &m, 0, -1);
    rig_until(r, x->is_complete);
    assert_int_equal(x->ending, SG_EXEC_LOST);
    rig_expect(r, x, "words\n");
    rig_until(r, s->state == SBX_FAILED);
    assert_int_equal(s->work, 0);
    rig_destroy(r, s);
}

static void only_the_newest_ended_ones_are_kept(void **state)
{
    struct rig *r = *state;
    struct sg_sandbox *s = rig_create(r);
    const char *argv[] = { "/bin/echo", "x", NULL };
    struct sg_exec *longest = rig_shell(r, s, "echo long; exec sleep 100", NOTHING);
    for (unsigned i = 0; i < 1040; i++)
        assert_non_null(rig_try(r, s, (struct sg_exec_spec) { .argv = argv }));
    rig_until(r, s->execs.n == 1001);
    assert_ok(sg_exec_kill(longest, &r->who, &r->err), r->err);
    rig_until(r, longest->is_complete);
    rig_expect(r, longest, "long\n"); /* it ended last */
    rig_until(r, s->execs.n == 1000);
    assert_int_equal(count_rows(r), 1000);
    assert_int_equal(journals(r), 1000);
}

static void stop_ends_everything(void **state)
{
    struct rig *r = *state;
    struct sg_sandbox *s = rig_create(r);
    struct told t = { 0 };
    struct sg_exec *x =
        rig_shell(r, s, "trap '' TERM; sleep 100 & echo up; sleep 100; sleep 100", NOTHING);
    rig_until(r, x->total_bytes);
    assert_ok(sg_manager_stop(s, &r->who, tell_sandbox, &t, &r->err), r->err);
    rig_until(r, t.calls);
    assert_int_equal(t.err.kind, SG_OK);
    rig_until(r, x->is_complete);
    assert_int_equal(x->signal, SIGKILL);
    const char *argv[] = { "true", NULL };
    assert_null(rig_try(r, s, (struct sg_exec_spec) { .argv = argv }));
    assert_int_equal(r->err.kind, SG_CONFLICT);
    t.calls = 0;
    assert_ok(sg_manager_start(s, &r->who, tell_sandbox, &t, &r->err), r->err);
    rig_until(r, t.calls);
    (void)rig_run(r, s, "echo again", "again\n");
}

static void a_destroy_does_not_wait_for_a_stop_that_nobody_answers(void **state)
{
    struct rig *r = *state;
    struct sg_sandbox *s = rig_create(r);
    struct told stop = { 0 }, end = { 0 };
    assert_int_equal(kill(rig_cell(r, s->id.s)->pid, SIGSTOP), 0);
    assert_ok(sg_manager_stop(s, &r->who, tell_sandbox, &stop, &r->err), r->err);
    for (int i = 0; i < 10; i++)
        rig_turn(r);
    assert_int_equal(stop.calls, 0);
    assert_ok(sg_manager_destroy(s, &r->who, tell_sandbox, &end, &r->err), r->err);
    rig_until(r, end.calls);
    assert_int_equal(end.err.kind, SG_OK);
    assert_int_equal(stop.err.kind, SG_UNAVAILABLE);
}

int main(void)
{
    if (geteuid() != 0)
        return skip_all("needs root: inits are pid 1 of namespaces");
    if (!getenv("SANDGLASS_INIT"))
        return skip_all("needs SANDGLASS_INIT, the program");
    const sigset_t pipe_only = { { 1ul << (SIGPIPE - 1) } };
    (void)sigprocmask(SIG_BLOCK, &pipe_only, NULL);
#define T(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)
    const struct CMUnitTest tests[] = {
        T(a_destroy_does_not_wait_for_a_stop_that_nobody_answers),
        T(runs_a_program_and_keeps_its_output_and_end),
        T(the_call_s_environment_wins_over_the_sandbox_s_over_the_template_s),
        T(a_program_that_is_not_there_leaves_nothing_behind),
        T(refuses_what_makes_no_sense),
        T(input_waits_for_room_and_ends),
        T(who_has_no_input_reads_an_end),
        T(a_terminal_has_a_size_and_takes_all_input_before_its_end),
        T(a_terminal_s_input_is_all_read_though_it_was_closed_at_once),
        T(a_signal_is_an_end_of_its_own),
        T(a_kill_ends_the_whole_tree),
        T(who_does_not_hear_term_is_killed_two_seconds_later),
        T(a_limit_of_time_ends_it),
        T(memory_is_named_as_the_cause),
        T(children_that_keep_the_pipe_do_not_hold_up_the_end_and_live_on),
        T(output_beyond_the_journal_is_cut_at_the_front),
        T(a_full_disk_holds_up_the_program_and_loses_nothing),
        T(readers_follow_at_their_own_pace),
        T(a_destroyed_sandbox_takes_its_execs_and_journals_along),
        T(a_sandbox_that_dies_loses_what_runs_and_keeps_what_was_printed),
        T(only_the_newest_ended_ones_are_kept),
        T(stop_ends_everything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
