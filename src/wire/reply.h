/* SPDX-License-Identifier: Apache-2.0 */
/* Heads of HTTP/1.1 replies, and server-sent events. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"

enum sg_http_framing {
    SG_HTTP_NO_BODY,     /* 1xx, 204, 304 */
    SG_HTTP_LENGTH,      /* Content-Length */
    SG_HTTP_CHUNKED,     /* Transfer-Encoding: chunked */
    SG_HTTP_UNTIL_CLOSE, /* a stream to an HTTP/1.0 client */
};

/* "Mon, 02 Jan 2006 15:04:05 GMT", made once a second. */
struct sg_http_date {
    int64_t at_s;
    char text[80]; /* 29 and a NUL, for every year that a clock shows */
};
const char *sg_http1_date(struct sg_http_date *d, int64_t unix_s);

struct sg_http_reply {
    int status;
    enum sg_http_framing framing;
    uint64_t length;
    const char *type, *date, *request_id; /* NULL: leave it out */
    struct sg_str extra;                  /* whole lines, each with its CRLF */
    const char *connection;               /* "close", "keep-alive"; NULL: as the version says */
};
void sg_http1_write_head(struct sg_buf *out, const struct sg_http_reply *r);
const char *sg_http1_reason(int status); /* "Not Found"; "Unknown" */

/* Adds "name: value CRLF"; false, adding nothing, when either could not stand in a head. */
bool sg_http1_write_field(struct sg_buf *out, const char *name, const char *value);

/* One event of text/event-stream; `id` and `event` may be NULL and hold no line end. */
void sg_sse_write(struct sg_buf *out, const char *id, const char *event, struct sg_str data);
