/* SPDX-License-Identifier: Apache-2.0 */
/* A call handed on to another server: the request goes there as it comes, the answer comes back as
 * it comes, and after an upgrade (WebSocket) bytes go both ways. Nothing is held beyond the marks
 * of both sockets. */
#pragma once

#include "api/call.h"

struct sg_forward_options {
    const char *host; /* shown instead of the client's; NULL: the client's */
    bool is_tunnel;   /* bytes go both ways at once, behind a 101 of our own */
    void (*silent)(void *arg, struct sg_call *c); /* ended without an answer: replies */
    /* Once, at the end of it all; may be NULL. `is_server_ending`: the manager is gone by then. */
    void (*done)(void *arg, bool is_server_ending);
    void *arg;
};

/* Takes `fd`, a connected stream socket, and the call, whose route has SG_ROUTE_STREAM. */
void sg_call_forward(struct sg_call *c, int fd, const struct sg_forward_options *o);
