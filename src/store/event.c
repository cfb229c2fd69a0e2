/* SPDX-License-Identifier: Apache-2.0 */
#include "base/auto.h"
#include "store/table.h"
#include "base/banned.h"

#define TEXT(field) SG_COL_TEXT(struct sg_event_row, field)
#define INT(field)  SG_COL_INT(struct sg_event_row, field)
#define NAMES       "seq, at_ms, org, sandbox, type, data"

static const struct sg_column v[] = {
    INT(seq), INT(at_ms), TEXT(org), TEXT(sandbox), TEXT(type), TEXT(data),
};
static const struct sg_columns columns = { v, SG_COUNT(v), sizeof(struct sg_event_row) };

/* Every 1024th removes what is too old by then: the first condition needs no row, so the others
 * cost nothing. */
static const struct sg_write_kind add = {
    SG_WRITE_ADD_EVENT,
    &columns,
    { "INSERT OR REPLACE INTO events (" NAMES ") VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
      "DELETE FROM events WHERE ?1 % 1024 = 0 AND seq <= ?1 - 100000" },
};
_Static_assert(SG_STORE_EVENTS_KEPT == 100000, "as in the query above");

void sg_store_add_event(struct sg_store *s, const struct sg_event_row *r)
{
    sg_store_write(s, &add, r, SG_STORE_NORMAL, NULL, NULL);
}

int sg_store_each_event(struct sg_store *s, int64_t after_seq,
                        bool (*row)(void *arg, const struct sg_event_row *r), void *arg,
                        struct sg_err *err)
{
    struct sg_event_row r;
    sg_auto_cursor c;
    if (sg_cursor_open(&c, s, &columns, "SELECT " NAMES " FROM events WHERE seq > ?1 ORDER BY seq",
                       err) < 0)
        return -1;
    (void)sqlite3_bind_int64(c.stmt, 1, after_seq);
    int got;
    while ((got = sg_cursor_next(&c, &r, err)) > 0 && row(arg, &r))
        ;
    return got < 0 ? -1 : 0;
}
