/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the server share, and nobody else includes.
 *
 *   server.c   listeners, the list of connections, draining, the end
 *   conn.c     one connection: input to requests, deadlines, closing
 *   request.c  a head becomes a call: method, route, key, body, handler
 *   call.c     what a handler asks about its call
 *   reply.c    what a handler answers
 *   ws.c       the call as a WebSocket
 *   forward.c  the call handed on to another server
 *   visitors.c connections of strangers to ports of sandboxes, counted
 *   routes.c   the prepared route tree
 *   base.c     health and metrics
 *
 * A1. A connection has at most one exchange (a request with its reply). Requests that come behind
 *     it wait as bytes, up to one read; then reading stops.
 * A2. Handlers are called from the connection's own event or a deferred call, never from inside
 *     a function of call.h; nor is a connection freed there: sg_conn_kill() only marks it.
 * A3. An idle connection holds no buffer and no exchange: exchanges are pooled by the server, and
 *     bytes are read into one buffer that all share.
 * A4. A connection outlives its exchange, and lives until the handler has ended the call. */
#pragma once

#include "api/server.h"
#include "base/buf.h"
#include "base/id.h"
#include "link/listener.h"
#include "link/sock.h"
#include "wire/chunked.h"
#include "wire/http1.h"
#include "wire/reply.h"
#include "wire/ws.h"

enum {
    SG_SERVER_MAX_BODIES = 256 << 20, /* bytes of whole bodies in memory, over all calls */
    SG_SERVER_SPARE_CALLS = 64,
    SG_CALL_MAX_ARENA = 96 << 20, /* a JSON text of SG_CALL_MAX_BODY, as a tree */
};

/* ---- routes.c ---- */

struct sg_router;
struct sg_match {
    const struct sg_route *route;          /* NULL: none for this method */
    unsigned methods;                      /* that the path has: 1 << enum sg_method; 0: no path */
    const char *names[SG_CALL_MAX_PARAMS]; /* of the route's params */
    struct sg_str values[SG_CALL_MAX_PARAMS];
    unsigned count;
};
struct sg_router *sg_router_new(const struct sg_route_table *const *doors, size_t count,
                                struct sg_err *err);
void sg_router_free(struct sg_router *r);
/* `path` is decoded by segment into `arena` where it needs to be. SG_INVALID: it cannot be. */
int sg_router_match(const struct sg_router *r, enum sg_method method, struct sg_str path,
                    struct sg_arena *arena, struct sg_match *ret, struct sg_err *err);
extern const char *const sg_method_names[M_COUNT];

/* ---- exchanges ---- */

enum sg_body_kind {
    SG_BODY_NONE,
    SG_BODY_LENGTH,
    SG_BODY_CHUNKED,
    SG_BODY_RAW, /* whatever comes, to the end */
};

struct sg_exchange {
    struct sg_call call;
    struct sg_exchange *next; /* in the pool */
    uint64_t started_ns;
    /* the request */
    const char *head; /* in the arena, as are the fields */
    const struct sg_http_field *fields;
    unsigned field_count, minor;
    bool wants_keep_alive, wants_close, wants_upgrade, owes_continue;
    /* its body */
    enum sg_body_kind body_kind;
    uint64_t body_left, body_seen, body_max;
    struct sg_chunked chunked;
    struct sg_buf body; /* gathered; call.body points here or into the arena */
    bool is_body_done, is_last_given, is_paused, is_handled, is_discarding;
    int refusal_status; /* > 0: answer with `refusal` when the body was read away */
    struct sg_err refusal;
    /* the reply */
    int status;
    enum sg_http_framing framing;
    bool closes;         /* the connection after it */
    struct sg_buf extra; /* header lines */
    uint64_t sent_bytes;
    struct sg_ws_state *ws;     /* owned; ws.c's */
    struct sg_forward *forward; /* owned; forward.c's */
};

static inline struct sg_exchange *sg_exchange_of(const struct sg_call *c)
{
    return SG_OWNER((uintptr_t)c, struct sg_exchange, call);
}

/* ---- connections ---- */

struct sg_partial { /* a head of which more must come */
    struct sg_http_head head;
};

struct sg_conn {
    struct sg_sock sock;
    struct sg_server *server;
    struct sg_conn *next, **link;
    struct sg_exchange *exchange; /* NULL: between requests */
    struct sg_partial *partial;   /* owned; NULL: no part of a head has come */
    struct sg_buf in;             /* bytes that wait, from the first of a head on */
    struct sg_timer timer;
    struct sg_later later;
    uint64_t deadline_ns;         /* 0: none */
    uint64_t stall_ns, sent_seen; /* when output must have moved on from there; 0: none waits */
    uint64_t lingered;
    struct sg_org *org;     /* whose it is, by its last key; NULL: not known */
    struct sg_crowd *crowd; /* of visitors.c; NULL: it is no visitor's */
    struct sg_conn *crowd_next, **crowd_link;
    bool is_local, is_operator; /* over the unix socket; by the operator */
    bool is_pumping, is_ending, is_lingering, is_dead, has_input_ended;
};

struct sg_server {
    struct sg_loop *loop;
    struct sg_manager *manager;
    struct sg_router *router;
    struct sg_server_options options;
    struct sg_tls *tls;
    struct sg_listening *listening; /* owned list */
    struct sg_conn *conns;          /* owned list */
    struct sg_map crowds;           /* of visitors.c, each gone with its last connection */
    unsigned conn_count, local_count;
    struct sg_exchange *spare;
    unsigned spare_count;
    uint64_t body_bytes; /* gathered in memory now */
    struct sg_http_date date;
    struct sg_id id_base;
    uint64_t id_next;
    struct sg_server_stats stats;
    struct sg_http_head head; /* scratch: a head that comes whole */
    struct sg_buf out;        /* scratch: the head of a reply, and a small body */
    bool is_draining;
    struct sg_timer drain_timer;
    struct sg_later drain_later;
    struct sg_timer keys; /* some key may have ended: see sg_server_watch_key() */
    void (*drained)(void *arg);
    void *drained_arg;
    uint8_t input[SG_SOCK_READ];
};

/* conn.c */
struct sg_conn *sg_conn_new(struct sg_server *s, int fd, bool is_local, bool is_operator);
void sg_conn_free(struct sg_conn *c);
void sg_conn_kill(struct sg_conn *c);   /* closes now; freed when its call has ended */
void sg_conn_gone(struct sg_conn *c);   /* the client is: closes, and tells the handler */
void sg_conn_finish(struct sg_conn *c); /* closes when all is sent */
void sg_conn_wake(struct sg_conn *c);   /* looks at what waits, at the end of this pass */
void sg_conn_exchange_over(struct sg_conn *c, bool closes);
void sg_conn_set_deadline(struct sg_conn *c, uint64_t after_ms); /* 0: none */
void sg_conn_watch_output(struct sg_conn *c);

/* server.c */
void sg_server_forget(struct sg_server *s, struct sg_conn *c);
struct sg_exchange *sg_exchange_take(struct sg_server *s);
void sg_exchange_give(struct sg_server *s, struct sg_exchange *x);
const char *sg_server_date(struct sg_server *s);

/* Counts the connection as the organisation's; SG_EXHAUSTED: it has its share already. */
int sg_server_charge(struct sg_conn *c, struct sg_org *org, struct sg_err *err);
/* Calls that take long end with their key: when it expires, or is revoked. */
void sg_server_watch_key(struct sg_server *s, const struct sg_key *k);

/* visitors.c */
void sg_server_leave_crowd(struct sg_conn *c);

/* request.c */
void sg_request_begin(struct sg_conn *c, const struct sg_http_head *h, const char *head,
                      size_t head_n);
/* Takes of the body what is there; when it is complete the handler hears so. */
void sg_request_body(struct sg_exchange *x, struct sg_input *in);
/* A head that cannot be understood: an answer, and the end of the connection. */
void sg_request_bad(struct sg_conn *c, int status, const struct sg_err *err);
void sg_request_timed_out(struct sg_exchange *x);

/* reply.c */
void sg_reply_error_as(struct sg_call *c, int status, const struct sg_err *err);
void sg_exchange_end(struct sg_exchange *x); /* accounts for it and gives it back */
int sg_status_of(enum sg_kind kind, bool is_known);

/* ws.c */
void sg_ws_input(struct sg_exchange *x, struct sg_input *in);
void sg_ws_gone(struct sg_exchange *x); /* the connection is: says `closed`, ends the call */
void sg_ws_tick(struct sg_exchange *x); /* its deadline has come */
void sg_ws_drained(struct sg_exchange *x);
