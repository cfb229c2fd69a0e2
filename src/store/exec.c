/* SPDX-License-Identifier: Apache-2.0 */
#include "base/auto.h"
#include "store/table.h"
#include "base/banned.h"

#define TEXT(field) SG_COL_TEXT(struct sg_exec_row, field)
#define INT(field)  SG_COL_INT(struct sg_exec_row, field)
#define NAMES                                                                                      \
    "id, sandbox, spec, state, ending, code, signal, started_ms, ended_ms, out_bytes, err_bytes, " \
    "cpu_ns"

static const struct sg_column v[] = {
    TEXT(id),    TEXT(sandbox),   TEXT(spec),    TEXT(state),    TEXT(ending),   INT(code),
    INT(signal), INT(started_ms), INT(ended_ms), INT(out_bytes), INT(err_bytes), INT(cpu_ns),
};
static const struct sg_columns columns = { v, SG_COUNT(v), sizeof(struct sg_exec_row) };

static const struct sg_write_kind put = {
    SG_WRITE_PUT_EXEC,
    &columns,
    { "INSERT OR REPLACE INTO execs (" NAMES
      ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)" },
};

static const struct sg_write_kind removal = {
    SG_WRITE_REMOVE_EXEC,
    &sg_id_columns,
    { "DELETE FROM execs WHERE id = ?1" },
};

void sg_store_remove_exec(struct sg_store *s, const char *id, sg_store_done *done, void *arg)
{
    const struct sg_id_row r = { id };
    sg_store_write(s, &removal, &r, SG_STORE_NORMAL, done, arg);
}

void sg_store_put_exec(struct sg_store *s, const struct sg_exec_row *r, enum sg_store_mode mode,
                       sg_store_done *done, void *arg)
{
    sg_store_write(s, &put, r, mode, done, arg);
}

int sg_store_each_exec(struct sg_store *s, const char *sandbox,
                       bool (*row)(void *arg, const struct sg_exec_row *r), void *arg,
                       struct sg_err *err)
{
    static const char all[] = "SELECT " NAMES " FROM execs ORDER BY started_ms, id";
    static const char some[] =
        "SELECT " NAMES " FROM execs WHERE sandbox = ?1 ORDER BY started_ms, id";
    struct sg_exec_row r;
    sg_auto_cursor c;
    if (sg_cursor_open(&c, s, &columns, sandbox ? some : all, err) < 0)
        return -1;
    if (sandbox)
        (void)sqlite3_bind_text(c.stmt, 1, sandbox, -1, SQLITE_STATIC);
    int got;
    while ((got = sg_cursor_next(&c, &r, err)) > 0 && row(arg, &r))
        ;
    return got < 0 ? -1 : 0;
}
