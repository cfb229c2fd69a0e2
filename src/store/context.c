/* SPDX-License-Identifier: Apache-2.0 */
#include "base/auto.h"
#include "store/table.h"
#include "base/banned.h"

#define NAMES "id, sandbox, spec, created_ms"

static const struct sg_column v[] = {
    SG_COL_TEXT(struct sg_context_row, id),
    SG_COL_TEXT(struct sg_context_row, sandbox),
    SG_COL_TEXT(struct sg_context_row, spec),
    SG_COL_INT(struct sg_context_row, created_ms),
};
static const struct sg_columns columns = { v, SG_COUNT(v), sizeof(struct sg_context_row) };

static const struct sg_write_kind put = {
    SG_WRITE_PUT_CONTEXT,
    &columns,
    { "INSERT OR REPLACE INTO contexts (" NAMES ") VALUES (?1, ?2, ?3, ?4)" },
};

static const struct sg_write_kind removal = {
    SG_WRITE_REMOVE_CONTEXT,
    &sg_id_columns,
    { "DELETE FROM contexts WHERE id = ?1" },
};

void sg_store_put_context(struct sg_store *s, const struct sg_context_row *r,
                          enum sg_store_mode mode, sg_store_done *done, void *arg)
{
    sg_store_write(s, &put, r, mode, done, arg);
}

void sg_store_remove_context(struct sg_store *s, const char *id, sg_store_done *done, void *arg)
{
    const struct sg_id_row r = { id };
    sg_store_write(s, &removal, &r, SG_STORE_NORMAL, done, arg);
}

int sg_store_each_context(struct sg_store *s, const char *sandbox,
                          bool (*row)(void *arg, const struct sg_context_row *r), void *arg,
                          struct sg_err *err)
{
    static const char some[] =
        "SELECT " NAMES " FROM contexts WHERE sandbox = ?1 ORDER BY created_ms, id";
    struct sg_context_row r;
    sg_auto_cursor c;
    if (sg_cursor_open(&c, s, &columns, some, err) < 0)
        return -1;
    (void)sqlite3_bind_text(c.stmt, 1, sandbox, -1, SQLITE_STATIC);
    int got;
    while ((got = sg_cursor_next(&c, &r, err)) > 0 && row(arg, &r))
        ;
    return got < 0 ? -1 : 0;
}
