/* SPDX-License-Identifier: Apache-2.0 */
/* The store when things go wrong: kill -9, bad files, a full disk, other versions. */
#include "store_rig.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <sqlite3.h>

#include "store/db.h"
#include "store/migrate.h"
#include "base/banned.h"

/* ---- kill -9 ---- */

struct writing {
    int fd;
    uint32_t number;
};

static void tell_number(void *arg, const struct sg_err *err)
{
    struct writing *w = arg;
    if (!err)
        (void)!write(w->fd, &w->number, sizeof w->number);
    free(w);
}

/* Writes as fast as it can, in every mode, and tells the number of each that was acknowledged. */
_Noreturn static void write_until_killed(const char *path, uint32_t from, int fd)
{
    struct sg_err err = { 0 };
    struct sg_store_report report;
    struct sg_loop *l = sg_loop_new(&err);
    struct sg_store *s = sg_store_open(l, path, &report, &err);
    if (!s)
        _exit(1);
    for (uint32_t n = from;; n++) {
        char id[16];
        (void)snprintf(id, sizeof id, "s%u", n);
        struct writing *w = sg_new(struct writing);
        *w = (struct writing) { .fd = fd, .number = n };
        struct sg_sandbox_row row = sandbox_row(id, "x");
        sg_store_put_sandbox(s, &row, n % 50 ? SG_STORE_NORMAL : SG_STORE_FULL, tell_number, w);
        if (n % 7 == 0 && sg_loop_turn(l, 0, &err) < 0)
            _exit(1);
    }
}

static bool collect_number(void *arg, const struct sg_sandbox_row *row)
{
    bool *is_there = arg;
    unsigned n = 0;
    (void)sscanf(row->id, "s%u", &n);
    is_there[n] = true;
    return true;
}

static void every_acknowledged_row_survives_kill_9(void **state)
{
    enum { ROUNDS = 12, MOST = 2000000 };
    struct rig *r = *state;
    sg_auto_free uint32_t *told = sg_alloc(MOST * sizeof *told);
    sg_auto_free bool *is_there = sg_alloc(MOST * sizeof *is_there);
    size_t n = 0;
    uint32_t from = 1;
    sg_store_close(r->store);
    for (unsigned round = 0; round < ROUNDS; round++) {
        int fds[2];
        assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0)
            write_until_killed(r->path, from, fds[1]);
        (void)close(fds[1]);
        const size_t enough = n + 200 + 173 * round;
        while (n < enough && n < MOST && read(fds[0], &told[n], sizeof told[n]) == sizeof told[n])
            n++;
        assert_int_equal(kill(pid, SIGKILL), 0);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
        while (n < MOST && read(fds[0], &told[n], sizeof told[n]) == sizeof told[n])
            n++;
        (void)close(fds[0]);
        assert_true(n >= enough);
        from = told[n - 1] + 100000; /* past all that it may have queued */
        assert_true(from < MOST);
    }
    open_store(r);
    assert_string_equal(r->report.moved_aside, "");
    struct sg_err err = { 0 };
    assert_ok(sg_store_each_sandbox(r->store, collect_number, is_there, &err), err);
    for (size_t i = 0; i < n; i++)
        if (!is_there[told[i]])
            fail_msg("row %u was acknowledged and is gone", told[i]);
}

/* ---- bad files ---- */

static void overwrite(const char *path, off_t at, const void *p, size_t n)
{
    sg_auto_fd fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, p, n, at), n);
}

static void assert_replaced(struct rig *r)
{
    open_store(r);
    assert_true(r->report.was_new);
    assert_true(strncmp(r->report.moved_aside, "s.db.damaged-", 13) == 0);
    sg_auto_free char *aside = sg_printf("%s/%s", r->dir, r->report.moved_aside);
    assert_int_equal(access(aside, F_OK), 0);
    unsigned before = r->done;
    put_sandbox(r, "s1", "in the new one");
    wait_for(r, before + 1);
    assert_int_equal(r->failed, 0);
}

static void a_damaged_file_is_moved_aside_and_replaced(void **state)
{
    struct rig *r = *state;
    char junk[8192];
    memset(junk, 0x5a, sizeof junk);
    sg_store_close(r->store);
    overwrite(r->path, 0, junk, sizeof junk); /* no database at all */
    assert_replaced(r);
    for (unsigned i = 0; i < 300; i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "s%u", i);
        put_sandbox(r, id, "a row that takes some room in the middle of the file");
    }
    wait_for(r, r->done + 300);
    sg_store_close(r->store);
    overwrite(r->path, 4096, junk, sizeof junk); /* a database with a hole in it */
    assert_replaced(r);
}

static void a_file_that_ends_too_early_is_moved_aside(void **state)
{
    struct rig *r = *state;
    put_sandbox(r, "s1", "x");
    wait_for(r, 1);
    sg_store_close(r->store);
    assert_int_equal(truncate(r->path, 4096 * 2), 0);
    assert_replaced(r);
}

static void a_second_process_is_refused_with_the_reason(void **state)
{
    struct rig *r = *state;
    struct sg_err err = { 0 };
    struct sg_store_report report;
    assert_null(sg_store_open(r->loop, r->path, &report, &err));
    assert_int_equal(err.kind, SG_UNAVAILABLE);
    assert_non_null(strstr(err.msg, "another process"));
}

static void a_file_locked_by_a_tool_is_unavailable_and_left_alone(void **state)
{
    struct rig *r = *state;
    struct sg_err err = { 0 };
    struct sg_store_report report;
    sg_auto_db *db = NULL;
    int code;
    sg_store_close(r->store);
    r->store = NULL;
    assert_ok(sg_db_open(r->path, SQLITE_OPEN_READWRITE, &db, &code, &err), err);
    assert_ok(sg_db_run(db, "PRAGMA locking_mode = EXCLUSIVE; BEGIN IMMEDIATE", &err), err);
    assert_null(sg_store_open(r->loop, r->path, &report, &err));
    assert_int_equal(err.kind, SG_UNAVAILABLE);
    assert_int_equal(access(r->path, F_OK), 0);
}

static void a_directory_that_is_not_there_is_not_found(void **state)
{
    struct rig *r = *state;
    struct sg_err err = { 0 };
    struct sg_store_report report;
    assert_null(sg_store_open(r->loop, "/tmp/sg-store-none/s.db", &report, &err));
    assert_int_equal(err.kind, SG_NOT_FOUND);
}

static void set_file_limit(rlim_t bytes)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void a_full_disk_is_reported_and_the_next_write_is_tried_again(void **state)
{
    struct rig *r = *state;
    static char big[100000];
    memset(big, 'x', sizeof big - 1);
    put_sandbox(r, "s0", "before");
    wait_for(r, 1);
    const rlim_t now = sg_store_stats(r->store).file_bytes;
    struct sigaction ignore = { .sa_handler = SIG_IGN };
    assert_int_equal(sigaction(SIGXFSZ, &ignore, NULL), 0);
    set_file_limit(now + 20000);
    put_sandbox(r, "s1", big);
    put_sandbox(r, "s2", "small enough");
    wait_for(r, 3);
    assert_int_equal(r->failed, 1);
    assert_int_equal(r->err.kind, SG_EXHAUSTED);
    assert_int_equal(sg_store_stats(r->store).failures, 1);
    set_file_limit(RLIM_INFINITY);
    put_sandbox(r, "s3", big);
    wait_for(r, 4);
    assert_int_equal(r->failed, 1);
    reopen(r);
    assert_string_equal(r->report.moved_aside, "");
    bool is_there[4] = { false };
    struct sg_err err = { 0 };
    assert_ok(sg_store_each_sandbox(r->store, collect_number, is_there, &err), err);
    assert_true(is_there[0] && !is_there[1] && is_there[2] && is_there[3]);
}

/* ---- migrations ---- */

static const char *const steps[] = {
    "CREATE TABLE t (a TEXT) STRICT; INSERT INTO t VALUES ('kept');",
    "ALTER TABLE t ADD COLUMN b INTEGER; UPDATE t SET b = 2;",
    "CREATE TABLE u (c TEXT) STRICT; INSERT INTO nowhere VALUES (1);",
};

static void migrates_step_by_step_and_stops_whole_at_a_step_that_fails(void **state)
{
    (void)state;
    struct sg_err err = { 0 };
    sg_auto_db *db = NULL;
    int code;
    unsigned from = 9;
    int64_t n;
    assert_ok(sg_db_open(":memory:", SQLITE_OPEN_READWRITE, &db, &code, &err), err);
    assert_ok(sg_migrate(db, steps, 1, &from, &err), err);
    assert_int_equal(from, 0);
    assert_ok(sg_migrate(db, steps, 2, &from, &err), err);
    assert_int_equal(from, 1);
    assert_ok(sg_db_number(db, "SELECT b FROM t WHERE a = 'kept'", &n, &err), err);
    assert_int_equal(n, 2);
    assert_fails(sg_migrate(db, steps, 3, &from, &err), err, SG_INTERNAL);
    assert_non_null(strstr(err.msg, "version 3"));
    assert_ok(sg_db_number(db, "PRAGMA user_version", &n, &err), err);
    assert_int_equal(n, 2);
    assert_ok(sg_db_number(db, "SELECT count(*) FROM sqlite_schema WHERE name = 'u'", &n, &err),
              err);
    assert_int_equal(n, 0);
    assert_fails(sg_migrate(db, steps, 1, &from, &err), err, SG_UNSUPPORTED);
    assert_int_equal(from, 1);
}

static void an_empty_database_is_brought_from_version_0(void **state)
{
    struct rig *r = *state;
    struct sg_err err = { 0 };
    sg_store_close(r->store);
    assert_int_equal(unlink(r->path), 0);
    sg_auto_db *db = NULL;
    int code;
    assert_ok(sg_db_open(r->path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, &db, &code, &err),
              err);
    assert_ok(sg_db_run(db, "CREATE TABLE somebody_elses (a)", &err), err);
    sg_db_close_p(&db);
    db = NULL;
    open_store(r);
    assert_int_equal(r->report.migrated_from, 0);
    assert_int_equal(r->report.schema, sg_migration_count);
    put_sandbox(r, "s1", "x");
    wait_for(r, 1);
    assert_int_equal(r->failed, 0);
}

static void a_file_of_a_newer_version_is_refused_and_left_alone(void **state)
{
    struct rig *r = *state;
    struct sg_err err = { 0 };
    struct sg_store_report report;
    int code;
    sg_store_close(r->store);
    r->store = NULL;
    sg_auto_db *db = NULL;
    assert_ok(sg_db_open(r->path, SQLITE_OPEN_READWRITE, &db, &code, &err), err);
    assert_ok(sg_db_run(db, "PRAGMA user_version = 999", &err), err);
    assert_null(sg_store_open(r->loop, r->path, &report, &err));
    assert_int_equal(err.kind, SG_UNSUPPORTED);
    assert_int_equal(access(r->path, F_OK), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ROW(every_acknowledged_row_survives_kill_9),
        ROW(a_damaged_file_is_moved_aside_and_replaced),
        ROW(a_file_that_ends_too_early_is_moved_aside),
        ROW(a_second_process_is_refused_with_the_reason),
        ROW(a_file_locked_by_a_tool_is_unavailable_and_left_alone),
        ROW(a_directory_that_is_not_there_is_not_found),
        ROW(a_full_disk_is_reported_and_the_next_write_is_tried_again),
        cmocka_unit_test(migrates_step_by_step_and_stops_whole_at_a_step_that_fails),
        ROW(an_empty_database_is_brought_from_version_0),
        ROW(a_file_of_a_newer_version_is_refused_and_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
