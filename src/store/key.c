/* SPDX-License-Identifier: Apache-2.0 */
#include "base/auto.h"
#include "store/table.h"
#include "base/banned.h"

#define TEXT(field) SG_COL_TEXT(struct sg_key_row, field)
#define INT(field)  SG_COL_INT(struct sg_key_row, field)
#define NAMES                                                                                      \
    "id, org, name, hash, shown, scopes, templates, created_ms, expires_ms, revoked_ms, "          \
    "rate_per_s"

static const struct sg_column v[] = {
    TEXT(id),        TEXT(org),       TEXT(name),      TEXT(hash),
    TEXT(shown),     TEXT(scopes),    TEXT(templates), INT(created_ms),
    INT(expires_ms), INT(revoked_ms), INT(rate_per_s),
};
static const struct sg_columns columns = { v, SG_COUNT(v), sizeof(struct sg_key_row) };

static const struct sg_write_kind put = {
    SG_WRITE_PUT_KEY,
    &columns,
    { "INSERT OR REPLACE INTO keys (" NAMES
      ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)" },
};

void sg_store_put_key(struct sg_store *s, const struct sg_key_row *r, enum sg_store_mode mode,
                      sg_store_done *done, void *arg)
{
    sg_store_write(s, &put, r, mode, done, arg);
}

int sg_store_each_key(struct sg_store *s, bool (*row)(void *arg, const struct sg_key_row *r),
                      void *arg, struct sg_err *err)
{
    struct sg_key_row r;
    sg_auto_cursor c;
    if (sg_cursor_open(&c, s, &columns, "SELECT " NAMES " FROM keys ORDER BY created_ms, id", err) <
        0)
        return -1;
    int got;
    while ((got = sg_cursor_next(&c, &r, err)) > 0 && row(arg, &r))
        ;
    return got < 0 ? -1 : 0;
}
