/* SPDX-License-Identifier: Apache-2.0 */
#include "store/table.h"

#include "base/auto.h"
#include "store/db.h"
#include "store/store_internal.h"
#include "base/banned.h"

static const struct sg_column id_column[] = { SG_COL_TEXT(struct sg_id_row, id) };
const struct sg_columns sg_id_columns = { id_column, SG_COUNT(id_column),
                                          sizeof(struct sg_id_row) };

static const void *field_of(const void *row, const struct sg_column *c)
{
    return (const char *)row + c->offset;
}

int sg_row_bind(sqlite3_stmt *stmt, const struct sg_columns *columns, const void *row)
{
    const int wanted = sqlite3_bind_parameter_count(stmt);
    for (int i = 0; i < wanted; i++) {
        const struct sg_column *c = &columns->v[i];
        /* Static: the row outlives the step, and the next step binds anew. */
        int code = c->is_text ? sqlite3_bind_text(stmt, i + 1, *(char *const *)field_of(row, c), -1,
                                                  SQLITE_STATIC)
                              : sqlite3_bind_int64(stmt, i + 1, *(const int64_t *)field_of(row, c));
        if (code != SQLITE_OK)
            return code;
    }
    return SQLITE_OK;
}

int sg_cursor_open(struct sg_cursor *c, struct sg_store *s, const struct sg_columns *columns,
                   const char *sql, struct sg_err *err)
{
    *c = (struct sg_cursor) { .db = s->reader, .columns = columns };
    return sg_db_prepare(c->db, sql, 0, &c->stmt, err);
}

void sg_cursor_close(struct sg_cursor *c)
{
    (void)sqlite3_finalize(c->stmt);
}

int sg_cursor_next(struct sg_cursor *c, void *row, struct sg_err *err)
{
    int code = sqlite3_step(c->stmt);
    if (code == SQLITE_DONE)
        return 0;
    if (code != SQLITE_ROW)
        return sg_db_fail(c->db, code, "read the store", err);
    for (unsigned i = 0; i < c->columns->n; i++) {
        const struct sg_column *column = &c->columns->v[i];
        char *field = (char *)row + column->offset;
        if (column->is_text)
            *(const char **)(void *)field = (const char *)sqlite3_column_text(c->stmt, (int)i);
        else
            *(int64_t *)(void *)field = sqlite3_column_int64(c->stmt, (int)i);
    }
    return 1;
}
