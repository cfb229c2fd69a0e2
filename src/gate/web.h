/* SPDX-License-Identifier: Apache-2.0 */
/* The requests of one HTTP/1 connection, followed from head to head: each names its host, and a
 * connection that was let through for one name must not ask for another. Only what has been read
 * as part of such a request goes on. */
#pragma once

#include "base/buf.h"
#include "net/policy.h"
#include "wire/chunked.h"
#include "wire/http1.h"

struct sg_web;

enum { SG_WEB_PIECE = 64 << 10 }; /* what may be fed at a time */

enum sg_web_got {
    SG_WEB_ON,     /* `out` has what may go on */
    SG_WEB_ASKED,  /* the same; and then nothing until it is known whether the server upgrades */
    SG_WEB_REFUSED /* `v` says why */
};

/* `check` judges a host as it was sent. */
struct sg_web *sg_web_new(void (*check)(void *arg, struct sg_str host, struct sg_netverdict *v),
                          void *arg);
void sg_web_free(struct sg_web *w);

/* Takes all of the bytes; after ASKED none may come before sg_web_answered(). */
enum sg_web_got sg_web_feed(struct sg_web *w, const uint8_t *p, size_t n, struct sg_buf *out,
                            struct sg_netverdict *v);
/* Whether the server has switched protocols: from then on everything goes on. What had come behind
 * the request is fed now. */
enum sg_web_got sg_web_answered(struct sg_web *w, bool is_upgraded, struct sg_buf *out,
                                struct sg_netverdict *v);
