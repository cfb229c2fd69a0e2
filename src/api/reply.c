/* SPDX-License-Identifier: Apache-2.0 */
/* What a handler answers. The head of a reply and a small body leave in one write. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "api/internal.h"
#include "base/auto.h"
#include "base/log.h"
#include "base/banned.h"

enum { SMALL_BODY = 16 << 10, MAX_ERROR = 8 << 10 };

/* ---- kinds of errors, as HTTP knows them ---- */

static const struct {
    int status;
    const char *hint;
} faces[SG_KIND_COUNT] = {
    [SG_OK] = { 500, NULL },
    [SG_INVALID] = { 400, "GET /v1/openapi.json describes what each path takes" },
    [SG_NOT_FOUND] = { 404, "it has ended, or is not your organisation's; lists show what is" },
    [SG_CONFLICT] = { 409, "look at its state, and try again when it has changed" },
    [SG_DENIED] = { 403, "use a key that may; on the machine itself, its socket needs none" },
    [SG_EXHAUSTED] = { 429, "free something, wait, or ask for a higher limit" },
    [SG_UNSUPPORTED] = { 501, "'sandglass doctor' tells what this machine lacks" },
    [SG_TIMEOUT] = { 504, "try again, or with more time" },
    [SG_UNAVAILABLE] = { 503, "try again in a moment" },
    [SG_INTERNAL] = { 500, "the server's log has more under this request id" },
};

static const struct {
    int status;
    const char *hint;
} closer[] = {
    /* where the status says more than the kind */
    { 401, "send a key: 'Authorization: Bearer KEY' or 'X-API-Key: KEY'" },
    { 405, "the Allow header names the methods of this path" },
    { 408, "send the request without long pauses" },
    { 413, "send less, or use a path that takes a stream" },
};

/* An errno comes from a file or a program inside, of which keys and lists of ours know nothing:
 * what is missing or refused there has no hint (NULL). */
static const char *hint_of(int status, const struct sg_err *err)
{
    for (size_t i = 0; i < SG_COUNT(closer); i++)
        if (closer[i].status == status)
            return closer[i].hint;
    const bool is_from_inside = err->sys && err->kind < SG_EXHAUSTED;
    return is_from_inside ? NULL : faces[err->kind].hint;
}

/* A message that says what to do has it after its last semicolon: that is the hint. One inside
 * quotes is the caller's own text. */
static size_t message_bytes(const char *msg)
{
    const size_t n = strlen(msg);
    for (size_t i = n; i > 0 && msg[i] != '\''; i--)
        if (msg[i - 1] == ';' && msg[i] == ' ')
            return i - 1;
    return n;
}

int sg_status_of(enum sg_kind kind, bool is_known)
{
    return kind == SG_DENIED && !is_known ? 401 : faces[kind].status;
}

/* ---- the end of an exchange ---- */

static void log_access(const struct sg_exchange *x)
{
    const struct sg_call *c = &x->call;
    if (!sg_log_has(SG_LOG_DEBUG))
        return;
    char status[16], bytes[24], us[24];
    (void)snprintf(status, sizeof status, "%d", x->status);
    (void)snprintf(bytes, sizeof bytes, "%" PRIu64, x->sent_bytes);
    (void)snprintf(us, sizeof us, "%" PRIu64,
                   (sg_loop_now(c->server->loop) - x->started_ns) / 1000);
    sg_log(SG_LOG_DEBUG, "request", SG_KV("method", c->method_name), SG_KV("path", c->path),
           SG_KV("status", status), SG_KV("bytes", bytes), SG_KV("us", us),
           SG_KV("key", c->who.key ? c->who.key->id.s : NULL), SG_KV("request", c->who.request_id),
           SG_KV("gone", c->is_gone ? "yes" : NULL));
}

void sg_exchange_end(struct sg_exchange *x)
{
    struct sg_conn *c = x->call.conn;
    struct sg_server *s = x->call.server;
    log_access(x);
    s->stats.requests++;
    s->stats.by_class[(unsigned)x->status / 100 % SG_COUNT(s->stats.by_class)]++;
    s->body_bytes -= x->body.n;
    bool closes = x->closes;
    sg_exchange_give(s, x);
    sg_conn_exchange_over(c, closes);
}

/* ---- heads ---- */

void sg_reply_header(struct sg_call *c, const char *name, const char *value)
{
    (void)sg_http1_write_field(&sg_exchange_of(c)->extra, name, value);
}

static void write_head(struct sg_exchange *x, int status, const char *type,
                       enum sg_http_framing framing, uint64_t length)
{
    struct sg_server *s = x->call.server;
    bool is_old = x->minor == 0;
    x->status = status;
    x->framing = framing;
    x->call.has_started = true;
    x->closes = x->closes || x->wants_close || (is_old && !x->wants_keep_alive) ||
                !x->is_body_done || s->is_draining || framing == SG_HTTP_UNTIL_CLOSE;
    const struct sg_http_reply r = {
        .status = status,
        .framing = framing,
        .length = length,
        .type = framing == SG_HTTP_NO_BODY ? NULL : type,
        .date = sg_server_date(s),
        .request_id = x->call.who.request_id,
        .extra = { (const char *)x->extra.p, x->extra.n },
        .connection = x->closes ? "close"
                      : is_old  ? "keep-alive"
                                : NULL,
    };
    sg_buf_clear(&s->out);
    sg_http1_write_head(&s->out, &r);
}

static void reply_whole(struct sg_exchange *x, int status, const char *type, const void *p,
                        size_t n)
{
    struct sg_server *s = x->call.server;
    struct sg_sock *sock = &x->call.conn->sock;
    bool has_body = status >= 200 && status != 204 && status != 304;
    if (x->call.is_gone || x->call.has_started) {
        x->closes = x->closes || x->call.has_started; /* too late for another head */
        sg_exchange_end(x);
        return;
    }
    write_head(x, status, type, has_body ? SG_HTTP_LENGTH : SG_HTTP_NO_BODY, n);
    if (x->call.method == M_HEAD || !has_body)
        n = 0;
    x->sent_bytes = n;
    if (n <= SMALL_BODY) {
        sg_buf_add(&s->out, p, n);
        (void)sg_sock_write(sock, s->out.p, s->out.n);
    } else {
        const struct iovec v[2] = { { s->out.p, s->out.n }, { (void *)(uintptr_t)p, n } };
        (void)sg_sock_writev(sock, v, 2);
    }
    sg_exchange_end(x);
}

/* ---- whole replies ---- */

void sg_reply_bytes(struct sg_call *c, int status, const char *type, const void *p, size_t n)
{
    reply_whole(sg_exchange_of(c), status, type, p, n);
}

void sg_reply_text(struct sg_call *c, int status, const char *type, const char *text)
{
    reply_whole(sg_exchange_of(c), status, type, text, strlen(text));
}

void sg_reply_empty(struct sg_call *c, int status)
{
    reply_whole(sg_exchange_of(c), status, NULL, "", 0);
}

void sg_reply_json(struct sg_call *c, int status, const struct sg_buf *json)
{
    struct sg_err err;
    if (sg_buf_check(json, "the reply", &err) < 0) {
        sg_reply_error(c, &err);
        return;
    }
    reply_whole(sg_exchange_of(c), status, "application/json", json->p, json->n);
}

void sg_reply_error_as(struct sg_call *c, int status, const struct sg_err *err)
{
    bool is_known = c->who.org != NULL;
    if (status == 0)
        status = sg_status_of(err->kind, is_known);
    if (status == 204) {
        sg_reply_empty(c, status);
        return;
    }
    if (status == 401)
        sg_reply_header(c, "WWW-Authenticate", "Bearer");
    if (c->on_error) {
        c->on_error(c, status, err);
        return;
    }
    if (status >= 500 && err->kind >= SG_TIMEOUT) /* what strangers can ask for fills no log */
        sg_log(status == 500 ? SG_LOG_ERROR : SG_LOG_WARN, "request failed", SG_KV("path", c->path),
               SG_KV("cause", err->msg), SG_KV("where", err->where),
               SG_KV("request", c->who.request_id));
    const size_t said = message_bytes(err->msg);
    const char *hint = err->msg[said] ? err->msg + said + strlen("; ") : hint_of(status, err);
    sg_auto_buf out;
    sg_buf_init(&out, MAX_ERROR);
    struct sg_json j;
    sg_json_init(&j, &out);
    sg_json_open(&j, '{');
    sg_json_key(&j, "error");
    sg_json_open(&j, '{');
    sg_json_key(&j, "kind");
    sg_json_str(&j, sg_kind_name(err->kind));
    sg_json_key(&j, "message");
    sg_json_text(&j, (struct sg_str) { err->msg, said });
    if (hint) {
        sg_json_key(&j, "hint");
        sg_json_str(&j, hint);
    }
    sg_json_key(&j, "requestId");
    sg_json_str(&j, c->who.request_id);
    sg_json_close(&j, '}');
    sg_json_close(&j, '}');
    sg_reply_bytes(c, status, "application/json", out.p, out.n);
}

void sg_reply_error(struct sg_call *c, const struct sg_err *err)
{
    sg_reply_error_as(c, 0, err);
}

void sg_reply_file(struct sg_call *c, int status, const char *type, int fd, uint64_t offset,
                   uint64_t n)
{
    struct sg_exchange *x = sg_exchange_of(c);
    struct sg_sock *sock = &c->conn->sock;
    sg_auto_fd file = fd;
    struct stat st;
    /* a pipe or a device would hold up the loop */
    if (fstat(file, &st) < 0 || !S_ISREG(st.st_mode)) {
        struct sg_err err;
        (void)sg_fail(&err, SG_INVALID, "not a regular file");
        sg_reply_error(c, &err);
        return;
    }
    if (c->is_gone || c->has_started || c->method == M_HEAD || !n) {
        if (!c->is_gone && !c->has_started) {
            write_head(x, status, type, SG_HTTP_LENGTH, n);
            (void)sg_sock_write(sock, x->call.server->out.p, x->call.server->out.n);
        }
        sg_exchange_end(x);
        return;
    }
    write_head(x, status, type, SG_HTTP_LENGTH, n);
    x->sent_bytes = n;
    (void)sg_sock_write(sock, x->call.server->out.p, x->call.server->out.n);
    sg_sock_send_file(sock, sg_take_fd(&file), offset, n);
    sg_exchange_end(x);
}

/* ---- replies in pieces ---- */

/* What leaves in one write: a head, a piece in its frame, the end. */
struct framed {
    struct iovec v[5];
    unsigned n;
    char size[SG_CHUNK_HEAD];
};

static void add_part(struct framed *f, const void *p, size_t n)
{
    if (n)
        f->v[f->n++] = (struct iovec) { (void *)(uintptr_t)p, n };
}

static void add_piece(struct framed *f, struct sg_exchange *x, const void *p, size_t n)
{
    if (!n || x->call.method == M_HEAD)
        return;
    const bool is_chunked = x->framing == SG_HTTP_CHUNKED;
    x->sent_bytes += n;
    if (is_chunked)
        add_part(f, f->size, sg_chunk_head(f->size, n));
    add_part(f, p, n);
    if (is_chunked)
        add_part(f, SG_CHUNK_TAIL, sizeof SG_CHUNK_TAIL - 1);
}

static bool send_framed(struct sg_call *c, const struct framed *f)
{
    bool has_room = !f->n || sg_sock_writev(&c->conn->sock, f->v, f->n);
    sg_conn_watch_output(c->conn);
    return has_room;
}

bool sg_reply_start_with(struct sg_call *c, int status, const char *type, const void *p, size_t n)
{
    struct sg_exchange *x = sg_exchange_of(c);
    struct framed f = { .n = 0 };
    if (c->is_gone || c->has_started)
        return sg_reply_add(c, p, n);
    write_head(x, status, type, x->minor ? SG_HTTP_CHUNKED : SG_HTTP_UNTIL_CLOSE, 0);
    add_part(&f, c->server->out.p, c->server->out.n);
    add_piece(&f, x, p, n);
    return send_framed(c, &f);
}

void sg_reply_start(struct sg_call *c, int status, const char *type)
{
    (void)sg_reply_start_with(c, status, type, NULL, 0);
}

void sg_reply_start_sized(struct sg_call *c, int status, const char *type, uint64_t n)
{
    struct sg_exchange *x = sg_exchange_of(c);
    if (c->is_gone || c->has_started)
        return;
    write_head(x, status, type, SG_HTTP_LENGTH, n);
    (void)sg_sock_write(&c->conn->sock, c->server->out.p, c->server->out.n);
    sg_conn_watch_output(c->conn);
}

bool sg_reply_add(struct sg_call *c, const void *p, size_t n)
{
    struct framed f = { .n = 0 };
    if (c->is_gone || !n || c->method == M_HEAD)
        return true;
    add_piece(&f, sg_exchange_of(c), p, n);
    return send_framed(c, &f);
}

void sg_reply_end_with(struct sg_call *c, const void *p, size_t n)
{
    struct sg_exchange *x = sg_exchange_of(c);
    struct framed f = { .n = 0 };
    if (!c->is_gone) {
        add_piece(&f, x, p, n);
        if (x->framing == SG_HTTP_CHUNKED && c->method != M_HEAD)
            add_part(&f, SG_CHUNK_LAST, sizeof SG_CHUNK_LAST - 1);
        (void)send_framed(c, &f);
    }
    sg_exchange_end(x);
}

void sg_reply_end(struct sg_call *c)
{
    if (!c->is_gone && !c->has_started)
        sg_reply_empty(c, 204);
    else
        sg_reply_end_with(c, NULL, 0);
}

void sg_reply_abort(struct sg_call *c)
{
    struct sg_exchange *x = sg_exchange_of(c);
    if (!c->conn->is_dead)
        sg_conn_kill(c->conn);
    sg_exchange_end(x);
}
