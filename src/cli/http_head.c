/* SPDX-License-Identifier: Apache-2.0 */
/* Heads of replies. Strict where two readings would differ: two lengths, a length beside chunks. */
#include <string.h>

#include "base/parse.h"
#include "cli/http.h"
#include "wire/http1.h"
#include "base/banned.h"

static int read_status(struct sg_str line, struct sg_reply_head *h, struct sg_err *err)
{
    uint64_t status;
    static const char version[] = "HTTP/1.";
    const size_t n = strlen(version);
    const bool is_one = line.n >= n + 5 && memcmp(line.p, version, n) == 0 &&
                        (line.p[n] == '0' || line.p[n] == '1') && line.p[n + 1] == ' ' &&
                        (line.n == n + 5 || line.p[n + 5] == ' ');
    if (!is_one || sg_parse_u64((struct sg_str) { line.p + n + 2, 3 }, 100, 599, &status, NULL) < 0)
        return sg_fail(err, SG_INVALID, "the reply is not HTTP/1.1: it begins with %s",
                       sg_quote_str(line).s);
    h->status = (int)status;
    h->closes = line.p[n] == '0';
    return 0;
}

static struct sg_str trimmed(const char *p, const char *end)
{
    while (p < end && (*p == ' ' || *p == '\t'))
        p++;
    while (end > p && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    return (struct sg_str) { p, (size_t)(end - p) };
}

static int read_field(struct sg_str name, struct sg_str value, struct sg_reply_head *h,
                      struct sg_err *err)
{
    if (sg_http1_same(name, "Content-Length")) {
        if (h->has_length || sg_parse_u64(value, 0, UINT64_MAX - 1, &h->length, NULL) < 0)
            return sg_fail(err, SG_INVALID, "the length of the reply is not a single number");
        h->has_length = true;
    } else if (sg_http1_same(name, "Transfer-Encoding")) {
        if (h->is_chunked || !sg_http1_same(value, "chunked"))
            return sg_fail(err, SG_INVALID, "the reply is encoded as %s", sg_quote_str(value).s);
        h->is_chunked = true;
    } else if (sg_http1_same(name, "Connection")) {
        h->closes = h->closes || sg_http1_has_token(value, "close");
    } else if (sg_http1_same(name, "Upgrade")) {
        h->is_upgrade = sg_http1_same(value, "websocket") || sg_http1_same(value, "tcp");
    }
    return 0;
}

int sg_reply_head_parse(struct sg_str text, struct sg_reply_head *ret, struct sg_err *err)
{
    struct sg_reply_head h = { 0 };
    bool is_first = true;
    for (const char *p = text.p, *end = text.p + text.n; p < end;) {
        const char *eol = memmem(p, (size_t)(end - p), "\r\n", 2);
        if (!eol || memchr(p, '\0', (size_t)(eol - p)))
            return sg_fail(err, SG_INVALID, "the head of the reply is cut");
        const char *colon = memchr(p, ':', (size_t)(eol - p));
        if (is_first && read_status((struct sg_str) { p, (size_t)(eol - p) }, &h, err) < 0)
            return -1;
        if (!is_first && p == eol)
            break;
        struct sg_str name = { p, colon ? (size_t)(colon - p) : 0 };
        if (!is_first && (!name.n || !sg_http1_all(name, SG_HTTP_TOKEN)))
            return sg_fail(err, SG_INVALID, "a line of the reply is no field");
        if (!is_first && read_field(name, trimmed(colon + 1, eol), &h, err) < 0)
            return -1;
        is_first = false;
        p = eol + 2;
    }
    if (is_first || (h.has_length && h.is_chunked))
        return sg_fail(err, SG_INVALID, "the reply has no head, or two lengths");
    h.is_upgrade = h.is_upgrade && h.status == 101;
    *ret = h;
    return 0;
}
