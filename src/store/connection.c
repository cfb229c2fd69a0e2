/* SPDX-License-Identifier: Apache-2.0 */
#include "base/auto.h"
#include "store/table.h"
#include "base/banned.h"

#define TEXT(field) SG_COL_TEXT(struct sg_connection_row, field)
#define INT(field)  SG_COL_INT(struct sg_connection_row, field)
#define NAMES                                                                                      \
    "at_ms, sandbox, verdict, protocol, name, address, port, rule, bytes_out, bytes_in, "          \
    "duration_ms, skipped"

static const struct sg_column v[] = {
    INT(at_ms),       TEXT(sandbox), TEXT(verdict), TEXT(protocol), TEXT(name),
    TEXT(address),    INT(port),     TEXT(rule),    INT(bytes_out), INT(bytes_in),
    INT(duration_ms), INT(skipped),  INT(seq),
};
static const struct sg_columns columns = { v, SG_COUNT(v), sizeof(struct sg_connection_row) };

/* What is too old goes with every 1024th: the first condition costs nothing. */
static const struct sg_write_kind add = {
    SG_WRITE_ADD_CONNECTION,
    &columns,
    { "INSERT INTO connections (" NAMES ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, "
      "?12)",
      "DELETE FROM connections WHERE last_insert_rowid() % 1024 = 0 AND "
      "seq <= last_insert_rowid() - 200000" },
};
_Static_assert(SG_STORE_CONNECTIONS_KEPT == 200000, "as in the query above");

void sg_store_add_connection(struct sg_store *s, const struct sg_connection_row *r)
{
    sg_store_write(s, &add, r, SG_STORE_SOON, NULL, NULL);
}

int sg_store_each_connection(struct sg_store *s, const char *sandbox, int64_t after_seq,
                             unsigned limit,
                             bool (*row)(void *arg, const struct sg_connection_row *r), void *arg,
                             struct sg_err *err)
{
    static const char next[] = "SELECT " NAMES ", seq FROM connections "
                               "WHERE sandbox = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3";
    static const char last[] = "SELECT * FROM (SELECT " NAMES ", seq FROM connections "
                               "WHERE sandbox = ?1 AND seq > ?2 ORDER BY seq DESC LIMIT ?3) "
                               "ORDER BY seq";
    struct sg_connection_row r;
    sg_auto_cursor c;
    if (sg_cursor_open(&c, s, &columns, after_seq ? next : last, err) < 0)
        return -1;
    (void)sqlite3_bind_text(c.stmt, 1, sandbox, -1, SQLITE_STATIC);
    (void)sqlite3_bind_int64(c.stmt, 2, after_seq);
    (void)sqlite3_bind_int64(c.stmt, 3, limit);
    int got;
    while ((got = sg_cursor_next(&c, &r, err)) > 0 && row(arg, &r))
        ;
    return got < 0 ? -1 : 0;
}
