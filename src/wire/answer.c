/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/answer.h"

#include <string.h>

#include "base/parse.h"
#include "base/banned.h"

/* The line at `at`, without its end; false: it has none yet. */
static bool next_line(const char *p, size_t n, size_t *inout_at, struct sg_span *ret)
{
    const char *end = *inout_at < n ? memchr(p + *inout_at, '\n', n - *inout_at) : NULL;
    if (!end)
        return false;
    size_t length = (size_t)(end - p) - *inout_at;
    *ret = (struct sg_span) { (uint32_t)*inout_at, (uint32_t)length };
    *inout_at += length + 1;
    if (ret->n && p[ret->at + ret->n - 1] == '\r')
        ret->n--;
    return true;
}

/* "HTTP/1.1 200 OK"; the reason may be missing. */
static int parse_status(struct sg_http_answer *a, struct sg_str line, struct sg_err *err)
{
    uint64_t status;
    if (line.n < 12 || memcmp(line.p, "HTTP/1.", 7) != 0 || line.p[8] != ' ' ||
        (line.n > 12 && line.p[12] != ' ') ||
        sg_parse_u64((struct sg_str) { line.p + 9, 3 }, 100, 599, &status, NULL) < 0)
        return sg_fail(err, SG_INVALID, "the answer is no HTTP/1");
    a->status = (int)status;
    return 0;
}

static int note_framing(struct sg_http_answer *a, struct sg_str name, struct sg_str value,
                        struct sg_err *err)
{
    uint64_t length;
    if (sg_http1_same(name, "transfer-encoding")) {
        a->is_chunked = sg_http1_same(value, "chunked");
        if (!a->is_chunked && !sg_http1_same(value, "identity"))
            return sg_fail(err, SG_INVALID, "the answer has a coding that nobody asked for");
    } else if (sg_http1_same(name, "content-length")) {
        if (sg_parse_u64(value, 0, INT64_MAX, &length, NULL) < 0 ||
            (a->has_length && a->length != length))
            return sg_fail(err, SG_INVALID, "the answer has no sensible length");
        a->has_length = true;
        a->length = length;
    }
    return 0;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static int parse_field(struct sg_http_answer *a, const char *p, struct sg_span line,
                       struct sg_err *err)
{
    const char *colon = memchr(p + line.at, ':', line.n);
    struct sg_span name = { line.at, colon ? (uint32_t)(colon - p) - line.at : 0 };
    struct sg_span value = { name.at + name.n + 1, line.n - name.n - (colon ? 1 : 0) };
    if (!name.n || !sg_http1_all(sg_span_str(name, p), SG_HTTP_TOKEN))
        return sg_fail(err, SG_INVALID, "the answer has a line that is no field");
    while (value.n && is_blank(p[value.at])) {
        value.at++;
        value.n--;
    }
    while (value.n && is_blank(p[value.at + value.n - 1]))
        value.n--;
    if (!sg_http1_all(sg_span_str(value, p), SG_HTTP_VALUE))
        return sg_fail(err, SG_INVALID, "the answer has a field with control characters");
    if (a->field_count == SG_HTTP_MAX_FIELDS)
        return sg_fail(err, SG_INVALID, "the answer has over %d fields", SG_HTTP_MAX_FIELDS);
    a->fields[a->field_count++] = (struct sg_http_field) { name, value };
    return note_framing(a, sg_span_str(name, p), sg_span_str(value, p), err);
}

/* Whether all lines are there: the end of a head is cheap to look for, and its fields are only
 * looked at once. */
static bool is_whole(const char *p, size_t n)
{
    size_t at = 0;
    struct sg_span line;
    while (next_line(p, n, &at, &line))
        if (!line.n)
            return true;
    return false;
}

int sg_answer_parse(struct sg_http_answer *a, const char *p, size_t n, struct sg_err *err)
{
    size_t at = 0;
    struct sg_span line = { 0 };
    if (n > SG_HTTP_MAX_HEAD)
        n = SG_HTTP_MAX_HEAD;
    if (!is_whole(p, n))
        return n < SG_HTTP_MAX_HEAD ? 0 : sg_fail(err, SG_INVALID, "the answer's head is too long");
    a->status = 0;
    a->has_length = a->is_chunked = false;
    a->length = 0;
    a->field_count = 0;
    (void)next_line(p, n, &at, &line);
    if (parse_status(a, sg_span_str(line, p), err) < 0)
        return -1;
    while (next_line(p, n, &at, &line) && line.n)
        if (parse_field(a, p, line, err) < 0)
            return -1;
    return (int)at;
}
