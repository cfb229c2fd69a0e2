/* SPDX-License-Identifier: Apache-2.0 */
/* One span of a trace as a line of OTLP's JSON (opentelemetry-proto, trace.proto: ids are
 * hexadecimal, 64-bit numbers are texts), and the W3C header that says which trace it belongs to.
 *
 * Ids come from the id of what is told of, not by chance: a span that is told twice because of a
 * kill -9 in between is the same span. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/json.h"
#include "base/str.h"

enum { SG_TRACE_BYTES = 16, SG_SPAN_BYTES = 8, SG_TRACEPARENT_LEN = 55 };

struct sg_trace { /* where a span belongs */
    uint8_t trace[SG_TRACE_BYTES], parent[SG_SPAN_BYTES];
    bool is_set; /* false: it begins a trace of its own */
};

/* "00-32 hex-16 hex-2 hex"; later versions may have more behind it. False: none, or all zeros. */
bool sg_traceparent_parse(struct sg_str text, struct sg_trace *ret);
struct sg_traceparent {
    char s[SG_TRACEPARENT_LEN + 1];
};
struct sg_traceparent sg_traceparent_format(const struct sg_trace *t);

/* For what is done as a part of `id`, which itself is in `of`. */
struct sg_trace sg_trace_below(const struct sg_trace *of, const char *id);

struct sg_trace_span {
    const char *id, *name;        /* id: of what it tells of */
    const struct sg_trace *trace; /* where it belongs */
    int64_t start_ms, end_ms;     /* unix */
    const char *error;            /* NULL: all went well */
};
/* Begins the object and its list of attributes; those follow; then the end of both. */
void sg_span_open(struct sg_json *j, const struct sg_trace_span *s);
void sg_span_text(struct sg_json *j, const char *key, const char *value); /* "" or NULL: left out */
void sg_span_int(struct sg_json *j, const char *key, uint64_t value);
void sg_span_number(struct sg_json *j, const char *key, const char *digits);
void sg_span_texts(struct sg_json *j, const char *key, const char *const *values, size_t n);
void sg_span_close(struct sg_json *j, const struct sg_trace_span *s);
