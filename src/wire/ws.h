/* SPDX-License-Identifier: Apache-2.0 */
/* WebSocket frames (RFC 6455): a decoder that hands pieces on as they come, and heads to send.
 *
 * W1. A message is never assembled here: its pieces point into the input, unmasked in place.
 * W2. Control frames (at most 125 bytes) are gathered in the decoder and come whole, also between
 *     the pieces of a message.
 * W3. A server's peer must mask, a client's must not. Lengths must be in their shortest form,
 *     reserved bits and opcodes unused. Text must be UTF-8, also across pieces.
 * W4. After BAD, `code` is what the close frame should say; nothing more is decoded. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "wire/input.h"

enum sg_ws_op {
    SG_WS_OP_MORE = 0,
    SG_WS_OP_TEXT = 1,
    SG_WS_OP_BINARY = 2,
    SG_WS_OP_CLOSE = 8,
    SG_WS_OP_PING = 9,
    SG_WS_OP_PONG = 10,
};
enum sg_ws_code {
    SG_WS_NORMAL = 1000,
    SG_WS_GOING_AWAY = 1001,
    SG_WS_PROTOCOL = 1002,
    SG_WS_NO_CODE = 1005, /* never on the wire */
    SG_WS_BAD_TEXT = 1007,
    SG_WS_POLICY = 1008,
    SG_WS_TOO_BIG = 1009,
    SG_WS_FAILED = 1011,
};
enum { SG_WS_MAX_CONTROL = 125, SG_WS_MAX_HEAD = 14 };

enum sg_ws_got {
    SG_WS_NEEDS_MORE,
    SG_WS_DATA, /* a piece of a message, perhaps empty */
    SG_WS_PING,
    SG_WS_PONG,
    SG_WS_CLOSE,
    SG_WS_BAD,
};

struct sg_utf8 { /* between two pieces of a text */
    uint8_t left, low, high;
};
/* False at the first byte that no continuation can make good. */
bool sg_utf8_feed(struct sg_utf8 *u, const uint8_t *p, size_t n);
static inline bool sg_utf8_is_whole(const struct sg_utf8 *u)
{
    return u->left == 0;
}

struct sg_ws {
    bool is_server;
    uint64_t max_message; /* bytes */
    uint16_t code;        /* after CLOSE and BAD */
    /* of the piece that DATA gave */
    bool is_text, is_first, is_last;
    /* the decoder's own */
    uint8_t state, op, head_n, head_need, control_n;
    bool is_fin, is_in_message, is_started;
    uint8_t head[SG_WS_MAX_HEAD], mask[4], mask_at;
    uint64_t left, total;
    struct sg_utf8 utf8;
    uint8_t control[SG_WS_MAX_CONTROL];
};

void sg_ws_init(struct sg_ws *w, bool is_server, uint64_t max_message);

/* DATA, PING, PONG: `ret` is the payload. CLOSE: w->code (SG_WS_NO_CODE: none), `ret` the reason.
 * After CLOSE there is nothing more to come. */
enum sg_ws_got sg_ws_next(struct sg_ws *w, struct sg_input *in, struct sg_input *ret,
                          struct sg_err *err);

/* The head of a frame of `n` bytes; `mask` NULL: from a server. Returns its length. */
size_t sg_ws_head(uint8_t out[SG_WS_MAX_HEAD], enum sg_ws_op op, bool is_fin, uint64_t n,
                  const uint8_t *mask);
/* The payload of a close frame: code and as much of the reason as fits, cut between characters. */
size_t sg_ws_close_payload(uint8_t out[SG_WS_MAX_CONTROL], uint16_t code, const char *reason);
/* Applies the mask to bytes `at` and on of a payload, in place. */
void sg_ws_mask(uint8_t *p, size_t n, const uint8_t mask[4], uint64_t at);
