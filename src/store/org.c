/* SPDX-License-Identifier: Apache-2.0 */
#include "base/auto.h"
#include "store/table.h"
#include "base/banned.h"

#define TEXT(field) SG_COL_TEXT(struct sg_org_row, field)
#define INT(field)  SG_COL_INT(struct sg_org_row, field)
#define NAMES       "id, name, quota, budget, created_ms"

static const struct sg_column v[] = { TEXT(id), TEXT(name), TEXT(quota), TEXT(budget),
                                      INT(created_ms) };
static const struct sg_columns columns = { v, SG_COUNT(v), sizeof(struct sg_org_row) };

static const struct sg_write_kind put = {
    SG_WRITE_PUT_ORG,
    &columns,
    { "INSERT OR REPLACE INTO orgs (" NAMES ") VALUES (?1, ?2, ?3, ?4, ?5)" },
};
static const struct sg_write_kind removal = {
    SG_WRITE_REMOVE_ORG,
    &sg_id_columns,
    { "DELETE FROM keys WHERE org = ?1", "DELETE FROM orgs WHERE id = ?1" },
};

void sg_store_put_org(struct sg_store *s, const struct sg_org_row *r, enum sg_store_mode mode,
                      sg_store_done *done, void *arg)
{
    sg_store_write(s, &put, r, mode, done, arg);
}

/* Keys that worked again after a power cut would be worse than a wait. */
void sg_store_remove_org(struct sg_store *s, const char *id, sg_store_done *done, void *arg)
{
    const struct sg_id_row r = { id };
    sg_store_write(s, &removal, &r, SG_STORE_FULL, done, arg);
}

int sg_store_each_org(struct sg_store *s, bool (*row)(void *arg, const struct sg_org_row *r),
                      void *arg, struct sg_err *err)
{
    struct sg_org_row r;
    sg_auto_cursor c;
    if (sg_cursor_open(&c, s, &columns, "SELECT " NAMES " FROM orgs ORDER BY created_ms, id", err) <
        0)
        return -1;
    int got;
    while ((got = sg_cursor_next(&c, &r, err)) > 0 && row(arg, &r))
        ;
    return got < 0 ? -1 : 0;
}
