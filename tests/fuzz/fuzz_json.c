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

static void check_texts(const struct sg_jval *v)
{
    if (v->kind == SG_J_STRING && (!sg_utf8_valid(v->s.p, v->s.n) || v->s.p[v->s.n] != '\0'))
        abort();
    if (v->kind != SG_J_ARRAY && v->kind != SG_J_OBJECT)
        return;
    for (const struct sg_jval *m = v->list.first; m; m = m->next)
        check_texts(m);
}

static void format(const struct sg_jval *v, struct sg_buf *out)
{
    struct sg_json j;
    sg_buf_init(out, MAX_MEMORY);
    sg_json_init(&j, out);
    sg_json_put(&j, v);
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
    check_texts(v);
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
