/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/1.1 request heads: from bytes that come in any pieces to a table of spans.
 *
 * H1. One reading only. What two implementations could understand differently is refused: a line
 *     end that is not CRLF, a folded line, white space around a field's name, a second Host or
 *     Content-Length, a list as length, Transfer-Encoding that is not exactly "chunked" or stands
 *     beside Content-Length, an absolute target whose authority is not the Host.
 * H2. The result depends on the bytes, never on how they were cut.
 * H3. Spans are offsets from the first byte of the head, so that the buffer may move meanwhile.
 * H4. Everything is bounded: the head, the target, the number of fields. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

enum {
    SG_HTTP_MAX_HEAD = 64 << 10,
    SG_HTTP_MAX_TARGET = 16 << 10,
    SG_HTTP_MAX_FIELDS = 128,
    SG_HTTP_MAX_METHOD = 32,
};

struct sg_span {
    uint32_t at, n;
};
struct sg_http_field {
    struct sg_span name, value; /* value without white space around it */
};

struct sg_http_head {
    struct sg_span method, target;
    struct sg_span path, query; /* of the target; still percent-encoded; query without '?' */
    struct sg_span host;        /* n 0: HTTP/1.0 without one, or empty */
    unsigned minor;             /* HTTP/1.minor: 0 or 1 */
    uint64_t content_length;
    bool has_length, is_chunked;
    bool wants_close, wants_keep_alive, wants_upgrade; /* from Connection */
    bool expects_continue;
    int status; /* of the refusal, when parsing failed: 400, 414, 417, 431, 501, 505 */
    /* the parser's own */
    bool has_request_line, has_host, has_skipped_line;
    uint32_t line, scanned;
    unsigned field_count;
    struct sg_http_field fields[SG_HTTP_MAX_FIELDS];
};

void sg_http1_init(struct sg_http_head *h);

/* `p` is the head from its first byte on, `n` what there is of it by now; every call brings the
 * same bytes again and perhaps more. Returns the length of the complete head, 0 when it is not
 * complete, or -1 with h->status set. */
int sg_http1_parse(struct sg_http_head *h, const char *p, size_t n, struct sg_err *err);

static inline struct sg_str sg_span_str(struct sg_span s, const char *head)
{
    return (struct sg_str) { head + s.at, s.n };
}

/* The first field of that name (any case); NULL: there is none. */
const struct sg_http_field *sg_http1_find(const struct sg_http_field *v, unsigned count,
                                          const char *head, const char *name);

/* Whether a comma-separated list has the token, in any case. */
bool sg_http1_has_token(struct sg_str list, const char *token);
bool sg_http1_same(struct sg_str a, const char *b); /* in any case */

/* Which bytes may be where. */
enum { SG_HTTP_TOKEN = 1, SG_HTTP_TARGET = 2, SG_HTTP_VALUE = 4, SG_HTTP_HOST = 8 };
extern const uint8_t sg_http_class[256];
bool sg_http1_all(struct sg_str s, unsigned class);
