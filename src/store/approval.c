/* SPDX-License-Identifier: Apache-2.0 */
#include "base/auto.h"
#include "store/table.h"
#include "base/banned.h"

#define TEXT(field) SG_COL_TEXT(struct sg_approval_row, field)
#define INT(field)  SG_COL_INT(struct sg_approval_row, field)
#define NAMES                                                                                      \
    "id, org, state, operation, summary, subject, reason, asker, decider, created_ms, "            \
    "expires_ms, decided_ms, used_ms"

static const struct sg_column v[] = {
    TEXT(id),        TEXT(org),       TEXT(state),  TEXT(operation), TEXT(summary),
    TEXT(subject),   TEXT(reason),    TEXT(asker),  TEXT(decider),   INT(created_ms),
    INT(expires_ms), INT(decided_ms), INT(used_ms),
};
static const struct sg_columns columns = { v, SG_COUNT(v), sizeof(struct sg_approval_row) };

static const struct sg_write_kind put = {
    SG_WRITE_PUT_APPROVAL,
    &columns,
    { "INSERT OR REPLACE INTO approvals (" NAMES
      ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)" },
};
static const struct sg_write_kind removal = {
    SG_WRITE_REMOVE_APPROVAL,
    &sg_id_columns,
    { "DELETE FROM approvals WHERE id = ?1" },
};

void sg_store_put_approval(struct sg_store *s, const struct sg_approval_row *r,
                           enum sg_store_mode mode, sg_store_done *done, void *arg)
{
    sg_store_write(s, &put, r, mode, done, arg);
}

void sg_store_remove_approval(struct sg_store *s, const char *id)
{
    const struct sg_id_row r = { id };
    sg_store_write(s, &removal, &r, SG_STORE_NORMAL, NULL, NULL);
}

int sg_store_each_approval(struct sg_store *s,
                           bool (*row)(void *arg, const struct sg_approval_row *r), void *arg,
                           struct sg_err *err)
{
    struct sg_approval_row r;
    sg_auto_cursor c;
    if (sg_cursor_open(&c, s, &columns, "SELECT " NAMES " FROM approvals ORDER BY created_ms, id",
                       err) < 0)
        return -1;
    int got;
    while ((got = sg_cursor_next(&c, &r, err)) > 0 && row(arg, &r))
        ;
    return got < 0 ? -1 : 0;
}
