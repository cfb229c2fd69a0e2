/* SPDX-License-Identifier: Apache-2.0 */
/* Strings of TOML: basic and literal, on one line or on many. */
#include <string.h>

#include "config/toml_internal.h"
#include "base/banned.h"

static const char escapes[] = "b\bt\tn\nf\fr\r\"\"\\\\";

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

static char *put_utf8(char *out, uint32_t cp)
{
    if (cp < 0x80) {
        *out++ = (char)cp;
        return out;
    }
    int more = cp < 0x800 ? 1 : cp < 0x10000 ? 2 : 3;
    *out++ = (char)((0xff00u >> (more + 1) & 0xff) | cp >> (6 * more));
    while (more-- > 0)
        *out++ = (char)(0x80 | (cp >> (6 * more) & 0x3f));
    return out;
}

/* After "\u" (4 digits) or "\U" (8). NULL on failure. */
static char *read_code_point(struct sg_toml_reader *r, int digits, char *out)
{
    uint32_t cp = 0;
    for (int i = 0; i < digits; i++) {
        int v = r->p < r->end ? hex_value(*r->p) : -1;
        if (v < 0) {
            (void)sg_toml_refuse(r, r->p, "expected a hexadecimal digit");
            return NULL;
        }
        cp = cp << 4 | (uint32_t)v;
        r->p++;
    }
    if (cp > 0x10ffff || (cp >= 0xd800 && cp < 0xe000)) {
        (void)sg_toml_refuse(r, r->p - digits, "no such character");
        return NULL;
    }
    return put_utf8(out, cp);
}

/* A backslash before the end of a line swallows it and all blank space that follows. */
static bool skip_line_break(struct sg_toml_reader *r)
{
    const char *start = r->p;
    sg_toml_skip_blank(r);
    if (r->p == r->end)
        return true; /* the missing end of the string is the better message */
    if (!sg_toml_take_newline(r)) {
        r->p = start;
        return false;
    }
    do
        sg_toml_skip_blank(r);
    while (sg_toml_take_newline(r));
    return true;
}

/* After the backslash. */
static char *read_escape(struct sg_toml_reader *r, bool is_multi, char *out)
{
    if (is_multi && skip_line_break(r))
        return out;
    char c = r->p < r->end ? *r->p : '\0';
    for (size_t i = 0; i + 1 < sizeof escapes; i += 2)
        if (c == escapes[i]) {
            r->p++;
            *out++ = escapes[i + 1];
            return out;
        }
    if (c != 'u' && c != 'U') {
        (void)sg_toml_refuse(r, r->p - 1, "unknown escape in a string");
        return NULL;
    }
    r->p++;
    return read_code_point(r, c == 'u' ? 4 : 8, out);
}

static size_t quotes_ahead(const struct sg_toml_reader *r, char quote)
{
    size_t n = 0;
    while (n < 5 && n < (size_t)(r->end - r->p) && r->p[n] == quote)
        n++;
    return n;
}

/* One character of the content, or one escape. NULL on failure. */
static char *read_one(struct sg_toml_reader *r, char quote, bool is_multi, char *out)
{
    if (r->p == r->end) {
        (void)sg_toml_refuse(r, r->p, "the string is not closed");
        return NULL;
    }
    if (is_multi && sg_toml_take_newline(r)) {
        *out++ = '\n';
        return out;
    }
    if (((uint8_t)*r->p < 0x20 && *r->p != '\t') || *r->p == 0x7f) {
        (void)sg_toml_refuse(r, r->p,
                             *r->p == '\n' ? "the string is not closed on its line"
                                           : "control character in a string");
        return NULL;
    }
    char c = *r->p++;
    if (c == '\\' && quote == '"')
        return read_escape(r, is_multi, out);
    *out++ = c;
    return out;
}

int sg_toml_read_string(struct sg_toml_reader *r, bool is_key, struct sg_str *ret)
{
    char quote = *r->p;
    bool is_multi = quotes_ahead(r, quote) >= 3;
    if (is_multi && is_key)
        return sg_toml_refuse(r, r->p, "a key cannot be a multi-line string");
    r->p += is_multi ? 3 : 1;
    if (is_multi)
        (void)sg_toml_take_newline(r); /* right after the opening: not content */
    char *out = sg_toml_pool(r);
    for (;;) {
        size_t quotes = quotes_ahead(r, quote);
        if (!is_multi && quotes) {
            r->p++;
            break;
        }
        if (is_multi && quotes >= 3) { /* up to two quotes may stand before the closing three */
            r->p += quotes;
            for (; quotes > 3; quotes--)
                *out++ = quote;
            break;
        }
        out = read_one(r, quote, is_multi, out);
        if (!out)
            return -1;
    }
    *ret = sg_toml_keep(r, out);
    return 0;
}
