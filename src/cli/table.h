/* SPDX-License-Identifier: Apache-2.0 */
/* Columns for people: as wide as their widest cell. Cells come from outside: what could drive a
 * terminal is shown as an escape. */
#pragma once

#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"

enum { SG_TABLE_MAX_COLUMNS = 10 };

struct sg_table {
    unsigned columns, column;
    size_t widths[SG_TABLE_MAX_COLUMNS];
    struct sg_buf cells; /* each with its NUL, row by row */
};

/* With the names of the columns. */
#define sg_table_init(t, ...) sg_table_init_(t, __VA_ARGS__, (const char *)0)
void sg_table_init_(struct sg_table *t, const char *name, ...) __attribute__((sentinel));
void sg_table_done(struct sg_table *t);

/* The next cell of the row, and the first of the next one after the last. */
void sg_table_add(struct sg_table *t, const char *cell);
void sg_table_addf(struct sg_table *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void sg_table_print(const struct sg_table *t, struct sg_buf *out);

/* Text for a cell or a line: "1.5g", "3m", "2h" since or until an RFC 3339 time ("-" for ""). */
struct sg_short {
    char s[24];
};
struct sg_short sg_short_bytes(uint64_t bytes);
struct sg_short sg_short_since(const char *rfc3339);
struct sg_short sg_short_until(const char *rfc3339);
void sg_add_clean(struct sg_buf *out, const char *text);
/* The same with its lines and tabs. */
void sg_add_clean_lines(struct sg_buf *out, struct sg_str text);

#define sg_auto_table __attribute__((cleanup(sg_table_done))) struct sg_table
