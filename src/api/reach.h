/* SPDX-License-Identifier: Apache-2.0 */
/* A call led to a port inside a sandbox: dialled by its init, then handed on (forward.h). Needs no
 * network of the sandbox. */
#pragma once

#include "api/call.h"

struct sg_sandbox;

struct sg_reach_options {
    uint32_t port;
    const char *host; /* shown instead of the client's; NULL: the client's */
    bool is_visitor;  /* counts as one of the sandbox's (call.h) */
    bool is_tunnel;   /* after the head bytes go both ways, as they are */
    /* Replies that nobody answers there, or (`is_port` false) that there is no such sandbox. */
    void (*failed)(struct sg_call *c, bool is_port);
};

/* The call's route has SG_ROUTE_STREAM. */
int sg_call_reach(struct sg_call *c, struct sg_sandbox *s, const struct sg_reach_options *o,
                  struct sg_err *err);
