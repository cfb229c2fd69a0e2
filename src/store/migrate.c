/* SPDX-License-Identifier: Apache-2.0 */
#include "store/migrate.h"

#include <inttypes.h>
#include <stdio.h>

#include "store/db.h"
#include "base/banned.h"

static int run_step(sqlite3 *db, const char *sql, unsigned number, struct sg_err *err)
{
    char mark[48]; /* a pragma takes no parameters */
    (void)snprintf(mark, sizeof mark, "PRAGMA user_version = %u", number);
    if (sg_db_run(db, "BEGIN IMMEDIATE", err) < 0)
        return -1;
    if (sg_db_run(db, sql, err) < 0 || sg_db_run(db, mark, err) < 0 ||
        sg_db_run(db, "COMMIT", err) < 0) {
        (void)sg_db_run(db, "ROLLBACK", NULL);
        return -1;
    }
    return 0;
}

int sg_migrate(sqlite3 *db, const char *const *steps, unsigned count, unsigned *ret_from,
               struct sg_err *err)
{
    int64_t version;
    if (sg_db_number(db, "PRAGMA user_version", &version, err) < 0)
        return -1;
    if (version < 0 || version > count)
        return sg_fail(err, SG_UNSUPPORTED,
                       "schema %" PRId64 " is newer than the %u that this version knows", version,
                       count);
    for (unsigned i = (unsigned)version; i < count; i++)
        if (run_step(db, steps[i], i + 1, err) < 0)
            return sg_wrap(err, "bring the schema to version %u", i + 1);
    *ret_from = (unsigned)version;
    return 0;
}
