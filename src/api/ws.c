/* SPDX-License-Identifier: Apache-2.0 */
/* A call as a WebSocket: the greeting, messages whole, ping and pong, and an end that both sides
 * agree on. A message that came in one frame and one read is handed on where it lies. */
#include <openssl/evp.h>
#include <string.h>

#include "api/internal.h"
#include "base/auto.h"
#include "wire/base64.h"
#include "base/banned.h"

enum {
    MAX_MESSAGE = 4 << 20,
    PING_MS = 30 * 1000,
    MAX_UNANSWERED = 2,
    CLOSE_MS = 2000, /* for the peer's answer to our close */
    KEY_BYTES = 16,
    SHA1_BYTES = 20,
};

struct sg_ws_state {
    struct sg_ws parser;
    const struct sg_ws_ops *ops;
    struct sg_buf message; /* of which more must come */
    bool has_sent_close;
    unsigned pings; /* without an answer */
};

/* ---- the greeting: RFC 6455 4.2 ---- */

static int check_greeting(struct sg_call *c, const char **ret_key, struct sg_err *err)
{
    struct sg_exchange *x = sg_exchange_of(c);
    const char *upgrade = sg_call_header(c, "Upgrade"),
               *key = sg_call_header(c, "Sec-WebSocket-Key");
    const char *version = sg_call_header(c, "Sec-WebSocket-Version");
    if (c->method != M_GET || !x->minor || !x->wants_upgrade || !upgrade ||
        !sg_http1_has_token(sg_str_of(upgrade), "websocket"))
        return sg_fail(err, SG_INVALID, "this path is for WebSockets");
    if (!version || strcmp(version, "13") != 0) {
        sg_reply_header(c, "Sec-WebSocket-Version", "13");
        return sg_fail(err, SG_INVALID, "WebSocket version must be 13");
    }
    sg_auto_buf bytes;
    sg_buf_init(&bytes, KEY_BYTES);
    if (!key || sg_base64_decode(&bytes, sg_str_of(key), NULL) < 0 || bytes.n != KEY_BYTES)
        return sg_fail(err, SG_INVALID, "Sec-WebSocket-Key is missing or none");
    if (x->body_kind != SG_BODY_NONE)
        return sg_fail(err, SG_INVALID, "a WebSocket's request has no body");
    *ret_key = key;
    return 0;
}

static int accept_key(const char *key, struct sg_buf *out, struct sg_err *err)
{
    sg_auto_buf text;
    sg_buf_init(&text, 128);
    sg_buf_add_str(&text, key);
    sg_buf_add_str(&text, "258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
    uint8_t digest[EVP_MAX_MD_SIZE];
    unsigned n = 0;
    if (EVP_Digest(text.p, text.n, digest, &n, EVP_sha1(), NULL) != 1 || n != SHA1_BYTES)
        return sg_fail(err, SG_UNSUPPORTED, "no SHA-1 for the WebSocket's greeting");
    sg_base64_encode(out, digest, n);
    return 0;
}

int sg_call_upgrade_ws(struct sg_call *c, const struct sg_ws_ops *ops, struct sg_err *err)
{
    struct sg_exchange *x = sg_exchange_of(c);
    struct sg_server *s = c->server;
    const char *key = NULL;
    sg_auto_buf answer;
    sg_buf_init(&answer, 64);
    if (c->is_gone)
        return sg_fail(err, SG_UNAVAILABLE, "the client is gone");
    if (check_greeting(c, &key, err) < 0 || accept_key(key, &answer, err) < 0)
        return -1;
    sg_reply_header(c, "Upgrade", "websocket");
    sg_reply_header(c, "Sec-WebSocket-Accept", sg_buf_cstr(&answer));
    x->ws = sg_new(struct sg_ws_state);
    x->ws->ops = ops;
    sg_ws_init(&x->ws->parser, true, MAX_MESSAGE);
    sg_buf_init(&x->ws->message, MAX_MESSAGE);
    x->status = 101;
    x->closes = true;
    x->is_last_given = true;
    c->has_started = true;
    sg_buf_clear(&s->out);
    sg_http1_write_head(&s->out, &(struct sg_http_reply) {
                                     .status = 101,
                                     .date = sg_server_date(s),
                                     .request_id = c->who.request_id,
                                     .extra = { (const char *)x->extra.p, x->extra.n },
                                     .connection = "Upgrade",
                                 });
    (void)sg_sock_write(&c->conn->sock, s->out.p, s->out.n);
    sg_conn_set_deadline(c->conn, PING_MS);
    sg_conn_wake(c->conn); /* frames may have come with the request */
    return 0;
}

/* ---- sending ---- */

static bool send_frame(struct sg_exchange *x, enum sg_ws_op op, const void *p, size_t n)
{
    uint8_t head[SG_WS_MAX_HEAD];
    const struct iovec v[2] = {
        { head, sg_ws_head(head, op, true, n, NULL) },
        { (void *)(uintptr_t)p, n },
    };
    x->sent_bytes += n;
    bool has_room = sg_sock_writev(&x->call.conn->sock, v, 2);
    sg_conn_watch_output(x->call.conn);
    return has_room;
}

bool sg_ws_send(struct sg_call *c, bool is_text, const void *p, size_t n)
{
    struct sg_exchange *x = sg_exchange_of(c);
    if (c->is_gone || x->ws->has_sent_close)
        return true;
    return send_frame(x, is_text ? SG_WS_OP_TEXT : SG_WS_OP_BINARY, p, n);
}

static void send_close(struct sg_exchange *x, uint16_t code, const char *reason)
{
    uint8_t payload[SG_WS_MAX_CONTROL];
    if (x->ws->has_sent_close || x->call.is_gone)
        return;
    x->ws->has_sent_close = true;
    (void)send_frame(x, SG_WS_OP_CLOSE, payload, sg_ws_close_payload(payload, code, reason));
}

void sg_ws_close(struct sg_call *c, uint16_t code, const char *reason)
{
    struct sg_exchange *x = sg_exchange_of(c);
    if (c->is_gone || x->ws->has_sent_close)
        return;
    send_close(x, code, reason);
    x->is_paused = false; /* its answer must be read */
    sg_conn_set_deadline(c->conn, CLOSE_MS);
    sg_conn_wake(c->conn);
}

/* ---- the end ---- */

static void end_ws(struct sg_exchange *x)
{
    struct sg_ws_state *w = x->ws;
    w->ops->closed(&x->call);
    x->ws = NULL;
    sg_buf_done(&w->message);
    free(w);
    sg_exchange_end(x);
}

void sg_ws_gone(struct sg_exchange *x)
{
    end_ws(x);
}

void sg_ws_drained(struct sg_exchange *x)
{
    if (!x->ws->has_sent_close)
        x->ws->ops->drain(&x->call);
}

void sg_ws_tick(struct sg_exchange *x)
{
    struct sg_ws_state *w = x->ws;
    if (w->has_sent_close || w->pings == MAX_UNANSWERED) {
        sg_conn_gone(x->call.conn);
        return;
    }
    w->pings++;
    (void)send_frame(x, SG_WS_OP_PING, "", 0);
    sg_conn_set_deadline(x->call.conn, PING_MS);
}

/* ---- receiving ---- */

static void take_piece(struct sg_exchange *x, struct sg_input piece)
{
    struct sg_ws_state *w = x->ws;
    const struct sg_ws *p = &w->parser;
    bool is_text = p->is_text;
    if (w->has_sent_close)
        return;
    if (p->is_first && p->is_last) {
        w->ops->message(&x->call, is_text, piece.p, piece.n);
        return;
    }
    sg_buf_add(&w->message, piece.p, piece.n);
    if (!p->is_last)
        return;
    struct sg_buf whole = w->message;
    sg_buf_init(&w->message, MAX_MESSAGE);
    w->ops->message(&x->call, is_text, whole.p ? (const void *)whole.p : "", whole.n);
    sg_buf_done(&whole);
}

/* True: the conversation is over. */
static bool take_one(struct sg_exchange *x, enum sg_ws_got got, struct sg_input piece,
                     const struct sg_err *err)
{
    struct sg_ws *p = &x->ws->parser;
    switch (got) {
    case SG_WS_DATA:
        take_piece(x, piece);
        return false;
    case SG_WS_PING:
        if (!x->ws->has_sent_close)
            (void)send_frame(x, SG_WS_OP_PONG, piece.p, piece.n);
        return false;
    case SG_WS_CLOSE:
        send_close(x, p->code == SG_WS_NO_CODE ? SG_WS_NORMAL : p->code, "");
        return true;
    case SG_WS_BAD:
        send_close(x, p->code, err->msg);
        return true;
    case SG_WS_PONG:
    case SG_WS_NEEDS_MORE:
        break;
    }
    return false;
}

void sg_ws_input(struct sg_exchange *x, struct sg_input *in)
{
    struct sg_conn *c = x->call.conn;
    x->ws->pings = 0;
    if (!x->ws->has_sent_close)
        sg_conn_set_deadline(c, PING_MS);
    while (!c->is_dead && !x->is_paused) {
        struct sg_input piece;
        struct sg_err err;
        enum sg_ws_got got = sg_ws_next(&x->ws->parser, in, &piece, &err);
        if (got == SG_WS_NEEDS_MORE)
            return;
        if (take_one(x, got, piece, &err)) {
            end_ws(x);
            return;
        }
    }
}
