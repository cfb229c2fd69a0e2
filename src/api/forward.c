/* SPDX-License-Identifier: Apache-2.0 */
/* The two directions do not wait for each other: an answer may begin before the request has ended.
 *
 * P1. Each connection to the other server serves one request ("Connection: close" is asked for), so
 *     that no answer can be taken for another's.
 * P2. The answer's framing is undone and done anew: whatever the other server writes, the client's
 *     connection stays in step.
 * P3. A forward lives by itself, because the sock's memory must outlast the pass in which it ends.
 */
#include "api/forward.h"

#include <string.h>

#include "api/internal.h"
#include "base/auto.h"
#include "wire/answer.h"
#include "base/banned.h"

enum answer_state { IN_HEAD, IN_LENGTH, IN_CHUNKS, UNTIL_END, TUNNEL };

struct sg_forward {
    struct sg_call *call; /* NULL: it has ended */
    struct sg_loop *loop;
    struct sg_sock sock;
    struct sg_later bury;
    struct sg_forward_options options;
    enum answer_state state;
    struct sg_buf head;
    uint64_t left;
    struct sg_chunked chunked;
    bool is_request_chunked, wants_upgrade, is_head;
};

/* ---- the end ---- */

static void bury(struct sg_later *l)
{
    struct sg_forward *f = SG_OWNER(l, struct sg_forward, bury);
    sg_buf_done(&f->head);
    free(f);
}

/* The call goes on without us; the caller ends it. */
static struct sg_call *let_go(struct sg_forward *f)
{
    struct sg_call *c = sg_take_ptr(&f->call);
    c->on_body = NULL;
    c->on_gone = NULL;
    c->on_drain = NULL;
    sg_sock_done(&f->sock);
    sg_later_call(f->loop, &f->bury);
    if (f->options.done)
        f->options.done(f->options.arg, !c->server->manager);
    return c;
}

static void client_gone(struct sg_call *c)
{
    struct sg_exchange *x = sg_exchange_of(c);
    (void)let_go(x->forward);
    sg_reply_end(c);
}

/* Nothing was answered, or half of it. */
static void give_up(struct sg_forward *f)
{
    const struct sg_forward_options o = f->options;
    struct sg_call *c = let_go(f);
    if (c->has_started)
        sg_reply_abort(c);
    else
        o.silent(o.arg, c);
}

static void complete(struct sg_forward *f)
{
    sg_reply_end(let_go(f));
}

/* ---- the request ---- */

/* What belongs to one connection is not handed on (RFC 9110 7.6.1). */
static bool is_hop(struct sg_str name)
{
    static const char *const hops[] = {
        "connection",         "keep-alive", "proxy-connection", "te",     "trailer",
        "transfer-encoding",  "upgrade",    "content-length",   "expect", "proxy-authenticate",
        "proxy-authorization"
    };
    for (size_t i = 0; i < SG_COUNT(hops); i++)
        if (sg_http1_same(name, hops[i]))
            return true;
    return false;
}

/* As it was written, without what an absolute one has in front. */
static struct sg_str target_of(const struct sg_exchange *x)
{
    const char *begin = strchr(x->head, ' ') + 1; /* checked by the parser */
    struct sg_str t = { begin, strcspn(begin, " ") };
    const char *authority = begin[0] == '/' ? NULL : strstr(begin, "://");
    if (!authority || authority >= begin + t.n)
        return t;
    const char *slash = memchr(authority + 3, '/', t.n - (size_t)(authority + 3 - begin));
    return slash ? (struct sg_str) { slash, t.n - (size_t)(slash - begin) } : sg_str_of("/");
}

static void write_request(struct sg_forward *f, struct sg_buf *out)
{
    const struct sg_call *c = f->call;
    const struct sg_exchange *x = sg_exchange_of(c);
    const struct sg_str target = target_of(x);
    const char *upgrade = sg_call_header(c, "Upgrade");
    sg_buf_add_str(out, c->method_name);
    sg_buf_add_str(out, " ");
    sg_buf_add(out, target.p, target.n);
    sg_buf_add_str(out, " HTTP/1.1\r\n");
    for (unsigned i = 0; i < x->field_count; i++) {
        const struct sg_str name = sg_span_str(x->fields[i].name, x->head);
        const struct sg_str value = sg_span_str(x->fields[i].value, x->head);
        const bool is_host = sg_http1_same(name, "host");
        if (is_hop(name))
            continue;
        if (is_host && f->options.host)
            sg_buf_addf(out, "Host: %s\r\nX-Forwarded-", f->options.host);
        sg_buf_add(out, name.p, name.n);
        sg_buf_add_str(out, ": ");
        sg_buf_add(out, value.p, value.n);
        sg_buf_add_str(out, "\r\n");
    }
    f->wants_upgrade = x->wants_upgrade && upgrade;
    f->is_request_chunked = x->body_kind == SG_BODY_CHUNKED;
    if (f->is_request_chunked)
        sg_buf_add_str(out, "Transfer-Encoding: chunked\r\n");
    if (x->body_kind == SG_BODY_LENGTH)
        sg_buf_addf(out, "Content-Length: %llu\r\n", (unsigned long long)x->body_left);
    if (f->wants_upgrade)
        sg_buf_addf(out, "Connection: Upgrade\r\nUpgrade: %s\r\n\r\n", upgrade);
    else
        sg_buf_add_str(out, "Connection: close\r\n\r\n");
}

static void take_body(struct sg_call *c, const void *p, size_t n, bool is_last)
{
    struct sg_forward *f = sg_exchange_of(c)->forward;
    char head[SG_CHUNK_HEAD];
    bool has_room = true;
    if (n && f->is_request_chunked && f->state != TUNNEL) {
        const struct iovec v[3] = { { head, sg_chunk_head(head, n) },
                                    { (void *)(uintptr_t)p, n },
                                    { (void *)(uintptr_t)SG_CHUNK_TAIL,
                                      sizeof SG_CHUNK_TAIL - 1 } };
        has_room = sg_sock_writev(&f->sock, v, 3);
    } else if (n) {
        has_room = sg_sock_write(&f->sock, p, n);
    }
    if (is_last && f->is_request_chunked && f->state != TUNNEL)
        (void)sg_sock_write(&f->sock, SG_CHUNK_LAST, sizeof SG_CHUNK_LAST - 1);
    if (!has_room && !is_last)
        sg_call_pause_body(c, true);
}

/* ---- the answer ---- */

static bool is_ours(struct sg_str name)
{
    return is_hop(name) || sg_http1_same(name, "date") || sg_http1_same(name, "content-type") ||
           sg_http1_same(name, "x-request-id");
}

static const char *copy_fields(struct sg_call *c, const struct sg_http_answer *a, const char *p)
{
    const char *type = NULL;
    for (unsigned i = 0; i < a->field_count; i++) {
        const struct sg_str name = sg_span_str(a->fields[i].name, p);
        const struct sg_str value = sg_span_str(a->fields[i].value, p);
        char *value_text = sg_arena_copy(&c->arena, value.p, value.n);
        char *name_text = sg_arena_copy(&c->arena, name.p, name.n);
        if (!value_text || !name_text)
            continue;
        if (sg_http1_same(name, "content-type"))
            type = value_text;
        if (!is_ours(name))
            sg_reply_header(c, name_text, value_text);
    }
    return type;
}

/* From here on both sides say what they like. */
static void begin_tunnel(struct sg_forward *f, const void *head, size_t head_n)
{
    struct sg_call *c = f->call;
    struct sg_exchange *x = sg_exchange_of(c);
    f->state = TUNNEL;
    x->status = 101;
    x->framing = SG_HTTP_UNTIL_CLOSE;
    x->closes = true;
    c->has_started = true;
    x->body_kind = SG_BODY_RAW;
    x->is_body_done = x->is_last_given = false;
    (void)sg_sock_write(&c->conn->sock, head, head_n);
    sg_conn_wake(c->conn);
}

static void begin_answer(struct sg_forward *f, const struct sg_http_answer *a)
{
    struct sg_call *c = f->call;
    const char *type = copy_fields(c, a, (const char *)f->head.p);
    const bool has_no_body = a->status == 204 || a->status == 304 || c->method == M_HEAD;
    f->left = a->length;
    f->state = a->is_chunked ? IN_CHUNKS : a->has_length ? IN_LENGTH : UNTIL_END;
    if (a->is_chunked)
        sg_chunked_init(&f->chunked);
    if (has_no_body && c->method != M_HEAD) {
        int status = a->status;
        sg_reply_empty(let_go(f), status);
        return;
    }
    if (f->state == IN_LENGTH || has_no_body)
        sg_reply_start_sized(c, a->status, type, a->length);
    else
        sg_reply_start(c, a->status, type);
    if (has_no_body || (f->state == IN_LENGTH && !f->left))
        complete(f);
}

/* Gathers the head; `in` is then what came behind it. False: it is not whole, or all is over. */
static bool take_head(struct sg_forward *f, struct sg_input *in)
{
    struct sg_http_answer a;
    struct sg_err err;
    int n;
    sg_buf_add(&f->head, in->p, in->n);
    while ((n = sg_answer_parse(&a, (const char *)f->head.p, f->head.n, &err)) > 0 &&
           a.status < 200 && a.status != 101) { /* "go on", which the client was told already */
        memmove(f->head.p, f->head.p + n, f->head.n - (size_t)n);
        f->head.n -= (size_t)n;
    }
    if (n < 0 || f->head.has_overflowed || (n > 0 && a.status == 101 && !f->wants_upgrade)) {
        give_up(f);
        return false;
    }
    if (n == 0)
        return false;
    *in = (struct sg_input) { f->head.p + n, f->head.n - (size_t)n };
    if (a.status == 101)
        begin_tunnel(f, f->head.p, (size_t)n);
    else
        begin_answer(f, &a);
    return f->call != NULL;
}

static void add(struct sg_forward *f, const void *p, size_t n)
{
    if (n && !sg_reply_add(f->call, p, n))
        sg_sock_want_read(&f->sock, false);
}

static void take_chunks(struct sg_forward *f, struct sg_input *in)
{
    struct sg_input piece;
    struct sg_err err;
    for (;;) {
        switch (sg_chunked_next(&f->chunked, in, &piece, &err)) {
        case SG_CHUNKED_MORE:
            return;
        case SG_CHUNKED_DATA:
            add(f, piece.p, piece.n);
            break;
        case SG_CHUNKED_END:
            complete(f);
            return;
        case SG_CHUNKED_BAD:
            give_up(f);
            return;
        }
    }
}

static void take_answer(struct sg_forward *f, struct sg_input *in)
{
    if (f->state == IN_HEAD && !take_head(f, in))
        return;
    if (f->state == IN_CHUNKS) {
        take_chunks(f, in);
    } else if (f->state == IN_LENGTH) {
        size_t n = f->left < in->n ? (size_t)f->left : in->n;
        f->left -= n;
        add(f, in->p, n);
        if (!f->left)
            complete(f);
    } else {
        add(f, in->p, in->n);
    }
}

/* ---- the other server's socket ---- */

static void on_readable(struct sg_sock *sock)
{
    struct sg_forward *f = SG_OWNER(sock, struct sg_forward, sock);
    struct sg_server *s = f->call->server;
    ssize_t n = sg_sock_read(sock, s->input, sizeof s->input);
    if (n < 0)
        return;
    if (n > 0) {
        struct sg_input in = { s->input, (size_t)n };
        take_answer(f, &in);
    } else if (f->state == UNTIL_END || f->state == TUNNEL) {
        complete(f);
    } else {
        give_up(f);
    }
}

static void on_drained(struct sg_sock *sock, bool was_full)
{
    struct sg_forward *f = SG_OWNER(sock, struct sg_forward, sock);
    if (was_full)
        sg_call_pause_body(f->call, false);
}

static void on_hung_up(struct sg_sock *sock)
{
    (void)sock; /* what it sent before is still to be read */
}

static void on_lost(struct sg_sock *sock)
{
    struct sg_forward *f = SG_OWNER(sock, struct sg_forward, sock);
    if (f->state == UNTIL_END || f->state == TUNNEL)
        complete(f);
    else
        give_up(f);
}

static void client_drained(struct sg_call *c)
{
    struct sg_forward *f = sg_exchange_of(c)->forward;
    sg_sock_want_read(&f->sock, true);
}

void sg_call_forward(struct sg_call *c, int fd, const struct sg_forward_options *o)
{
    static const struct sg_sock_ops ops = { on_readable, on_drained, on_hung_up, on_lost };
    static const char switched[] =
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n";
    struct sg_exchange *x = sg_exchange_of(c);
    struct sg_forward *f = sg_new(struct sg_forward);
    struct sg_err err;
    sg_auto_buf out;
    f->call = c;
    f->loop = c->server->loop;
    f->options = *o;
    f->bury.call = bury;
    sg_buf_init(&f->head, SG_HTTP_MAX_HEAD + SG_SOCK_READ);
    sg_buf_init(&out, (size_t)2 * SG_HTTP_MAX_HEAD);
    x->forward = f;
    if (sg_sock_init(&f->sock, f->loop, fd, NULL, &ops, &err) < 0) {
        give_up(f);
        return;
    }
    c->on_body = take_body;
    c->on_gone = client_gone;
    c->on_drain = client_drained;
    if (o->is_tunnel) {
        begin_tunnel(f, switched, sizeof switched - 1);
    } else {
        write_request(f, &out);
        (void)sg_sock_write(&f->sock, out.p, out.n);
    }
    sg_call_pause_body(c, false);
}
