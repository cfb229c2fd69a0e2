/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/reply.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "wire/http1.h"
#include "base/banned.h"

static const struct {
    int status;
    const char *reason;
} reasons[] = {
    { 200, "OK" },
    { 201, "Created" },
    { 204, "No Content" },
    { 101, "Switching Protocols" },
    { 202, "Accepted" },
    { 206, "Partial Content" },
    { 304, "Not Modified" },
    { 400, "Bad Request" },
    { 401, "Unauthorized" },
    { 403, "Forbidden" },
    { 404, "Not Found" },
    { 405, "Method Not Allowed" },
    { 408, "Request Timeout" },
    { 409, "Conflict" },
    { 413, "Content Too Large" },
    { 414, "URI Too Long" },
    { 416, "Range Not Satisfiable" },
    { 417, "Expectation Failed" },
    { 426, "Upgrade Required" },
    { 429, "Too Many Requests" },
    { 431, "Request Header Fields Too Large" },
    { 500, "Internal Server Error" },
    { 501, "Not Implemented" },
    { 502, "Bad Gateway" },
    { 503, "Service Unavailable" },
    { 504, "Gateway Timeout" },
    { 505, "HTTP Version Not Supported" },
};

const char *sg_http1_reason(int status)
{
    for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++)
        if (reasons[i].status == status)
            return reasons[i].reason;
    return "Unknown";
}

const char *sg_http1_date(struct sg_http_date *d, int64_t unix_s)
{
    if (d->text[0] && d->at_s == unix_s)
        return d->text;
    static const char days[][4] = { "Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat" };
    static const char months[][4] = { "Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                      "Jul", "Aug", "Sep", "Oct", "Nov", "Dec" };
    const time_t t = (time_t)unix_s;
    struct tm tm = { 0 };
    (void)gmtime_r(&t, &tm);
    (void)snprintf(d->text, sizeof d->text, "%s, %02d %s %04d %02d:%02d:%02d GMT", days[tm.tm_wday],
                   tm.tm_mday, months[tm.tm_mon], tm.tm_year + 1900, tm.tm_hour, tm.tm_min,
                   tm.tm_sec);
    d->at_s = unix_s;
    return d->text;
}

static void add_number(struct sg_buf *out, uint64_t v)
{
    char digits[20], *p = digits + sizeof digits;
    do
        *--p = (char)('0' + v % 10);
    while (v /= 10);
    sg_buf_add(out, p, (size_t)(digits + sizeof digits - p));
}

static void add_line(struct sg_buf *out, const char *name, const char *value)
{
    if (!value)
        return;
    sg_buf_add_str(out, name);
    sg_buf_add_str(out, value);
    sg_buf_add(out, "\r\n", 2);
}

void sg_http1_write_head(struct sg_buf *out, const struct sg_http_reply *r)
{
    sg_buf_add_str(out, "HTTP/1.1 ");
    add_number(out, (uint64_t)r->status);
    add_line(out, " ", sg_http1_reason(r->status));
    add_line(out, "Date: ", r->date);
    add_line(out, "Content-Type: ", r->type);
    if (r->framing == SG_HTTP_LENGTH) {
        sg_buf_add_str(out, "Content-Length: ");
        add_number(out, r->length);
        sg_buf_add(out, "\r\n", 2);
    }
    if (r->framing == SG_HTTP_CHUNKED)
        sg_buf_add_str(out, "Transfer-Encoding: chunked\r\n");
    add_line(out, "Connection: ", r->connection);
    add_line(out, "X-Request-Id: ", r->request_id);
    sg_buf_add(out, r->extra.p, r->extra.n);
    sg_buf_add(out, "\r\n", 2);
}

bool sg_http1_write_field(struct sg_buf *out, const char *name, const char *value)
{
    if (!name[0] || !sg_http1_all(sg_str_of(name), SG_HTTP_TOKEN) ||
        !sg_http1_all(sg_str_of(value), SG_HTTP_VALUE))
        return false;
    sg_buf_add_str(out, name);
    add_line(out, ": ", value);
    return true;
}

static void add_sse_line(struct sg_buf *out, const char *name, const char *value)
{
    if (!value)
        return;
    sg_buf_add_str(out, name);
    sg_buf_add_str(out, value);
    sg_buf_add(out, "\n", 1);
}

/* CR, LF and CRLF each end a line of the stream, so each starts a data line of its own. */
void sg_sse_write(struct sg_buf *out, const char *id, const char *event, struct sg_str data)
{
    add_sse_line(out, "id: ", id);
    add_sse_line(out, "event: ", event);
    size_t at = 0;
    do {
        size_t end = at;
        while (end < data.n && data.p[end] != '\n' && data.p[end] != '\r')
            end++;
        sg_buf_add_str(out, "data: ");
        sg_buf_add(out, data.p + at, end - at);
        sg_buf_add(out, "\n", 1);
        bool is_pair = end + 1 < data.n && data.p[end] == '\r' && data.p[end + 1] == '\n';
        at = end + (is_pair ? 2 : 1);
    } while (at < data.n);
    sg_buf_add(out, "\n", 1);
}
