/* SPDX-License-Identifier: Apache-2.0 */
#include "store_rig.h"

#include <inttypes.h>

#include <sqlite3.h>

#include "store/db.h"
#include "base/banned.h"

/* All rows of a kind as text, one a line: easy to compare, and NULL is seen. */
struct text {
    char s[4096];
    size_t n;
};

__attribute__((format(printf, 2, 3))) static void add_line(struct text *t, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(t->s + t->n, sizeof t->s - t->n, fmt, ap);
    va_end(ap);
    assert_true(n >= 0 && t->n + (size_t)n < sizeof t->s);
    t->n += (size_t)n;
}
#define T(s) ((s) ? (s) : "NULL")

static bool sandbox_line(void *arg, const struct sg_sandbox_row *r)
{
    add_line(arg, "%s %s %s %s %s %s %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 "\n", T(r->id),
             T(r->org), T(r->template), T(r->state), T(r->cause), T(r->spec), r->created_ms,
             r->started_ms, r->expires_ms, r->updated_ms);
    return true;
}

static bool exec_line(void *arg, const struct sg_exec_row *r)
{
    add_line(arg, "%s %s %s %s %s", T(r->id), T(r->sandbox), T(r->spec), T(r->state), T(r->ending));
    add_line(arg, " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64, r->code, r->signal,
             r->started_ms, r->ended_ms);
    add_line(arg, " %" PRId64 " %" PRId64 " %" PRId64 "\n", r->out_bytes, r->err_bytes, r->cpu_ns);
    return true;
}

static bool org_line(void *arg, const struct sg_org_row *r)
{
    add_line(arg, "%s %s %s %" PRId64 "\n", T(r->id), T(r->name), T(r->quota), r->created_ms);
    return true;
}

static bool key_line(void *arg, const struct sg_key_row *r)
{
    add_line(arg, "%s %s %s %s %s %s %s", T(r->id), T(r->org), T(r->name), T(r->hash), T(r->shown),
             T(r->scopes), T(r->templates));
    add_line(arg, " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 "\n", r->created_ms,
             r->expires_ms, r->revoked_ms, r->rate_per_s);
    return true;
}

static bool event_line(void *arg, const struct sg_event_row *r)
{
    add_line(arg, "%" PRId64 " %" PRId64 " %s %s %s %s\n", r->seq, r->at_ms, T(r->org),
             T(r->sandbox), T(r->type), T(r->data));
    return true;
}

static bool audit_line(void *arg, const struct sg_audit_row *r)
{
    add_line(arg, "%" PRId64 " %" PRId64 " %s %s %s %s %s %s %s %s\n", r->seq, r->at_ms, T(r->org),
             T(r->actor), T(r->action), T(r->sandbox), T(r->detail), T(r->request), T(r->prev),
             T(r->hash));
    return true;
}

static bool usage_line(void *arg, const struct sg_usage_row *r)
{
    add_line(arg, "%s %s %" PRId64, T(r->org), T(r->sandbox), r->hour);
    add_line(arg, " %" PRId64 " %" PRId64 " %" PRId64, r->wall_ms, r->cpu_ns, r->mem_mib_ms);
    add_line(arg, " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 "\n", r->execs, r->creates,
             r->bytes_in, r->bytes_out);
    return true;
}

/* Compares what an each-function prints; `...` are its own arguments. */
#define assert_rows(r, each, line, wanted, ...)                                                    \
    do {                                                                                           \
        struct text t_ = { 0 };                                                                    \
        struct sg_err err_ = { 0 };                                                                \
        assert_ok(each((r)->store, ##__VA_ARGS__, line, &t_, &err_), err_);                        \
        assert_string_equal(t_.s, wanted);                                                         \
    } while (0)

static void write_one_of_each(struct rig *r)
{
    sg_store_put_sandbox(r->store,
                         &(struct sg_sandbox_row) { "s1", "o1", "base", "running", "", "{\"a\":1}",
                                                    INT64_MAX, 2, 3, -4 },
                         SG_STORE_NORMAL, count_done, r);
    sg_store_put_exec(
        r->store, &(struct sg_exec_row) { "x1", "s1", "[]", "ended", NULL, 1, 2, 3, 4, 5, 6, 7 },
        SG_STORE_SOON, count_done, r);
    sg_store_put_org(r->store, &(struct sg_org_row) { "o1", "caf\xc3\xa9", "{}", NULL, 8 },
                     SG_STORE_FULL, count_done, r);
    sg_store_put_key(
        r->store,
        &(struct sg_key_row) { "k1", "o1", "n", "h", "e2b_1", "read exec", "[]", 1, 2, 3, 4 },
        SG_STORE_FULL, count_done, r);
    sg_store_add_event(r->store,
                       &(struct sg_event_row) { 1, 2, "o1", NULL, "sandbox.created", "{}" });
    sg_store_add_usage(r->store, &(struct sg_usage_row) { .org = "o1",
                                                          .sandbox = "s1",
                                                          .hour = 7,
                                                          .tier = "cell",
                                                          .operation = "execute_code",
                                                          .wall_ms = 1,
                                                          .cpu_ns = 2,
                                                          .mem_mib_ms = 3,
                                                          .execs = 4,
                                                          .creates = 5,
                                                          .bytes_in = 6,
                                                          .bytes_out = INT64_MAX });
    sg_store_add_audit(
        r->store,
        &(struct sg_audit_row) { 1, 2, "o1", "k1", "exec.start", "s1", "{}", "r1", "p", "h" },
        SG_STORE_SOON, count_done, r);
    wait_for(r, 5);
}

static void everything_comes_back_after_a_restart(void **state)
{
    struct rig *r = *state;
    assert_true(r->report.was_new && !r->report.moved_aside[0]);
    write_one_of_each(r);
    for (unsigned round = 0; round < 2; round++) {
        assert_rows(r, sg_store_each_sandbox, sandbox_line,
                    "s1 o1 base running  {\"a\":1} 9223372036854775807 2 3 -4\n");
        assert_rows(r, sg_store_each_exec, exec_line, "x1 s1 [] ended NULL 1 2 3 4 5 6 7\n", NULL);
        assert_rows(r, sg_store_each_org, org_line, "o1 caf\xc3\xa9 {} 8\n");
        assert_rows(r, sg_store_each_key, key_line, "k1 o1 n h e2b_1 read exec [] 1 2 3 4\n");
        assert_rows(r, sg_store_each_event, event_line, "1 2 o1 NULL sandbox.created {}\n", 0);
        assert_rows(r, sg_store_each_usage, usage_line, "o1 s1 7 1 2 3 4 5 6 9223372036854775807\n",
                    NULL, 0);
        assert_rows(r, sg_store_each_audit, audit_line, "1 2 o1 k1 exec.start s1 {} r1 p h\n", 0);
        reopen(r);
        assert_false(r->report.was_new);
        assert_int_equal(r->report.migrated_from, r->report.schema);
    }
    struct sg_store_last last;
    struct sg_err err = { 0 };
    assert_ok(sg_store_last(r->store, &last, &err), err);
    assert_int_equal(last.event_seq, 1);
    assert_int_equal(last.audit_seq, 1);
    assert_string_equal(last.audit_hash, "h");
}

static void the_end_of_nothing_is_zero(void **state)
{
    struct rig *r = *state;
    struct sg_store_last last;
    struct sg_err err = { 0 };
    assert_ok(sg_store_last(r->store, &last, &err), err);
    assert_int_equal(last.event_seq, 0);
    assert_int_equal(last.audit_seq, 0);
    assert_string_equal(last.audit_hash, "");
}

static void works_in_memory(void **state)
{
    struct rig *r = *state;
    struct sg_err err = { 0 };
    sg_store_close(r->store);
    r->store = sg_store_open(r->loop, ":memory:", &r->report, &err);
    assert_non_null(r->store);
    write_one_of_each(r);
    assert_rows(r, sg_store_each_exec, exec_line, "x1 s1 [] ended NULL 1 2 3 4 5 6 7\n", "s1");
    assert_rows(r, sg_store_each_exec, exec_line, "", "s2");
    assert_int_equal(sg_store_stats(r->store).queued, 0);
}

static bool stop_at_first(void *arg, const struct sg_sandbox_row *row)
{
    (void)row;
    ++*(unsigned *)arg;
    return false;
}

static void rows_come_in_the_order_of_their_making_until_the_reader_stops(void **state)
{
    struct rig *r = *state;
    static const struct sg_sandbox_row rows[] = { { .id = "a", .created_ms = 3 },
                                                  { .id = "c", .created_ms = 1 },
                                                  { .id = "b", .created_ms = 1 } };
    for (size_t i = 0; i < SG_COUNT(rows); i++)
        sg_store_put_sandbox(r->store, &rows[i], SG_STORE_NORMAL, count_done, r);
    wait_for(r, 3);
    assert_rows(r, sg_store_each_sandbox, sandbox_line,
                "b NULL NULL NULL NULL NULL 1 0 0 0\nc NULL NULL NULL NULL NULL 1 0 0 0\n"
                "a NULL NULL NULL NULL NULL 3 0 0 0\n");
    unsigned seen = 0;
    struct sg_err err = { 0 };
    assert_ok(sg_store_each_sandbox(r->store, stop_at_first, &seen, &err), err);
    assert_int_equal(seen, 1);
}

struct ordered {
    struct rig *rig;
    unsigned number;
};

static void check_order(void *arg, const struct sg_err *err)
{
    const struct ordered *o = arg;
    assert_null(err);
    assert_int_equal(o->rig->done++, o->number);
}

static void writes_happen_in_the_order_asked_for_and_share_commits(void **state)
{
    enum { COUNT = 500 };
    struct rig *r = *state;
    static struct ordered order[COUNT];
    char name[16];
    for (unsigned i = 0; i < COUNT; i++) {
        order[i] = (struct ordered) { r, i };
        (void)snprintf(name, sizeof name, "n%u", i); /* overwritten at once: the store copies */
        struct sg_sandbox_row row = sandbox_row("s", name);
        if (i % 100 == 50)
            sg_store_remove_sandbox(r->store, "s", check_order, &order[i]);
        else
            sg_store_put_sandbox(r->store, &row, SG_STORE_NORMAL, check_order, &order[i]);
    }
    assert_int_equal(sg_store_stats(r->store).queued, COUNT);
    wait_for(r, COUNT);
    assert_rows(r, sg_store_each_sandbox, sandbox_line, "s NULL NULL n499 NULL NULL 0 0 0 0\n");
    struct sg_store_stats stats = sg_store_stats(r->store);
    assert_int_equal(stats.writes, COUNT);
    assert_int_equal(stats.commits, 1);
    assert_int_equal(stats.queued, 0);
    assert_true(stats.file_bytes > 0);
}

static void removal_takes_what_belongs_to_it_and_no_more(void **state)
{
    struct rig *r = *state;
    put_sandbox(r, "s1", "a");
    put_sandbox(r, "s2", "b");
    for (unsigned i = 0; i < 4; i++) {
        static const char *const ids[] = { "x0", "x1", "x2", "x3" };
        struct sg_exec_row x = { .id = ids[i], .sandbox = i % 2 ? "s1" : "s2" };
        sg_store_put_exec(r->store, &x, SG_STORE_NORMAL, count_done, r);
        struct sg_key_row k = { .id = ids[i], .org = i % 2 ? "o1" : "o2" };
        sg_store_put_key(r->store, &k, SG_STORE_NORMAL, count_done, r);
    }
    sg_store_put_org(r->store, &(struct sg_org_row) { .id = "o1" }, SG_STORE_NORMAL, count_done, r);
    sg_store_put_org(r->store, &(struct sg_org_row) { .id = "o2" }, SG_STORE_NORMAL, count_done, r);
    sg_store_remove_sandbox(r->store, "s1", count_done, r);
    sg_store_remove_org(r->store, "o1", count_done, r);
    sg_store_remove_org(r->store, "none", count_done, r); /* what is not there is gone already */
    wait_for(r, 15);
    assert_int_equal(r->failed, 0);
    assert_rows(r, sg_store_each_sandbox, sandbox_line, "s2 NULL NULL b NULL NULL 0 0 0 0\n");
    assert_rows(r, sg_store_each_exec, exec_line,
                "x0 s2 NULL NULL NULL 0 0 0 0 0 0 0\nx2 s2 NULL NULL NULL 0 0 0 0 0 0 0\n", NULL);
    assert_rows(r, sg_store_each_org, org_line, "o2 NULL NULL 0\n");
    assert_rows(r, sg_store_each_key, key_line,
                "x0 o2 NULL NULL NULL NULL NULL 0 0 0 0\nx2 o2 NULL NULL NULL NULL NULL 0 0 0 0\n");
}

#define USED(o, s, h, wall, cpu, mem, x, c, in, out)                                               \
    {                                                                                              \
        .org = (o), .sandbox = (s), .hour = (h), .wall_ms = (wall), .cpu_ns = (cpu),               \
        .mem_mib_ms = (mem), .execs = (x), .creates = (c), .bytes_in = (in), .bytes_out = (out)    \
    }
static void usage_adds_up_by_hour_and_is_summed_by_sandbox(void **state)
{
    struct rig *r = *state;
    static const struct sg_usage_row rows[] = {
        USED("o1", "s1", 5, 1, 1, 1, 1, 1, 1, 1), USED("o1", "s1", 6, 1, 2, 3, 4, 5, 6, 7),
        USED("o1", "s1", 6, 1, 2, 3, 4, 5, 6, 7), USED("o1", "s1", 7, 9, 0, 0, 0, 0, 0, 0),
        USED("o1", "s2", 6, 1, 0, 0, 0, 0, 0, 0), USED("o2", "s3", 6, 5, 0, 0, 0, 0, 0, 0),
    };
    for (size_t i = 0; i < SG_COUNT(rows); i++)
        sg_store_add_usage(r->store, &rows[i]);
    sg_store_add_usage(r->store, &(struct sg_usage_row) { .org = NULL, .hour = 6 });
    put_sandbox(r, "s", "after");
    wait_for(r, 1);
    assert_int_equal(sg_store_stats(r->store).failures, 0);
    assert_rows(r, sg_store_each_usage, usage_line,
                "o1 s1 6 11 4 6 8 10 12 14\no1 s2 6 1 0 0 0 0 0 0\n", "o1", 6);
    assert_rows(r, sg_store_each_usage, usage_line,
                "  6 0 0 0 0 0 0 0\no1 s1 6 11 4 6 8 10 12 14\no1 s2 6 1 0 0 0 0 0 0\n"
                "o2 s3 6 5 0 0 0 0 0 0\n",
                NULL, 6);
}

static void usage_is_summed_by_tier_and_operation_and_the_meter_is_kept(void **state)
{
    struct rig *r = *state;
    static const struct sg_usage_row rows[] = {
        { .org = "o1",
          .sandbox = "s1",
          .hour = 6,
          .tier = "cell",
          .operation = "a",
          .wall_ms = 1,
          .meter_cpu_ns = 10,
          .meter_at_ms = 1 },
        { .org = "o1",
          .sandbox = "s1",
          .hour = 6,
          .tier = "cell",
          .operation = "a",
          .wall_ms = 2,
          .meter_cpu_ns = 20,
          .meter_at_ms = 2 },
        { .org = "o1", .sandbox = "s1", .hour = 6, .tier = "cell", .operation = "a", .execs = 1 },
        { .org = "o1",
          .sandbox = "s2",
          .hour = 6,
          .tier = "gvisor",
          .operation = "a",
          .wall_ms = 4 },
        { .org = "o1",
          .sandbox = "s3",
          .hour = 6,
          .tier = "gvisor",
          .operation = "b",
          .wall_ms = 8 },
    };
    uint64_t cpu_ns = 0;
    int64_t at_ms = 0;
    for (size_t i = 0; i < SG_COUNT(rows); i++)
        sg_store_add_usage(r->store, &rows[i]);
    put_sandbox(r, "s1", "a");
    wait_for(r, 1);
    assert_rows(r, sg_store_sum_usage, usage_line, "  0 3 0 0 1 0 0 0\n  0 12 0 0 0 0 0 0\n", NULL,
                0, SG_USAGE_BY_TIER);
    assert_rows(r, sg_store_sum_usage, usage_line, "  0 7 0 0 1 0 0 0\n  0 8 0 0 0 0 0 0\n", NULL,
                0, SG_USAGE_BY_OPERATION);
    assert_true(sg_store_meter(r->store, "s1", &cpu_ns, &at_ms));
    assert_int_equal(cpu_ns, 20); /* what says nothing of it leaves it alone */
    assert_int_equal(at_ms, 2);
    assert_false(sg_store_meter(r->store, "s2", &cpu_ns, &at_ms));
    sg_store_remove_sandbox(r->store, "s1", count_done, r);
    wait_for(r, 2);
    assert_false(sg_store_meter(r->store, "s1", &cpu_ns, &at_ms)); /* it goes with the sandbox */
}

static void old_events_are_pruned(void **state)
{
    struct rig *r = *state;
    const int64_t big = (SG_STORE_EVENTS_KEPT / 1024 + 1) * 1024;
    for (int64_t seq = 1; seq <= 3000; seq++)
        sg_store_add_event(r->store, &(struct sg_event_row) { .seq = seq, .type = "t" });
    sg_store_add_event(r->store, &(struct sg_event_row) { .seq = big - 1, .type = "last but one" });
    put_sandbox(r, "s", "1");
    wait_for(r, 1);
    struct text all = { 0 };
    struct sg_err err = { 0 };
    assert_ok(sg_store_each_event(r->store, 2998, event_line, &all, &err), err);
    assert_non_null(strstr(all.s, "2999 "));
    sg_store_add_event(r->store, &(struct sg_event_row) { .seq = big, .type = "last" });
    put_sandbox(r, "s", "2");
    wait_for(r, 2);
    sqlite3 *db;
    int64_t first;
    int code;
    assert_ok(sg_db_open(r->path, SQLITE_OPEN_READONLY, &db, &code, &err), err);
    assert_ok(sg_db_number(db, "SELECT min(seq) FROM events", &first, &err), err);
    sg_db_close_p(&db);
    assert_int_equal(first, big - SG_STORE_EVENTS_KEPT + 1);
}

static void a_write_against_the_rules_fails_alone(void **state)
{
    struct rig *r = *state;
    struct sg_audit_row a = { .seq = 1, .hash = "first" };
    put_sandbox(r, "s1", "before");
    sg_store_add_audit(r->store, &a, SG_STORE_NORMAL, count_done, r);
    a.hash = "second";
    sg_store_add_audit(r->store, &a, SG_STORE_NORMAL, count_done, r);
    put_sandbox(r, "s2", "after");
    wait_for(r, 4);
    assert_int_equal(r->failed, 1);
    assert_int_equal(r->err.kind, SG_CONFLICT);
    assert_int_equal(sg_store_stats(r->store).commits, 1);
    assert_rows(r, sg_store_each_audit, audit_line,
                "1 0 NULL NULL NULL NULL NULL NULL NULL first\n", 0);
    assert_rows(r, sg_store_each_sandbox, sandbox_line,
                "s1 NULL NULL before NULL NULL 0 0 0 0\ns2 NULL NULL after NULL NULL 0 0 0 0\n");
}

static void write_another(void *arg, const struct sg_err *err)
{
    struct rig *r = arg;
    assert_null(err);
    if (++r->done == 1) {
        struct sg_sandbox_row row = sandbox_row("s2", "from a callback");
        sg_store_put_sandbox(r->store, &row, SG_STORE_FULL, write_another, r);
    } else if (r->done == 2) {
        put_sandbox(r, "s3", "from a callback of a callback");
    }
}

static void closing_finishes_what_is_queued_and_what_its_callbacks_queue(void **state)
{
    struct rig *r = *state;
    struct sg_sandbox_row row = sandbox_row("s1", "queued");
    sg_store_put_sandbox(r->store, &row, SG_STORE_FULL, write_another, r);
    reopen(r);
    assert_int_equal(r->done, 3);
    struct text t = { 0 };
    struct sg_err err = { 0 };
    assert_ok(sg_store_each_sandbox(r->store, sandbox_line, &t, &err), err);
    assert_true(strstr(t.s, "s1 ") && strstr(t.s, "s2 ") && strstr(t.s, "s3 "));
}

static void the_log_is_moved_into_the_database_while_writes_go_on(void **state)
{
    struct rig *r = *state;
    static char big[2000];
    memset(big, 'x', sizeof big - 1);
    uint64_t most = 0;
    for (unsigned i = 0; i < 1000; i++) {
        for (unsigned k = 0; k < 40; k++) {
            char id[16];
            (void)snprintf(id, sizeof id, "s%u", k);
            put_sandbox(r, id, big);
        }
        wait_for(r, (i + 1) * 40);
        const uint64_t bytes = sg_store_stats(r->store).file_bytes;
        most = bytes > most ? bytes : most;
    }
    assert_int_equal(r->failed, 0);
    if (most > 40 << 20) /* about 100 MB were written, in 40 rows */
        fail_msg("the store grew to %" PRIu64 " bytes", most);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ROW(everything_comes_back_after_a_restart),
        ROW(the_end_of_nothing_is_zero),
        ROW(works_in_memory),
        ROW(rows_come_in_the_order_of_their_making_until_the_reader_stops),
        ROW(writes_happen_in_the_order_asked_for_and_share_commits),
        ROW(removal_takes_what_belongs_to_it_and_no_more),
        ROW(usage_adds_up_by_hour_and_is_summed_by_sandbox),
        ROW(usage_is_summed_by_tier_and_operation_and_the_meter_is_kept),
        ROW(old_events_are_pruned),
        ROW(a_write_against_the_rules_fails_alone),
        ROW(closing_finishes_what_is_queued_and_what_its_callbacks_queue),
        ROW(the_log_is_moved_into_the_database_while_writes_go_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
