/* SPDX-License-Identifier: Apache-2.0 */
#include "base/auto.h"
#include "store/table.h"
#include "base/banned.h"

#define TEXT(field) SG_COL_TEXT(struct sg_netpolicy_row, field)
#define NAMES       "id, policy"

static const struct sg_column v[] = { TEXT(id), TEXT(policy) };
static const struct sg_columns columns = { v, SG_COUNT(v), sizeof(struct sg_netpolicy_row) };

static const struct sg_write_kind put = {
    SG_WRITE_PUT_NETPOLICY,
    &columns,
    { "INSERT OR REPLACE INTO netpolicies (" NAMES ") VALUES (?1, ?2)" },
};
static const struct sg_write_kind removal = {
    SG_WRITE_REMOVE_NETPOLICY,
    &sg_id_columns,
    { "DELETE FROM netpolicies WHERE id = ?1" },
};

/* One that was lost in a power cut would leave open what it closed. */
void sg_store_put_netpolicy(struct sg_store *s, const struct sg_netpolicy_row *r,
                            sg_store_done *done, void *arg)
{
    sg_store_write(s, &put, r, SG_STORE_FULL, done, arg);
}

void sg_store_remove_netpolicy(struct sg_store *s, const char *id, sg_store_done *done, void *arg)
{
    const struct sg_id_row r = { id };
    sg_store_write(s, &removal, &r, SG_STORE_FULL, done, arg);
}

int sg_store_each_netpolicy(struct sg_store *s,
                            bool (*row)(void *arg, const struct sg_netpolicy_row *r), void *arg,
                            struct sg_err *err)
{
    struct sg_netpolicy_row r;
    sg_auto_cursor c;
    if (sg_cursor_open(&c, s, &columns, "SELECT " NAMES " FROM netpolicies ORDER BY id", err) < 0)
        return -1;
    int got;
    while ((got = sg_cursor_next(&c, &r, err)) > 0 && row(arg, &r))
        ;
    return got < 0 ? -1 : 0;
}
