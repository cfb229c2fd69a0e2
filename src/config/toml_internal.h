/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the parts of the TOML reader; nobody else includes this. */
#pragma once

#include "config/toml.h"

struct sg_toml_block; /* of nodes */

/* The reader: a cursor into the text, and the memory of the document being built. Texts go to one
 * pool that can never run out: a token of n bytes needs at most n + 1 <= 2n. */
struct sg_toml_reader {
    const char *p, *end;
    const char *line_start;
    uint32_t line;
    /* The position last asked for and its column: a line of many values must not cost its square.
     */
    const char *seen;
    uint32_t seen_column;
    unsigned depth;
    struct sg_toml *root;
    struct sg_toml_doc *doc;
    struct sg_err *err;
};

/* Fails with the position of `at` on the current line. Returns -1. */
int sg_toml_refuse(struct sg_toml_reader *r, const char *at, const char *what);

/* NULL when there are too many. */
struct sg_toml *sg_toml_node(struct sg_toml_reader *r, enum sg_toml_type type, const char *at);

/* The end of the pool, to write a text at; then sg_toml_keep() what was written. */
char *sg_toml_pool(struct sg_toml_reader *r);
struct sg_str sg_toml_keep(struct sg_toml_reader *r, char *end);

void sg_toml_skip_blank(struct sg_toml_reader *r);   /* spaces and tabs */
bool sg_toml_take(struct sg_toml_reader *r, char c); /* true: it was next, and is consumed */
bool sg_toml_take_newline(struct sg_toml_reader *r); /* LF or CRLF */
int sg_toml_skip_lines(struct sg_toml_reader *r);    /* blanks, comments and newlines, any number */

/* toml_string.c: any of the four kinds; as a key only the one-line ones. */
int sg_toml_read_string(struct sg_toml_reader *r, bool is_key, struct sg_str *ret);

/* toml_number.c: integer, float, date or bool: what one word can say. */
struct sg_toml *sg_toml_read_word(struct sg_toml_reader *r);

/* toml_table.c: keys, tables, and what may be added where. */
int sg_toml_read_pair(struct sg_toml_reader *r, struct sg_toml *table);
int sg_toml_read_header(struct sg_toml_reader *r, struct sg_toml **ret_table);

/* toml.c */
struct sg_toml *sg_toml_read_value(struct sg_toml_reader *r);
void sg_toml_add(struct sg_toml *parent, struct sg_toml *child);
