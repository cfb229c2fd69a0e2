/* SPDX-License-Identifier: Apache-2.0 */
#include "base/auto.h"
#include "store/table.h"
#include "base/banned.h"

#define TEXT(field) SG_COL_TEXT(struct sg_usage_row, field)
#define INT(field)  SG_COL_INT(struct sg_usage_row, field)

/* The first five are those of the meter's own statement. */
static const struct sg_column v[] = {
    TEXT(org),   TEXT(sandbox),   INT(hour),          INT(meter_cpu_ns),    INT(meter_at_ms),
    TEXT(tier),  TEXT(operation), INT(wall_ms),       INT(cpu_ns),          INT(mem_mib_ms),
    INT(execs),  INT(creates),    INT(bytes_in),      INT(bytes_out),       INT(disk_mib_ms),
    INT(net_in), INT(net_out),    INT(vcpu_milli_ms), INT(allotted_mib_ms),
};
static const struct sg_columns columns = { v, SG_COUNT(v), sizeof(struct sg_usage_row) };

static const char add_sql[] =
    "INSERT INTO usage (org, sandbox, hour, tier, operation, wall_ms, cpu_ns, mem_mib_ms, execs,"
    " creates, bytes_in, bytes_out, disk_mib_ms, net_in, net_out, vcpu_milli_ms, allotted_mib_ms)"
    " VALUES (ifnull(?1, ''), ifnull(?2, ''), ?3, ifnull(?6, 'cell'), ifnull(?7, ''), ?8, ?9, ?10,"
    " ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19)"
    " ON CONFLICT (hour, org, sandbox) DO UPDATE SET"
    " tier = excluded.tier, operation = excluded.operation,"
    " wall_ms = wall_ms + excluded.wall_ms,"
    " cpu_ns = cpu_ns + excluded.cpu_ns,"
    " mem_mib_ms = mem_mib_ms + excluded.mem_mib_ms,"
    " execs = execs + excluded.execs,"
    " creates = creates + excluded.creates,"
    " bytes_in = bytes_in + excluded.bytes_in,"
    " bytes_out = bytes_out + excluded.bytes_out,"
    " disk_mib_ms = disk_mib_ms + excluded.disk_mib_ms,"
    " net_in = net_in + excluded.net_in,"
    " net_out = net_out + excluded.net_out,"
    " vcpu_milli_ms = vcpu_milli_ms + excluded.vcpu_milli_ms,"
    " allotted_mib_ms = allotted_mib_ms + excluded.allotted_mib_ms";
static const char meter_sql[] =
    "INSERT INTO meters (sandbox, cpu_ns, at_ms) SELECT ?2, ?4, ?5 WHERE ?5 > 0"
    " ON CONFLICT (sandbox) DO UPDATE SET cpu_ns = excluded.cpu_ns, at_ms = excluded.at_ms";
static const struct sg_write_kind add = { SG_WRITE_ADD_USAGE, &columns, { add_sql, meter_sql } };

void sg_store_add_usage(struct sg_store *s, const struct sg_usage_row *r)
{
    sg_store_write(s, &add, r, SG_STORE_SOON, NULL, NULL);
}

#define SUMS                                                                                       \
    "sum(wall_ms), sum(cpu_ns), sum(mem_mib_ms), sum(execs), sum(creates), sum(bytes_in), "        \
    "sum(bytes_out), sum(disk_mib_ms), sum(net_in), sum(net_out), sum(vcpu_milli_ms), "            \
    "sum(allotted_mib_ms) FROM usage WHERE hour >= ?1 AND (?2 IS NULL OR org = ?2) "

static int each(struct sg_cursor *c, const char *org, int64_t from_hour,
                bool (*row)(void *arg, const struct sg_usage_row *r), void *arg, struct sg_err *err)
{
    struct sg_usage_row r;
    (void)sqlite3_bind_int64(c->stmt, 1, from_hour);
    (void)sqlite3_bind_text(c->stmt, 2, org, -1, SQLITE_STATIC);
    int got;
    while ((got = sg_cursor_next(c, &r, err)) > 0 && row(arg, &r))
        ;
    return got < 0 ? -1 : 0;
}

int sg_store_each_usage(struct sg_store *s, const char *org, int64_t from_hour,
                        bool (*row)(void *arg, const struct sg_usage_row *r), void *arg,
                        struct sg_err *err)
{
    static const char sql[] =
        "SELECT org, sandbox, min(hour), 0, 0, max(tier), max(operation), " SUMS
        "GROUP BY org, sandbox ORDER BY org, sandbox";
    sg_auto_cursor c;
    if (sg_cursor_open(&c, s, &columns, sql, err) < 0)
        return -1;
    return each(&c, org, from_hour, row, arg, err);
}

int sg_store_sum_usage(struct sg_store *s, const char *org, int64_t from_hour, unsigned by,
                       bool (*row)(void *arg, const struct sg_usage_row *r), void *arg,
                       struct sg_err *err)
{
    static const char sql[] =
        "SELECT CASE WHEN ?3 THEN org ELSE '' END AS o, CASE WHEN ?4 THEN sandbox ELSE '' END AS "
        "b, CASE WHEN ?5 THEN hour / 24 * 24 ELSE 0 END AS d, 0, 0, "
        "CASE WHEN ?6 THEN tier ELSE '' END AS t, CASE WHEN ?7 THEN operation ELSE '' END AS "
        "p, " SUMS "GROUP BY o, b, d, t, p ORDER BY d, o, b, t, p";
    enum { WAYS = 5 };
    sg_auto_cursor c;
    if (sg_cursor_open(&c, s, &columns, sql, err) < 0)
        return -1;
    for (int i = 0; i < WAYS; i++)
        (void)sqlite3_bind_int64(c.stmt, 3 + i, by >> i & 1);
    return each(&c, org, from_hour, row, arg, err);
}

bool sg_store_meter(struct sg_store *s, const char *sandbox, uint64_t *ret_cpu_ns,
                    int64_t *ret_at_ms)
{
    static const char sql[] = "SELECT '', sandbox, 0, cpu_ns, at_ms FROM meters WHERE sandbox = ?1";
    static const struct sg_columns few = { v, 5, sizeof(struct sg_usage_row) };
    struct sg_usage_row r = { 0 };
    struct sg_err err;
    sg_auto_cursor c;
    if (sg_cursor_open(&c, s, &few, sql, &err) < 0)
        return false;
    (void)sqlite3_bind_text(c.stmt, 1, sandbox, -1, SQLITE_STATIC);
    if (sg_cursor_next(&c, &r, &err) <= 0)
        return false;
    *ret_cpu_ns = (uint64_t)r.meter_cpu_ns;
    *ret_at_ms = r.meter_at_ms;
    return true;
}
