/* SPDX-License-Identifier: Apache-2.0 */
/* The head is read line by line, each as soon as its LF is there; so an error shows at the end of
 * its line at the latest, and no byte is looked at twice however slowly they come. */
#include "wire/http1.h"

#include <string.h>
#include <strings.h>

#include "base/parse.h"
#include "base/banned.h"

#define VISIBLE (SG_HTTP_TARGET | SG_HTTP_VALUE)
#define TOKEN   (SG_HTTP_TOKEN | VISIBLE)
#define NAME    (SG_HTTP_HOST | TOKEN)

/* RFC 9110 5.6.2 and 5.5; a target may have any visible byte but the mark of a fragment. */
const uint8_t sg_http_class[256] = {
    ['\t'] = SG_HTTP_VALUE,
    [' '] = SG_HTTP_VALUE,
    ['!'] = TOKEN,
    ['"'] = VISIBLE,
    ['#'] = SG_HTTP_TOKEN | SG_HTTP_VALUE,
    ['$'] = TOKEN,
    ['%'] = NAME,
    ['&' ... '\''] = TOKEN,
    ['(' ... ')'] = VISIBLE,
    ['*' ... '+'] = TOKEN,
    [','] = VISIBLE,
    ['-' ... '.'] = NAME,
    ['/'] = VISIBLE,
    ['0' ... '9'] = NAME,
    [':'] = VISIBLE | SG_HTTP_HOST,
    [';' ... '@'] = VISIBLE,
    ['A' ... 'Z'] = NAME,
    ['['] = VISIBLE | SG_HTTP_HOST,
    ['\\'] = VISIBLE,
    [']'] = VISIBLE | SG_HTTP_HOST,
    ['^'] = TOKEN,
    ['_'] = NAME,
    ['`'] = TOKEN,
    ['a' ... 'z'] = NAME,
    ['{'] = VISIBLE,
    ['|'] = TOKEN,
    ['}'] = VISIBLE,
    ['~'] = NAME,
    [0x80 ... 0xff] = SG_HTTP_VALUE,
};

bool sg_http1_all(struct sg_str s, unsigned class)
{
    unsigned common = class;
    for (size_t i = 0; i < s.n; i++)
        common &= sg_http_class[(uint8_t)s.p[i]];
    return common == class;
}

bool sg_http1_same(struct sg_str a, const char *b)
{
    size_t n = strlen(b);
    return a.n == n && strncasecmp(a.p, b, n) == 0;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static struct sg_str trim(struct sg_str s)
{
    while (s.n && is_blank(s.p[0])) {
        s.p++;
        s.n--;
    }
    while (s.n && is_blank(s.p[s.n - 1]))
        s.n--;
    return s;
}

bool sg_http1_has_token(struct sg_str list, const char *token)
{
    while (list.n) {
        const char *comma = memchr(list.p, ',', list.n);
        size_t n = comma ? (size_t)(comma - list.p) : list.n;
        if (sg_http1_same(trim((struct sg_str) { list.p, n }), token))
            return true;
        n += comma ? 1 : 0;
        list.p += n;
        list.n -= n;
    }
    return false;
}

const struct sg_http_field *sg_http1_find(const struct sg_http_field *v, unsigned count,
                                          const char *head, const char *name)
{
    size_t n = strlen(name);
    for (unsigned i = 0; i < count; i++)
        if (v[i].name.n == n && strncasecmp(head + v[i].name.at, name, n) == 0)
            return &v[i];
    return NULL;
}

void sg_http1_init(struct sg_http_head *h)
{
    memset(h, 0, offsetof(struct sg_http_head, fields)); /* the fields are behind their count */
}

#define refuse(h, code, err, ...) ((h)->status = (code), sg_fail(err, SG_INVALID, __VA_ARGS__))

/* ---- fields that say how the message is framed ---- */

static int on_host(struct sg_http_head *h, struct sg_str value, struct sg_err *err)
{
    if (h->has_host)
        return refuse(h, 400, err, "more than one Host");
    if (!sg_http1_all(value, SG_HTTP_HOST))
        return refuse(h, 400, err, "Host %s is none", sg_quote_str(value).s);
    h->has_host = true;
    h->host = h->fields[h->field_count - 1].value;
    return 0;
}

static int on_length(struct sg_http_head *h, struct sg_str value, struct sg_err *err)
{
    if (h->has_length)
        return refuse(h, 400, err, "more than one Content-Length");
    if (sg_parse_u64(value, 0, INT64_MAX, &h->content_length, NULL) < 0)
        return refuse(h, 400, err, "Content-Length %s is no length", sg_quote_str(value).s);
    h->has_length = true;
    return 0;
}

static int on_transfer(struct sg_http_head *h, struct sg_str value, struct sg_err *err)
{
    if (h->is_chunked)
        return refuse(h, 400, err, "more than one Transfer-Encoding");
    if (!sg_http1_same(value, "chunked"))
        return refuse(h, 501, err, "Transfer-Encoding %s is not supported", sg_quote_str(value).s);
    h->is_chunked = true;
    return 0;
}

static int on_connection(struct sg_http_head *h, struct sg_str value, struct sg_err *err)
{
    (void)err;
    h->wants_close = h->wants_close || sg_http1_has_token(value, "close");
    h->wants_keep_alive = h->wants_keep_alive || sg_http1_has_token(value, "keep-alive");
    h->wants_upgrade = h->wants_upgrade || sg_http1_has_token(value, "upgrade");
    return 0;
}

static int on_expect(struct sg_http_head *h, struct sg_str value, struct sg_err *err)
{
    if (!sg_http1_same(value, "100-continue"))
        return refuse(h, 417, err, "Expect %s is not supported", sg_quote_str(value).s);
    h->expects_continue = true;
    return 0;
}

static const struct {
    struct sg_str name;
    int (*found)(struct sg_http_head *h, struct sg_str value, struct sg_err *err);
} framing[] = {
    { { "host", 4 }, on_host },
    { { "content-length", 14 }, on_length },
    { { "transfer-encoding", 17 }, on_transfer },
    { { "connection", 10 }, on_connection },
    { { "expect", 6 }, on_expect },
};

/* ---- lines ---- */

static int field_line(struct sg_http_head *h, const char *p, struct sg_span line,
                      struct sg_err *err)
{
    struct sg_str text = sg_span_str(line, p);
    if (is_blank(text.p[0]))
        return refuse(h, 400, err, "a folded header line");
    if (h->field_count == SG_HTTP_MAX_FIELDS)
        return refuse(h, 431, err, "more than %d header fields", SG_HTTP_MAX_FIELDS);
    const char *colon = memchr(text.p, ':', text.n);
    struct sg_str name = { text.p, colon ? (size_t)(colon - text.p) : 0 };
    if (!name.n || !sg_http1_all(name, SG_HTTP_TOKEN))
        return refuse(h, 400, err, "header line %s has no name", sg_quote_str(text).s);
    struct sg_str value = trim((struct sg_str) { colon + 1, text.n - name.n - 1 });
    if (!sg_http1_all(value, SG_HTTP_VALUE))
        return refuse(h, 400, err, "control byte in header %s", sg_quote_str(name).s);
    h->fields[h->field_count++] = (struct sg_http_field) {
        .name = { line.at, (uint32_t)name.n },
        .value = { (uint32_t)(value.p - p), (uint32_t)value.n },
    };
    for (size_t i = 0; i < sizeof framing / sizeof framing[0]; i++)
        if (framing[i].name.n == name.n && strncasecmp(framing[i].name.p, name.p, name.n) == 0)
            return framing[i].found(h, value, err);
    return 0;
}

/* Cuts path and query; `at` is where the path begins in the target. */
static void split_target(struct sg_http_head *h, const char *p, uint32_t at)
{
    uint32_t end = h->target.at + h->target.n;
    const char *mark = memchr(p + at, '?', end - at);
    uint32_t path_end = mark ? (uint32_t)(mark - p) : end;
    h->path = (struct sg_span) { at, path_end - at };
    h->query = (struct sg_span) { mark ? path_end + 1 : end, mark ? end - path_end - 1 : 0 };
}

/* Where the authority of "http://authority/path" begins in the target; 0: not that form. */
static uint32_t authority_at(struct sg_str target)
{
    static const struct sg_str schemes[] = { { "http://", 7 }, { "https://", 8 } };
    for (size_t i = 0; i < 2; i++)
        if (target.n > schemes[i].n && strncasecmp(target.p, schemes[i].p, schemes[i].n) == 0)
            return (uint32_t)schemes[i].n;
    return 0;
}

static int target_form(struct sg_http_head *h, const char *p, struct sg_err *err)
{
    struct sg_str target = sg_span_str(h->target, p);
    if (target.n > SG_HTTP_MAX_TARGET)
        return refuse(h, 414, err, "request target over %d bytes", SG_HTTP_MAX_TARGET);
    if (!target.n || !sg_http1_all(target, SG_HTTP_TARGET))
        return refuse(h, 400, err, "request target %s is none", sg_quote_str(target).s);
    if (target.p[0] == '/' ||
        (sg_str_is(target, "*") && sg_str_is(sg_span_str(h->method, p), "OPTIONS"))) {
        split_target(h, p, h->target.at);
        return 0;
    }
    uint32_t authority = authority_at(target);
    const char *slash = authority ? memchr(target.p + authority, '/', target.n - authority) : NULL;
    struct sg_str name = { target.p + authority,
                           slash ? (size_t)(slash - target.p) - authority : 0 };
    if (!name.n || !sg_http1_all(name, SG_HTTP_HOST))
        return refuse(h, 400, err, "request target %s is no path", sg_quote_str(target).s);
    split_target(h, p, (uint32_t)(slash - p));
    return 0;
}

static int request_line(struct sg_http_head *h, const char *p, struct sg_span line,
                        struct sg_err *err)
{
    struct sg_str text = sg_span_str(line, p);
    const char *first = memchr(text.p, ' ', text.n);
    const char *last = memrchr(text.p, ' ', text.n);
    if (!first || first == last)
        return refuse(h, 400, err, "request line %s is none", sg_quote_str(text).s);
    struct sg_str method = { text.p, (size_t)(first - text.p) };
    struct sg_str version = { last + 1, text.n - (size_t)(last + 1 - text.p) };
    if (!method.n || method.n > SG_HTTP_MAX_METHOD || !sg_http1_all(method, SG_HTTP_TOKEN))
        return refuse(h, 400, err, "request method %s is none", sg_quote_str(method).s);
    if (version.n != 8 || memcmp(version.p, "HTTP/", 5) != 0)
        return refuse(h, 400, err, "request line does not end in a version");
    if (!sg_str_is(version, "HTTP/1.1") && !sg_str_is(version, "HTTP/1.0"))
        return refuse(h, 505, err, "version %s is not supported", sg_quote_str(version).s);
    h->minor = version.p[7] == '1';
    h->method = (struct sg_span) { line.at, (uint32_t)method.n };
    h->target = (struct sg_span) { (uint32_t)(first + 1 - p), (uint32_t)(last - first - 1) };
    h->has_request_line = true;
    return target_form(h, p, err);
}

/* What can be said only when all lines are there. */
static int head_end(struct sg_http_head *h, const char *p, struct sg_err *err)
{
    if (h->minor == 1 && !h->has_host)
        return refuse(h, 400, err, "Host is missing");
    if (h->is_chunked && h->has_length)
        return refuse(h, 400, err, "Content-Length beside Transfer-Encoding");
    if (h->is_chunked && h->minor == 0)
        return refuse(h, 400, err, "Transfer-Encoding in HTTP/1.0");
    struct sg_str target = sg_span_str(h->target, p), host = sg_span_str(h->host, p);
    uint32_t at = authority_at(target);
    uint32_t n = h->path.at - h->target.at - at;
    if (at && h->has_host && (host.n != n || strncasecmp(host.p, target.p + at, n) != 0))
        return refuse(h, 400, err, "request target and Host name different servers");
    return 0;
}

/* 1: that was the line that ends the head; 0: go on. */
static int take_line(struct sg_http_head *h, const char *p, uint32_t lf, struct sg_err *err)
{
    if (lf == h->line || p[lf - 1] != '\r')
        return refuse(h, 400, err, "a line that does not end in CRLF");
    struct sg_span line = { h->line, lf - 1 - h->line };
    h->line = lf + 1;
    if (line.n)
        return h->has_request_line ? field_line(h, p, line, err) : request_line(h, p, line, err);
    if (h->has_request_line)
        return head_end(h, p, err) < 0 ? -1 : 1;
    if (h->has_skipped_line)
        return refuse(h, 400, err, "empty lines before the request");
    h->has_skipped_line = true; /* RFC 9112 2.2: some send one after a body */
    return 0;
}

int sg_http1_parse(struct sg_http_head *h, const char *p, size_t n, struct sg_err *err)
{
    uint32_t limit = n < SG_HTTP_MAX_HEAD ? (uint32_t)n : SG_HTTP_MAX_HEAD;
    /* Another protocol's greeting need not be waited for. */
    if (n && p[0] != '\r' && !(sg_http_class[(uint8_t)p[0]] & SG_HTTP_TOKEN))
        return refuse(h, 400, err, "this is not HTTP");
    while (h->scanned < limit) {
        const char *lf = memchr(p + h->scanned, '\n', limit - h->scanned);
        h->scanned = lf ? (uint32_t)(lf - p) + 1 : limit;
        int done = lf ? take_line(h, p, h->scanned - 1, err) : 0;
        if (done)
            return done < 0 ? -1 : (int)h->scanned;
    }
    if (limit < SG_HTTP_MAX_HEAD)
        return 0;
    if (!h->has_request_line)
        return refuse(h, 414, err, "request line over %d bytes", SG_HTTP_MAX_HEAD);
    return refuse(h, 431, err, "request head over %d bytes", SG_HTTP_MAX_HEAD);
}
