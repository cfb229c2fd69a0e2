/* SPDX-License-Identifier: Apache-2.0 */
/* SQLite with our errors: one connection, opened and asked. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sqlite3.h>

#include "base/err.h"

/* Fails with the kind that belongs to `code` and with SQLite's own words; returns -1. */
int sg_db_fail(sqlite3 *db, int code, const char *what, struct sg_err *err);
/* `code` says that the file is no database, or a broken one. */
bool sg_db_is_damage(int code);

/* `flags` as of sqlite3_open_v2(). Waits for locks, keeps temporary things in memory. On failure
 * `*ret_code` has SQLite's code. */
int sg_db_open(const char *path, int flags, sqlite3 **ret, int *ret_code, struct sg_err *err);

int sg_db_run(sqlite3 *db, const char *sql, struct sg_err *err); /* any number of statements */
int sg_db_prepare(sqlite3 *db, const char *sql, unsigned flags, sqlite3_stmt **ret,
                  struct sg_err *err);
/* The first column of the first row. SG_NOT_FOUND without a row; text is cut to fit. */
int sg_db_number(sqlite3 *db, const char *sql, int64_t *ret, struct sg_err *err);
int sg_db_text(sqlite3 *db, const char *sql, char *ret, size_t cap, struct sg_err *err);

void sg_db_close_p(sqlite3 **db);
void sg_stmt_free_p(sqlite3_stmt **stmt);
#define sg_auto_db   __attribute__((cleanup(sg_db_close_p))) sqlite3
#define sg_auto_stmt __attribute__((cleanup(sg_stmt_free_p))) sqlite3_stmt
