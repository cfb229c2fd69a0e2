/* SPDX-License-Identifier: Apache-2.0 */
#include "router/read.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/auto.h"
#include "base/hash.h"
#include "base/hint.h"
#include "base/parse.h"
#include "base/banned.h"

enum { TEXTS_MAX = 256, TEXT_BYTES_MAX = 512 };
#define YEAR_MS 31536000000u

int sg_rf_at(const struct sg_rules_reader *x, const struct sg_toml *t)
{
    return sg_wrap(x->err, "%s:%" PRIu32 ":%" PRIu32, x->source, t->line, t->column);
}

int sg_rf_fail(const struct sg_rules_reader *x, const struct sg_toml *t, const char *fmt, ...)
{
    char text[200];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    (void)sg_fail(x->err, SG_INVALID, "%s", text);
    return sg_rf_at(x, t);
}

void sg_texts_free(char **v)
{
    for (char **one = v; one && *one; one++)
        free(*one);
    free(v);
}

static int demand(const struct sg_rules_reader *x, const struct sg_toml *t, enum sg_toml_type type)
{
    if (t->type == type)
        return 0;
    return sg_rf_fail(x, t, "%s must be %s, not %s", sg_quote_str(t->key).s,
                      sg_toml_type_name(type), sg_toml_type_name(t->type));
}

int sg_rf_text(const struct sg_rules_reader *x, const struct sg_toml *t, char **ret)
{
    if (t->type != SG_TOML_STRING)
        return sg_rf_fail(x, t, "a string is wanted here, not %s", sg_toml_type_name(t->type));
    if (!t->text.n || t->text.n > TEXT_BYTES_MAX || memchr(t->text.p, '\0', t->text.n))
        return sg_rf_fail(x, t, "a text of 1 to %d bytes is wanted here", TEXT_BYTES_MAX);
    *ret = sg_printf("%.*s", (int)t->text.n, t->text.p);
    return 0;
}

/* One value, or each of a list: `one` for every text. */
static int each(const struct sg_rules_reader *x, const struct sg_toml *t, const struct sg_rf *f,
                int (*one)(const struct sg_rules_reader *x, const struct sg_toml *t,
                           const struct sg_rf *f, void *to),
                void *to)
{
    if (t->type != SG_TOML_ARRAY)
        return one(x, t, f, to);
    if (!t->first)
        return sg_rf_fail(x, t, "%s is an empty list: it would never match", f->key);
    for (const struct sg_toml *v = t->first; v; v = v->next)
        if (one(x, v, f, to) < 0)
            return -1;
    return 0;
}

static int word(const struct sg_rules_reader *x, const struct sg_toml *t, const struct sg_rf *f)
{
    if (t->type != SG_TOML_STRING)
        return sg_rf_fail(x, t, "%s is a string, not %s", f->what, sg_toml_type_name(t->type));
    int at = sg_router_word(f->words, f->word_count, f->what, t->text, x->err);
    return at < 0 ? sg_rf_at(x, t) : at;
}

static int one_word(const struct sg_rules_reader *x, const struct sg_toml *t, const struct sg_rf *f,
                    void *to)
{
    int at = word(x, t, f);
    if (at < 0)
        return -1;
    *(unsigned *)to |= 1u << at;
    return 0;
}

static int one_operation(const struct sg_rules_reader *x, const struct sg_toml *t,
                         const struct sg_rf *f, void *to)
{
    struct sg_hint hint = { .word = t->text };
    if (t->type != SG_TOML_STRING)
        return sg_rf_fail(x, t, "%s is a string, not %s", f->key, sg_toml_type_name(t->type));
    for (size_t i = 0; i < x->rules->operation_count; i++) {
        if (sg_str_is(t->text, x->rules->operations[i].name)) {
            *(uint64_t *)to |= UINT64_C(1) << i;
            return 0;
        }
        sg_hint_try(&hint, x->rules->operations[i].name);
    }
    return sg_rf_fail(x, t, "no operation %s in [operations]%s", sg_quote_str(t->text).s,
                      sg_hint_text(&hint, "").s);
}

static int one_wall(const struct sg_rules_reader *x, const struct sg_toml *t, const struct sg_rf *f,
                    void *to)
{
    struct sg_rf_walls *w = to;
    int at = word(x, t, f);
    if (at < 0)
        return -1;
    for (unsigned i = 0; i < w->n; i++)
        if (w->v[i] == (enum sg_wall)at)
            return sg_rf_fail(x, t, "tier %s is there twice", sg_wall_names[at]);
    w->v[w->n++] = (enum sg_wall)at; /* no wall is there twice, so it fits */
    return 0;
}

static int one_text(const struct sg_rules_reader *x, const struct sg_toml *t, const struct sg_rf *f,
                    void *to)
{
    char ***list = to;
    size_t n = 0;
    (void)f;
    while (*list && (*list)[n])
        n++;
    if (n == TEXTS_MAX)
        return sg_rf_fail(x, t, "over %d texts", TEXTS_MAX);
    char *text = NULL;
    if (sg_rf_text(x, t, &text) < 0)
        return -1;
    char **more = sg_alloc((n + 2) * sizeof *more);
    for (size_t i = 0; i < n; i++)
        more[i] = (*list)[i];
    more[n] = text;
    free(*list);
    *list = more;
    return 0;
}

static int count(const struct sg_rules_reader *x, const struct sg_toml *t, uint64_t *to)
{
    if (demand(x, t, SG_TOML_INTEGER) < 0)
        return -1;
    if (t->integer < 1)
        return sg_rf_fail(x, t, "%s must be 1 or more", sg_quote_str(t->key).s);
    *to = (uint64_t)t->integer;
    return 0;
}

int sg_rf_texts(const struct sg_rules_reader *x, const struct sg_toml *t, char ***list)
{
    sg_auto_free char *key = sg_printf("%.*s", (int)t->key.n, t->key.p);
    const struct sg_rf f = { .key = key };
    return each(x, t, &f, one_text, list);
}

int sg_rf_version(const struct sg_rules_reader *x, const struct sg_toml *t)
{
    if (t->type != SG_TOML_INTEGER || t->integer != 1)
        return sg_rf_fail(x, t, "version must be 1");
    return 0;
}

size_t sg_rf_count(const struct sg_toml *t)
{
    size_t n = 0;
    for (const struct sg_toml *v = t->first; v; v = v->next)
        n++;
    return n;
}

void sg_rf_revision(struct sg_str text, char ret[17])
{
    (void)snprintf(ret, 17, "%016" PRIx64, sg_hash_add(SG_HASH_START, text.p, text.n));
}

static int value(const struct sg_rules_reader *x, const struct sg_toml *t, const struct sg_rf *f,
                 void *to)
{
    int at;
    switch (f->kind) {
    case SG_RF_TEXT:
        return sg_rf_text(x, t, to);
    case SG_RF_TEXTS:
        return each(x, t, f, one_text, to);
    case SG_RF_BOOL:
        if (demand(x, t, SG_TOML_BOOL) < 0)
            return -1;
        *(bool *)to = sg_str_is(t->text, "true");
        return 0;
    case SG_RF_COUNT:
        return count(x, t, to);
    case SG_RF_WORD:
        at = word(x, t, f);
        if (at >= 0)
            *(int *)to = at;
        return at < 0 ? -1 : 0;
    case SG_RF_WORDS:
        return each(x, t, f, one_word, to);
    case SG_RF_OPERATIONS:
        return each(x, t, f, one_operation, to);
    case SG_RF_WALLS:
        return each(x, t, f, one_wall, to);
    case SG_RF_TIME:
        if (t->type != SG_TOML_STRING)
            return sg_rf_fail(x, t, "a time as \"30s\" is wanted here");
        return sg_parse_duration_ms(t->text, 1, YEAR_MS, to, x->err) < 0 ? sg_rf_at(x, t) : 0;
    case SG_RF_NODE:
        *(const struct sg_toml **)to = t;
        return 0;
    }
    return -1;
}

static int unknown(const struct sg_rules_reader *x, const struct sg_toml *t,
                   const struct sg_rf *fields, size_t n)
{
    struct sg_hint hint = { .word = t->key };
    for (size_t i = 0; i < n; i++)
        sg_hint_try(&hint, fields[i].key);
    return sg_rf_fail(x, t, "unknown key %s%s", sg_quote_str(t->key).s, sg_hint_text(&hint, "").s);
}

int sg_rf_read(const struct sg_rules_reader *x, const struct sg_toml *table,
               const struct sg_rf *fields, size_t n, void *into)
{
    if (table->type != SG_TOML_TABLE)
        return sg_rf_fail(x, table, "a table is wanted here, not %s",
                          sg_toml_type_name(table->type));
    for (const struct sg_toml *t = table->first; t; t = t->next) {
        size_t i = 0;
        while (i < n && !sg_str_is(t->key, fields[i].key))
            i++;
        if (i == n)
            return unknown(x, t, fields, n);
        if (value(x, t, &fields[i], (char *)into + fields[i].offset) < 0)
            return -1;
    }
    for (size_t i = 0; i < n; i++)
        if (fields[i].is_required && !sg_toml_find(table, fields[i].key))
            return sg_rf_fail(x, table, "%s is missing here", fields[i].key);
    return 0;
}
