/* SPDX-License-Identifier: Apache-2.0 */
#include "meter/price.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/hint.h"
#include "config/toml.h"
#include "base/banned.h"

enum { DECIMALS = 12 };
#define MOST_WHOLE 1000000u /* of the currency, for a unit */

extern const char sg_prices_builtin_text[];
extern const uint64_t sg_prices_builtin_bytes;

/* One row a rate: its name in the file, the amount, and how much of that is one unit. */
static const struct {
    const char *key;
    size_t amount;
    uint64_t unit;
} rates[SG_RATES] = {
#define AT(f) offsetof(struct sg_amounts, f)
    { "cpu_second", AT(cpu_ns), 1000000000 },
    { "memory_gib_second", AT(mem_mib_ms), 1024000 },
    { "vcpu_second", AT(vcpu_milli_ms), 1000000 },
    { "allotted_gib_second", AT(allotted_mib_ms), 1024000 },
    { "disk_gib_second", AT(disk_mib_ms), 1024000 },
    { "sandbox_second", AT(wall_ms), 1000 },
    { "network_gib", AT(net_bytes), 1u << 30 },
    { "create", AT(creates), 1 },
#undef AT
};

static uint64_t amount(const struct sg_amounts *a, size_t offset)
{
    return *(const uint64_t *)(const void *)((const char *)a + offset);
}

void sg_amounts_add(struct sg_amounts *to, const struct sg_amounts *a)
{
    for (size_t i = 0; i < SG_RATES; i++)
        *(uint64_t *)(void *)((char *)to + rates[i].amount) += amount(a, rates[i].amount);
}

uint64_t sg_price_of(const struct sg_price *p, const struct sg_amounts *a)
{
    unsigned __int128 sum = 0;
    for (size_t i = 0; i < SG_RATES; i++)
        sum += (unsigned __int128)amount(a, rates[i].amount) * p->pico[i] / rates[i].unit;
    return sum > UINT64_MAX ? UINT64_MAX : (uint64_t)sum;
}

struct sg_money_text sg_money_text(uint64_t pico)
{
    struct sg_money_text t;
    int n = snprintf(t.s, sizeof t.s, "%" PRIu64 ".%012" PRIu64, pico / SG_PICO, pico % SG_PICO);
    while (n > 0 && t.s[n - 1] == '0')
        t.s[--n] = '\0';
    if (n > 0 && t.s[n - 1] == '.')
        t.s[--n] = '\0';
    return t;
}

/* ---- the file ---- */

struct reader {
    const char *source;
    struct sg_err *err;
};

static int fail(const struct reader *r, const struct sg_toml *t, const char *what)
{
    return sg_fail(r->err, SG_INVALID, "%s:%" PRIu32 ":%" PRIu32 ": %s", r->source, t->line,
                   t->column, what);
}

/* A float's text is "12.5"; nobody writes prices with exponents and reads them right. */
static int read_money(const struct reader *r, const struct sg_toml *t, uint64_t *ret)
{
    if (t->type != SG_TOML_FLOAT && t->type != SG_TOML_INTEGER)
        return fail(r, t, "a price is a number");
    const struct sg_str s = t->text;
    uint64_t whole = 0, part = 0;
    size_t i = 0, digits = 0;
    for (; i < s.n && s.p[i] >= '0' && s.p[i] <= '9'; i++) {
        whole = whole * 10 + (uint64_t)(s.p[i] - '0');
        if (whole > MOST_WHOLE)
            return fail(r, t, "a price is at most 1000000");
    }
    const bool has_point = i > 0 && i < s.n && s.p[i] == '.';
    for (i += has_point; has_point && i < s.n && digits < DECIMALS; i++, digits++) {
        if (s.p[i] < '0' || s.p[i] > '9')
            break;
        part = part * 10 + (uint64_t)(s.p[i] - '0');
    }
    if (i < s.n)
        return fail(r, t, "a price is a plain number, not negative, of at most 12 decimals");
    for (; digits < DECIMALS; digits++)
        part *= 10;
    *ret = whole * SG_PICO + part;
    return 0;
}

static int read_text(const struct reader *r, const struct sg_toml *t, char *to, size_t cap)
{
    static const char some[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    if (t->type != SG_TOML_STRING || !t->text.n || t->text.n >= cap)
        return fail(r, t, "a short text is wanted here");
    for (size_t i = 0; i < t->text.n; i++)
        if (!t->text.p[i] || !strchr(some, t->text.p[i]))
            return fail(r, t, "letters, digits, '.', '_' and '-' are wanted here");
    memcpy(to, t->text.p, t->text.n);
    to[t->text.n] = '\0';
    return 0;
}

static int unknown(const struct reader *r, const struct sg_toml *t)
{
    struct sg_hint hint = { .word = t->key };
    char text[240];
    for (size_t i = 0; i < SG_RATES; i++)
        sg_hint_try(&hint, rates[i].key);
    (void)snprintf(text, sizeof text, "unknown key %s%s", sg_quote_str(t->key).s,
                   sg_hint_text(&hint, "").s);
    return fail(r, t, text);
}

static int read_price(const struct reader *r, const struct sg_toml *table, struct sg_price *ret)
{
    if (table->type != SG_TOML_TABLE)
        return fail(r, table, "a table is wanted here");
    for (const struct sg_toml *t = table->first; t; t = t->next) {
        size_t i = 0;
        while (i < SG_RATES && !sg_str_is(t->key, rates[i].key))
            i++;
        const bool is_name = i == SG_RATES && sg_str_is(t->key, "name");
        if (i == SG_RATES && !is_name)
            return unknown(r, t);
        if (is_name ? read_text(r, t, ret->name, sizeof ret->name) < 0
                    : read_money(r, t, &ret->pico[i]) < 0)
            return -1;
    }
    return 0;
}

static int read_elsewhere(const struct reader *r, const struct sg_toml *list, struct sg_prices *p)
{
    if (list->type != SG_TOML_ARRAY)
        return fail(r, list, "[[elsewhere]] is a list of tables");
    for (const struct sg_toml *t = list->first; t; t = t->next) {
        struct sg_price *one = &p->elsewhere[p->elsewhere_count];
        if (p->elsewhere_count == SG_ELSEWHERE_MAX)
            return fail(r, t, "over 8 others");
        if (read_price(r, t, one) < 0)
            return -1;
        if (!one->name[0])
            return fail(r, t, "name is missing here");
        for (unsigned i = 0; i < p->elsewhere_count; i++)
            if (strcmp(p->elsewhere[i].name, one->name) == 0)
                return fail(r, t, "this name is there twice");
        p->elsewhere_count++;
    }
    return 0;
}

static int read_all(const struct reader *r, const struct sg_toml *root, struct sg_prices *p)
{
    for (const struct sg_toml *t = root->first; t; t = t->next) {
        int got;
        if (sg_str_is(t->key, "currency"))
            got = read_text(r, t, p->currency, sizeof p->currency);
        else if (sg_str_is(t->key, "own"))
            got = read_price(r, t, &p->own);
        else if (sg_str_is(t->key, "elsewhere"))
            got = read_elsewhere(r, t, p);
        else
            got = fail(r, t, "unknown key; there are currency, own and elsewhere");
        if (got < 0)
            return -1;
    }
    return 0;
}

int sg_prices_parse(struct sg_str text, const char *source, struct sg_prices *ret,
                    struct sg_err *err)
{
    const struct reader r = { source, err };
    struct sg_prices p = { .currency = "USD", .own = { .name = "own" } };
    sg_auto_toml doc = sg_toml_parse(text, err);
    if (!doc)
        return sg_wrap(err, "%s", source);
    if (read_all(&r, sg_toml_root(doc), &p) < 0)
        return -1;
    *ret = p;
    return 0;
}

void sg_prices_builtin(struct sg_prices *ret)
{
    struct sg_err err;
    const struct sg_str text = { sg_prices_builtin_text, sg_prices_builtin_bytes };
    if (sg_prices_parse(text, "prices.toml", ret, &err) < 0)
        abort(); /* the build checks it: test_price */
}
