/* SPDX-License-Identifier: Apache-2.0 */
/* Values of TOML that are one bare word: booleans, integers, floats, dates and times.
 *
 * The word is cut out first, by the characters that any of them may use, and must then match one
 * form as a whole; so "1_", "01", "1.", "0x" or "2020-01-01T" need no rule of their own. */
#include <string.h>

#include "config/toml_internal.h"
#include "base/banned.h"

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_word_byte(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c && strchr("+-._:", c));
}

/* Takes "digit (_? digit)*" off the front; false when there is none. */
static bool take_digits(struct sg_str *s, int base)
{
    static const char all[] = "0123456789abcdef";
    bool wants_digit = true;
    size_t i = 0;
    for (; i < s->n; i++) {
        char c = s->p[i];
        char lower = c >= 'A' && c <= 'F' ? (char)(c + 32) : c;
        if (memchr(all, lower, (size_t)base))
            wants_digit = false;
        else if (c == '_' && !wants_digit)
            wants_digit = true;
        else
            break;
    }
    if (wants_digit)
        return false;
    s->p += i;
    s->n -= i;
    return true;
}

static bool take_byte(struct sg_str *s, const char *any_of)
{
    if (!s->n || !*s->p || !strchr(any_of, *s->p))
        return false;
    s->p++;
    s->n--;
    return true;
}

/* Takes two (or four) digits between min and max. */
static bool take_field(struct sg_str *s, size_t width, int min, int max, int *ret)
{
    int v = 0;
    if (s->n < width)
        return false;
    for (size_t i = 0; i < width; i++) {
        if (!is_digit(s->p[i]))
            return false;
        v = v * 10 + (s->p[i] - '0');
    }
    s->p += width;
    s->n -= width;
    *ret = v;
    return v >= min && v <= max;
}

static bool take_time(struct sg_str *s)
{
    int v;
    if (!take_field(s, 2, 0, 23, &v) || !take_byte(s, ":") || !take_field(s, 2, 0, 59, &v) ||
        !take_byte(s, ":") || !take_field(s, 2, 0, 59, &v))
        return false;
    if (!take_byte(s, "."))
        return true;
    size_t digits = 0;
    while (take_byte(s, "0123456789"))
        digits++;
    return digits > 0;
}

static bool take_date(struct sg_str *s)
{
    static const int days[] = { 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
    int year, month, day;
    if (!take_field(s, 4, 0, 9999, &year) || !take_byte(s, "-") ||
        !take_field(s, 2, 1, 12, &month) || !take_byte(s, "-") ||
        !take_field(s, 2, 1, days[month - 1], &day))
        return false;
    bool is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    return !(month == 2 && day == 29 && !is_leap);
}

static bool take_zone(struct sg_str *s)
{
    int v;
    return take_byte(s, "Zz") || (take_byte(s, "+-") && take_field(s, 2, 0, 23, &v) &&
                                  take_byte(s, ":") && take_field(s, 2, 0, 59, &v));
}

static bool is_date(struct sg_str s)
{
    struct sg_str t = s;
    if (take_time(&t))
        return t.n == 0;
    if (!take_date(&s))
        return false;
    if (s.n == 0)
        return true;
    if (!take_byte(&s, "Tt ") || !take_time(&s))
        return false;
    return s.n == 0 || (take_zone(&s) && s.n == 0);
}

static bool is_float(struct sg_str s)
{
    (void)take_byte(&s, "+-");
    if (sg_str_is(s, "inf") || sg_str_is(s, "nan"))
        return true;
    bool is_zero = s.n && *s.p == '0';
    const char *start = s.p;
    if (!take_digits(&s, 10) || (is_zero && s.p != start + 1))
        return false;
    if (take_byte(&s, ".") && !take_digits(&s, 10))
        return false;
    if (!take_byte(&s, "eE"))
        return s.n == 0;
    (void)take_byte(&s, "+-");
    return take_digits(&s, 10) && s.n == 0;
}

/* The form only; the caller has the value computed from the same text without underscores. */
static bool is_integer(struct sg_str s, int *ret_base)
{
    static const struct {
        const char *prefix;
        int base;
    } bases[] = { { "0x", 16 }, { "0o", 8 }, { "0b", 2 } };
    for (size_t i = 0; i < sizeof bases / sizeof bases[0]; i++)
        if (s.n > 2 && memcmp(s.p, bases[i].prefix, 2) == 0) {
            *ret_base = bases[i].base;
            s.p += 2;
            s.n -= 2;
            return take_digits(&s, bases[i].base) && s.n == 0;
        }
    *ret_base = 10;
    (void)take_byte(&s, "+-");
    bool is_padded = s.n > 1 && *s.p == '0';
    return !is_padded && take_digits(&s, 10) && s.n == 0;
}

static bool integer_value(struct sg_str s, int base, int64_t *ret)
{
    bool is_negative = s.n && *s.p == '-';
    size_t i = base != 10 ? 2 : is_negative || *s.p == '+' ? 1 : 0;
    int64_t v = 0; /* built below zero, where one more value fits */
    for (; i < s.n; i++) {
        char c = s.p[i];
        int digit = is_digit(c) ? c - '0' : (c | 32) - 'a' + 10;
        if (__builtin_mul_overflow(v, base, &v) || __builtin_sub_overflow(v, digit, &v))
            return false;
    }
    if (!is_negative && __builtin_sub_overflow((int64_t)0, v, &v))
        return false;
    *ret = v;
    return true;
}

/* A date and its time may stand apart by one space: look whether a time follows. */
static struct sg_str cut_word(const struct sg_toml_reader *r)
{
    size_t left = (size_t)(r->end - r->p), n = 0;
    while (n < left && is_word_byte(r->p[n]))
        n++;
    bool is_apart =
        n == 10 && r->p[4] == '-' && left > n + 1 && r->p[n] == ' ' && is_digit(r->p[n + 1]);
    if (is_apart)
        for (n++; n < left && is_word_byte(r->p[n]);)
            n++;
    return (struct sg_str) { r->p, n };
}

static struct sg_str keep_plain(struct sg_toml_reader *r, struct sg_str word, bool is_number)
{
    char *out = sg_toml_pool(r);
    for (size_t i = 0; i < word.n; i++)
        if (!is_number || word.p[i] != '_')
            *out++ = word.p[i];
    return sg_toml_keep(r, out);
}

struct sg_toml *sg_toml_read_word(struct sg_toml_reader *r)
{
    struct sg_str word = cut_word(r);
    int base = 10;
    enum sg_toml_type type;
    if (sg_str_is(word, "true") || sg_str_is(word, "false")) {
        type = SG_TOML_BOOL;
    } else if (is_integer(word, &base)) {
        type = SG_TOML_INTEGER;
    } else if (is_float(word)) {
        type = SG_TOML_FLOAT;
    } else if (is_date(word)) {
        type = SG_TOML_DATE;
    } else {
        (void)sg_toml_refuse(r, r->p,
                             word.n ? "not a value: neither number, date, true nor false; "
                                      "a text needs quotes"
                                    : "expected a value");
        return NULL;
    }
    struct sg_toml *node = sg_toml_node(r, type, r->p);
    if (!node)
        return NULL;
    node->text = keep_plain(r, word, type == SG_TOML_INTEGER || type == SG_TOML_FLOAT);
    if (type == SG_TOML_INTEGER && !integer_value(node->text, base, &node->integer)) {
        (void)sg_toml_refuse(r, r->p, "the integer does not fit in 64 bits");
        return NULL;
    }
    r->p += word.n;
    return node;
}
