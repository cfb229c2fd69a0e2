/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/base64.h"

#include "base/banned.h"

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void sg_base64_encode(struct sg_buf *out, const void *bytes, size_t n)
{
    const uint8_t *p = bytes;
    uint8_t *to = sg_buf_grow(out, sg_base64_length(n));
    if (!to)
        return;
    for (size_t i = 0; i < n; i += 3) {
        size_t have = n - i < 3 ? n - i : 3;
        uint32_t v = (uint32_t)p[i] << 16 | (have > 1 ? (uint32_t)p[i + 1] << 8 : 0) |
                     (have > 2 ? p[i + 2] : 0u);
        for (unsigned k = 0; k < 4; k++)
            *to++ = (uint8_t)(k <= have ? alphabet[v >> (18 - 6 * k) & 63] : '=');
    }
    out->n += sg_base64_length(n);
}

static int value_of(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

int sg_base64_decode(struct sg_buf *out, struct sg_str text, struct sg_err *err)
{
    if (text.n % 4)
        return sg_fail(err, SG_INVALID, "base64 text has %zu characters, no multiple of 4", text.n);
    for (size_t i = 0; i < text.n; i += 4) {
        bool is_last = i + 4 == text.n;
        unsigned pad = !is_last || text.p[i + 3] != '=' ? 0 : text.p[i + 2] != '=' ? 1 : 2;
        uint32_t v = 0;
        for (unsigned k = 0; k < 4; k++) {
            int digit = k >= 4 - pad ? 0 : value_of(text.p[i + k]);
            if (digit < 0)
                return sg_fail(err, SG_INVALID, "no base64 at character %zu", i + k);
            v = v << 6 | (unsigned)digit;
        }
        if ((pad == 1 && v & 0xff) || (pad == 2 && v & 0xffff))
            return sg_fail(err, SG_INVALID, "base64 text has bits that no byte holds");
        const uint8_t three[3] = { (uint8_t)(v >> 16), (uint8_t)(v >> 8), (uint8_t)v };
        sg_buf_add(out, three, 3 - pad);
    }
    return sg_buf_check(out, "decoded text", err);
}
