/* SPDX-License-Identifier: Apache-2.0 */
/* A call: one HTTP request and its reply, as the handlers of every door see it.
 *
 * C1. Every call is ended by exactly one of sg_reply_json, sg_reply_text, sg_reply_bytes,
 *     sg_reply_error, sg_reply_file, sg_reply_end or an upgrade; also when the client is gone, in
 *     which case they only end it. After that the call must not be touched.
 * C2. A handler returns 0 when it has ended the call or will do so later, and -1 with an error,
 *     which is then the reply.
 * C3. `arena` holds what belongs to the call and goes with it.
 * C4. Nobody waits for a slow client: output queues up to a mark, and then the handler is told. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/jsonr.h"
#include "manager/tenant.h"

struct sg_conn;
struct sg_manager;
struct sg_pair;
struct sg_server;
struct sg_route;

/* M_OTHER: one that no route has, but what listens in a sandbox may. */
enum sg_method {
    M_GET,
    M_HEAD,
    M_POST,
    M_PUT,
    M_PATCH,
    M_DELETE,
    M_OPTIONS,
    M_COUNT,
    M_OTHER = M_COUNT
};

enum {
    SG_CALL_MAX_PARAMS = 4,
    SG_CALL_MAX_BODY = 8 << 20,   /* of a body that is read whole */
    SG_CALL_MAX_LARGE = 32 << 20, /* where it is a file, and not JSON */
};

struct sg_param {
    const char *name;
    char *value; /* decoded, in the arena */
};

struct sg_call {
    struct sg_server *server;
    struct sg_manager *manager;
    struct sg_conn *conn;
    const struct sg_route *route;
    struct sg_who who;
    struct sg_arena arena;
    enum sg_method method;
    const char *method_name;                    /* as it came */
    char *path;                                 /* decoded, without the query */
    char *raw_query;                            /* "" when there is none */
    struct sg_param params[SG_CALL_MAX_PARAMS]; /* {name} in the route */
    struct sg_str body;                         /* whole, of a route that does not stream it */
    bool is_gone;     /* the client went away: replies only end the call */
    bool has_started; /* the head of the reply is out */
    void *state;      /* the handler's own */
    /* Set by a handler that streams; NULL otherwise. */
    void (*on_body)(struct sg_call *c, const void *p, size_t n, bool is_last);
    void (*on_drain)(struct sg_call *c); /* output is below the mark again */
    /* Once, when the connection broke or the client closed its sending side; the handler then ends
     * the call. Without it only a broken connection sets is_gone: the client may still read. */
    void (*on_gone)(struct sg_call *c);
    /* How this door tells errors, and ends the call; NULL: as sg_reply_error() says. */
    void (*on_error)(struct sg_call *c, int status, const struct sg_err *err);
};

/* ---- the request ---- */

const char *sg_call_param(const struct sg_call *c, const char *name);  /* of the path; never NULL */
const char *sg_call_header(const struct sg_call *c, const char *name); /* NULL: absent; first one */
/* The next field whose name begins with `prefix`, in any case; NULL: no more. `cursor` starts at 0.
 */
const char *sg_call_header_next(const struct sg_call *c, const char *prefix, unsigned *cursor,
                                struct sg_str *ret_name);
/* Of the query, decoded; NULL: absent. SG_INVALID for a name that is not in `known` is the route's.
 */
const char *sg_call_query(struct sg_call *c, const char *name);
int sg_call_query_u64(struct sg_call *c, const char *name, uint64_t min, uint64_t max,
                      uint64_t *inout, struct sg_err *err); /* untouched when absent */
int sg_call_query_bool(struct sg_call *c, const char *name, bool *inout, struct sg_err *err);
/* Refuses query names that are not among `known` (NULL-terminated; one that ends with a dot stands
 * for all that begin so). */
int sg_call_query_only(struct sg_call *c, const char *const *known, struct sg_err *err);
/* The body as JSON; an empty body is an empty object. */
int sg_call_json(struct sg_call *c, const struct sg_jval **ret, struct sg_err *err);
/* An object of strings as pairs in the arena; untouched when `v` is NULL. `what` names it. */
int sg_call_pairs(struct sg_call *c, const struct sg_jval *v, const char *what,
                  struct sg_pair **ret, size_t *ret_n, struct sg_err *err);

/* NAME[:PORT] below which sandboxes have names: of the server's options, with the port by which a
 * client that asked at api.NAME came; NULL: there is none. In the arena, or the server's. */
const char *sg_call_domain(struct sg_call *c);

/* "https://host:port", as this client reached us; "" where it did not say. In the arena. */
const char *sg_call_origin(struct sg_call *c);

/* Counts the call's connection as the organisation's, as a key does; SG_EXHAUSTED: it has its share
 * already, and this connection ends with the reply. */
int sg_call_charge(struct sg_call *c, struct sg_org *org, struct sg_err *err);

/* The same for a visitor of a sandbox: idle ones of its others make room. */
int sg_call_visit(struct sg_call *c, const char *id, struct sg_err *err);

/* Overwrites the body and `part` of its tree: they held what nobody is to find in memory later. */
void sg_call_wipe(struct sg_call *c, struct sg_str part);

/* Streaming bodies (routes with SG_ROUTE_STREAM), and messages of a WebSocket: nothing is delivered
 * while paused. The last piece comes always, perhaps empty. */
void sg_call_pause_body(struct sg_call *c, bool is_paused);

/* Of a call that streams its body, which is paused and of which nothing was taken: it shall come
 * whole after all, and `route`, which does not stream, handles the call then. */
void sg_call_gather_body(struct sg_call *c, const struct sg_route *route);

/* ---- the reply ---- */

void sg_reply_json(struct sg_call *c, int status, const struct sg_buf *json);
void sg_reply_text(struct sg_call *c, int status, const char *type, const char *text);
void sg_reply_bytes(struct sg_call *c, int status, const char *type, const void *p, size_t n);
void sg_reply_empty(struct sg_call *c, int status); /* 204 */
/* {"error":{"kind","message","hint","requestId"}} with the status of the kind. */
void sg_reply_error(struct sg_call *c, const struct sg_err *err);
/* Extra header of the reply, before it starts. Both are copied. */
void sg_reply_header(struct sg_call *c, const char *name, const char *value);
/* Takes `fd`: `n` bytes from `offset` on, by sendfile(2). */
void sg_reply_file(struct sg_call *c, int status, const char *type, int fd, uint64_t offset,
                   uint64_t n);

/* A reply of unknown length: start, any number of pieces, end. `type` as of Content-Type. */
void sg_reply_start(struct sg_call *c, int status, const char *type);
/* The same with the first piece, and the end with the last one: each is one write, hence for the
 * client one thing to wake up for. */
bool sg_reply_start_with(struct sg_call *c, int status, const char *type, const void *p, size_t n);
void sg_reply_end_with(struct sg_call *c, const void *p, size_t n);
/* The same where the length is known: exactly that many bytes must follow. */
void sg_reply_start_sized(struct sg_call *c, int status, const char *type, uint64_t n);
/* False: the mark is passed; stop until on_drain. The bytes are taken all the same. */
bool sg_reply_add(struct sg_call *c, const void *p, size_t n);
void sg_reply_end(struct sg_call *c);
/* A stream that cannot go on: the connection is closed without the end mark. */
void sg_reply_abort(struct sg_call *c);

/* ---- WebSocket: ends the call as HTTP; the call lives on until `closed` was called ---- */

struct sg_ws_ops {
    void (*message)(struct sg_call *c, bool is_text, const void *p, size_t n);
    void (*drain)(struct sg_call *c);
    void (*closed)(struct sg_call *c); /* last call back; the call goes after it */
};
/* SG_INVALID when the request is no upgrade. */
int sg_call_upgrade_ws(struct sg_call *c, const struct sg_ws_ops *ops, struct sg_err *err);
bool sg_ws_send(struct sg_call *c, bool is_text, const void *p, size_t n); /* as sg_reply_add */
void sg_ws_close(struct sg_call *c, uint16_t code, const char *reason);
