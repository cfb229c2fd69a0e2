/* SPDX-License-Identifier: Apache-2.0 */
#include "store/db.h"

#include <stdio.h>

#include "base/auto.h"
#include "base/banned.h"

enum { BUSY_MS = 1000 }; /* only somebody else's tool can hold the file: see open.c */

static const struct {
    int code; /* primary */
    enum sg_kind kind;
} kinds[] = {
    { SQLITE_FULL, SG_EXHAUSTED },      { SQLITE_NOMEM, SG_EXHAUSTED },
    { SQLITE_TOOBIG, SG_EXHAUSTED },    { SQLITE_BUSY, SG_UNAVAILABLE },
    { SQLITE_LOCKED, SG_UNAVAILABLE },  { SQLITE_PROTOCOL, SG_UNAVAILABLE },
    { SQLITE_READONLY, SG_DENIED },     { SQLITE_PERM, SG_DENIED },
    { SQLITE_CONSTRAINT, SG_CONFLICT },
};

static enum sg_kind kind_of(int code, int sys)
{
    for (size_t i = 0; i < SG_COUNT(kinds); i++)
        if (kinds[i].code == (code & 0xff))
            return kinds[i].kind;
    return sys ? sg_kind_of_errno(sys) : SG_INTERNAL;
}

/* What the system said to the database's file or to its log. SQLite's own record of it does not
 * outlive the rollback that follows. */
static int last_errno(sqlite3 *db)
{
    int sys = sqlite3_system_errno(db);
    if (!sys)
        (void)sqlite3_file_control(db, "main", SQLITE_FCNTL_LAST_ERRNO, &sys);
    sqlite3_file *log = NULL;
    if (!sys)
        (void)sqlite3_file_control(db, "main", SQLITE_FCNTL_JOURNAL_POINTER, &log);
    if (log && log->pMethods)
        (void)log->pMethods->xFileControl(log, SQLITE_FCNTL_LAST_ERRNO, &sys);
    return sys;
}

int sg_db_fail(sqlite3 *db, int code, const char *what, struct sg_err *err)
{
    const int primary = code & 0xff;
    const bool is_io = primary == SQLITE_IOERR || primary == SQLITE_CANTOPEN;
    const int sys = is_io && db ? last_errno(db) : 0;
    const char *words = db ? sqlite3_errmsg(db) : sqlite3_errstr(code);
    return sg_err_set_(err, kind_of(code, sys), sys, SG_HERE_, "%s: %s", what, words);
}

bool sg_db_is_damage(int code)
{
    return (code & 0xff) == SQLITE_CORRUPT || (code & 0xff) == SQLITE_NOTADB;
}

int sg_db_open(const char *path, int flags, sqlite3 **ret, int *ret_code, struct sg_err *err)
{
    sg_auto_db *db = NULL;
    int code = sqlite3_open_v2(path, &db, flags | SQLITE_OPEN_EXRESCODE, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_busy_timeout(db, BUSY_MS);
    if (code == SQLITE_OK) /* sorting needs no /tmp, which the daemon does not have */
        code = sqlite3_exec(db, "PRAGMA temp_store = MEMORY", NULL, NULL, NULL);
    if (code != SQLITE_OK) {
        *ret_code = code;
        return sg_db_fail(db, code, "open the database", err);
    }
    *ret = sg_take_ptr(&db);
    return 0;
}

int sg_db_run(sqlite3 *db, const char *sql, struct sg_err *err)
{
    int code = sqlite3_exec(db, sql, NULL, NULL, NULL);
    return code == SQLITE_OK ? 0 : sg_db_fail(db, code, "database", err);
}

int sg_db_prepare(sqlite3 *db, const char *sql, unsigned flags, sqlite3_stmt **ret,
                  struct sg_err *err)
{
    int code = sqlite3_prepare_v3(db, sql, -1, flags, ret, NULL);
    return code == SQLITE_OK ? 0 : sg_db_fail(db, code, "prepare a query", err);
}

static int first_row(sqlite3 *db, const char *sql, sqlite3_stmt **ret, struct sg_err *err)
{
    if (sg_db_prepare(db, sql, 0, ret, err) < 0)
        return -1;
    int code = sqlite3_step(*ret);
    if (code == SQLITE_ROW)
        return 0;
    return code == SQLITE_DONE ? sg_fail(err, SG_NOT_FOUND, "no row")
                               : sg_db_fail(db, code, "database", err);
}

int sg_db_number(sqlite3 *db, const char *sql, int64_t *ret, struct sg_err *err)
{
    sg_auto_stmt *stmt = NULL;
    if (first_row(db, sql, &stmt, err) < 0)
        return -1;
    *ret = sqlite3_column_int64(stmt, 0);
    return 0;
}

int sg_db_text(sqlite3 *db, const char *sql, char *ret, size_t cap, struct sg_err *err)
{
    sg_auto_stmt *stmt = NULL;
    if (first_row(db, sql, &stmt, err) < 0)
        return -1;
    const char *text = (const char *)sqlite3_column_text(stmt, 0);
    (void)snprintf(ret, cap, "%s", text ? text : "");
    return 0;
}

void sg_db_close_p(sqlite3 **db)
{
    (void)sqlite3_close(*db); /* NULL is fine */
}

void sg_stmt_free_p(sqlite3_stmt **stmt)
{
    (void)sqlite3_finalize(*stmt);
}
