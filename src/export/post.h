/* SPDX-License-Identifier: Apache-2.0 */
/* One request: a file of spans as OTLP's JSON, to where the settings say. */
#pragma once

#include "base/buf.h"
#include "config/endpoint.h"
#include "net/addr.h"

enum { SG_POST_SERVERS_MAX = 4, SG_POST_ADDRS_MAX = 16, SG_POST_BODY_MAX = 4 << 20 };

struct sg_post_options { /* all borrowed; read while the files could be seen */
    struct sg_endpoint to;
    char *headers[SG_HEADERS_MAX];
    unsigned header_count;
    struct sg_str ca; /* PEM; empty: no TLS */
    char *servers[SG_POST_SERVERS_MAX];
    size_t server_count;
    const char *hosts; /* of hosts(5) */
    const char *host_name;
};

enum sg_post_verdict { SG_POST_TAKEN, SG_POST_LATER, SG_POST_REFUSED };
struct sg_post_result {
    enum sg_post_verdict verdict;
    uint32_t status;  /* of HTTP; 0: there was none */
    uint32_t wait_ms; /* that the other side asked for; 0: it did not */
    char why[200];    /* without secrets */
};

/* ---- post.c ---- */

int sg_post_init(struct sg_err *err); /* before the confinement */
/* Blocks, for half a minute at most. `body` is what is sent. */
void sg_post(const struct sg_post_options *o, struct sg_str body, struct sg_post_result *ret);

/* ---- body.c ---- */

/* The lines of `text` that are whole, in one document; what has no end is left out. Returns how
 * many. */
unsigned sg_body_format(struct sg_str text, const char *host_name, struct sg_buf *out);

/* ---- find.c ---- */

/* Addresses of `to`: as it is written, by hosts(5), or by the name servers. Blocks for some
 * seconds at most. Returns how many, or -1 (SG_UNAVAILABLE). */
int sg_find(const struct sg_post_options *o, struct sg_addr *ret, unsigned max, struct sg_err *err);
