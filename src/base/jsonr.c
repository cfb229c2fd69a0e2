/* SPDX-License-Identifier: Apache-2.0 */
/* Recursive descent over a text that need not be terminated. One cursor; every step checks the end.
 * The depth is bounded, so is the stack; all memory is the arena's. */
#include "base/jsonr.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/auto.h"
#include "base/json.h"
#include "base/map.h"
#include "base/banned.h"

enum {
    MAX_NUMBER = 400, /* bytes; the longest double that means something is shorter */
    FEW_MEMBERS = 16, /* up to here keys are compared pairwise */
};

struct reader {
    const char *start, *p, *end;
    struct sg_arena *arena;
    unsigned depth;
    struct sg_err *err;
};

__attribute__((format(printf, 2, 3))) static int say_at(struct reader *r, const char *fmt, ...)
{
    char what[160];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    size_t line = 1, column = 1;
    for (const char *p = r->start; p < r->p; p++) {
        column = *p == '\n' ? 1 : column + 1;
        line += *p == '\n';
    }
    return sg_fail(r->err, SG_INVALID, "JSON, line %zu, column %zu: %s", line, column, what);
}

/* -1 where the compiler can see it */
#define fail_at(...) sg_failed_(say_at(__VA_ARGS__))

static inline int fail_unexpected(struct reader *r, const char *wanted)
{
    if (r->p == r->end)
        return fail_at(r, "the text ends where %s should be", wanted);
    return fail_at(r, "%s instead of %s", sg_quote_str((struct sg_str) { r->p, 1 }).s, wanted);
}

static void *get_memory(struct reader *r, size_t n)
{
    void *p = sg_arena_alloc(r->arena, n);
    if (!p)
        sg_fail(r->err, SG_EXHAUSTED, "the JSON text needs more than %zu bytes", r->arena->max);
    return p;
}

static void skip_space(struct reader *r)
{
    while (r->p < r->end && (*r->p == ' ' || *r->p == '\n' || *r->p == '\r' || *r->p == '\t'))
        r->p++;
}

static bool take(struct reader *r, char c)
{
    bool is_there = r->p < r->end && *r->p == c;
    r->p += is_there;
    return is_there;
}

/* ---- strings ---- */

static int read_hex4(struct reader *r, uint32_t *ret)
{
    uint32_t v = 0;
    for (unsigned i = 0; i < 4; i++, r->p++) {
        char c = r->p < r->end ? *r->p : '"';
        uint32_t digit = c >= '0' && c <= '9'   ? (uint32_t)(c - '0')
                         : c >= 'a' && c <= 'f' ? (uint32_t)(c - 'a' + 10)
                         : c >= 'A' && c <= 'F' ? (uint32_t)(c - 'A' + 10)
                                                : 16;
        if (digit > 15)
            return fail_unexpected(r, "four hexadecimal digits");
        v = v << 4 | digit;
    }
    *ret = v;
    return 0;
}

static size_t put_utf8(char *out, uint32_t cp)
{
    if (cp < 0x80)
        return out[0] = (char)cp, 1;
    size_t width = cp < 0x800 ? 2 : cp < 0x10000 ? 3 : 4;
    static const uint8_t lead[] = { 0, 0, 0xc0, 0xe0, 0xf0 };
    for (size_t i = width - 1; i > 0; i--, cp >>= 6)
        out[i] = (char)(0x80 | (cp & 0x3f));
    out[0] = (char)(lead[width] | cp);
    return width;
}

/* Behind "\u". */
static int read_code_point(struct reader *r, uint32_t *ret)
{
    uint32_t high, low;
    if (read_hex4(r, &high) < 0)
        return -1;
    if (high >= 0xdc00 && high < 0xe000)
        return fail_at(r, "half of a surrogate pair");
    if (high < 0xd800 || high >= 0xe000)
        return *ret = high, 0;
    if (!take(r, '\\') || !take(r, 'u'))
        return fail_at(r, "half of a surrogate pair");
    if (read_hex4(r, &low) < 0)
        return -1;
    if (low < 0xdc00 || low >= 0xe000)
        return fail_at(r, "half of a surrogate pair");
    *ret = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
    return 0;
}

/* Behind the backslash. */
static int read_escape(struct reader *r, char *out, size_t *n)
{
    static const char plain[] = "\"\"\\\\//b\bf\fn\nr\rt\t";
    if (take(r, 'u')) {
        uint32_t cp;
        if (read_code_point(r, &cp) < 0)
            return -1;
        *n += put_utf8(out + *n, cp);
        return 0;
    }
    for (size_t i = 0; i + 1 < sizeof plain; i += 2)
        if (take(r, plain[i])) {
            out[(*n)++] = plain[i + 1];
            return 0;
        }
    return fail_unexpected(r, "an escape");
}

/* The closing quote of the string whose first byte is at r->p: bounds the memory that it needs, for
 * no escape is shorter than what it stands for. */
static int find_end(struct reader *r, const char **ret)
{
    const char *p = r->p;
    while (p < r->end && *p != '"') {
        if ((unsigned char)*p < 0x20) {
            r->p = p;
            return fail_at(r, "a control character in a string (write it as an escape)");
        }
        p += *p == '\\' && r->end - p > 1 ? 2 : 1;
    }
    if (p >= r->end) {
        r->p = r->end;
        return fail_at(r, "the text ends inside a string");
    }
    *ret = p;
    return 0;
}

static int read_string(struct reader *r, struct sg_str *ret)
{
    const char *end, *start = r->p;
    if (find_end(r, &end) < 0)
        return -1;
    char *out = get_memory(r, (size_t)(end - r->p) + 1);
    if (!out)
        return -1;
    size_t n = 0;
    while (r->p < end) {
        const char *stop = memchr(r->p, '\\', (size_t)(end - r->p));
        size_t run = (size_t)((stop ? stop : end) - r->p);
        memcpy(out + n, r->p, run);
        n += run;
        r->p += run;
        if (take(r, '\\') && read_escape(r, out, &n) < 0)
            return -1;
    }
    if (!sg_utf8_valid(out, n)) {
        r->p = start;
        return fail_at(r, "the string that starts here is not UTF-8");
    }
    r->p = end + 1;
    *ret = (struct sg_str) { out, n };
    return 0;
}

/* ---- numbers ---- */

static size_t count_digits(struct reader *r)
{
    const char *start = r->p;
    while (r->p < r->end && *r->p >= '0' && *r->p <= '9')
        r->p++;
    return (size_t)(r->p - start);
}

static bool is_small_integer(const char *p, const char *end, uint64_t *ret)
{
    uint64_t v = 0;
    for (; p < end; p++)
        if (__builtin_mul_overflow(v, 10u, &v) ||
            __builtin_add_overflow(v, (uint64_t)(*p - '0'), &v))
            return false;
    *ret = v;
    return true;
}

static int set_number(struct reader *r, const char *start, bool is_whole, struct sg_jval *v)
{
    bool is_negative = *start == '-';
    uint64_t u;
    if (is_whole && is_small_integer(start + is_negative, r->p, &u)) {
        if (!is_negative || u == 0) {
            v->kind = SG_J_UINT;
            v->u = u;
            return 0;
        }
        if (u <= (uint64_t)INT64_MAX + 1) {
            v->kind = SG_J_INT;
            v->i = (int64_t)(0 - u);
            return 0;
        }
    }
    char text[MAX_NUMBER + 1];
    size_t n = (size_t)(r->p - start);
    if (n > MAX_NUMBER)
        return fail_at(r, "a number of %zu bytes", n);
    memcpy(text, start, n);
    text[n] = '\0';
    v->kind = SG_J_DOUBLE;
    v->d = strtod(text, NULL);
    if (v->d - v->d != 0)
        return fail_at(r, "the number is too large");
    return 0;
}

static int read_number(struct reader *r, struct sg_jval *v)
{
    const char *start = r->p;
    bool is_whole = true;
    (void)take(r, '-');
    if (!take(r, '0') && !count_digits(r))
        return fail_unexpected(r, "a digit");
    if (take(r, '.')) {
        is_whole = false;
        if (!count_digits(r))
            return fail_unexpected(r, "a digit");
    }
    if (take(r, 'e') || take(r, 'E')) {
        is_whole = false;
        if (!take(r, '+'))
            (void)take(r, '-');
        if (!count_digits(r))
            return fail_unexpected(r, "a digit");
    }
    return set_number(r, start, is_whole, v);
}

/* ---- values ---- */

static int read_value(struct reader *r, struct sg_jval *v);

static int read_literal(struct reader *r, struct sg_jval *v)
{
    static const struct {
        const char *word;
        enum sg_jkind kind;
        bool b;
    } literals[] = { { "null", SG_J_NULL, false },
                     { "true", SG_J_BOOL, true },
                     { "false", SG_J_BOOL, false } };
    for (size_t i = 0; i < SG_COUNT(literals); i++) {
        size_t n = strlen(literals[i].word);
        if ((size_t)(r->end - r->p) >= n && memcmp(r->p, literals[i].word, n) == 0) {
            v->kind = literals[i].kind;
            v->b = literals[i].b;
            r->p += n;
            return 0;
        }
    }
    return fail_unexpected(r, "a value");
}

static int fail_twice(struct reader *r, struct sg_str key)
{
    return fail_at(r, "the object has %s twice", sg_quote_str(key).s);
}

static int refuse_same_keys(struct reader *r, const struct sg_jval *v)
{
    if (v->list.n > FEW_MEMBERS) {
        __attribute__((cleanup(sg_map_done))) struct sg_map seen;
        sg_map_init(&seen);
        for (const struct sg_jval *m = v->list.first; m; m = m->next) {
            if (sg_map_find(&seen, m->key.p))
                return fail_twice(r, m->key);
            sg_map_put(&seen, m->key.p, &seen);
        }
        return 0;
    }
    for (const struct sg_jval *m = v->list.first; m; m = m->next)
        for (const struct sg_jval *o = v->list.first; o != m; o = o->next)
            if (o->key.n == m->key.n && memcmp(o->key.p, m->key.p, m->key.n) == 0)
                return fail_twice(r, m->key);
    return 0;
}

static int read_key(struct reader *r, struct sg_str *ret)
{
    if (!take(r, '"'))
        return fail_unexpected(r, "a key in double quotes");
    if (read_string(r, ret) < 0)
        return -1;
    if (memchr(ret->p, '\0', ret->n))
        return fail_at(r, "a key holds the character U+0000");
    skip_space(r);
    if (!take(r, ':'))
        return fail_unexpected(r, "a colon");
    skip_space(r);
    return 0;
}

/* Behind the opening bracket. */
static int read_members(struct reader *r, struct sg_jval *v)
{
    bool is_object = v->kind == SG_J_OBJECT;
    const char close = is_object ? '}' : ']';
    const struct sg_jval **at = &v->list.first;
    skip_space(r);
    if (take(r, close))
        return 0;
    do {
        struct sg_jval *m = get_memory(r, sizeof *m);
        if (!m)
            return -1;
        skip_space(r);
        if ((is_object && read_key(r, &m->key) < 0) || read_value(r, m) < 0)
            return -1;
        *at = m;
        at = &m->next;
        v->list.n++;
        skip_space(r);
    } while (take(r, ','));
    if (!take(r, close))
        return fail_unexpected(r, is_object ? "a comma or '}'" : "a comma or ']'");
    return is_object ? refuse_same_keys(r, v) : 0;
}

static int read_list(struct reader *r, struct sg_jval *v)
{
    if (r->depth == SG_J_MAX_DEPTH)
        return fail_at(r, "deeper than %d levels", SG_J_MAX_DEPTH);
    v->kind = *r->p == '{' ? SG_J_OBJECT : SG_J_ARRAY;
    v->list.first = NULL;
    v->list.n = 0;
    r->p++;
    r->depth++;
    if (read_members(r, v) < 0)
        return -1;
    r->depth--;
    return 0;
}

static int read_value(struct reader *r, struct sg_jval *v)
{
    char c = r->p < r->end ? *r->p : '\0';
    if (c == '{' || c == '[')
        return read_list(r, v);
    if (c == '-' || (c >= '0' && c <= '9'))
        return read_number(r, v);
    if (!take(r, '"'))
        return read_literal(r, v);
    v->kind = SG_J_STRING;
    return read_string(r, &v->s);
}

int sg_json_parse(struct sg_str text, struct sg_arena *a, const struct sg_jval **ret,
                  struct sg_err *err)
{
    struct reader r = { text.p, text.p, text.p + text.n, a, 0, err };
    struct sg_jval *v = get_memory(&r, sizeof *v);
    if (!v)
        return -1;
    skip_space(&r);
    if (read_value(&r, v) < 0)
        return -1;
    skip_space(&r);
    if (r.p != r.end)
        return fail_unexpected(&r, "the end");
    *ret = v;
    return 0;
}

const struct sg_jval *sg_json_get(const struct sg_jval *v, const char *key)
{
    if (!v || v->kind != SG_J_OBJECT)
        return NULL;
    for (const struct sg_jval *m = v->list.first; m; m = m->next)
        if (sg_str_is(m->key, key))
            return m;
    return NULL;
}

/* The shortest digits that mean this very number. */
static void put_double(struct sg_json *j, double d)
{
    char text[40];
    for (int digits = 15; digits <= 17; digits++) {
        (void)snprintf(text, sizeof text, "%.*g", digits, d);
        if (strtod(text, NULL) - d == 0)
            break;
    }
    if (!strpbrk(text, ".e")) /* or it would be read as an integer */
        (void)snprintf(text + strlen(text), sizeof text - strlen(text), ".0");
    sg_json_number(j, text);
}

static void put_members(struct sg_json *j, const struct sg_jval *v)
{
    const bool is_object = v->kind == SG_J_OBJECT;
    sg_json_open(j, is_object ? '{' : '[');
    for (const struct sg_jval *m = v->list.first; m; m = m->next) {
        if (is_object)
            sg_json_key(j, m->key.p);
        sg_json_put(j, m);
    }
    sg_json_close(j, is_object ? '}' : ']');
}

void sg_json_put(struct sg_json *j, const struct sg_jval *v)
{
    switch (v->kind) {
    case SG_J_NULL:
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
    case SG_J_DOUBLE:
        put_double(j, v->d);
        return;
    case SG_J_STRING:
        sg_json_text(j, v->s);
        return;
    case SG_J_ARRAY:
    case SG_J_OBJECT:
        put_members(j, v);
        return;
    }
}
