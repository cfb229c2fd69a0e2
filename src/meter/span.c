/* SPDX-License-Identifier: Apache-2.0 */
#include "meter/span.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/banned.h"

enum { KIND_INTERNAL = 1, STATUS_OK = 1, STATUS_ERROR = 2 };
#define FNV_PRIME UINT64_C(0x100000001b3)
#define FNV_TRACE UINT64_C(0xcbf29ce484222325)
#define FNV_MORE  UINT64_C(0x9ae16a3b2f90404f) /* any other beginning: the second half */
#define FNV_SPAN  UINT64_C(0xc3a5c85c97cb3127)

/* ---- ids ---- */

/* FNV-1a: our ids are random already, this spreads them over the bytes. */
static void spread(const char *id, uint64_t from, uint8_t to[8])
{
    uint64_t h = from;
    for (const char *c = id; *c; c++)
        h = (h ^ (uint8_t)*c) * FNV_PRIME;
    h ^= h >> 29;
    for (unsigned i = 0; i < 8; i++)
        to[i] = (uint8_t)(h >> 8 * i);
    to[0] |= 1; /* an id of zeros is none */
}

struct sg_trace sg_trace_below(const struct sg_trace *of, const char *id)
{
    struct sg_trace t = *of;
    if (!of->is_set) {
        spread(id, FNV_TRACE, t.trace);
        spread(id, FNV_MORE, t.trace + 8);
    }
    spread(id, FNV_SPAN, t.parent);
    t.is_set = true;
    return t;
}

static void put_hex(char *to, const uint8_t *p, size_t n)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < n; i++) {
        to[2 * i] = digits[p[i] >> 4];
        to[2 * i + 1] = digits[p[i] & 15];
    }
    to[2 * n] = '\0';
}

/* Lower case only, as the standard wants it. */
static bool take_hex(const char *from, uint8_t *to, size_t n)
{
    uint8_t any = 0;
    for (size_t i = 0; i < 2 * n; i++) {
        const char c = from[i];
        const int v = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
        if (v < 0)
            return false;
        to[i / 2] = (uint8_t)(i % 2 ? to[i / 2] | v : v << 4);
        any |= (uint8_t)v;
    }
    return any != 0;
}

bool sg_traceparent_parse(struct sg_str text, struct sg_trace *ret)
{
    struct sg_trace t = { .is_set = true };
    static const char hex[] = "0123456789abcdef";
    if (text.n < SG_TRACEPARENT_LEN || text.p[2] != '-' || text.p[35] != '-' || text.p[52] != '-')
        return false;
    const bool is_first = memcmp(text.p, "00", 2) == 0;
    for (unsigned i = 0; i < 2; i++) /* version and flags */
        if (!memchr(hex, text.p[i], 16) || !memchr(hex, text.p[53 + i], 16))
            return false;
    if (memcmp(text.p, "ff", 2) == 0 || (is_first && text.n != SG_TRACEPARENT_LEN) ||
        (text.n > SG_TRACEPARENT_LEN && text.p[SG_TRACEPARENT_LEN] != '-'))
        return false;
    if (!take_hex(text.p + 3, t.trace, sizeof t.trace) ||
        !take_hex(text.p + 36, t.parent, sizeof t.parent))
        return false;
    *ret = t;
    return true;
}

struct sg_traceparent sg_traceparent_format(const struct sg_trace *t)
{
    struct sg_traceparent r;
    char trace[2 * SG_TRACE_BYTES + 1], parent[2 * SG_SPAN_BYTES + 1];
    put_hex(trace, t->trace, sizeof t->trace);
    put_hex(parent, t->parent, sizeof t->parent);
    (void)snprintf(r.s, sizeof r.s, "00-%s-%s-01", trace, parent);
    return r;
}

/* ---- JSON ---- */

static void put_key(struct sg_json *j, const char *key, const char *kind)
{
    sg_json_open(j, '{');
    sg_json_key(j, "key");
    sg_json_str(j, key);
    sg_json_key(j, "value");
    sg_json_open(j, '{');
    sg_json_key(j, kind);
}

static void end_key(struct sg_json *j)
{
    sg_json_close(j, '}');
    sg_json_close(j, '}');
}

static void put_time(struct sg_json *j, const char *key, int64_t ms)
{
    char text[32];
    (void)snprintf(text, sizeof text, "%" PRId64 "000000", ms > 0 ? ms : 1);
    sg_json_key(j, key);
    sg_json_str(j, text);
}

static void put_id(struct sg_json *j, const char *key, const uint8_t *p, size_t n)
{
    char text[2 * SG_TRACE_BYTES + 1];
    put_hex(text, p, n);
    sg_json_key(j, key);
    sg_json_str(j, text);
}

void sg_span_open(struct sg_json *j, const struct sg_trace_span *s)
{
    const struct sg_trace own = sg_trace_below(s->trace, s->id);
    sg_json_open(j, '{');
    put_id(j, "traceId", own.trace, sizeof own.trace);
    put_id(j, "spanId", own.parent, sizeof own.parent);
    if (s->trace->is_set)
        put_id(j, "parentSpanId", s->trace->parent, sizeof s->trace->parent);
    sg_json_key(j, "name");
    sg_json_str(j, s->name);
    sg_json_key(j, "kind");
    sg_json_u64(j, KIND_INTERNAL);
    put_time(j, "startTimeUnixNano", s->start_ms);
    put_time(j, "endTimeUnixNano", s->end_ms > s->start_ms ? s->end_ms : s->start_ms);
    sg_json_key(j, "attributes");
    sg_json_open(j, '[');
}

void sg_span_text(struct sg_json *j, const char *key, const char *value)
{
    if (!value || !*value)
        return;
    put_key(j, key, "stringValue");
    sg_json_str(j, value);
    end_key(j);
}

void sg_span_int(struct sg_json *j, const char *key, uint64_t value)
{
    char text[24];
    (void)snprintf(text, sizeof text, "%" PRIu64, value > INT64_MAX ? INT64_MAX : value);
    put_key(j, key, "intValue");
    sg_json_str(j, text);
    end_key(j);
}

void sg_span_number(struct sg_json *j, const char *key, const char *digits)
{
    put_key(j, key, "doubleValue");
    sg_json_number(j, digits);
    end_key(j);
}

void sg_span_texts(struct sg_json *j, const char *key, const char *const *values, size_t n)
{
    put_key(j, key, "arrayValue");
    sg_json_open(j, '{');
    sg_json_key(j, "values");
    sg_json_open(j, '[');
    for (size_t i = 0; i < n; i++) {
        sg_json_open(j, '{');
        sg_json_key(j, "stringValue");
        sg_json_str(j, values[i]);
        sg_json_close(j, '}');
    }
    sg_json_close(j, ']');
    sg_json_close(j, '}');
    end_key(j);
}

void sg_span_close(struct sg_json *j, const struct sg_trace_span *s)
{
    sg_json_close(j, ']');
    sg_json_key(j, "status");
    sg_json_open(j, '{');
    sg_json_key(j, "code");
    sg_json_u64(j, s->error ? STATUS_ERROR : STATUS_OK);
    if (s->error) {
        sg_json_key(j, "message");
        sg_json_str(j, s->error);
    }
    sg_json_close(j, '}');
    sg_json_close(j, '}');
}
