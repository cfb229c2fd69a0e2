/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of queries share: a row is a struct, described by its columns; the description
 * copies a row into a write, binds it to a statement, and reads it back. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sqlite3.h>

#include "store/store.h"

struct sg_column {
    size_t offset; /* in the row's struct: const char * or int64_t */
    bool is_text;
};
#define SG_COL_TEXT(row, field)                                                                    \
    {                                                                                              \
        offsetof(row, field), true                                                                 \
    }
#define SG_COL_INT(row, field)                                                                     \
    {                                                                                              \
        offsetof(row, field), false                                                                \
    }

struct sg_columns {
    const struct sg_column *v; /* parameter 1, 2, ... and column 0, 1, ... of the queries */
    unsigned n;
    size_t row_bytes;
};

/* ---- writing ---- */

enum sg_write_op { /* one prepared statement, or two, each */
                   SG_WRITE_PUT_SANDBOX,
                   SG_WRITE_PUT_EXEC,
                   SG_WRITE_PUT_ORG,
                   SG_WRITE_PUT_KEY,
                   SG_WRITE_PUT_SECRET,
                   SG_WRITE_PUT_SNAPSHOT,
                   SG_WRITE_PUT_VOLUME,
                   SG_WRITE_ADD_EVENT,
                   SG_WRITE_ADD_USAGE,
                   SG_WRITE_ADD_AUDIT,
                   SG_WRITE_ADD_CONNECTION,
                   SG_WRITE_REMOVE_SANDBOX,
                   SG_WRITE_REMOVE_EXEC,
                   SG_WRITE_REMOVE_ORG,
                   SG_WRITE_REMOVE_SECRET,
                   SG_WRITE_PUT_CONTEXT,
                   SG_WRITE_REMOVE_CONTEXT,
                   SG_WRITE_REMOVE_SNAPSHOT,
                   SG_WRITE_REMOVE_VOLUME,
                   SG_WRITE_PUT_TEMPLATE,
                   SG_WRITE_REMOVE_TEMPLATE,
                   SG_WRITE_PUT_BUILD,
                   SG_WRITE_REMOVE_BUILD,
                   SG_WRITE_PUT_NETPOLICY,
                   SG_WRITE_REMOVE_NETPOLICY,
                   SG_WRITE_PUT_APPROVAL,
                   SG_WRITE_REMOVE_APPROVAL,
                   SG_WRITE_OP_COUNT,
};
enum { SG_WRITE_STATEMENTS = 2 };

struct sg_write_kind {
    enum sg_write_op op;
    const struct sg_columns *row;
    const char *sql[SG_WRITE_STATEMENTS]; /* the second may be NULL, and may use fewer columns */
};

/* Copies the row with its texts and queues it. */
void sg_store_write(struct sg_store *s, const struct sg_write_kind *kind, const void *row,
                    enum sg_store_mode mode, sg_store_done *done, void *arg);

/* For removals: the only column is the id. */
struct sg_id_row {
    const char *id;
};
extern const struct sg_columns sg_id_columns;

/* Binds as many columns as the statement has parameters. */
int sg_row_bind(sqlite3_stmt *stmt, const struct sg_columns *columns, const void *row);

/* ---- reading ---- */

struct sg_cursor {
    sqlite3 *db; /* borrows */
    sqlite3_stmt *stmt;
    const struct sg_columns *columns;
};
/* Parameters are bound by sqlite3_bind_...() on c->stmt. */
int sg_cursor_open(struct sg_cursor *c, struct sg_store *s, const struct sg_columns *columns,
                   const char *sql, struct sg_err *err);
void sg_cursor_close(struct sg_cursor *c);
/* 1 and a row whose texts live until the next call; 0 at the end; -1. */
int sg_cursor_next(struct sg_cursor *c, void *row, struct sg_err *err);
#define sg_auto_cursor __attribute__((cleanup(sg_cursor_close))) struct sg_cursor
