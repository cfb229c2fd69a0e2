/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "api/internal.h"
#include "base/auto.h"
#include "base/banned.h"

enum {
    DEFAULT_HEAD_MS = 15 * 1000,
    DEFAULT_BODY_MS = 30 * 1000,
    DEFAULT_IDLE_MS = 330 * 1000, /* clients keep connections for five minutes, and send then */
    DEFAULT_CONNECTIONS = 16384,
    DEFAULT_VISITORS = 1024,
    KEYS_MS = 60 * 1000,
    MS = 1000000,
};

struct sg_listening {
    struct sg_acceptor acceptor;
    struct sg_server *server;
    struct sg_listening *next;
    bool is_local;
    uint32_t operator_uid;
};

/* ---- exchanges: kept for the next request, so that a request allocates nothing ---- */

struct sg_exchange *sg_exchange_take(struct sg_server *s)
{
    struct sg_exchange *x = s->spare;
    if (x) {
        s->spare = x->next;
        s->spare_count--;
        return x;
    }
    x = sg_new(struct sg_exchange);
    sg_arena_init(&x->call.arena, SG_CALL_MAX_ARENA);
    sg_buf_init(&x->body, SG_CALL_MAX_BODY);
    sg_buf_init(&x->extra, SG_HTTP_MAX_HEAD);
    return x;
}

static void free_exchange(struct sg_exchange *x)
{
    sg_arena_done(&x->call.arena);
    sg_buf_done(&x->body);
    sg_buf_done(&x->extra);
    free(x);
}

void sg_exchange_give(struct sg_server *s, struct sg_exchange *x)
{
    if (s->spare_count == SG_SERVER_SPARE_CALLS) {
        free_exchange(x);
        return;
    }
    struct sg_arena arena = x->call.arena;
    struct sg_buf extra = x->extra;
    sg_arena_clear(&arena);
    sg_buf_clear(&extra);
    sg_buf_done(&x->body); /* large, where there was one */
    *x = (struct sg_exchange) { .call.arena = arena, .extra = extra, .next = s->spare };
    sg_buf_init(&x->body, SG_CALL_MAX_BODY);
    s->spare = x;
    s->spare_count++;
}

const char *sg_server_date(struct sg_server *s)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_REALTIME_COARSE, &t);
    return sg_http1_date(&s->date, t.tv_sec);
}

/* ---- connections ---- */

static bool is_operator(const struct sg_listening *l, int fd)
{
    struct ucred who = { 0 };
    socklen_t n = sizeof who;
    if (!l->is_local || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &n) < 0 || n != sizeof who)
        return false;
    return who.uid == 0 || who.uid == l->operator_uid;
}

/* The operator's own door has room of its own: a crowd at the other one does not lock it. */
static bool has_room(const struct sg_server *s, int fd, bool is_local)
{
    unsigned here = is_local ? s->local_count : s->conn_count - s->local_count;
    if (!is_local && s->options.max_fd && fd > s->options.max_fd)
        return false;
    return here < s->options.max_connections;
}

static void uncharge(struct sg_conn *c)
{
    struct sg_org *org = sg_take_ptr(&c->org);
    if (org)
        org->connections--;
}

/* A quarter is left to others. */
int sg_server_charge(struct sg_conn *c, struct sg_org *org, struct sg_err *err)
{
    const unsigned most = c->server->options.max_connections;
    if (c->org == org)
        return 0;
    uncharge(c);
    if (!c->is_local && org->connections >= most - most / 4)
        return sg_fail(err, SG_EXHAUSTED, "the organisation has %u connections already",
                       org->connections);
    c->org = org;
    org->connections++;
    return 0;
}

static void came(struct sg_acceptor *a, int fd)
{
    struct sg_listening *l = SG_OWNER(a, struct sg_listening, acceptor);
    struct sg_server *s = l->server;
    if (!has_room(s, fd, l->is_local)) {
        static const char sorry[] = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n"
                                    "Retry-After: 1\r\nConnection: close\r\n\r\n";
        (void)send(fd, sorry, sizeof sorry - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
        (void)close(fd);
        s->stats.refused++;
        return;
    }
    struct sg_conn *c = sg_conn_new(s, fd, l->is_local, is_operator(l, fd));
    if (!c)
        return;
    c->next = s->conns;
    c->link = &s->conns;
    if (s->conns)
        s->conns->link = &c->next;
    s->conns = c;
    s->conn_count++;
    s->local_count += c->is_local;
    s->stats.connections = s->conn_count;
}

void sg_server_forget(struct sg_server *s, struct sg_conn *c)
{
    *c->link = c->next;
    if (c->next)
        c->next->link = c->link;
    uncharge(c);
    sg_server_leave_crowd(c);
    s->conn_count--;
    s->local_count -= c->is_local;
    s->stats.connections = s->conn_count;
    if (s->is_draining && !s->conn_count)
        sg_later_call(s->loop, &s->drain_later);
}

/* ---- keys that end ---- */

void sg_server_watch_key(struct sg_server *s, const struct sg_key *k)
{
    int64_t left_ms = sg_key_left_ms(k);
    if (left_ms == INT64_MAX)
        return;
    if (left_ms > KEYS_MS) /* the clock of expiry may be set forward */
        left_ms = KEYS_MS;
    const uint64_t at_ns = sg_loop_now(s->loop) + ((uint64_t)left_ms + 1) * MS;
    if (!sg_timer_is_set(&s->keys) || s->keys.at_ns > at_ns)
        sg_timer_set(s->loop, &s->keys, at_ns);
}

/* What is about to be answered is; conversations, streams and uploads are over. */
static void end_with_key(struct sg_conn *c)
{
    struct sg_exchange *x = c->exchange;
    if (x->ws)
        sg_ws_close(&x->call, SG_WS_POLICY, "the key is not valid any more");
    else if (x->call.has_started || x->call.on_gone || !x->is_body_done)
        sg_conn_gone(c);
}

static void look_at_keys(struct sg_timer *t, uint64_t now_ns)
{
    (void)now_ns;
    struct sg_server *s = SG_OWNER(t, struct sg_server, keys);
    for (struct sg_conn *c = s->conns; c; c = c->next) {
        const struct sg_key *k = c->exchange ? c->exchange->call.who.key : NULL;
        if (k && sg_key_left_ms(k) == 0)
            end_with_key(c);
        else if (k)
            sg_server_watch_key(s, k);
    }
}

static void key_revoked(void *arg)
{
    struct sg_server *s = arg;
    sg_timer_set(s->loop, &s->keys, sg_loop_now(s->loop));
}

/* ---- the server ---- */

static uint64_t or_default(uint64_t given, uint64_t otherwise)
{
    return given ? given : otherwise;
}

static void drain_done(struct sg_server *s)
{
    void (*done)(void *) = s->drained;
    s->drained = NULL;
    sg_timer_stop(s->loop, &s->drain_timer);
    if (done)
        done(s->drained_arg);
}

static void drain_is_empty(struct sg_later *later)
{
    drain_done(SG_OWNER(later, struct sg_server, drain_later));
}

static void drain_is_late(struct sg_timer *t, uint64_t now_ns)
{
    (void)now_ns;
    drain_done(SG_OWNER(t, struct sg_server, drain_timer));
}

struct sg_server *sg_server_new(struct sg_loop *l, struct sg_manager *m,
                                const struct sg_route_table *const *doors, size_t door_count,
                                const struct sg_server_options *o, struct sg_err *err)
{
    struct sg_router *router = sg_router_new(doors, door_count, err);
    if (!router)
        return NULL;
    struct sg_tls *tls = o->tls_cert ? sg_tls_new(o->tls_cert, o->tls_key, err) : NULL;
    if (o->tls_cert && !tls) {
        sg_router_free(router);
        return NULL;
    }
    struct sg_server *s = sg_new(struct sg_server);
    s->loop = l;
    s->manager = m;
    s->router = router;
    s->tls = tls;
    s->options = (struct sg_server_options) {
        .domain = o->domain,
        .head_ms = or_default(o->head_ms, DEFAULT_HEAD_MS),
        .body_ms = or_default(o->body_ms, DEFAULT_BODY_MS),
        .idle_ms = or_default(o->idle_ms, DEFAULT_IDLE_MS),
        .max_connections = (unsigned)or_default(o->max_connections, DEFAULT_CONNECTIONS),
        .max_visitors = (unsigned)or_default(o->max_visitors, DEFAULT_VISITORS),
        .max_fd = o->max_fd,
        .max_body_bytes = or_default(o->max_body_bytes, UINT64_MAX),
        .claim = o->claim,
    };
    s->id_base = sg_id_new('r');
    s->drain_timer.fire = drain_is_late;
    s->drain_later.call = drain_is_empty;
    s->keys.fire = look_at_keys;
    sg_map_init(&s->crowds);
    sg_key_when_revoked(m, key_revoked, s);
    sg_buf_init(&s->out, (size_t)2 * SG_HTTP_MAX_HEAD);
    return s;
}

int sg_server_listen(struct sg_server *s, int fd, bool is_local, uint32_t operator_uid,
                     struct sg_err *err)
{
    struct sg_listening *l = sg_new(struct sg_listening);
    l->server = s;
    l->is_local = is_local;
    l->operator_uid = operator_uid;
    if (sg_acceptor_open(&l->acceptor, s->loop, fd, came, err) < 0) {
        free(l);
        return -1;
    }
    l->next = s->listening;
    s->listening = l;
    return 0;
}

static void stop_listening(struct sg_server *s)
{
    for (struct sg_listening *l; (l = s->listening);) {
        s->listening = l->next;
        sg_acceptor_close(&l->acceptor);
        free(l);
    }
}

void sg_server_drain(struct sg_server *s, uint64_t patience_ms, void (*done)(void *arg), void *arg)
{
    stop_listening(s);
    s->is_draining = true;
    s->drained = done;
    s->drained_arg = arg;
    for (struct sg_conn *c = s->conns; c; c = c->next) {
        if (!c->exchange && !c->is_dead && sg_sock_is_empty(&c->sock))
            sg_conn_kill(c);
        else if (!c->exchange)
            sg_conn_finish(c);
        else if (c->exchange->ws)
            sg_ws_close(&c->exchange->call, SG_WS_GOING_AWAY, "the server ends");
    }
    sg_timer_set(s->loop, &s->drain_timer, sg_loop_now(s->loop) + patience_ms * MS);
    if (!s->conn_count)
        sg_later_call(s->loop, &s->drain_later);
}

void sg_server_free(struct sg_server *s)
{
    if (!s)
        return;
    stop_listening(s);
    s->manager = NULL; /* it is freed before us */
    s->drained = NULL;
    sg_timer_stop(s->loop, &s->drain_timer);
    sg_timer_stop(s->loop, &s->keys);
    for (struct sg_conn *c; (c = s->conns);) {
        if (c->exchange)
            c->exchange->call.who.key = NULL; /* went with the manager */
        c->org = NULL;
        sg_conn_free(c);
    }
    sg_later_cancel(s->loop, &s->drain_later);
    for (struct sg_exchange *x; (x = s->spare);) {
        s->spare = x->next;
        free_exchange(x);
    }
    sg_map_done(&s->crowds);
    sg_buf_done(&s->out);
    sg_router_free(s->router);
    sg_tls_free(s->tls);
    free(s);
}

const struct sg_server_stats *sg_server_stats(const struct sg_server *s)
{
    return &s->stats;
}
