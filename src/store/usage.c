/* SPDX-License-Identifier: Apache-2.0 */
#include "base/auto.h"
#include "store/table.h"
#include "base/banned.h"

#define TEXT(field) SG_COL_TEXT(struct sg_usage_row, field)
#define INT(field)  SG_COL_INT(struct sg_usage_row, field)
#define NAMES       "org, sandbox, hour, wall_ms, cpu_ns, mem_mib_ms, execs, creates, bytes_in, bytes_out"

static const struct sg_column v[] = {
    TEXT(org),       TEXT(sandbox), INT(hour),    INT(wall_ms),  INT(cpu_ns),
    INT(mem_mib_ms), INT(execs),    INT(creates), INT(bytes_in), INT(bytes_out),
};
static const struct sg_columns columns = { v, SG_COUNT(v), sizeof(struct sg_usage_row) };

static const char add_sql[] =
    "INSERT INTO usage (" NAMES ")"
    " VALUES (ifnull(?1, ''), ifnull(?2, ''), ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)"
    " ON CONFLICT (hour, org, sandbox) DO UPDATE SET"
    " wall_ms = wall_ms + excluded.wall_ms,"
    " cpu_ns = cpu_ns + excluded.cpu_ns,"
    " mem_mib_ms = mem_mib_ms + excluded.mem_mib_ms,"
    " execs = execs + excluded.execs,"
    " creates = creates + excluded.creates,"
    " bytes_in = bytes_in + excluded.bytes_in,"
    " bytes_out = bytes_out + excluded.bytes_out";
static const struct sg_write_kind add = { SG_WRITE_ADD_USAGE, &columns, { add_sql } };

void sg_store_add_usage(struct sg_store *s, const struct sg_usage_row *r)
{
    sg_store_write(s, &add, r, SG_STORE_SOON, NULL, NULL);
}

int sg_store_each_usage(struct sg_store *s, const char *org, int64_t from_hour,
                        bool (*row)(void *arg, const struct sg_usage_row *r), void *arg,
                        struct sg_err *err)
{
    static const char sql[] =
        "SELECT org, sandbox, min(hour), sum(wall_ms), sum(cpu_ns), sum(mem_mib_ms), sum(execs), "
        "sum(creates), sum(bytes_in), sum(bytes_out) FROM usage "
        "WHERE hour >= ?1 AND (?2 IS NULL OR org = ?2) GROUP BY org, sandbox ORDER BY org, sandbox";
    struct sg_usage_row r;
    sg_auto_cursor c;
    if (sg_cursor_open(&c, s, &columns, sql, err) < 0)
        return -1;
    (void)sqlite3_bind_int64(c.stmt, 1, from_hour);
    (void)sqlite3_bind_text(c.stmt, 2, org, -1, SQLITE_STATIC);
    int got;
    while ((got = sg_cursor_next(&c, &r, err)) > 0 && row(arg, &r))
        ;
    return got < 0 ? -1 : 0;
}

int sg_store_sum_usage(struct sg_store *s, const char *org, int64_t from_hour, unsigned by,
                       bool (*row)(void *arg, const struct sg_usage_row *r), void *arg,
                       struct sg_err *err)
{
    static const char sql[] =
        "SELECT CASE WHEN ?3 THEN org ELSE '' END AS o, CASE WHEN ?4 THEN sandbox ELSE '' END AS "
        "b, "
        "CASE WHEN ?5 THEN hour / 24 * 24 ELSE 0 END AS d, sum(wall_ms), sum(cpu_ns), "
        "sum(mem_mib_ms), sum(execs), sum(creates), sum(bytes_in), sum(bytes_out) FROM usage "
        "WHERE hour >= ?1 AND (?2 IS NULL OR org = ?2) GROUP BY o, b, d ORDER BY d, o, b";
    struct sg_usage_row r;
    sg_auto_cursor c;
    if (sg_cursor_open(&c, s, &columns, sql, err) < 0)
        return -1;
    (void)sqlite3_bind_int64(c.stmt, 1, from_hour);
    (void)sqlite3_bind_text(c.stmt, 2, org, -1, SQLITE_STATIC);
    for (int i = 0; i < 3; i++)
        (void)sqlite3_bind_int64(c.stmt, 3 + i, by >> i & 1);
    int got;
    while ((got = sg_cursor_next(&c, &r, err)) > 0 && row(arg, &r))
        ;
    return got < 0 ? -1 : 0;
}
