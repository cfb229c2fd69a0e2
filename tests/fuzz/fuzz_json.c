/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as JSON: a tree that, formatted and parsed again, formats to the same bytes; or an
 * error with a message. Numbers that are no integers have no writer of ours and count as null here.
 */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/jsonr.h"
#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

enum { MAX_MEMORY = 4 << 20 };

static void write_tree(struct sg_json *j, const struct sg_jval *v)
{
    switch (v->kind) {
    case SG_J_NULL:
    case SG_J_DOUBLE:
        sg_json_null(j);
        return;
    case SG_J_BOOL:
        sg_json_bool(j, v->b);
        return;
    case SG_J_INT:
        sg_json_i64(j, v->i);
        return;
    case SG_J_UINT:
        sg_json_u64(j, v->u);
        return;
    case SG_J_STRING:
        if (!sg_utf8_valid(v->s.p, v->s.n) || v->s.p[v->s.n] != '\0')
            abort();
        sg_json_text(j, v->s);
        return;
    case SG_J_ARRAY:
    case SG_J_OBJECT:
        sg_json_open(j, v->kind == SG_J_ARRAY ? '[' : '{');
        for (const struct sg_jval *m = v->list.first; m; m = m->next) {
            if (v->kind == SG_J_OBJECT)
                sg_json_key(j, m->key.p);
            write_tree(j, m);
        }
        sg_json_close(j, v->kind == SG_J_ARRAY ? ']' : '}');
        return;
    }
}

static void format(const struct sg_jval *v, struct sg_buf *out)
{
    struct sg_json j;
    sg_buf_init(out, MAX_MEMORY);
    sg_json_init(&j, out);
    write_tree(&j, v);
}

static void check_by_table(const struct sg_jval *v)
{
    struct {
        const char *s;
        uint64_t u, m;
        bool b;
        const struct sg_jval *o;
    } into = { 0 };
#define AT(member) __builtin_offsetof(__typeof__(into), member)
    const struct sg_jfield fields[] = { { "s", SG_JT_STRING, AT(s), 0, 0, false },
                                        { "u", SG_JT_U64, AT(u), 1, 1000, false },
                                        { "m", SG_JT_MILLI, AT(m), 1, 1000, true },
                                        { "b", SG_JT_BOOL, AT(b), 0, 0, false },
                                        { "o", SG_JT_OBJECT, AT(o), 0, 0, false } };
    struct sg_err err = { 0 };
    if (sg_json_read(v, fields, 5, &into, &err) < 0 ? err.kind != SG_INVALID
                                                    : into.m < 1 || into.m > 1000 || into.u > 1000)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    sg_auto_arena a;
    struct sg_err err = { 0 };
    const struct sg_jval *v;
    sg_arena_init(&a, MAX_MEMORY);
    if (sg_json_parse((struct sg_str) { (const char *)p, n }, &a, &v, &err) < 0) {
        if (err.kind == SG_OK || !err.msg[0])
            abort();
        return 0;
    }
    check_by_table(v);
    sg_auto_buf once, twice;
    format(v, &once);
    if (sg_json_parse((struct sg_str) { (const char *)once.p, once.n }, &a, &v, &err) < 0) {
        if (err.kind != SG_EXHAUSTED)
            abort();
        return 0;
    }
    format(v, &twice);
    if (once.n != twice.n || memcmp(once.p, twice.p, once.n) != 0)
        abort();
    return 0;
}
