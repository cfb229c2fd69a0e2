/* SPDX-License-Identifier: Apache-2.0 */
/* Records are only ever added: the schema has triggers against anything else. */
#include "base/auto.h"
#include "store/table.h"
#include "base/banned.h"

#define TEXT(field) SG_COL_TEXT(struct sg_audit_row, field)
#define INT(field)  SG_COL_INT(struct sg_audit_row, field)
#define NAMES       "seq, at_ms, org, actor, action, sandbox, detail, request, prev, hash"

static const struct sg_column v[] = {
    INT(seq),      INT(at_ms),   TEXT(org),     TEXT(actor), TEXT(action),
    TEXT(sandbox), TEXT(detail), TEXT(request), TEXT(prev),  TEXT(hash),
};
static const struct sg_columns columns = { v, SG_COUNT(v), sizeof(struct sg_audit_row) };

static const struct sg_write_kind add = {
    SG_WRITE_ADD_AUDIT,
    &columns,
    { "INSERT INTO audit (" NAMES ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)" },
};

void sg_store_add_audit(struct sg_store *s, const struct sg_audit_row *r, enum sg_store_mode mode,
                        sg_store_done *done, void *arg)
{
    sg_store_write(s, &add, r, mode, done, arg);
}

int sg_store_each_audit(struct sg_store *s, int64_t after_seq,
                        bool (*row)(void *arg, const struct sg_audit_row *r), void *arg,
                        struct sg_err *err)
{
    struct sg_audit_row r;
    sg_auto_cursor c;
    if (sg_cursor_open(&c, s, &columns, "SELECT " NAMES " FROM audit WHERE seq > ?1 ORDER BY seq",
                       err) < 0)
        return -1;
    (void)sqlite3_bind_int64(c.stmt, 1, after_seq);
    int got;
    while ((got = sg_cursor_next(&c, &r, err)) > 0 && row(arg, &r))
        ;
    return got < 0 ? -1 : 0;
}
