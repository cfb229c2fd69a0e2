/* SPDX-License-Identifier: Apache-2.0 */
/* The real server with a table of routes made for tests, a manager of four small functions, and
 * clients on loopback sockets; all in one thread: waiting turns the loop, with a deadline.
 *
 * Keys: "good" may everything, "reader" may read, "busy" is over its rate. */
#pragma once

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "api/server.h"
#include "base/auto.h"
#include "base/clock.h"
#include "check.h"
#include "manager/manager.h"

enum { HTTP_PATIENCE_MS = 30000 };

struct http_rig {
    struct sg_loop *loop;
    struct sg_server *server;
    uint16_t port;
    char unix_path[64];
    struct sg_call *held; /* of GET /held */
    unsigned gone, drains, closed, messages;
    bool held_is_gone;
};
static struct http_rig rig;

/* ---- the manager's part ---- */

static struct sg_org rig_org = { .name = (char *)(uintptr_t) "test" };

int sg_tenant_authenticate(struct sg_manager *m, const char *key, size_t n, struct sg_who *ret,
                           struct sg_err *err)
{
    (void)m;
    struct sg_str k = { key, n };
    if (sg_str_is(k, "busy"))
        return sg_fail(err, SG_EXHAUSTED, "over its rate");
    if (!sg_str_is(k, "good") && !sg_str_is(k, "reader"))
        return sg_fail(err, SG_DENIED, "no such key");
    *ret = (struct sg_who) { .org = &rig_org,
                             .scopes = sg_str_is(k, "good") ? SG_SCOPE_ALL : SG_SCOPE_READ };
    return 0;
}

void sg_tenant_local(struct sg_manager *m, struct sg_who *ret)
{
    (void)m;
    *ret = (struct sg_who) { .org = &rig_org, .scopes = SG_SCOPE_ALL, .is_operator = true };
}

int sg_tenant_demand(const struct sg_who *who, unsigned scope, struct sg_err *err)
{
    return (who->scopes & scope) == scope ? 0 : sg_fail(err, SG_DENIED, "the key lacks a scope");
}

void sg_tenant_refused(struct sg_manager *m, const struct sg_who *who, const char *action,
                       const struct sg_err *err)
{
    (void)m;
    (void)who;
    (void)action;
    (void)err;
}

int64_t sg_key_left_ms(const struct sg_key *k)
{
    (void)k;
    return INT64_MAX;
}

void sg_key_when_revoked(struct sg_manager *m, void (*revoked)(void *arg), void *arg)
{
    (void)m;
    (void)revoked;
    (void)arg;
}

void sg_manager_metrics(struct sg_manager *m, struct sg_buf *out)
{
    (void)m;
    sg_buf_add_str(out, "rig 1\n");
}

/* ---- routes ---- */

static int rig_echo(struct sg_call *c, struct sg_err *err)
{
    static const char *const known[] = { "x", "n", NULL };
    uint64_t n = 7;
    if (sg_call_query_only(c, known, err) < 0 || sg_call_query_u64(c, "n", 0, 9, &n, err) < 0)
        return -1;
    const char *x = sg_call_query(c, "x");
    char *text = sg_arena_printf(&c->arena, "%s|%s|%s|%u", sg_call_param(c, "a"),
                                 sg_call_param(c, "b"), x ? x : "-", (unsigned)n);
    sg_reply_text(c, 200, "text/plain", text);
    return 0;
}

static int rig_literal(struct sg_call *c, struct sg_err *err)
{
    (void)err;
    sg_reply_text(c, 200, "text/plain", "literal");
    return 0;
}

static int rig_body(struct sg_call *c, struct sg_err *err)
{
    (void)err;
    sg_reply_bytes(c, 200, "text/plain", c->body.p, c->body.n);
    return 0;
}

static int rig_json(struct sg_call *c, struct sg_err *err)
{
    const struct sg_jval *v;
    if (sg_call_json(c, &v, err) < 0)
        return -1;
    sg_auto_buf out;
    sg_buf_init(&out, 4096);
    struct sg_json j;
    sg_json_init(&j, &out);
    sg_json_open(&j, '{');
    sg_json_key(&j, "members");
    sg_json_u64(&j, v->list.n);
    sg_json_close(&j, '}');
    sg_reply_json(c, 201, &out);
    return 0;
}

struct rig_count {
    uint64_t bytes, pieces;
    bool pauses;
    struct sg_later later;
    struct sg_call *call;
};

static void rig_resume(struct sg_later *l)
{
    sg_call_pause_body(SG_OWNER(l, struct rig_count, later)->call, false);
}

static void rig_count_piece(struct sg_call *c, const void *p, size_t n, bool is_last)
{
    struct rig_count *k = c->state;
    (void)p;
    k->bytes += n;
    k->pieces++;
    if (is_last) {
        sg_reply_text(c, 200, "text/plain",
                      sg_arena_printf(&c->arena, "%zu bytes", (size_t)k->bytes));
    } else if (k->pauses) {
        sg_call_pause_body(c, true);
        sg_later_call(rig.loop, &k->later);
    }
}

static void rig_gone(struct sg_call *c)
{
    rig.gone++;
    if (rig.held == c)
        rig.held = NULL;
    sg_reply_end(c);
}

static int rig_count(struct sg_call *c, struct sg_err *err)
{
    struct rig_count *k = sg_arena_alloc(&c->arena, sizeof *k);
    k->call = c;
    k->later.call = rig_resume;
    c->state = k;
    c->on_body = rig_count_piece;
    c->on_gone = rig_gone;
    if (sg_call_query(c, "refuse"))
        return sg_fail(err, SG_CONFLICT, "not now");
    if (sg_call_query_bool(c, "pause", &k->pauses, err) < 0)
        return -1;
    if (k->pauses) {
        sg_call_pause_body(c, true);
        sg_later_call(rig.loop, &k->later);
    }
    return 0;
}

static int rig_hold(struct sg_call *c, struct sg_err *err)
{
    (void)err;
    rig.held = c;
    if (sg_call_query(c, "watch"))
        c->on_gone = rig_gone;
    return 0;
}

static int rig_pieces(struct sg_call *c, struct sg_err *err)
{
    (void)err;
    sg_reply_header(c, "X-Extra", "yes");
    sg_reply_start(c, 200, "text/plain");
    (void)sg_reply_add(c, "one", 3);
    (void)sg_reply_add(c, "", 0);
    (void)sg_reply_add(c, "two and more", 12);
    if (sg_call_query(c, "abort"))
        sg_reply_abort(c);
    else
        sg_reply_end(c);
    return 0;
}

static int rig_big(struct sg_call *c, struct sg_err *err)
{
    uint64_t n = 0;
    if (sg_call_query_u64(c, "n", 0, 64 << 20, &n, err) < 0)
        return -1;
    sg_auto_free char *p = malloc(n + 1);
    memset(p, 'b', n);
    sg_reply_bytes(c, 200, "application/octet-stream", p, n);
    return 0;
}

/* Sends until it is told that it is enough; goes on when it may. */
static void rig_flow(struct sg_call *c)
{
    static const char piece[8192] = { 'f' };
    uint64_t *left = c->state;
    rig.drains++;
    while (*left) {
        --*left;
        if (!sg_reply_add(c, piece, sizeof piece))
            return;
    }
    sg_reply_end(c);
}

static int rig_flood(struct sg_call *c, struct sg_err *err)
{
    uint64_t *left = c->state = sg_arena_alloc(&c->arena, sizeof *left);
    *left = 1000;
    if (sg_call_query_u64(c, "pieces", 1, 1 << 20, left, err) < 0)
        return -1;
    c->on_drain = rig_flow;
    c->on_gone = rig_gone;
    sg_reply_start(c, 200, "application/octet-stream");
    rig_flow(c);
    return 0;
}

static int rig_file(struct sg_call *c, struct sg_err *err)
{
    uint64_t n = 0, lie = 0;
    if (sg_call_query_u64(c, "n", 0, 64 << 20, &n, err) < 0 ||
        sg_call_query_u64(c, "lie", 0, 100, &lie, err) < 0)
        return -1;
    int fd = memfd_create("file", MFD_CLOEXEC);
    sg_auto_free char *p = malloc(n + 1);
    for (uint64_t i = 0; i < n; i++)
        p[i] = (char)('a' + i % 26);
    assert_true(write(fd, p, n) == (ssize_t)n);
    sg_reply_file(c, 200, "application/octet-stream", fd, 0, n + lie);
    return 0;
}

static int rig_fail(struct sg_call *c, struct sg_err *err)
{
    for (unsigned k = 0; k < SG_KIND_COUNT; k++)
        if (strcmp(sg_call_param(c, "kind"), sg_kind_name((enum sg_kind)k)) == 0)
            return sg_fail(err, (enum sg_kind)k, "as asked");
    errno = ENOENT;
    if (strcmp(sg_call_param(c, "kind"), "file") == 0)
        return sg_fail_sys(err, "open 'it'");
    return sg_fail(err, SG_INVALID, "no such kind");
}

static int rig_empty(struct sg_call *c, struct sg_err *err)
{
    (void)err;
    sg_reply_empty(c, 204);
    return 0;
}

static void rig_ws_message(struct sg_call *c, bool is_text, const void *p, size_t n)
{
    rig.messages++;
    if (n == 4 && memcmp(p, "hush", 4) == 0) /* and does not want to hear what comes behind it */
        sg_call_pause_body(c, true);
    if (n == 4 && (memcmp(p, "quit", 4) == 0 || memcmp(p, "hush", 4) == 0))
        sg_ws_close(c, 4000, "as you wish");
    else
        (void)sg_ws_send(c, is_text, p, n);
}

static void rig_ws_drain(struct sg_call *c)
{
    (void)c;
    rig.drains++;
}

static void rig_ws_closed(struct sg_call *c)
{
    (void)c;
    rig.closed++;
}

static int rig_ws(struct sg_call *c, struct sg_err *err)
{
    static const struct sg_ws_ops ops = { rig_ws_message, rig_ws_drain, rig_ws_closed };
    return sg_call_upgrade_ws(c, &ops, err);
}

static const struct sg_route rig_routes[] = {
    { M_GET, "/echo/{a}", SG_SCOPE_READ, 0, rig_echo, "" },
    { M_GET, "/echo/{a}/{b}", SG_SCOPE_READ, 0, rig_echo, "" },
    { M_GET, "/echo/literal", SG_SCOPE_READ, 0, rig_literal, "" },
    { M_GET, "/open/{a}", 0, SG_ROUTE_OPEN, rig_echo, "" },
    { M_GET, "/tree/literal/{a}/end", 0, SG_ROUTE_OPEN, rig_literal, "" },
    { M_GET, "/tree/{a}/{b}/other", 0, SG_ROUTE_OPEN, rig_echo, "" },
    { M_GET, "/operator", 0, SG_ROUTE_OPERATOR, rig_literal, "" },
    { M_POST, "/body", 0, SG_ROUTE_OPEN, rig_body, "" },
    { M_POST, "/json", SG_SCOPE_EXEC, 0, rig_json, "" },
    { M_PUT, "/count", 0, SG_ROUTE_OPEN | SG_ROUTE_STREAM, rig_count, "" },
    { M_GET, "/held", 0, SG_ROUTE_OPEN, rig_hold, "" },
    { M_GET, "/pieces", 0, SG_ROUTE_OPEN, rig_pieces, "" },
    { M_GET, "/big", 0, SG_ROUTE_OPEN, rig_big, "" },
    { M_GET, "/flood", 0, SG_ROUTE_OPEN, rig_flood, "" },
    { M_GET, "/file", 0, SG_ROUTE_OPEN, rig_file, "" },
    { M_GET, "/fail/{kind}", 0, SG_ROUTE_OPEN, rig_fail, "" },
    { M_DELETE, "/thing", 0, SG_ROUTE_OPEN | SG_ROUTE_NO_QUERY, rig_empty, "" },
    { M_GET, "/ws", 0, SG_ROUTE_OPEN, rig_ws, "" },
};
static const struct sg_route_table rig_table = { rig_routes, SG_COUNT(rig_routes) };

/* ---- the rig ---- */

static inline void rig_listen_tcp(void)
{
    struct sg_err err = { 0 };
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t n = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0 && bind(fd, (struct sockaddr *)&a, n) == 0 && listen(fd, 256) == 0);
    assert_true(getsockname(fd, (struct sockaddr *)&a, &n) == 0);
    rig.port = ntohs(a.sin_port);
    assert_ok(sg_server_listen(rig.server, fd, false, 0, &err), err);
}

static inline void rig_listen_unix(uint32_t operator_uid)
{
    struct sg_err err = { 0 };
    struct sockaddr_un a = { .sun_family = AF_UNIX };
    (void)snprintf(rig.unix_path, sizeof rig.unix_path, "/tmp/sg-rig-%d.sock", getpid());
    memcpy(a.sun_path, rig.unix_path, strlen(rig.unix_path) + 1);
    (void)unlink(rig.unix_path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0 && bind(fd, (struct sockaddr *)&a, sizeof a) == 0 && listen(fd, 64) == 0);
    assert_ok(sg_server_listen(rig.server, fd, true, operator_uid, &err), err);
}

static inline void rig_start(const struct sg_server_options *o)
{
    static const struct sg_route_table *const doors[] = { &sg_base_routes, &rig_table };
    struct sg_err err = { 0 };
    rig = (struct http_rig) { 0 };
    (void)sigaction(SIGPIPE, &(struct sigaction) { .sa_handler = SIG_IGN }, NULL);
    rig.loop = sg_loop_new(&err);
    assert_non_null(rig.loop);
    rig.server = sg_server_new(rig.loop, NULL, doors, 2, o, &err);
    if (!rig.server)
        fail_msg("%s", err.msg);
    rig_listen_tcp();
}

static inline void rig_stop(void)
{
    sg_server_free(rig.server);
    sg_loop_free(rig.loop);
    if (rig.unix_path[0])
        (void)unlink(rig.unix_path);
}

/* The same for cmocka, with the server's own limits. */
static inline int rig_set_up(void **state)
{
    (void)state;
    rig_start(&(struct sg_server_options) { 0 });
    return 0;
}

static inline int rig_tear_down(void **state)
{
    (void)state;
    rig_stop();
    return 0;
}

static inline void rig_turn(int ms)
{
    struct sg_err err = { 0 };
    assert_ok(sg_loop_turn(rig.loop, ms, &err), err);
}

static inline int rig_connect(void)
{
    struct sockaddr_in a = { .sin_family = AF_INET,
                             .sin_port = htons(rig.port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    assert_true(fd >= 0 && connect(fd, (struct sockaddr *)&a, sizeof a) == 0);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on); /* each cut is a packet */
    return fd;
}

static inline int rig_connect_unix(void)
{
    struct sockaddr_un a = { .sun_family = AF_UNIX };
    memcpy(a.sun_path, rig.unix_path, strlen(rig.unix_path) + 1);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0 && connect(fd, (struct sockaddr *)&a, sizeof a) == 0);
    return fd;
}

/* Sends all, turning the loop while the socket is full. */
static inline void rig_send(int fd, const void *bytes, size_t n)
{
    const char *p = bytes;
    uint64_t until = sg_now_ns() + HTTP_PATIENCE_MS * 1000000ull;
    while (n && sg_now_ns() < until) {
        ssize_t sent = send(fd, p, n, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent > 0) {
            p += sent;
            n -= (size_t)sent;
        } else if (sent < 0 && errno != EAGAIN) {
            return; /* it hung up: what it said tells */
        } else {
            rig_turn(1);
        }
    }
    assert_int_equal(n, 0);
}

static inline void rig_say(int fd, const char *text)
{
    rig_send(fd, text, strlen(text));
}

/* Adds what is there to `in`; false at the end. */
static inline bool rig_receive(int fd, struct sg_buf *in)
{
    static char piece[65536];
    ssize_t n = recv(fd, piece, sizeof piece, MSG_DONTWAIT);
    if (n > 0)
        sg_buf_add(in, piece, (size_t)n);
    return n > 0 || (n < 0 && errno == EAGAIN);
}

/* Until `text` is in what was received, or the connection ended. */
static inline bool rig_await(int fd, struct sg_buf *in, const char *text)
{
    uint64_t until = sg_now_ns() + HTTP_PATIENCE_MS * 1000000ull;
    for (bool is_open = true; sg_now_ns() < until;) {
        if (text && in->n && memmem(in->p, in->n, text, strlen(text)))
            return true;
        if (!is_open)
            return !text;
        rig_turn(1);
        is_open = rig_receive(fd, in);
    }
    return false;
}

/* Everything up to the end of the connection. */
static inline bool rig_await_end(int fd, struct sg_buf *in)
{
    return rig_await(fd, in, NULL);
}

static inline void assert_has(struct sg_buf *in, const char *text)
{
    if (!strstr(sg_buf_cstr(in), text))
        fail_msg("no %s in: %.600s", text, sg_buf_cstr(in));
}
