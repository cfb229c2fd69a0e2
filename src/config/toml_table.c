/* SPDX-License-Identifier: Apache-2.0 */
/* Keys and tables of TOML: who may define what, once.
 *
 * T1. [a.b] makes `a` on the way (IMPLICIT) and defines `b` (DEFINED). An IMPLICIT table may be
 *     defined later, once; a DEFINED one never again.
 * T2. a.b = 1 makes `a` on the way (DOTTED). Dotted keys add to it; a later [header] may put new
 *     tables below it but not define it. So only the section that made it can add keys.
 * T3. An inline table or an array written as a value is complete (SEALED): nobody adds to it.
 * T4. [[a]] adds a table to the array `a`, which only other [[a]] made; a path through it means
 *     its last table. */
#include <string.h>

#include "config/toml_internal.h"
#include "base/banned.h"

enum { SEALED /* how every value is born */, IMPLICIT, DEFINED, DOTTED, GROWING };

struct path {
    struct sg_str parts[SG_TOML_MAX_DEPTH];
    size_t n;
};

static bool is_bare(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           c == '-';
}

static int read_part(struct sg_toml_reader *r, struct sg_str *ret)
{
    if (r->p < r->end && (*r->p == '"' || *r->p == '\''))
        return sg_toml_read_string(r, true, ret);
    char *out = sg_toml_pool(r);
    const char *start = r->p;
    while (r->p < r->end && is_bare(*r->p))
        *out++ = *r->p++;
    if (r->p == start)
        return sg_toml_refuse(r, r->p, "expected a key");
    *ret = sg_toml_keep(r, out);
    return 0;
}

static int read_path(struct sg_toml_reader *r, struct path *ret)
{
    do {
        sg_toml_skip_blank(r);
        if (ret->n == SG_TOML_MAX_DEPTH)
            return sg_fail(r->err, SG_EXHAUSTED, "%u: a key of over %d parts", r->line,
                           SG_TOML_MAX_DEPTH);
        if (read_part(r, &ret->parts[ret->n++]) < 0)
            return -1;
        sg_toml_skip_blank(r);
    } while (sg_toml_take(r, '.'));
    return 0;
}

static struct sg_toml *find(const struct sg_toml *table, struct sg_str key)
{
    for (struct sg_toml *t = table->first; t; t = t->next)
        if (t->key.n == key.n && (key.n == 0 || memcmp(t->key.p, key.p, key.n) == 0))
            return t;
    return NULL;
}

static struct sg_toml *add_new(struct sg_toml_reader *r, struct sg_toml *parent, struct sg_str key,
                               enum sg_toml_type type, int state, const char *at)
{
    struct sg_toml *t = sg_toml_node(r, type, at);
    if (!t)
        return NULL;
    t->key = key;
    t->state = (uint8_t)state;
    sg_toml_add(parent, t);
    return t;
}

/* The table that `key` means on the way of a dotted key. */
static struct sg_toml *find_dotted(struct sg_toml_reader *r, struct sg_toml *table,
                                   struct sg_str key, const char *at)
{
    struct sg_toml *t = find(table, key);
    if (!t)
        return add_new(r, table, key, SG_TOML_TABLE, DOTTED, at);
    if (t->type != SG_TOML_TABLE || t->state == SEALED || t->state == DEFINED) {
        (void)sg_toml_refuse(r, at, "the key adds to something that is complete already");
        return NULL;
    }
    t->state = DOTTED;
    return t;
}

/* The same on the way of a header. */
static struct sg_toml *find_header(struct sg_toml_reader *r, struct sg_toml *table,
                                   struct sg_str key, const char *at)
{
    struct sg_toml *t = find(table, key);
    if (!t)
        return add_new(r, table, key, SG_TOML_TABLE, IMPLICIT, at);
    if (t->type == SG_TOML_ARRAY && t->state == GROWING)
        return t->last;
    if (t->type != SG_TOML_TABLE || t->state == SEALED) {
        (void)sg_toml_refuse(r, at, "the header goes through something that is complete already");
        return NULL;
    }
    return t;
}

int sg_toml_read_pair(struct sg_toml_reader *r, struct sg_toml *table)
{
    const char *at = r->p;
    struct path path = { 0 };
    if (read_path(r, &path) < 0)
        return -1;
    if (!sg_toml_take(r, '='))
        return sg_toml_refuse(r, r->p, "expected '=' after the key");
    for (size_t i = 0; i + 1 < path.n; i++) {
        table = find_dotted(r, table, path.parts[i], at);
        if (!table)
            return -1;
    }
    struct sg_str key = path.parts[path.n - 1];
    if (find(table, key))
        return sg_toml_refuse(r, at, "the key is there already");
    sg_toml_skip_blank(r);
    struct sg_toml *value = sg_toml_read_value(r);
    if (!value)
        return -1;
    value->key = key;
    sg_toml_add(table, value);
    return 0;
}

static struct sg_toml *define_table(struct sg_toml_reader *r, struct sg_toml *parent,
                                    struct sg_str key, const char *at)
{
    struct sg_toml *t = find(parent, key);
    if (!t)
        return add_new(r, parent, key, SG_TOML_TABLE, DEFINED, at);
    if (t->type != SG_TOML_TABLE || t->state != IMPLICIT) {
        (void)sg_toml_refuse(r, at, "the table is defined already");
        return NULL;
    }
    t->state = DEFINED;
    t->line = r->line;
    return t;
}

static struct sg_toml *append_table(struct sg_toml_reader *r, struct sg_toml *parent,
                                    struct sg_str key, const char *at)
{
    struct sg_toml *t = find(parent, key);
    if (!t)
        t = add_new(r, parent, key, SG_TOML_ARRAY, GROWING, at);
    if (!t)
        return NULL;
    if (t->type != SG_TOML_ARRAY || t->state != GROWING) {
        (void)sg_toml_refuse(r, at, "the name is not that of an array of tables");
        return NULL;
    }
    return add_new(r, t, (struct sg_str) { "", 0 }, SG_TOML_TABLE, DEFINED, at);
}

int sg_toml_read_header(struct sg_toml_reader *r, struct sg_toml **ret_table)
{
    const char *at = r->p++;
    bool is_array = sg_toml_take(r, '[');
    struct path path = { 0 };
    if (read_path(r, &path) < 0)
        return -1;
    if (!sg_toml_take(r, ']') || (is_array && !sg_toml_take(r, ']')))
        return sg_toml_refuse(r, r->p, "expected ']' after the name of a table");
    struct sg_toml *table = r->root;
    for (size_t i = 0; table && i + 1 < path.n; i++)
        table = find_header(r, table, path.parts[i], at);
    struct sg_str key = path.parts[path.n - 1];
    if (table)
        table = is_array ? append_table(r, table, key, at) : define_table(r, table, key, at);
    if (!table)
        return -1;
    *ret_table = table;
    return 0;
}
