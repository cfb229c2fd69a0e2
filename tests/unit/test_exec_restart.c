/* SPDX-License-Identifier: Apache-2.0 */
/* Execs over the death of a daemon: another manager finds the cells, the store and the journals. */
#include <dirent.h>

#include "cell_rig.h"
#include "manager/exec_internal.h"
#include "base/banned.h"

#define NOTHING ((struct sg_exec_spec) { 0 })

/* The same sandbox and exec, as the next manager knows them. */
static struct sg_exec *restart(struct rig *r, const struct sg_id *sandbox, const struct sg_id *exec)
{
    if (r->m)
        rig_stop_manager(r);
    rig_start_manager(r);
    struct sg_sandbox *s = sg_manager_find(r->m, &r->who, sandbox->s, &r->err);
    if (!s)
        fail_msg("after the restart: %s", r->err.msg);
    struct sg_exec *x = sg_exec_find(s, exec->s, &r->err);
    if (!x)
        fail_msg("after the restart: %s", r->err.msg);
    return x;
}

static void what_runs_goes_on_with_its_streams(void **state)
{
    struct rig *r = *state;
    struct sg_id s = rig_create(r)->id, id;
    struct sg_exec *x = rig_shell(
        r, sg_manager_find(r->m, &r->who, s.s, &r->err),
        "read a; echo got $a; echo oops >&2; sleep 0.05; read b; echo and $b; exit 4",
        (struct sg_exec_spec) { .has_stdin = true, .tag = "mine", .is_background = true });
    id = x->id;
    assert_int_equal(sg_exec_write(x, "one\n", 4, &r->err), 4);
    rig_until(r, x->total_bytes == 13);
    x = restart(r, &s, &id);
    assert_int_equal(x->ending, SG_EXEC_RUNNING);
    assert_string_equal(x->tag, "mine");
    assert_string_equal(x->argv[0], "/bin/sh");
    assert_true(x->is_background && x->has_stdin && x->pid > 1);
    assert_int_equal(x->sandbox->work, 1);
    rig_expect(r, x, "got one\n[oops\n]");
    assert_int_equal(sg_exec_write(x, "two\n", 4, &r->err), 4);
    rig_until(r, x->is_complete);
    assert_int_equal(x->code, 4);
    rig_expect(r, x, "got one\n[oops\n]and two\n");
    assert_int_equal(x->sandbox->work, 0);

    x = restart(r, &s, &id); /* and once more, from the row and the files alone */
    assert_int_equal(x->ending, SG_EXEC_EXIT);
    assert_int_equal(x->code, 4);
    assert_true(x->is_complete);
    rig_expect(r, x, "got one\n[oops\n]and two\n");
    assert_int_equal(sg_manager_report(r->m)->unknown_execs, 0);
}

static void what_ended_meanwhile_is_told_with_all_its_output(void **state)
{
    struct rig *r = *state;
    struct sg_sandbox *box = rig_create(r);
    struct sg_id s = box->id;
    struct sg_exec *x = rig_shell(
        r, box, "echo before; while [ ! -e go ]; do sleep 0.01; done; echo after; exit 5", NOTHING);
    struct sg_id id = x->id;
    rig_until(r, x->total_bytes);
    char *go = sg_printf("%s/go", r->path);
    rig_stop_manager(r);
    (void)close(open(go, O_CREAT | O_WRONLY | O_CLOEXEC, 0644));
    free(go);
    struct timespec t = { .tv_nsec = 200000000 };
    (void)nanosleep(&t, NULL);
    x = restart(r, &s, &id);
    rig_until(r, x->is_complete);
    assert_int_equal(x->ending, SG_EXEC_EXIT);
    assert_int_equal(x->code, 5);
    rig_expect(r, x, "before\nafter\n");
}

static void what_runs_under_a_slow_init_is_believed_until_it_answers(void **state)
{
    struct rig *r = *state;
    struct sg_id s = rig_create(r)->id;
    struct sg_exec *x = rig_shell(r, sg_manager_find(r->m, &r->who, s.s, &r->err),
                                  "echo up; read a; echo got $a; exit 6",
                                  (struct sg_exec_spec) { .has_stdin = true });
    struct sg_id id = x->id;
    rig_until(r, x->total_bytes == 3);
    rig_stop_manager(r);
    assert_int_equal(kill(rig_cell(r, s.s)->pid, SIGSTOP), 0);
    x = restart(r, &s, &id);
    assert_int_equal(x->ending, SG_EXEC_RUNNING);
    assert_int_equal(x->sandbox->state, SBX_RUNNING);
    assert_fails(sg_exec_signal(x, &r->who, SIGKILL, &r->err), r->err, SG_UNAVAILABLE);
    assert_fails(sg_exec_write(x, "one\n", 4, &r->err), r->err, SG_UNAVAILABLE);
    rig_expect(r, x, "up\n");
    assert_int_equal(kill(rig_cell(r, s.s)->pid, SIGCONT), 0);
    rig_until(r, sg_exec_write(x, "one\n", 4, &r->err) == 4);
    rig_until(r, x->is_complete);
    assert_int_equal(x->ending, SG_EXEC_EXIT);
    assert_int_equal(x->code, 6);
    rig_expect(r, x, "up\ngot one\n");
}

static void a_slow_init_that_dies_takes_its_execs_along(void **state)
{
    struct rig *r = *state;
    struct sg_id s = rig_create(r)->id;
    struct sg_exec *x =
        rig_shell(r, sg_manager_find(r->m, &r->who, s.s, &r->err), "echo up; sleep 100", NOTHING);
    struct sg_id id = x->id;
    rig_until(r, x->total_bytes == 3);
    rig_stop_manager(r);
    assert_int_equal(kill(rig_cell(r, s.s)->pid, SIGSTOP), 0);
    x = restart(r, &s, &id);
    assert_int_equal(x->ending, SG_EXEC_RUNNING);
    assert_int_equal(kill(rig_cell(r, s.s)->pid, SIGKILL), 0);
    rig_until(r, x->is_complete);
    assert_int_equal(x->ending, SG_EXEC_LOST);
    rig_expect(r, x, "up\n");
}

static void many_restarts_under_output_lose_no_byte(void **state)
{
    struct rig *r = *state;
    struct sg_sandbox *box = rig_create(r);
    struct sg_id s = box->id;
    struct sg_exec *x = rig_shell(r, box,
                                  "i=0; while [ $i -lt 20000 ]; do echo $i; "
                                  "[ $((i % 5)) = 0 ] && echo $i >&2; i=$((i+1)); done",
                                  NOTHING);
    struct sg_id id = x->id;
    unsigned restarts = 0;
    while (!x->is_complete) {
        uint64_t until = x->total_bytes + 3000;
        rig_until(r, x->is_complete || x->total_bytes > until);
        if (!x->is_complete && ++restarts)
            x = restart(r, &s, &id);
    }
    assert_true(restarts >= 3);
    uint64_t wanted = 0;
    for (unsigned i = 0; i < 20000; i++)
        wanted += (uint64_t)snprintf(NULL, 0, "%u\n", i) * (i % 5 ? 1 : 2);
    assert_int_equal(x->total_bytes, wanted);
    char *text = rig_output(r, x, false);
    assert_int_equal(strlen(text), wanted);
    free(text);
}

static uint64_t journals_on_disk(struct rig *r)
{
    uint64_t bytes = 0;
    int fd = openat(r->journal_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fdopendir(fd);
    for (struct dirent *e; d && (e = readdir(d));) {
        struct stat st;
        if (e->d_name[0] == 'x' && fstatat(r->journal_fd, e->d_name, &st, 0) == 0)
            bytes += (uint64_t)st.st_blocks * 512;
    }
    (void)closedir(d);
    return bytes;
}

static void the_journals_of_a_sandbox_are_bounded_and_the_oldest_are_emptied(void **state)
{
    enum { MANY = 24, FITS = 16 };
    struct rig *r = *state;
    struct sg_sandbox *box = rig_create(r);
    struct sg_id s = box->id, ids[MANY];
    r->m->o.journal_bytes = 65536;
    for (unsigned k = 0; k < MANY; k++) {
        struct sg_exec *x = rig_run(r, box, "head -c 65536 /dev/zero | tr '\\0' x", NULL);
        ids[k] = x->id;
        assert_true(journals_on_disk(r) <= 16 * 65536);
    }
    for (unsigned turns = 0; turns < 2; turns++) {
        for (unsigned k = 0; k < MANY; k++) {
            struct sg_exec *x = sg_exec_find(box, ids[k].s, &r->err);
            assert_non_null(x);
            assert_int_equal(x->total_bytes, 65536);
            sg_auto_free char *text = rig_output(r, x, false);
            assert_int_equal(strspn(text, "x"), k < MANY - FITS ? 0 : 65536);
            if (k < MANY - FITS)
                assert_string_equal(text, "<65536 lost>");
        }
        assert_int_equal(sg_exec_set(box)->held_bytes, FITS * 65536);
        assert_int_equal(journals_on_disk(r), FITS * 65536);
        if (!turns)
            box = restart(r, &s, &ids[0])->sandbox;
    }
}

static void a_limit_of_time_goes_on_counting(void **state)
{
    struct rig *r = *state;
    struct sg_sandbox *box = rig_create(r);
    struct sg_id s = box->id;
    struct sg_exec *x =
        rig_shell(r, box, "echo up; exec sleep 100", (struct sg_exec_spec) { .timeout_ms = 400 });
    struct sg_id id = x->id;
    x = restart(r, &s, &id);
    rig_until(r, x->is_complete);
    assert_int_equal(x->ending, SG_EXEC_TIMEOUT);
}

static void what_nobody_was_told_of_is_killed(void **state)
{
    struct rig *r = *state;
    struct sg_sandbox *box = rig_create(r);
    struct sg_id s = box->id;
    struct sg_exec *x = rig_shell(r, box, "echo up; sleep 1000", NOTHING);
    struct sg_id other = rig_run(r, box, "echo other", NULL)->id;
    rig_until(r, x->total_bytes);
    sg_store_remove_exec(r->store, x->id.s, NULL, NULL);
    (void)restart(r, &s, &other);
    assert_int_equal(sg_manager_report(r->m)->unknown_execs, 1);
    assert_int_equal(sg_manager_report(r->m)->stale_journals, 1);
    box = sg_manager_find(r->m, &r->who, s.s, &r->err);
    assert_int_equal(box->execs.n, 1);
    rig_until(r, rig_count(r, box, "sleep") == 0);
    struct sg_id id = rig_run(r, box, "true", "")->id;
    (void)restart(r, &s, &id); /* it was released, too */
    assert_int_equal(sg_manager_report(r->m)->unknown_execs, 0);
}

static void a_row_that_init_does_not_know_is_lost(void **state)
{
    struct rig *r = *state;
    struct sg_sandbox *box = rig_create(r);
    struct sg_id s = box->id, id = sg_id_new('x');
    const struct sg_exec_row row = { .id = id.s,
                                     .sandbox = s.s,
                                     .spec = "{\"argv\":[\"sleep\"]}",
                                     .state = "running",
                                     .started_ms = 1 };
    sg_store_put_exec(r->store, &row, SG_STORE_NORMAL, NULL, NULL);
    struct sg_exec *x = restart(r, &s, &id);
    assert_true(x->is_complete);
    assert_int_equal(x->ending, SG_EXEC_LOST);
    assert_int_equal(x->sandbox->work, 0);
    x = restart(r, &s, &id);
    assert_int_equal(x->ending, SG_EXEC_LOST);
}

static void an_open_start_is_answered_when_the_daemon_ends(void **state)
{
    struct rig *r = *state;
    struct sg_sandbox *s = rig_create(r);
    const char *argv[] = { "/bin/true", NULL };
    struct sg_exec_spec spec = { .argv = argv };
    struct told t = { 0 };
    assert_ok(sg_exec_start(s, &r->who, &spec, tell_exec, &t, &r->err), r->err);
    rig_stop_manager(r);
    assert_int_equal(t.calls, 1);
    assert_null(t.what);
    assert_int_equal(t.err.kind, SG_UNAVAILABLE);
}

int main(void)
{
    if (geteuid() != 0)
        return skip_all("needs root: inits are pid 1 of namespaces");
    if (!getenv("SANDGLASS_INIT"))
        return skip_all("needs SANDGLASS_INIT, the program");
#define T(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)
    const struct CMUnitTest tests[] = {
        T(what_runs_goes_on_with_its_streams),
        T(what_ended_meanwhile_is_told_with_all_its_output),
        T(what_runs_under_a_slow_init_is_believed_until_it_answers),
        T(a_slow_init_that_dies_takes_its_execs_along),
        T(many_restarts_under_output_lose_no_byte),
        T(the_journals_of_a_sandbox_are_bounded_and_the_oldest_are_emptied),
        T(a_limit_of_time_goes_on_counting),
        T(what_nobody_was_told_of_is_killed),
        T(a_row_that_init_does_not_know_is_lost),
        T(an_open_start_is_answered_when_the_daemon_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
