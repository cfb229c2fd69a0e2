/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/chunked.h"

#include <stdbool.h>

#include "wire/http1.h"
#include "base/banned.h"

enum state { /* what is expected next */
             SIZE_FIRST,
             SIZE,
             EXTENSION,
             SIZE_LF,
             DATA,
             DATA_CR,
             DATA_LF,
             TRAILER_FIRST,
             TRAILER_NAME,
             TRAILER_VALUE,
             TRAILER_LF,
             END_LF,
             DONE,
             BAD,
};

static int hex_value(uint8_t c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static enum state size_byte(struct sg_chunked *c, uint8_t b, bool is_first)
{
    int digit = hex_value(b);
    if (digit >= 0) {
        if (c->left >> 59) /* stays below 2^63 */
            return BAD;
        c->left = c->left << 4 | (unsigned)digit;
        return SIZE;
    }
    if (is_first)
        return BAD;
    return b == ';' ? EXTENSION : b == '\r' ? SIZE_LF : BAD;
}

static enum state extension_byte(struct sg_chunked *c, uint8_t b)
{
    if (b == '\r')
        return SIZE_LF;
    bool is_fine = ++c->extensions <= SG_CHUNK_MAX_EXTENSIONS && (sg_http_class[b] & SG_HTTP_VALUE);
    return is_fine ? EXTENSION : BAD;
}

static enum state trailer_byte(struct sg_chunked *c, uint8_t b)
{
    if (++c->trailer > SG_CHUNK_MAX_TRAILER)
        return BAD;
    if (c->state == TRAILER_VALUE)
        return b == '\r' ? TRAILER_LF : (sg_http_class[b] & SG_HTTP_VALUE) ? TRAILER_VALUE : BAD;
    if (c->state == TRAILER_FIRST && b == '\r')
        return END_LF;
    if (c->state == TRAILER_NAME && b == ':')
        return TRAILER_VALUE;
    return (sg_http_class[b] & SG_HTTP_TOKEN) ? TRAILER_NAME : BAD;
}

static enum state lf_then(uint8_t b, enum state next)
{
    return b == '\n' ? next : BAD;
}

/* One byte of what is around the data. */
static enum state step(struct sg_chunked *c, uint8_t b)
{
    switch ((enum state)c->state) {
    case SIZE_FIRST:
        c->left = 0;
        c->line = 0;
        return size_byte(c, b, true);
    case SIZE:
        return ++c->line > SG_CHUNK_MAX_LINE ? BAD : size_byte(c, b, false);
    case EXTENSION:
        return ++c->line > SG_CHUNK_MAX_LINE ? BAD : extension_byte(c, b);
    case SIZE_LF:
        return lf_then(b, c->left ? DATA : TRAILER_FIRST);
    case DATA_CR:
        return b == '\r' ? DATA_LF : BAD;
    case DATA_LF:
        return lf_then(b, SIZE_FIRST);
    case TRAILER_FIRST:
    case TRAILER_NAME:
    case TRAILER_VALUE:
        return trailer_byte(c, b);
    case TRAILER_LF:
        return lf_then(b, TRAILER_FIRST);
    case END_LF:
        return lf_then(b, DONE);
    case DATA:
    case DONE:
    case BAD:
        break;
    }
    return BAD;
}

enum sg_chunked_got sg_chunked_next(struct sg_chunked *c, struct sg_input *in, struct sg_input *ret,
                                    struct sg_err *err)
{
    while (c->state != DONE && c->state != BAD && in->n) {
        if (c->state != DATA) {
            c->state = (uint8_t)step(c, *sg_input_take(in, 1));
            continue;
        }
        size_t n = c->left < in->n ? (size_t)c->left : in->n;
        *ret = (struct sg_input) { sg_input_take(in, n), n };
        c->left -= n;
        if (!c->left)
            c->state = DATA_CR;
        return SG_CHUNKED_DATA;
    }
    if (c->state == BAD) {
        sg_fail(err, SG_INVALID, "the chunked body is malformed");
        return SG_CHUNKED_BAD;
    }
    return c->state == DONE ? SG_CHUNKED_END : SG_CHUNKED_MORE;
}

size_t sg_chunk_head(char out[SG_CHUNK_HEAD], size_t n)
{
    unsigned digits = 1;
    while (digits < 16 && n >> (4 * digits))
        digits++;
    for (unsigned i = 0; i < digits; i++)
        out[i] = "0123456789abcdef"[n >> (4 * (digits - 1 - i)) & 15];
    out[digits] = '\r';
    out[digits + 1] = '\n';
    return digits + 2;
}
