/* SPDX-License-Identifier: Apache-2.0 */
/* A JSON reader: one text into a tree in an arena.
 *
 * Strict RFC 8259: UTF-8 only, no trailing comma, no duplicate key in one object, nothing after the
 * value, no lone surrogates, no U+0000 in a key. Depth, size and count are bounded. Integers are
 * exact over the whole of int64 and uint64; other numbers are doubles. Ours and not a library's
 * because the command line program is linked with musl; tests compare it with json-c and Python. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

enum sg_jkind {
    SG_J_NULL,
    SG_J_BOOL,
    SG_J_INT,
    SG_J_UINT,
    SG_J_DOUBLE,
    SG_J_STRING,
    SG_J_ARRAY,
    SG_J_OBJECT
};
enum { SG_J_MAX_DEPTH = 64 };

/* A value; members of an array or object are a list through `next`. SG_J_INT: negative only;
 * SG_J_UINT: 0 and up. */
struct sg_jval {
    enum sg_jkind kind;
    const struct sg_jval *next;
    struct sg_str key; /* terminated, without NUL; of a member of an object */
    union {
        bool b;
        int64_t i;
        uint64_t u;
        double d;
        struct sg_str s; /* terminated; may hold NUL only where the text had \u0000 */
        struct {
            const struct sg_jval *first;
            size_t n;
        } list;
    };
};

/* `ret` lives in `a`. SG_INVALID with line and column; SG_EXHAUSTED past the arena's ceiling. */
int sg_json_parse(struct sg_str text, struct sg_arena *a, const struct sg_jval **ret,
                  struct sg_err *err);

/* The member, or NULL when it is absent or `v` is no object. */
const struct sg_jval *sg_json_get(const struct sg_jval *v, const char *key);

/* The tree as text again: what sg_json_parse() reads from it is the same tree. */
struct sg_json; /* base/json.h */
void sg_json_put(struct sg_json *j, const struct sg_jval *v);

/* ---- reading an object by a table: unknown and ill-typed members are named in the error ---- */

enum sg_jtype {
    SG_JT_STRING, /* const char * : terminated, without NUL */
    SG_JT_U64,    /* uint64_t, min..max                      */
    SG_JT_MILLI,  /* uint64_t thousandths of a number >= 0, min..max in thousandths: 0.5 -> 500 */
    SG_JT_BOOL,   /* bool                                    */
    SG_JT_VALUE,  /* const struct sg_jval *, any kind        */
    SG_JT_OBJECT, /* the same, must be an object             */
    SG_JT_ARRAY,  /* the same, must be an array              */
};
struct sg_jfield {
    const char *key;
    enum sg_jtype type;
    size_t offset; /* in the caller's struct */
    uint64_t min, max;
    bool is_required;
};
/* Fills the fields that are there (null counts as absent); the others keep their values. SG_INVALID
 * names an unknown member (with a near one), a wrong type or a range. */
int sg_json_read(const struct sg_jval *v, const struct sg_jfield *fields, size_t count, void *into,
                 struct sg_err *err);
