/* SPDX-License-Identifier: Apache-2.0 */
#include "check.h"

#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/auto.h"
#include "loop/loop.h"
#include "meter/audit.h"
#include "store/db.h"
#include "store/store.h"
#include "base/banned.h"

struct rig {
    char dir[32], path[48];
    struct sg_loop *loop;
    struct sg_store *store;
    struct sg_audit *audit;
};

static void open_rig(struct rig *r)
{
    struct sg_err err = { 0 };
    struct sg_store_report report;
    r->store = sg_store_open(r->loop, r->path, &report, &err);
    assert_non_null(r->store);
    r->audit = sg_audit_new(r->store, &err);
    assert_non_null(r->audit);
}

static void close_rig(struct rig *r)
{
    sg_audit_free(r->audit);
    sg_store_close(r->store);
}

static int set_up(void **state)
{
    struct sg_err err = { 0 };
    struct rig *r = sg_new(struct rig);
    (void)snprintf(r->dir, sizeof r->dir, "/tmp/sg-audit-XXXXXX");
    assert_non_null(mkdtemp(r->dir));
    (void)snprintf(r->path, sizeof r->path, "%s/s.db", r->dir);
    r->loop = sg_loop_new(&err);
    open_rig(r);
    *state = r;
    return 0;
}

static int tear_down(void **state)
{
    struct rig *r = *state;
    close_rig(r);
    sg_loop_free(r->loop);
    sg_auto_free char *lock = sg_printf("%s-lock", r->path);
    assert_int_equal(unlink(r->path) | unlink(lock) | rmdir(r->dir), 0);
    free(r);
    return 0;
}

static void add(struct rig *r, unsigned count)
{
    char detail[32];
    for (unsigned i = 0; i < count; i++) {
        (void)snprintf(detail, sizeof detail, "{\"n\":%u}", i);
        sg_audit_add(r->audit,
                     &(struct sg_audit_entry) { "o1", "k1", "exec.start", "s1", detail, NULL },
                     1000 + i);
    }
}

static void take_verdict(void *arg, const struct sg_audit_verdict *v, const struct sg_err *err)
{
    assert_null(err);
    *(struct sg_audit_verdict *)arg = *v;
}

/* Both ways, which agree. */
static struct sg_audit_verdict verify(struct rig *r)
{
    struct sg_err err = { 0 };
    struct sg_audit_verdict v, slowly = { .records = UINT64_MAX };
    assert_ok(sg_audit_verify(r->store, &v, &err), err);
    assert_ok(sg_audit_verify_slowly(r->loop, r->store, take_verdict, &slowly, &err), err);
    while (slowly.records == UINT64_MAX)
        assert_ok(sg_loop_turn(r->loop, 1000, &err), err);
    assert_int_equal(v.records, slowly.records);
    assert_int_equal(v.broken_at, slowly.broken_at);
    assert_string_equal(v.head, slowly.head);
    return v;
}

static void an_empty_record_is_whole(void **state)
{
    struct sg_audit_verdict v = verify(*state);
    assert_int_equal(v.records, 0);
    assert_int_equal(v.broken_at, 0);
}

static void the_chain_goes_on_after_a_restart(void **state)
{
    struct rig *r = *state;
    add(r, 3);
    close_rig(r);
    open_rig(r);
    struct sg_audit_verdict first = verify(r);
    assert_int_equal(first.records, 3);
    add(r, 2);
    close_rig(r);
    open_rig(r);
    struct sg_audit_verdict second = verify(r);
    assert_int_equal(second.records, 5);
    assert_int_equal(second.broken_at, 0);
    assert_int_equal(strlen(second.head), 64);
    assert_string_not_equal(first.head, second.head);
}

/* printf of the fields, each after its length as eight bytes, little endian, through sha256sum:
 * another program agrees with what audit.h promises. */
static void the_hash_is_what_the_header_says(void **state)
{
    struct rig *r = *state;
    sg_audit_add(r->audit, &(struct sg_audit_entry) { "o", "k", "denied", NULL, "{}", "r1" }, 258);
    close_rig(r);
    open_rig(r);
    static const char zeros[] = "0000000000000000000000000000000000000000000000000000000000000000";
    sg_auto_free char *command =
        sg_printf("n() { printf \"\\\\$(printf %%03o $1)\\0\\0\\0\\0\\0\\0\\0\"; };"
                  "{ n 1; printf '\\002\\001\\0\\0\\0\\0\\0\\0'; n 64; printf %s; n 1; printf o; n "
                  "1; printf k;"
                  " n 6; printf denied; n 0; n 2; printf '{}'; n 2; printf r1; } | sha256sum",
                  zeros);
    FILE *f = popen(command, "re");
    char wanted[65] = "";
    assert_non_null(f);
    assert_int_equal(fread(wanted, 1, 64, f), 64);
    assert_int_equal(pclose(f), 0);
    assert_string_equal(verify(r).head, wanted);
}

static void a_long_record_is_checked_in_slices_that_fit_together(void **state)
{
    struct rig *r = *state;
    add(r, 1750); /* neither a whole number of slices nor less than one */
    close_rig(r);
    open_rig(r);
    struct sg_audit_verdict v = verify(r);
    assert_int_equal(v.records, 1750);
    assert_int_equal(v.broken_at, 0);
    add(r, 250);
    close_rig(r);
    open_rig(r);
    assert_int_equal(verify(r).records, 2000); /* slices end where the record ends */
}

/* What somebody with the database in hands may do, and where it shows. */
static const struct {
    const char *what, *sql;
    int64_t broken_at;
} attacks[] = {
    { "nothing", "SELECT 1", 0 },
    { "a field changed", "UPDATE audit SET detail = '{}' WHERE seq = 4", 4 },
    { "an actor changed", "UPDATE audit SET actor = 'k2' WHERE seq = 2", 2 },
    { "a time changed", "UPDATE audit SET at_ms = at_ms + 1 WHERE seq = 10", 10 },
    { "a byte moved to the next field", "UPDATE audit SET org = 'o', actor = '1k1' WHERE seq = 3",
      3 },
    { "one removed", "DELETE FROM audit WHERE seq = 5", 6 },
    { "the first removed", "DELETE FROM audit WHERE seq = 1", 2 },
    { "one removed and the rest renumbered",
      "DELETE FROM audit WHERE seq = 5; UPDATE audit SET seq = seq - 1 WHERE seq > 5", 5 },
    { "two exchanged",
      "UPDATE audit SET seq = 99 WHERE seq = 5; UPDATE audit SET seq = 5 WHERE seq = 6;"
      "UPDATE audit SET seq = 6 WHERE seq = 99",
      5 },
    { "one put in at the end",
      "INSERT INTO audit SELECT 11, at_ms, org, actor, action, sandbox, detail, request, prev, hash"
      " FROM audit WHERE seq = 10",
      11 },
    { "one put in before the first",
      "INSERT INTO audit SELECT 0, at_ms, org, actor, action, sandbox, detail, request, prev, hash"
      " FROM audit WHERE seq = 1",
      1 },
    { "a hash changed", "UPDATE audit SET hash = 'ff' WHERE seq = 7", 7 },
    { "a hash removed", "UPDATE audit SET hash = NULL WHERE seq = 7", 7 },
};

static void change_removal_and_insertion_are_found(void **state)
{
    struct rig *r = *state;
    struct sg_err err = { 0 };
    add(r, 10);
    close_rig(r);
    open_rig(r);
    sg_auto_db *db = NULL;
    int code;
    assert_ok(sg_db_open(r->path, SQLITE_OPEN_READWRITE, &db, &code, &err), err);
    assert_ok(sg_db_run(db,
                        "DROP TRIGGER audit_keeps_records; DROP TRIGGER audit_loses_no_records;"
                        "CREATE TABLE copy AS SELECT * FROM audit",
                        &err),
              err);
    for (size_t i = 0; i < SG_COUNT(attacks); i++) {
        assert_ok(sg_db_run(db, attacks[i].sql, &err), err);
        struct sg_audit_verdict v = verify(r);
        if (v.broken_at != attacks[i].broken_at)
            fail_msg("%s: broken at %d", attacks[i].what, (int)v.broken_at);
        assert_ok(sg_db_run(db, "DELETE FROM audit; INSERT INTO audit SELECT * FROM copy", &err),
                  err);
    }
}

static void a_cut_end_shows_in_the_head(void **state)
{
    struct rig *r = *state;
    struct sg_err err = { 0 };
    add(r, 3);
    close_rig(r);
    open_rig(r);
    struct sg_audit_verdict before = verify(r);
    sg_auto_db *db = NULL;
    int code;
    assert_ok(sg_db_open(r->path, SQLITE_OPEN_READWRITE, &db, &code, &err), err);
    assert_ok(
        sg_db_run(db, "DROP TRIGGER audit_loses_no_records; DELETE FROM audit WHERE seq = 3", &err),
        err);
    struct sg_audit_verdict after = verify(r);
    assert_int_equal(after.broken_at, 0);
    assert_string_not_equal(before.head, after.head);
}

static void the_store_itself_changes_no_record(void **state)
{
    struct rig *r = *state;
    struct sg_err err = { 0 };
    add(r, 1);
    close_rig(r);
    open_rig(r);
    sg_auto_db *db = NULL;
    int code;
    assert_ok(sg_db_open(r->path, SQLITE_OPEN_READWRITE, &db, &code, &err), err);
    assert_fails(sg_db_run(db, "UPDATE audit SET actor = 'x'", &err), err, SG_CONFLICT);
    assert_fails(sg_db_run(db, "DELETE FROM audit", &err), err, SG_CONFLICT);
}

static void set_file_limit(rlim_t bytes)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void settle(struct rig *r)
{
    struct sg_err err = { 0 };
    for (unsigned i = 0; i < 1000 && sg_store_stats(r->store).queued; i++)
        assert_ok(sg_loop_turn(r->loop, 1000, &err), err);
    assert_int_equal(sg_store_stats(r->store).queued, 0);
}

static void records_of_a_full_disk_are_added_when_there_is_room(void **state)
{
    struct rig *r = *state;
    add(r, 2);
    settle(r);
    const struct sigaction ignore = { .sa_handler = SIG_IGN };
    assert_int_equal(sigaction(SIGXFSZ, &ignore, NULL), 0);
    set_file_limit(1);
    add(r, 2);
    settle(r);
    add(r, 1); /* the two are offered again, in vain */
    settle(r);
    assert_int_equal(sg_store_stats(r->store).failures, 2 + 3);
    set_file_limit(RLIM_INFINITY);
    assert_int_equal(verify(r).records, 2);
    add(r, 1);
    settle(r);
    struct sg_audit_verdict v = verify(r);
    assert_int_equal(v.records, 6);
    assert_int_equal(v.broken_at, 0);
}

#define ROW(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ROW(an_empty_record_is_whole),
        ROW(the_chain_goes_on_after_a_restart),
        ROW(the_hash_is_what_the_header_says),
        ROW(a_long_record_is_checked_in_slices_that_fit_together),
        ROW(change_removal_and_insertion_are_found),
        ROW(a_cut_end_shows_in_the_head),
        ROW(the_store_itself_changes_no_record),
        ROW(records_of_a_full_disk_are_added_when_there_is_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
