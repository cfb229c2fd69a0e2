/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"

#include <stdint.h>

#include "base/banned.h"

struct sg_quoted sg_quote_str(struct sg_str text)
{
    static const char hex[] = "0123456789abcdef";
    struct sg_quoted q;
    size_t at = 0;
    const size_t room = sizeof q.s - sizeof "...'";
    q.s[at++] = '\'';
    size_t i = 0;
    for (; i < text.n; i++) {
        uint8_t c = (uint8_t)text.p[i];
        bool plain = c >= 0x20 && c != 0x7f && c != '\'' && c != '\\';
        if (at + (plain ? 1 : 4) > room)
            break;
        if (plain) {
            q.s[at++] = (char)c;
        } else {
            q.s[at++] = '\\';
            q.s[at++] = 'x';
            q.s[at++] = hex[c >> 4];
            q.s[at++] = hex[c & 15];
        }
    }
    if (i < text.n) {
        /* Do not leave half of a UTF-8 sequence behind. */
        while (at > 1 && ((uint8_t)q.s[at - 1] & 0xc0) == 0x80)
            at--;
        if (at > 1 && (uint8_t)q.s[at - 1] >= 0xc0)
            at--;
        memcpy(q.s + at, "...", 3);
        at += 3;
    }
    q.s[at++] = '\'';
    q.s[at] = '\0';
    return q;
}

struct sg_quoted sg_quote(const char *text)
{
    return sg_quote_str(sg_str_of(text));
}

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
