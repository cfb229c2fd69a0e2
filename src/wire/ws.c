/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/ws.h"

#include <string.h>

#include "base/banned.h"

enum state { HEAD, PAYLOAD, ENDED, BROKEN };
enum { FIN = 0x80, RESERVED = 0x70, OPCODE = 0x0f, MASKED = 0x80, LENGTH = 0x7f };

bool sg_utf8_feed(struct sg_utf8 *u, const uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint8_t b = p[i];
        if (u->left) {
            if (b < u->low || b > u->high)
                return false;
            *u = (struct sg_utf8) { (uint8_t)(u->left - 1), 0x80, 0xbf };
            continue;
        }
        if (b < 0x80)
            continue;
        if (b < 0xc2 || b > 0xf4)
            return false;
        /* the second byte's range keeps out overlong forms, surrogates and what is past U+10FFFF */
        *u = (struct sg_utf8) {
            .left = b < 0xe0   ? 1
                    : b < 0xf0 ? 2
                               : 3,
            .low = b == 0xe0   ? 0xa0
                   : b == 0xf0 ? 0x90
                               : 0x80,
            .high = b == 0xed   ? 0x9f
                    : b == 0xf4 ? 0x8f
                                : 0xbf,
        };
    }
    return true;
}

void sg_ws_init(struct sg_ws *w, bool is_server, uint64_t max_message)
{
    *w = (struct sg_ws) { .is_server = is_server, .max_message = max_message, .head_need = 2 };
}

static enum sg_ws_got broken(struct sg_ws *w, uint16_t code, const char *why, struct sg_err *err)
{
    w->state = BROKEN;
    w->code = code;
    sg_fail(err, SG_INVALID, "WebSocket: %s", why);
    return SG_WS_BAD;
}

/* Bytes of the head, once its first two are there. */
static uint8_t head_length(const uint8_t *h)
{
    uint8_t length = h[1] & LENGTH;
    return (uint8_t)(2 + (length == 126 ? 2 : length == 127 ? 8 : 0) + (h[1] & MASKED ? 4 : 0));
}

/* SIZE_MAX-like for a length that is not in its shortest form. */
static uint64_t payload_length(const uint8_t *h)
{
    uint8_t length = h[1] & LENGTH;
    if (length < 126)
        return length;
    unsigned bytes = length == 126 ? 2 : 8;
    uint64_t v = 0;
    for (unsigned i = 0; i < bytes; i++)
        v = v << 8 | h[2 + i];
    return v < 126 || (bytes == 8 && v <= UINT16_MAX) ? UINT64_MAX : v;
}

static const char *why_not(const struct sg_ws *w, uint64_t n)
{
    bool is_control = w->op >= SG_WS_OP_CLOSE;
    if (w->head[0] & RESERVED)
        return "reserved bits are set";
    if (w->op > SG_WS_OP_PONG || (w->op > SG_WS_OP_BINARY && w->op < SG_WS_OP_CLOSE))
        return "unknown opcode";
    if (!(w->head[1] & MASKED) == w->is_server)
        return w->is_server ? "frame is not masked" : "frame is masked";
    if (n >> 63)
        return "bad length";
    if (is_control && (!w->is_fin || n > SG_WS_MAX_CONTROL))
        return "control frame is cut or too long";
    if (!is_control && (w->op == SG_WS_OP_MORE) != w->is_in_message)
        return w->is_in_message ? "message inside a message" : "continuation of nothing";
    return NULL;
}

/* 0, or the code to close with. */
static uint16_t begin_frame(struct sg_ws *w, const char **why)
{
    w->op = w->head[0] & OPCODE;
    w->is_fin = w->head[0] & FIN;
    w->left = payload_length(w->head);
    *why = why_not(w, w->left);
    if (*why)
        return SG_WS_PROTOCOL;
    if (w->head[1] & MASKED)
        memcpy(w->mask, w->head + w->head_need - 4, 4);
    else
        memset(w->mask, 0, 4);
    w->mask_at = 0;
    w->head_n = 0;
    w->head_need = 2;
    w->state = PAYLOAD;
    w->control_n = 0;
    w->is_started = false;
    if (w->op >= SG_WS_OP_CLOSE)
        return 0;
    if (w->op != SG_WS_OP_MORE) {
        w->is_text = w->op == SG_WS_OP_TEXT;
        w->is_first = true;
        w->is_in_message = true;
        w->total = 0;
        w->utf8 = (struct sg_utf8) { 0 };
    }
    *why = "message is too big";
    if (w->left > w->max_message - w->total)
        return SG_WS_TOO_BIG;
    w->total += w->left;
    return 0;
}

/* True when the frame has begun, false when more is needed or it broke (then state is BROKEN). */
static bool read_head(struct sg_ws *w, struct sg_input *in, struct sg_err *err)
{
    while (in->n && w->head_n < w->head_need) {
        w->head[w->head_n++] = *sg_input_take(in, 1);
        if (w->head_n == 2)
            w->head_need = head_length(w->head);
    }
    if (w->head_n < w->head_need)
        return false;
    const char *why = NULL;
    uint16_t code = begin_frame(w, &why);
    if (code)
        (void)broken(w, code, why, err);
    return !code;
}

void sg_ws_mask(uint8_t *p, size_t n, const uint8_t mask[4], uint64_t at)
{
    uint8_t turned[8];
    for (unsigned i = 0; i < 8; i++)
        turned[i] = mask[(at + i) & 3];
    uint64_t wide, word;
    memcpy(&wide, turned, 8);
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        memcpy(&word, p + i, 8);
        word ^= wide;
        memcpy(p + i, &word, 8);
    }
    for (; i < n; i++)
        p[i] ^= turned[i & 7];
}

static struct sg_input take_payload(struct sg_ws *w, struct sg_input *in)
{
    size_t n = w->left < in->n ? (size_t)w->left : in->n;
    struct sg_input piece = { sg_input_take(in, n), n };
    if (w->is_server)
        sg_ws_mask(piece.p, n, w->mask, w->mask_at);
    w->mask_at = (uint8_t)((w->mask_at + n) & 3);
    w->left -= n;
    return piece;
}

static bool is_close_code(uint16_t code)
{
    return (code >= 1000 && code <= 1003) || (code >= 1007 && code <= 1014) ||
           (code >= 3000 && code <= 4999);
}

static enum sg_ws_got control_end(struct sg_ws *w, struct sg_input *ret, struct sg_err *err)
{
    w->state = HEAD;
    *ret = (struct sg_input) { w->control, w->control_n };
    if (w->op != SG_WS_OP_CLOSE)
        return w->op == SG_WS_OP_PING ? SG_WS_PING : SG_WS_PONG;
    w->code = SG_WS_NO_CODE;
    if (w->control_n) {
        uint16_t code = (uint16_t)(w->control[0] << 8 | (w->control_n > 1 ? w->control[1] : 0));
        if (w->control_n == 1 || !is_close_code(code))
            return broken(w, SG_WS_PROTOCOL, "bad close code", err);
        *ret = (struct sg_input) { w->control + 2, w->control_n - 2u };
        if (!sg_utf8_valid((const char *)ret->p, ret->n))
            return broken(w, SG_WS_BAD_TEXT, "reason of close is not UTF-8", err);
        w->code = code;
    }
    w->state = ENDED;
    return SG_WS_CLOSE;
}

static enum sg_ws_got data_piece(struct sg_ws *w, struct sg_input piece, struct sg_input *ret,
                                 struct sg_err *err)
{
    bool is_end = w->left == 0;
    w->is_last = is_end && w->is_fin;
    if (w->is_text &&
        (!sg_utf8_feed(&w->utf8, piece.p, piece.n) || (w->is_last && !sg_utf8_is_whole(&w->utf8))))
        return broken(w, SG_WS_BAD_TEXT, "text is not UTF-8", err);
    if (is_end)
        w->state = HEAD;
    w->is_in_message = !w->is_last;
    *ret = piece;
    return SG_WS_DATA;
}

enum sg_ws_got sg_ws_next(struct sg_ws *w, struct sg_input *in, struct sg_input *ret,
                          struct sg_err *err)
{
    if (w->is_started && w->op < SG_WS_OP_CLOSE)
        w->is_first = false; /* the last call gave a piece of this message */
    for (;;) {
        if (w->state == ENDED || w->state == BROKEN)
            return SG_WS_NEEDS_MORE;
        if (w->state == HEAD && !read_head(w, in, err))
            return w->state == BROKEN ? SG_WS_BAD : SG_WS_NEEDS_MORE;
        if (w->left && !in->n)
            return SG_WS_NEEDS_MORE;
        struct sg_input piece = take_payload(w, in);
        if (w->op < SG_WS_OP_CLOSE) {
            w->is_started = true;
            return data_piece(w, piece, ret, err);
        }
        memcpy(w->control + w->control_n, piece.p, piece.n);
        w->control_n = (uint8_t)(w->control_n + piece.n);
        if (!w->left)
            return control_end(w, ret, err);
    }
}

size_t sg_ws_head(uint8_t out[SG_WS_MAX_HEAD], enum sg_ws_op op, bool is_fin, uint64_t n,
                  const uint8_t *mask)
{
    unsigned wide = n < 126 ? 0 : n <= UINT16_MAX ? 2 : 8;
    out[0] = (uint8_t)((is_fin ? FIN : 0) | op);
    out[1] = (uint8_t)((mask ? MASKED : 0) | (wide == 0 ? n : wide == 2 ? 126 : 127));
    for (unsigned i = 0; i < wide; i++)
        out[2 + i] = (uint8_t)(n >> 8 * (wide - 1 - i));
    if (mask)
        memcpy(out + 2 + wide, mask, 4);
    return 2 + wide + (mask ? 4 : 0);
}

size_t sg_ws_close_payload(uint8_t out[SG_WS_MAX_CONTROL], uint16_t code, const char *reason)
{
    out[0] = (uint8_t)(code >> 8);
    out[1] = (uint8_t)code;
    size_t n = strnlen(reason, SG_WS_MAX_CONTROL - 2);
    while (n && !sg_utf8_valid(reason, n))
        n--;
    memcpy(out + 2, reason, n);
    return n + 2;
}
