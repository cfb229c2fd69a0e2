/* SPDX-License-Identifier: Apache-2.0 */
/* A strict reader of TOML 1.0 into a small tree. Everything the language forbids is refused with
 * line and column. Bounded: 1 MiB of text, SG_TOML_MAX_NODES values, SG_TOML_MAX_DEPTH levels.
 *
 * What differs from the letter: integers are those of 64 bits (others are refused), a leap second
 * is refused, and CRLF inside a multi-line string reads as LF. Floats and dates stay text: their
 * form is checked and nobody here needs their value. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

enum {
    SG_TOML_MAX_BYTES = 1 << 20,
    SG_TOML_MAX_NODES = 8192,
    SG_TOML_MAX_DEPTH = 32, /* of arrays and inline tables; parts of a dotted key */
};

enum sg_toml_type {
    SG_TOML_STRING,
    SG_TOML_INTEGER,
    SG_TOML_FLOAT,
    SG_TOML_BOOL,
    SG_TOML_DATE, /* of any of the four kinds */
    SG_TOML_ARRAY,
    SG_TOML_TABLE,
    SG_TOML_TYPE_COUNT,
};

struct sg_toml {
    enum sg_toml_type type;
    uint8_t state;         /* the reader's own */
    uint32_t line, column; /* where it stands, from 1; columns count characters */
    struct sg_str key;     /* of a table's child; may hold any UTF-8, NUL too */
    struct sg_str text;    /* STRING: decoded. INTEGER, FLOAT: without underscores. BOOL, DATE */
    int64_t integer;       /* INTEGER */
    struct sg_toml *first, *last, *next; /* children in file order; ARRAY, TABLE */
};

struct sg_toml_doc; /* owns all nodes and texts */

/* Returns owned, or NULL: SG_INVALID ("3:14: what is wrong"), SG_EXHAUSTED over a bound. `text` is
 * not needed afterwards. */
struct sg_toml_doc *sg_toml_parse(struct sg_str text, struct sg_err *err);
void sg_toml_free(struct sg_toml_doc *doc);
const struct sg_toml *sg_toml_root(const struct sg_toml_doc *doc);

/* Child of a table, or NULL. */
const struct sg_toml *sg_toml_find(const struct sg_toml *table, const char *key);

const char *sg_toml_type_name(enum sg_toml_type type); /* "a string" */

void sg_toml_free_p(struct sg_toml_doc **doc);
#define sg_auto_toml __attribute__((cleanup(sg_toml_free_p))) struct sg_toml_doc *
