/* SPDX-License-Identifier: Apache-2.0 */
/* Builds of templates: what each made, and what it said. */
#include "base/auto.h"
#include "store/table.h"
#include "base/banned.h"

#define TEXT(field) SG_COL_TEXT(struct sg_build_row, field)
#define INT(field)  SG_COL_INT(struct sg_build_row, field)
#define NAMES       "id, template, state, detail, log, created_ms, updated_ms"

static const struct sg_column v[] = {
    TEXT(id),  TEXT(template),  TEXT(state),     TEXT(detail),
    TEXT(log), INT(created_ms), INT(updated_ms),
};
static const struct sg_columns columns = { v, SG_COUNT(v), sizeof(struct sg_build_row) };

static const struct sg_write_kind put = {
    SG_WRITE_PUT_BUILD,
    &columns,
    { "INSERT OR REPLACE INTO builds (" NAMES ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)" },
};
static const struct sg_write_kind removal = {
    SG_WRITE_REMOVE_BUILD,
    &sg_id_columns,
    { "DELETE FROM builds WHERE id = ?1" },
};

void sg_store_put_build(struct sg_store *s, const struct sg_build_row *r, enum sg_store_mode mode,
                        sg_store_done *done, void *arg)
{
    sg_store_write(s, &put, r, mode, done, arg);
}

void sg_store_remove_build(struct sg_store *s, const char *id, sg_store_done *done, void *arg)
{
    const struct sg_id_row r = { id };
    sg_store_write(s, &removal, &r, SG_STORE_FULL, done, arg);
}

int sg_store_each_build(struct sg_store *s, bool (*row)(void *arg, const struct sg_build_row *r),
                        void *arg, struct sg_err *err)
{
    struct sg_build_row r;
    sg_auto_cursor c;
    if (sg_cursor_open(&c, s, &columns, "SELECT " NAMES " FROM builds ORDER BY created_ms, id",
                       err) < 0)
        return -1;
    int got;
    while ((got = sg_cursor_next(&c, &r, err)) > 0 && row(arg, &r))
        ;
    return got < 0 ? -1 : 0;
}
