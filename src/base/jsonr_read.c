/* SPDX-License-Identifier: Apache-2.0 */
/* An object into a struct, by a table of its members: see jsonr.h. */
#include <inttypes.h>

#include "base/auto.h"
#include "base/hint.h"
#include "base/jsonr.h"
#include "base/banned.h"

/* The doubles below 2^53 count in whole numbers; above they skip some. */
static const double max_exact = 9007199254740992.0;

static int read_string(const struct sg_jval *v, const struct sg_jfield *f, void *at,
                       struct sg_err *err)
{
    if (v->kind != SG_J_STRING)
        return sg_fail(err, SG_INVALID, "'%s' must be a string", f->key);
    if (memchr(v->s.p, '\0', v->s.n))
        return sg_fail(err, SG_INVALID, "'%s' holds the character U+0000", f->key);
    *(const char **)at = v->s.p;
    return 0;
}

static int in_range(uint64_t v, const struct sg_jfield *f, void *at, struct sg_err *err)
{
    if (v < f->min || v > f->max)
        return sg_fail(err, SG_INVALID, "'%s' must be from %" PRIu64 " to %" PRIu64, f->key, f->min,
                       f->max);
    *(uint64_t *)at = v;
    return 0;
}

/* 300.0 counts as 300: some clients have only one kind of number. */
static int read_u64(const struct sg_jval *v, const struct sg_jfield *f, void *at,
                    struct sg_err *err)
{
    if (v->kind == SG_J_UINT)
        return in_range(v->u, f, at, err);
    if (v->kind == SG_J_DOUBLE && v->d >= 0 && v->d < max_exact &&
        (double)(uint64_t)v->d - v->d == 0)
        return in_range((uint64_t)v->d, f, at, err);
    return sg_fail(err, SG_INVALID, "'%s' must be a whole number from %" PRIu64 " to %" PRIu64,
                   f->key, f->min, f->max);
}

static int read_milli(const struct sg_jval *v, const struct sg_jfield *f, void *at,
                      struct sg_err *err)
{
    uint64_t milli = 0;
    bool is_good = v->kind == SG_J_UINT
                       ? !__builtin_mul_overflow(v->u, 1000u, &milli)
                       : v->kind == SG_J_DOUBLE && v->d >= 0 && v->d < max_exact / 1000;
    if (is_good && v->kind == SG_J_DOUBLE)
        milli = (uint64_t)(v->d * 1000 + 0.5);
    if (!is_good || milli < f->min || milli > f->max)
        return sg_fail(err, SG_INVALID,
                       "'%s' must be a number from %" PRIu64 ".%03u to %" PRIu64 ".%03u", f->key,
                       f->min / 1000, (unsigned)(f->min % 1000), f->max / 1000,
                       (unsigned)(f->max % 1000));
    *(uint64_t *)at = milli;
    return 0;
}

static int read_bool(const struct sg_jval *v, const struct sg_jfield *f, void *at,
                     struct sg_err *err)
{
    if (v->kind != SG_J_BOOL)
        return sg_fail(err, SG_INVALID, "'%s' must be true or false", f->key);
    *(bool *)at = v->b;
    return 0;
}

static int read_any(const struct sg_jval *v, const struct sg_jfield *f, void *at,
                    struct sg_err *err)
{
    if (f->type == SG_JT_OBJECT && v->kind != SG_J_OBJECT)
        return sg_fail(err, SG_INVALID, "'%s' must be an object", f->key);
    if (f->type == SG_JT_ARRAY && v->kind != SG_J_ARRAY)
        return sg_fail(err, SG_INVALID, "'%s' must be an array", f->key);
    *(const struct sg_jval **)at = v;
    return 0;
}

static int (*const readers[])(const struct sg_jval *, const struct sg_jfield *, void *,
                              struct sg_err *) = {
    [SG_JT_STRING] = read_string, [SG_JT_U64] = read_u64,   [SG_JT_MILLI] = read_milli,
    [SG_JT_BOOL] = read_bool,     [SG_JT_VALUE] = read_any, [SG_JT_OBJECT] = read_any,
    [SG_JT_ARRAY] = read_any,
};

static const struct sg_jfield *find_field(const struct sg_jfield *fields, size_t count,
                                          struct sg_str key)
{
    for (size_t i = 0; i < count; i++)
        if (sg_str_is(key, fields[i].key))
            return &fields[i];
    return NULL;
}

static int fail_unknown(const struct sg_jfield *fields, size_t count, struct sg_str key,
                        struct sg_err *err)
{
    struct sg_hint hint = { .word = key };
    for (size_t i = 0; i < count; i++)
        sg_hint_try(&hint, fields[i].key);
    return sg_fail(err, SG_INVALID, "unknown member %s%s", sg_quote_str(key).s,
                   sg_hint_text(&hint, "").s);
}

int sg_json_read(const struct sg_jval *v, const struct sg_jfield *fields, size_t count, void *into,
                 struct sg_err *err)
{
    if (v->kind != SG_J_OBJECT)
        return sg_fail(err, SG_INVALID, "the JSON value must be an object");
    for (const struct sg_jval *m = v->list.first; m; m = m->next) {
        const struct sg_jfield *f = find_field(fields, count, m->key);
        if (!f)
            return fail_unknown(fields, count, m->key, err);
        if (m->kind != SG_J_NULL && readers[f->type](m, f, (char *)into + f->offset, err) < 0)
            return -1;
    }
    for (size_t i = 0; i < count; i++) {
        const struct sg_jval *m = fields[i].is_required ? sg_json_get(v, fields[i].key) : NULL;
        if (fields[i].is_required && (!m || m->kind == SG_J_NULL))
            return sg_fail(err, SG_INVALID, "'%s' is missing", fields[i].key);
    }
    return 0;
}
