/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"

#include <stdint.h>

#include "base/banned.h"

/* Length of the sequence that starts with c, and the least code point it may encode. */
static size_t utf8_width(uint8_t c, uint32_t *ret_least)
{
    if (c < 0x80)
        return *ret_least = 0, 1;
    if (c >= 0xc2 && c < 0xe0)
        return *ret_least = 0x80, 2;
    if (c >= 0xe0 && c < 0xf0)
        return *ret_least = 0x800, 3;
    if (c >= 0xf0 && c < 0xf5)
        return *ret_least = 0x10000, 4;
    return 0;
}

bool sg_utf8_valid(const char *p, size_t n)
{
    for (size_t i = 0; i < n;) {
        uint32_t least = 0;
        uint8_t first = (uint8_t)p[i];
        size_t width = utf8_width(first, &least);
        if (!width || width > n - i)
            return false;
        uint32_t cp = width == 1 ? first : (uint32_t)(first & (0x7f >> width));
        for (size_t k = 1; k < width; k++) {
            uint8_t c = (uint8_t)p[i + k];
            if ((c & 0xc0) != 0x80)
                return false;
            cp = cp << 6 | (c & 0x3f);
        }
        if (cp < least || cp > 0x10ffff || (cp >= 0xd800 && cp < 0xe000))
            return false;
        i += width;
    }
    return true;
}

/* Bytes that are no UTF-8 and the control characters U+0080 to U+009F can drive a terminal just as
 * those below 0x20. */
size_t sg_plain_width(const char *p, size_t n)
{
    uint8_t c = (uint8_t)*p;
    if (c < 0x80)
        return c >= 0x20 && c != 0x7f && c != '\'' && c != '\\';
    uint32_t least;
    size_t width = utf8_width(c, &least);
    if (!width || width > n || !sg_utf8_valid(p, width))
        return 0;
    bool is_control = c == 0xc2 && (uint8_t)p[1] < 0xa0;
    return is_control ? 0 : width;
}

struct sg_quoted sg_quote_str(struct sg_str text)
{
    static const char hex[] = "0123456789abcdef";
    struct sg_quoted q;
    size_t at = 0;
    const size_t room = sizeof q.s - sizeof "...'";
    q.s[at++] = '\'';
    size_t i = 0;
    while (i < text.n) {
        uint8_t c = (uint8_t)text.p[i];
        size_t width = sg_plain_width(text.p + i, text.n - i);
        if (at + (width ? width : 4) > room)
            break;
        if (width) {
            memcpy(q.s + at, text.p + i, width);
            at += width;
            i += width;
        } else {
            const char escape[4] = { '\\', 'x', hex[c >> 4], hex[c & 15] };
            memcpy(q.s + at, escape, sizeof escape);
            at += sizeof escape;
            i++;
        }
    }
    if (i < text.n) {
        memcpy(q.s + at, "...", 3);
        at += 3;
    }
    q.s[at++] = '\'';
    q.s[at] = '\0';
    return q;
}

struct sg_str sg_last_part(const char *path)
{
    size_t end = strlen(path);
    while (end && path[end - 1] == '/')
        end--;
    size_t start = end;
    while (start && path[start - 1] != '/')
        start--;
    return (struct sg_str) { path + start, end - start };
}

struct sg_quoted sg_quote(const char *text)
{
    return sg_quote_str(sg_str_of(text));
}
