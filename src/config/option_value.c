/* SPDX-License-Identifier: Apache-2.0 */
/* Values of options: from text into the settings and back. Format-then-set is the identity. */
#include "config/option.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/auto.h"
#include "base/parse.h"
#include "base/banned.h"

enum { MAX_TEXT = 64 * 1024, MAX_ENTRIES = 1024 };

struct unit {
    const char *name;
    uint64_t size;
};

/* Largest first; the first that divides the value is shown. Minutes are left out: people say
 * 300s. */
static const struct unit byte_units[] = {
    { "t", 1ull << 40 }, { "g", 1ull << 30 }, { "m", 1ull << 20 }, { "k", 1ull << 10 }, { "", 1 },
};
static const struct unit time_units[] = {
    { "d", 86400000 }, { "h", 3600000 }, { "s", 1000 }, { "ms", 1 }
};

static void format_units(uint64_t v, const struct unit *units, size_t count, struct sg_buf *out)
{
    size_t i = 0;
    while (v && i + 1 < count && v % units[i].size)
        i++;
    if (v)
        sg_buf_addf(out, "%" PRIu64 "%s", v / units[i].size, units[i].name);
    else
        sg_buf_add_str(out, "0");
}

static void format_bytes(uint64_t v, struct sg_buf *out)
{
    format_units(v, byte_units, SG_COUNT(byte_units), out);
}

static void format_duration(uint64_t v, struct sg_buf *out)
{
    format_units(v, time_units, SG_COUNT(time_units), out);
}

static void format_milli(uint64_t v, struct sg_buf *out)
{
    sg_buf_addf(out, "%" PRIu64, v / 1000);
    unsigned rest = (unsigned)(v % 1000);
    if (!rest)
        return;
    int width = 3;
    for (; rest % 10 == 0; rest /= 10)
        width--;
    sg_buf_addf(out, ".%0*u", width, rest);
}

static void format_count(uint64_t v, struct sg_buf *out)
{
    sg_buf_addf(out, "%" PRIu64, v);
}

struct number_type {
    int (*parse)(struct sg_str s, uint64_t min, uint64_t max, uint64_t *ret, struct sg_err *err);
    void (*format)(uint64_t v, struct sg_buf *out);
    const char *noun, *example;
};

static const struct number_type number_types[SG_OPTION_TYPE_COUNT] = {
    [SG_OPTION_BYTES] = { sg_parse_bytes, format_bytes, "a size", ", like 512m" },
    [SG_OPTION_DURATION] = { sg_parse_duration_ms, format_duration, "a time", ", like 90s or 5m" },
    [SG_OPTION_MILLI] = { sg_parse_milli, format_milli, "a number", ", like 0.5" },
    [SG_OPTION_COUNT] = { sg_parse_u64, format_count, "a whole number", "" },
};

static int set_number(const struct sg_option *o, uint64_t *field, struct sg_str text,
                      struct sg_err *err)
{
    const struct number_type *t = &number_types[o->type];
    uint64_t v;
    if (t->parse(text, o->min, o->max, &v, NULL) < 0) {
        sg_auto_buf min, max;
        sg_buf_init(&min, 64);
        sg_buf_init(&max, 64);
        t->format(o->min, &min);
        t->format(o->max, &max);
        return sg_fail(err, SG_INVALID, "%s is not %s from %s to %s%s", sg_quote_str(text).s,
                       t->noun, sg_buf_cstr(&min), sg_buf_cstr(&max), t->example);
    }
    *field = v;
    return 0;
}

static int set_bool(bool *field, struct sg_str text, struct sg_err *err)
{
    if (!sg_str_is(text, "true") && !sg_str_is(text, "false"))
        return sg_fail(err, SG_INVALID, "%s is not true or false", sg_quote_str(text).s);
    *field = sg_str_is(text, "true");
    return 0;
}

static int set_word(const struct sg_option *o, void *field, struct sg_str text, struct sg_err *err)
{
    for (const struct sg_word *w = o->words; w->text; w++)
        if (sg_str_is(text, w->text)) {
            memcpy(field, &w->value, sizeof w->value);
            return 0;
        }
    sg_auto_buf known;
    sg_buf_init(&known, 128);
    for (const struct sg_word *w = o->words; w->text; w++)
        if (!w->is_alias)
            sg_buf_addf(&known, "%s%s", known.n ? ", " : "", w->text);
    return sg_fail(err, SG_INVALID, "%s is not one of %s", sg_quote_str(text).s,
                   sg_buf_cstr(&known));
}

/* Returns owned, or NULL. */
static char *checked_text(const struct sg_option *o, struct sg_str text, struct sg_err *err)
{
    if (text.n > MAX_TEXT) {
        (void)sg_fail(err, SG_INVALID, "over %d bytes", MAX_TEXT);
        return NULL;
    }
    if (memchr(text.p, '\0', text.n)) {
        (void)sg_fail(err, SG_INVALID, "%s holds a NUL byte", sg_quote_str(text).s);
        return NULL;
    }
    sg_auto_free char *copy = sg_alloc(text.n + 1);
    memcpy(copy, text.p, text.n);
    if (o->check && o->check(copy, err) < 0)
        return NULL;
    return sg_take_ptr(&copy);
}

static int set_string(const struct sg_option *o, char **field, struct sg_str text,
                      struct sg_err *err)
{
    char *copy = checked_text(o, text, err);
    if (!copy)
        return -1;
    free(*field);
    *field = copy;
    return 0;
}

static int add_entry(const struct sg_option *o, struct sg_strlist *list, struct sg_str text,
                     struct sg_err *err)
{
    if (list->n >= MAX_ENTRIES)
        return sg_fail(err, SG_INVALID, "over %d entries", MAX_ENTRIES);
    char *copy = checked_text(o, text, err);
    if (!copy)
        return -1;
    char **v = reallocarray(list->v, list->n + 2, sizeof *v);
    if (!v)
        abort();
    v[list->n++] = copy;
    v[list->n] = NULL;
    list->v = v;
    return 0;
}

int sg_option_set(const struct sg_option *o, struct sg_config *c, struct sg_str text,
                  struct sg_err *err)
{
    void *field = (char *)c + o->offset;
    switch (o->type) {
    case SG_OPTION_STRING:
        return set_string(o, field, text, err);
    case SG_OPTION_BYTES:
    case SG_OPTION_DURATION:
    case SG_OPTION_MILLI:
    case SG_OPTION_COUNT:
        return set_number(o, field, text, err);
    case SG_OPTION_BOOL:
        return set_bool(field, text, err);
    case SG_OPTION_WORD:
    case SG_OPTION_SWITCH:
        return set_word(o, field, text, err);
    case SG_OPTION_LIST:
        return add_entry(o, field, text, err);
    case SG_OPTION_TYPE_COUNT:
        break;
    }
    return sg_fail(err, SG_INTERNAL, "option without a type");
}

static const char *word_of(const struct sg_option *o, int value)
{
    for (const struct sg_word *w = o->words; w->text; w++)
        if (w->value == value && !w->is_alias)
            return w->text;
    return "";
}

void sg_option_format(const struct sg_option *o, const struct sg_config *c, size_t index,
                      struct sg_buf *out)
{
    const void *field = (const char *)c + o->offset;
    int word;
    switch (o->type) {
    case SG_OPTION_STRING:
        sg_buf_add_str(out, *(char *const *)field);
        break;
    case SG_OPTION_BYTES:
    case SG_OPTION_DURATION:
    case SG_OPTION_MILLI:
    case SG_OPTION_COUNT:
        number_types[o->type].format(*(const uint64_t *)field, out);
        break;
    case SG_OPTION_BOOL:
        sg_buf_add_str(out, *(const bool *)field ? "true" : "false");
        break;
    case SG_OPTION_WORD:
    case SG_OPTION_SWITCH:
        memcpy(&word, field, sizeof word);
        sg_buf_add_str(out, word_of(o, word));
        break;
    case SG_OPTION_LIST:
        if (index < ((const struct sg_strlist *)field)->n)
            sg_buf_add_str(out, ((const struct sg_strlist *)field)->v[index]);
        break;
    case SG_OPTION_TYPE_COUNT:
        break;
    }
}
