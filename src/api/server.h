/* SPDX-License-Identifier: Apache-2.0 */
/* The HTTP server: listeners, connections, routing, keys. Knows nothing of sandboxes. */
#pragma once

#include "api/routes.h"
#include "loop/loop.h"

struct sg_server;

struct sg_server_options { /* 0: a default */
    const char *tls_cert,
        *tls_key;       /* PEM texts; NULL: plain only. First byte of a connection tells */
    const char *domain; /* borrowed: NAME[:PORT] below which sandboxes have names; NULL: none */
    uint64_t head_ms, body_ms,
        idle_ms; /* patience for a request's head, a pause in its body, between requests */
    unsigned max_connections, max_visitors; /* visitors: of one sandbox */
    int max_fd; /* a connection with a higher number is refused, unless it is local; 0: none is */
    uint64_t max_body_bytes;
    /* Sees every request before the routes do; NULL: nobody. Returns the route that takes the call,
     * which must be SG_ROUTE_OPEN and is in no table, or NULL: the routes decide. It may set
     * `state` and `on_error` of the call and nothing else. */
    const struct sg_route *(*claim)(struct sg_call *c);
};

struct sg_server *sg_server_new(struct sg_loop *l, struct sg_manager *m,
                                const struct sg_route_table *const *doors, size_t door_count,
                                const struct sg_server_options *o, struct sg_err *err);
/* Takes a listening socket. `is_local`: a unix socket, whose peers are known by their uid: those of
 * `operator_uid` and root need no key. */
int sg_server_listen(struct sg_server *s, int fd, bool is_local, uint32_t operator_uid,
                     struct sg_err *err);
/* No new connections; `done` when the last call has ended or `patience_ms` is over. */
void sg_server_drain(struct sg_server *s, uint64_t patience_ms, void (*done)(void *arg), void *arg);
/* After the manager. Calls that have not ended are told that their clients are gone, and end here.
 */
void sg_server_free(struct sg_server *s);

struct sg_server_stats {
    uint64_t connections, requests, by_class[6], refused; /* by_class[4]: 4xx */
};
const struct sg_server_stats *sg_server_stats(const struct sg_server *s);
