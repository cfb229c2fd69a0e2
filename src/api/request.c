/* SPDX-License-Identifier: Apache-2.0 */
/* A head becomes a call. In this order: what it asks for, whether there is such a route, who asks,
 * whether they may, how long the body is; and only then is a byte of the body kept. A refusal waits
 * for a small body to be read away, so that the connection can go on. */
#include <stdio.h>
#include <string.h>

#include "api/internal.h"
#include "base/auto.h"
#include "wire/url.h"
#include "base/banned.h"

enum { MAX_DISCARD = 64 << 10, MAX_ACTION = 256 };

static struct sg_exchange *open_exchange(struct sg_conn *c)
{
    struct sg_server *s = c->server;
    struct sg_exchange *x = sg_exchange_take(s);
    x->call.server = s;
    x->call.manager = s->manager;
    x->call.conn = c;
    x->started_ns = sg_loop_now(s->loop);
    x->minor = 1;
    x->is_body_done = true;
    static char none[1];
    x->call.path = x->call.raw_query = none;
    x->call.method_name = "";
    c->exchange = x;
    sg_conn_set_deadline(c, 0);
    return x;
}

/* ---- request ids: random once, then counted ---- */

static bool is_sane_id(struct sg_str id)
{
    for (size_t i = 0; i < id.n; i++) {
        char c = id.p[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              c == '-' || c == '_' || c == '.'))
            return false;
    }
    return id.n > 0 && id.n <= SG_ID_LEN;
}

static void name_request(struct sg_exchange *x)
{
    struct sg_server *s = x->call.server;
    char *to = x->call.who.request_id;
    const char *given = sg_call_header(&x->call, "X-Request-Id");
    if (given && is_sane_id(sg_str_of(given))) {
        memcpy(to, given, strlen(given) + 1);
        return;
    }
    memcpy(to, s->id_base.s, SG_ID_LEN + 1);
    uint64_t n = s->id_next++;
    for (unsigned i = 0; i < 8; i++, n /= 36)
        to[SG_ID_LEN - 1 - i] = "abcdefghijklmnopqrstuvwxyz0123456789"[n % 36];
}

/* ---- the head ---- */

static int copy_head(struct sg_exchange *x, const struct sg_http_head *h, const char *head,
                     size_t n, struct sg_err *err)
{
    struct sg_arena *a = &x->call.arena;
    char *copy = sg_arena_copy(a, head, n);
    struct sg_http_field *fields = sg_arena_alloc(a, h->field_count * sizeof *fields);
    if (!copy || !fields)
        return sg_fail(err, SG_EXHAUSTED, "no room for the head");
    memcpy(fields, h->fields, h->field_count * sizeof *fields);
    /* Each value is followed by white space or its CR: room for an end, so that it can be used in
     * place. */
    for (unsigned i = 0; i < h->field_count; i++)
        copy[fields[i].value.at + fields[i].value.n] = '\0';
    x->head = copy;
    x->fields = fields;
    x->field_count = h->field_count;
    x->minor = h->minor;
    x->wants_close = h->wants_close;
    x->wants_keep_alive = h->wants_keep_alive;
    x->wants_upgrade = h->wants_upgrade;
    return 0;
}

static void frame_body(struct sg_exchange *x, const struct sg_http_head *h)
{
    if (h->is_chunked) {
        x->body_kind = SG_BODY_CHUNKED;
        sg_chunked_init(&x->chunked);
    } else if (h->has_length && h->content_length) {
        x->body_kind = SG_BODY_LENGTH;
        x->body_left = h->content_length;
    }
    x->is_body_done = x->body_kind == SG_BODY_NONE;
    x->owes_continue = h->expects_continue && h->minor == 1 && !x->is_body_done;
}

static int read_target(struct sg_exchange *x, const struct sg_http_head *h, struct sg_err *err)
{
    struct sg_str path = sg_span_str(h->path, x->head), query = sg_span_str(h->query, x->head);
    x->call.path = sg_arena_alloc(&x->call.arena, path.n + 1);
    if (query.n)
        x->call.raw_query = sg_arena_copy(&x->call.arena, query.p, query.n);
    if (!x->call.path || !x->call.raw_query)
        return sg_fail(err, SG_EXHAUSTED, "no room for the path");
    return sg_url_decode(path, false, x->call.path, err) < 0 ? -1 : 0;
}

static int read_method(struct sg_exchange *x, const struct sg_http_head *h, struct sg_err *err)
{
    struct sg_str method = sg_span_str(h->method, x->head);
    x->call.method = M_OTHER;
    for (unsigned m = 0; m < M_COUNT; m++)
        if (sg_str_is(method, sg_method_names[m])) {
            x->call.method = (enum sg_method)m;
            x->call.method_name = sg_method_names[m];
            return 0;
        }
    x->call.method_name = sg_arena_copy(&x->call.arena, method.p, method.n);
    return x->call.method_name ? 0 : sg_fail(err, SG_EXHAUSTED, "no room for the head");
}

/* ---- the route ---- */

static void allow(struct sg_exchange *x, unsigned methods)
{
    char text[80] = "";
    size_t n = 0;
    methods |= 1u << M_OPTIONS;
    for (unsigned m = 0; m < M_COUNT; m++)
        if (methods & 1u << m)
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%s", n ? ", " : "",
                                  sg_method_names[m]);
    sg_reply_header(&x->call, "Allow", text);
}

static int find_route(struct sg_exchange *x, struct sg_str path, int *ret_status,
                      struct sg_err *err)
{
    struct sg_call *c = &x->call;
    struct sg_match m;
    if (c->server->options.claim)
        c->route = c->server->options.claim(c);
    if (c->route)
        return 0;
    if (c->method == M_OTHER)
        return sg_fail(err, SG_UNSUPPORTED, "method %s is not supported",
                       sg_quote(c->method_name).s);
    if (sg_router_match(c->server->router, c->method, path, &c->arena, &m, err) < 0)
        return -1;
    if (!m.methods)
        return sg_fail(err, SG_NOT_FOUND, "no such path: %s; GET /v1/openapi.json has all",
                       sg_quote(c->path).s);
    if (!m.route) {
        allow(x, m.methods);
        *ret_status = c->method == M_OPTIONS ? 204 : 405;
        return sg_fail(err, SG_INVALID, "%s has no %s", sg_quote(c->path).s, c->method_name);
    }
    c->route = m.route;
    for (unsigned i = 0; i < m.count; i++) {
        c->params[i].name = m.names[i];
        c->params[i].value = sg_arena_copy(&c->arena, m.values[i].p, m.values[i].n);
        if (!c->params[i].value)
            return sg_fail(err, SG_EXHAUSTED, "no room for the path");
    }
    return 0;
}

/* ---- who ---- */

static const char *key_of(const struct sg_call *c)
{
    const char *bearer = sg_call_header(c, "Authorization");
    if (bearer && strncasecmp(bearer, "Bearer ", 7) == 0)
        return bearer + 7 + strspn(bearer + 7, " ");
    return sg_call_header(c, "X-API-Key");
}

static int authenticate(struct sg_exchange *x, struct sg_err *err)
{
    struct sg_call *c = &x->call;
    const struct sg_route *r = c->route;
    struct sg_who who = { 0 };
    if (r->flags & SG_ROUTE_OPEN)
        return 0;
    const char *key = key_of(c);
    if (key) {
        if (sg_tenant_authenticate(c->manager, key, strlen(key), &who, err) < 0)
            return -1;
    } else if (c->conn->is_operator) {
        sg_tenant_local(c->manager, &who);
    } else {
        return sg_fail(err, SG_DENIED, "a key is needed");
    }
    memcpy(who.request_id, c->who.request_id, sizeof who.request_id);
    const char *parent = sg_call_header(c, "traceparent");
    if (parent) /* one that makes no sense is as none: W3C Trace Context, 3.2 */
        (void)sg_traceparent_parse(sg_str_of(parent), &who.trace);
    c->who = who;
    if (sg_call_charge(c, who.org, err) < 0)
        return -1;
    if (who.key)
        sg_server_watch_key(c->server, who.key);
    int result = r->flags & SG_ROUTE_OPERATOR && !who.is_operator
                     ? sg_fail(err, SG_DENIED, "for the machine's operator only")
                     : sg_tenant_demand(&c->who, r->scope, err);
    if (result < 0) {
        char action[MAX_ACTION];
        (void)snprintf(action, sizeof action, "%s %s", c->method_name, c->path);
        sg_tenant_refused(c->manager, &c->who, action, err);
    }
    return result;
}

/* ---- refusing ---- */

static void refuse(struct sg_exchange *x, int status, const struct sg_err *err)
{
    bool is_small = x->body_kind != SG_BODY_LENGTH || x->body_left <= MAX_DISCARD;
    if (x->is_body_done || x->owes_continue || !is_small) {
        sg_reply_error_as(&x->call, status, err);
        return;
    }
    x->refusal = *err;
    x->refusal_status = status;
    x->is_discarding = true;
    x->body_max = MAX_DISCARD;
    sg_conn_set_deadline(x->call.conn, x->call.server->options.body_ms);
}

void sg_request_bad(struct sg_conn *c, int status, const struct sg_err *err)
{
    struct sg_exchange *x = open_exchange(c);
    x->closes = true;
    name_request(x);
    sg_reply_error_as(&x->call, status, err);
}

void sg_request_timed_out(struct sg_exchange *x)
{
    struct sg_err err;
    (void)sg_fail(&err, SG_TIMEOUT, "the body of the request took too long");
    if (x->is_handled) /* its handler is in the middle of it, and must not be answered for */
        sg_conn_gone(x->call.conn);
    else
        sg_reply_error_as(&x->call, 408, &err);
}

/* ---- the handler ---- */

static void say_continue(struct sg_exchange *x)
{
    static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
    if (!x->owes_continue || x->is_paused)
        return;
    x->owes_continue = false;
    (void)sg_sock_write(&x->call.conn->sock, go_on, sizeof go_on - 1);
}

static void await_body(struct sg_exchange *x)
{
    if (x->is_last_given || x->call.conn->is_dead)
        return;
    say_continue(x);
    bool is_awaited = !x->is_paused && !x->is_body_done && x->body_kind != SG_BODY_RAW;
    sg_conn_set_deadline(x->call.conn, is_awaited ? x->call.server->options.body_ms : 0);
}

static void handle(struct sg_exchange *x)
{
    struct sg_conn *c = x->call.conn;
    struct sg_err err = { 0 };
    x->is_handled = true;
    if (x->call.route->handle(&x->call, &err) < 0 && c->exchange == x)
        sg_reply_error(&x->call, &err);
}

void sg_call_pause_body(struct sg_call *call, bool is_paused)
{
    struct sg_exchange *x = sg_exchange_of(call);
    bool was_paused = x->is_paused;
    x->is_paused = is_paused;
    if (x->ws || is_paused == was_paused) {
        if (was_paused && !is_paused)
            sg_conn_wake(call->conn);
        return;
    }
    if (is_paused) {
        sg_conn_set_deadline(call->conn, 0);
        return;
    }
    await_body(x);
    sg_conn_wake(call->conn);
}

/* May be called from inside the first handler: what has come is looked at when that has returned.
 */
void sg_call_gather_body(struct sg_call *call, const struct sg_route *route)
{
    struct sg_exchange *x = sg_exchange_of(call);
    call->route = route;
    if (x->body_max > SG_CALL_MAX_BODY)
        x->body_max = SG_CALL_MAX_BODY;
    x->is_handled = false; /* until then a body that is too long is answered for */
    sg_call_pause_body(call, false);
}

static int check_query(struct sg_call *c, struct sg_err *err)
{
    static const char *const none[] = { NULL };
    return c->route->flags & SG_ROUTE_NO_QUERY ? sg_call_query_only(c, none, err) : 0;
}

static int check_size(struct sg_exchange *x, struct sg_err *err)
{
    struct sg_server *s = x->call.server;
    const unsigned flags = x->call.route->flags;
    x->body_max = s->options.max_body_bytes;
    if (flags & SG_ROUTE_LARGE)
        x->body.max = SG_CALL_MAX_LARGE;
    if (!(flags & SG_ROUTE_STREAM) && x->body_max > x->body.max)
        x->body_max = x->body.max;
    if (x->body_kind == SG_BODY_LENGTH && x->body_left > x->body_max)
        return sg_fail(err, SG_EXHAUSTED, "the body is over %llu bytes",
                       (unsigned long long)x->body_max);
    return 0;
}

/* -1: refused; `*ret_status` 0: as the kind says. */
static int enter(struct sg_exchange *x, const struct sg_http_head *h, int *ret_status,
                 struct sg_err *err)
{
    if (read_target(x, h, err) < 0 || read_method(x, h, err) < 0)
        return -1;
    if (sg_str_is(sg_span_str(h->path, x->head), "*")) {
        allow(x, (1u << M_COUNT) - 1);
        *ret_status = 204;
        return sg_fail(err, SG_INVALID, "nothing to do");
    }
    if (find_route(x, sg_span_str(h->path, x->head), ret_status, err) < 0)
        return -1;
    if (authenticate(x, err) < 0 || check_query(&x->call, err) < 0)
        return -1;
    *ret_status = 413;
    return check_size(x, err);
}

void sg_request_begin(struct sg_conn *c, const struct sg_http_head *h, const char *head, size_t n)
{
    struct sg_exchange *x = open_exchange(c);
    struct sg_err err = { 0 };
    int status = 0;
    frame_body(x, h);
    if (copy_head(x, h, head, n, &err) < 0) {
        x->closes = true;
        sg_reply_error_as(&x->call, 0, &err);
        return;
    }
    name_request(x);
    if (enter(x, h, &status, &err) < 0) {
        refuse(x, status, &err);
        return;
    }
    bool is_streamed = x->call.route->flags & SG_ROUTE_STREAM;
    x->is_last_given = x->is_body_done && !is_streamed;
    if (x->is_last_given || is_streamed)
        handle(x);
    if (c->exchange == x)
        await_body(x);
}

/* ---- the body ---- */

static void body_over(struct sg_exchange *x)
{
    struct sg_err err;
    if (x->is_discarding) {
        sg_reply_error_as(&x->call, x->refusal_status, &x->refusal);
    } else if (x->is_handled) {
        sg_conn_gone(x->call.conn);
    } else {
        (void)sg_fail(&err, SG_EXHAUSTED, "the body is over %llu bytes",
                      (unsigned long long)x->body_max);
        sg_reply_error_as(&x->call, 413, &err);
    }
}

static void body_bad(struct sg_exchange *x, const struct sg_err *err)
{
    x->closes = true;
    if (x->is_handled)
        sg_conn_gone(x->call.conn);
    else
        sg_reply_error_as(&x->call, 400, err);
}

/* 1: a piece, or the end; 0: more must come; -1: malformed. */
static int next_piece(struct sg_exchange *x, struct sg_input *in, struct sg_input *ret,
                      struct sg_err *err)
{
    *ret = (struct sg_input) { in->p, 0 };
    if (x->is_body_done)
        return 1;
    if (x->body_kind == SG_BODY_LENGTH) {
        size_t n = x->body_left < in->n ? (size_t)x->body_left : in->n;
        *ret = (struct sg_input) { sg_input_take(in, n), n };
        x->body_left -= n;
        x->is_body_done = !x->body_left;
        return n > 0;
    }
    if (x->body_kind == SG_BODY_RAW) {
        size_t n = in->n;
        *ret = (struct sg_input) { sg_input_take(in, n), n };
        return n > 0;
    }
    enum sg_chunked_got got = sg_chunked_next(&x->chunked, in, ret, err);
    if (got == SG_CHUNKED_END)
        *ret = (struct sg_input) { in->p, 0 };
    x->is_body_done = got == SG_CHUNKED_END;
    return got == SG_CHUNKED_BAD ? -1 : got != SG_CHUNKED_MORE;
}

static void gather(struct sg_exchange *x, struct sg_input piece)
{
    struct sg_server *s = x->call.server;
    struct sg_err err;
    if (x->is_body_done && !x->body.n && piece.n) { /* it came whole, as most do */
        char *copy = sg_arena_copy(&x->call.arena, (const char *)piece.p, piece.n);
        x->call.body = (struct sg_str) { copy, copy ? piece.n : 0 };
    } else {
        size_t before = x->body.n;
        sg_buf_add(&x->body, piece.p, piece.n);
        s->body_bytes += x->body.n - before;
        x->call.body = (struct sg_str) { (const char *)x->body.p, x->body.n };
    }
    if (s->body_bytes > SG_SERVER_MAX_BODIES || x->body.has_overflowed) {
        (void)sg_fail(&err, SG_UNAVAILABLE, "too many large requests at once");
        x->closes = true;
        sg_reply_error_as(&x->call, 503, &err);
    } else if (x->is_body_done) {
        x->is_last_given = true;
        sg_conn_set_deadline(x->call.conn, 0);
        handle(x);
    }
}

static void deliver(struct sg_exchange *x, struct sg_input piece)
{
    bool is_last = x->is_body_done;
    x->is_last_given = is_last;
    if (is_last)
        sg_conn_set_deadline(x->call.conn, 0);
    if (x->is_discarding && is_last)
        sg_reply_error_as(&x->call, x->refusal_status, &x->refusal);
    else if (!x->is_discarding && x->call.on_body && (piece.n || is_last))
        x->call.on_body(&x->call, piece.p, piece.n, is_last);
}

void sg_request_body(struct sg_exchange *x, struct sg_input *in)
{
    struct sg_conn *c = x->call.conn;
    while (c->exchange == x && !c->is_dead && !x->is_paused && !x->is_last_given) {
        struct sg_input piece;
        struct sg_err err;
        int got = next_piece(x, in, &piece, &err);
        if (got < 0) {
            body_bad(x, &err);
            return;
        }
        if (got == 0)
            break;
        x->body_seen += piece.n;
        if (x->body_seen > x->body_max) {
            body_over(x);
            return;
        }
        if (x->is_discarding || x->call.route->flags & SG_ROUTE_STREAM)
            deliver(x, piece);
        else
            gather(x, piece);
    }
    if (c->exchange == x && !x->ws)
        await_body(x);
}
