/* SPDX-License-Identifier: Apache-2.0 */
#include "gate/swap.h"

#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "wire/base64.h"
#include "wire/http1.h"
#include "base/banned.h"

enum { FORM_MAX = 1 << 20 };

/* ---- the set ---- */

struct sg_swaps *sg_swaps_new(void)
{
    struct sg_swaps *s = sg_new(struct sg_swaps);
    s->refs = 1;
    return s;
}

struct sg_swaps *sg_swaps_ref(struct sg_swaps *s)
{
    s->refs++;
    return s;
}

static void wipe(struct sg_str *s)
{
    if (s->p) {
        explicit_bzero((void *)(uintptr_t)s->p, s->n);
        free((void *)(uintptr_t)s->p);
    }
}

void sg_swaps_unref(struct sg_swaps *s)
{
    if (!s || --s->refs)
        return;
    for (size_t i = 0; i < s->pair_count; i++) {
        free(s->pairs[i].from);
        wipe(&s->pairs[i].to);
    }
    for (size_t i = 0; i < s->field_count; i++) {
        free(s->fields[i].name);
        free(s->fields[i].value);
    }
    for (size_t i = 0; i < s->pattern_count; i++)
        wipe(&s->patterns[i]);
    free(s->pairs);
    free(s->fields);
    free(s->patterns);
    free(s);
}

/* Room for one more. */
static void *grown(void *v, size_t n, size_t size)
{
    void *more = reallocarray(v, n + 1, size);
    if (!more)
        abort(); /* as sg_alloc() */
    return more;
}

static struct sg_str copy(const void *p, size_t n)
{
    char *own = sg_alloc(n + 1);
    memcpy(own, p, n);
    return (struct sg_str) { own, n };
}

static void add_pattern(struct sg_swaps *s, const void *p, size_t n)
{
    if (n < SG_SCRUB_LEAST)
        return;
    for (size_t i = 0; i < s->pattern_count; i++)
        if (s->patterns[i].n == n && memcmp(s->patterns[i].p, p, n) == 0)
            return;
    s->patterns = grown(s->patterns, s->pattern_count, sizeof *s->patterns);
    s->patterns[s->pattern_count++] = copy(p, n);
}

/* ---- forms ---- */

static bool is_plain_in_url(uint8_t c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c && strchr("-._~", c));
}

static void put_percent(struct sg_buf *out, struct sg_str v)
{
    for (size_t i = 0; i < v.n; i++)
        if (is_plain_in_url((uint8_t)v.p[i]))
            sg_buf_add(out, &v.p[i], 1);
        else
            sg_buf_addf(out, "%%%02X", (uint8_t)v.p[i]);
}

static void put_json(struct sg_buf *out, struct sg_str v)
{
    for (size_t i = 0; i < v.n; i++) {
        const uint8_t c = (uint8_t)v.p[i];
        if (c == '"' || c == '\\')
            sg_buf_addf(out, "\\%c", c);
        else if (c == '\n')
            sg_buf_add_str(out, "\\n");
        else if (c < 0x20)
            sg_buf_addf(out, "\\u%04x", c);
        else
            sg_buf_add(out, &c, 1);
    }
}

/* What a text that has the value `shift` bytes behind a multiple of three surely holds. */
static void add_base64(struct sg_swaps *s, struct sg_str v, unsigned shift)
{
    static const unsigned first[] = { 0, 2, 3 }; /* the first character of the value alone */
    sg_auto_buf raw, text;
    sg_buf_init(&raw, FORM_MAX);
    sg_buf_init(&text, FORM_MAX);
    sg_buf_add(&raw, "\0\0", shift);
    sg_buf_add(&raw, v.p, v.n);
    sg_base64_encode(&text, raw.p, raw.n);
    const size_t end = raw.n * 8 / 6;
    if (raw.has_overflowed || text.has_overflowed || end <= first[shift])
        return;
    char *core = (char *)text.p + first[shift];
    const size_t n = end - first[shift];
    add_pattern(s, core, n);
    for (size_t i = 0; i < n; i++)
        core[i] = core[i] == '+' ? '-' : core[i] == '/' ? '_' : core[i];
    add_pattern(s, core, n);
    explicit_bzero(raw.p, raw.n);
    explicit_bzero(text.p, text.n);
}

static void add_form(struct sg_swaps *s, struct sg_str v,
                     void (*put)(struct sg_buf *out, struct sg_str v))
{
    sg_auto_buf text;
    sg_buf_init(&text, FORM_MAX);
    put(&text, v);
    if (text.n)
        add_pattern(s, text.p, text.n);
    if (text.p)
        explicit_bzero(text.p, text.n);
}

void sg_swaps_add(struct sg_swaps *s, const char *placeholder, struct sg_str value,
                  bool is_for_rules)
{
    s->pairs = grown(s->pairs, s->pair_count, sizeof *s->pairs);
    s->pairs[s->pair_count++] = (struct sg_swap_pair) { .from = sg_strdup(placeholder),
                                                        .to = copy(value.p, value.n),
                                                        .is_for_rules = is_for_rules };
    if (value.n < SG_SCRUB_LEAST)
        return;
    add_pattern(s, value.p, value.n);
    add_form(s, value, put_percent);
    add_form(s, value, put_json);
    for (unsigned shift = 0; shift < 3; shift++)
        add_base64(s, value, shift);
}

void sg_swaps_add_field(struct sg_swaps *s, const char *name, const char *value)
{
    s->fields = grown(s->fields, s->field_count, sizeof *s->fields);
    s->fields[s->field_count++] = (struct sg_swap_field) { sg_strdup(name), sg_strdup(value) };
}

bool sg_swaps_has_field(const struct sg_swaps *s, struct sg_str name)
{
    for (size_t i = 0; i < s->field_count; i++)
        if (sg_http1_same(name, s->fields[i].name))
            return true;
    return false;
}

/* ---- out ---- */

static bool has_control(struct sg_str v)
{
    for (size_t i = 0; i < v.n; i++)
        if ((uint8_t)v.p[i] < 0x20 || v.p[i] == 0x7f)
            return true;
    return false;
}

static int put_value(struct sg_buf *out, struct sg_str v, enum sg_swap_form form)
{
    if (form == SG_SWAP_FIELD && has_control(v))
        return -1;
    if (form == SG_SWAP_PERCENT)
        put_percent(out, v);
    else if (form == SG_SWAP_JSON)
        put_json(out, v);
    else
        sg_buf_add(out, v.p, v.n);
    return 0;
}

/* The first placeholder in `in`; NULL: there is none. */
static const struct sg_swap_pair *find(const struct sg_swaps *s, struct sg_str in, bool is_rule,
                                       size_t *ret_at)
{
    const struct sg_swap_pair *found = NULL;
    for (size_t i = 0; i < s->pair_count; i++) {
        const struct sg_swap_pair *p = &s->pairs[i];
        const char *at =
            p->is_for_rules && !is_rule ? NULL : memmem(in.p, in.n, p->from, strlen(p->from));
        if (at && (!found || (size_t)(at - in.p) < *ret_at)) {
            found = p;
            *ret_at = (size_t)(at - in.p);
        }
    }
    return found;
}

int sg_swap(const struct sg_swaps *s, struct sg_str in, enum sg_swap_form form, bool is_rule,
            struct sg_buf *out)
{
    const struct sg_swap_pair *p;
    size_t at = 0;
    while (in.n && (p = find(s, in, is_rule, &at))) {
        sg_buf_add(out, in.p, at);
        if (put_value(out, p->to, form) < 0)
            return -1;
        in.p += at + strlen(p->from);
        in.n -= at + strlen(p->from);
    }
    sg_buf_add(out, in.p, in.n);
    return 0;
}

/* ---- pieces ---- */

/* The longest end of the text that begins `what`, without being all of it. */
static size_t overlap(struct sg_str what, const char *p, size_t n)
{
    const char *end = p + n;
    const char *at = n >= what.n ? end - (what.n - 1) : p;
    while (at < end && (at = memchr(at, what.p[0], (size_t)(end - at)))) {
        if (memcmp(at, what.p, (size_t)(end - at)) == 0)
            return (size_t)(end - at);
        at++;
    }
    return 0;
}

/* What is whole is not cut, though its end may look like the beginning of another. */
size_t sg_swap_held(const struct sg_swaps *s, const void *p, size_t n)
{
    struct sg_str rest = { p, n };
    const struct sg_swap_pair *whole;
    size_t most = 0, at = 0;
    while (rest.n && (whole = find(s, rest, true, &at))) {
        at += strlen(whole->from);
        rest.p += at;
        rest.n -= at;
    }
    for (size_t i = 0; i < s->pair_count; i++) {
        const size_t one = overlap(sg_str_of(s->pairs[i].from), rest.p, rest.n);
        most = one > most ? one : most;
    }
    return most;
}

/* ---- in ---- */

void sg_scrub(const struct sg_swaps *s, void *p, size_t n)
{
    for (size_t i = 0; i < s->pattern_count; i++) {
        char *at = p, *end = at + n;
        while ((at = memmem(at, (size_t)(end - at), s->patterns[i].p, s->patterns[i].n))) {
            memset(at, '*', s->patterns[i].n);
            at += s->patterns[i].n;
        }
    }
}

size_t sg_scrub_held(const struct sg_swaps *s, const void *p, size_t n)
{
    size_t most = 0;
    for (size_t i = 0; i < s->pattern_count; i++) {
        const size_t one = overlap(s->patterns[i], p, n);
        most = one > most ? one : most;
    }
    return most;
}
