/* SPDX-License-Identifier: Apache-2.0 */
/* The route table of a door: one row a route. schema/openapi.json describes the same rows, and a
 * test compares them. */
#pragma once

#include "api/call.h"

enum {
    SG_ROUTE_OPEN = 1,     /* no key needed */
    SG_ROUTE_STREAM = 2,   /* the body comes in pieces: on_body */
    SG_ROUTE_OPERATOR = 4, /* the machine's operator only */
    SG_ROUTE_NO_QUERY = 8, /* every query name is refused; others look at theirs themselves */
    SG_ROUTE_LARGE = 16,   /* a whole body of up to SG_CALL_MAX_LARGE */
};

struct sg_route {
    enum sg_method method;
    const char *path; /* "/v1/sandboxes/{id}/pause" */
    unsigned scope;   /* enum sg_scope that the key needs */
    unsigned flags;
    int (*handle)(struct sg_call *c, struct sg_err *err);
    const char *summary; /* one line, for the schema */
};

struct sg_route_table {
    const struct sg_route *v;
    size_t n;
};
extern const struct sg_route_table sg_rest_routes; /* api/rest/ */
extern const struct sg_route_table sg_e2b_routes;  /* api/e2b/ */
extern const struct sg_route_table sg_base_routes; /* health, metrics: api/base.c */
