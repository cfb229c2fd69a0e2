/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/url.h"

#include <limits.h>
#include <stdint.h>

#include "base/banned.h"

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int sg_url_decode(struct sg_str in, bool plus_is_space, char *out, struct sg_err *err)
{
    size_t n = 0;
    if (in.n > INT_MAX)
        return sg_fail(err, SG_EXHAUSTED, "encoded text is too long");
    for (size_t i = 0; i < in.n; i++) {
        char c = in.p[i];
        if (c == '+' && plus_is_space)
            c = ' ';
        if (c == '%') {
            int high = in.n - i > 2 ? hex_value(in.p[i + 1]) : -1;
            int low = in.n - i > 2 ? hex_value(in.p[i + 2]) : -1;
            if (high < 0 || low < 0)
                return sg_fail(err, SG_INVALID, "bad percent-encoding in %s", sg_quote_str(in).s);
            c = (char)(high << 4 | low);
            i += 2;
        }
        if (!c)
            return sg_fail(err, SG_INVALID, "NUL in %s", sg_quote_str(in).s);
        out[n++] = c;
    }
    out[n] = '\0';
    if (!sg_utf8_valid(out, n))
        return sg_fail(err, SG_INVALID, "%s is not UTF-8", sg_quote_str(in).s);
    return (int)n;
}

bool sg_query_next(struct sg_str *query, struct sg_str *name, struct sg_str *value)
{
    while (query->n) {
        const char *end = memchr(query->p, '&', query->n);
        struct sg_str pair = { query->p, end ? (size_t)(end - query->p) : query->n };
        size_t taken = pair.n + (end ? 1 : 0);
        query->p += taken;
        query->n -= taken;
        if (!pair.n)
            continue;
        const char *equals = memchr(pair.p, '=', pair.n);
        size_t n = equals ? (size_t)(equals - pair.p) : pair.n;
        *name = (struct sg_str) { pair.p, n };
        *value = equals ? (struct sg_str) { equals + 1, pair.n - n - 1 }
                        : (struct sg_str) { pair.p + pair.n, 0 };
        return true;
    }
    return false;
}

static bool is_unreserved(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == '_' || c == '~';
}

void sg_url_encode(struct sg_buf *out, struct sg_str text, bool keep_slash)
{
    static const char hex[] = "0123456789ABCDEF";
    for (size_t i = 0; i < text.n; i++) {
        uint8_t b = (uint8_t)text.p[i];
        const char three[3] = { '%', hex[b >> 4], hex[b & 15] };
        if (is_unreserved(text.p[i]) || (keep_slash && b == '/'))
            sg_buf_add(out, &b, 1);
        else
            sg_buf_add(out, three, sizeof three);
    }
}
