/* SPDX-License-Identifier: Apache-2.0 */
#include "base/auto.h"
#include "store/table.h"
#include "base/banned.h"

#define TEXT(field) SG_COL_TEXT(struct sg_secret_row, field)
#define INT(field)  SG_COL_INT(struct sg_secret_row, field)
#define NAMES       "id, org, name, metadata, sealed, version, created_ms, updated_ms, binding"

static const struct sg_column v[] = {
    TEXT(id),     TEXT(org),       TEXT(name),      TEXT(metadata), TEXT(sealed),
    INT(version), INT(created_ms), INT(updated_ms), TEXT(binding),
};
static const struct sg_columns columns = { v, SG_COUNT(v), sizeof(struct sg_secret_row) };

static const struct sg_write_kind put = {
    SG_WRITE_PUT_SECRET,
    &columns,
    { "INSERT OR REPLACE INTO secrets (" NAMES ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)" },
};
static const struct sg_write_kind removal = {
    SG_WRITE_REMOVE_SECRET,
    &sg_id_columns,
    { "DELETE FROM secrets WHERE id = ?1" },
};

void sg_store_put_secret(struct sg_store *s, const struct sg_secret_row *r, enum sg_store_mode mode,
                         sg_store_done *done, void *arg)
{
    sg_store_write(s, &put, r, mode, done, arg);
}

/* One that came back after a power cut would be worse than a wait. */
void sg_store_remove_secret(struct sg_store *s, const char *id, sg_store_done *done, void *arg)
{
    const struct sg_id_row r = { id };
    sg_store_write(s, &removal, &r, SG_STORE_FULL, done, arg);
}

int sg_store_each_secret(struct sg_store *s, bool (*row)(void *arg, const struct sg_secret_row *r),
                         void *arg, struct sg_err *err)
{
    struct sg_secret_row r;
    sg_auto_cursor c;
    if (sg_cursor_open(&c, s, &columns, "SELECT " NAMES " FROM secrets ORDER BY created_ms, id",
                       err) < 0)
        return -1;
    int got;
    while ((got = sg_cursor_next(&c, &r, err)) > 0 && row(arg, &r))
        ;
    return got < 0 ? -1 : 0;
}
