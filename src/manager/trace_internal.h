/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/buf.h"
#include "manager/manager_internal.h"
#include "manager/trace.h"
#include "meter/spool.h"

struct sg_traces {
    struct sg_manager *m;
    struct sg_spool *spool; /* owned */
    struct sg_peer *peer;   /* owned: the exporter; NULL: it is being started */
    struct sg_timer timer;  /* when the next file goes */
    uint64_t pause_ns, sending;
    bool is_sending, has_content;
    char *environment, *version; /* owned */
    char last_why[256];
    struct sg_trace_counts counts;
};

/* What a span tells, whatever it is of. */
struct sg_told {
    struct sg_trace_span span;
    const char *tool; /* NULL: no tool was executed */
    const char *org, *sandbox, *template, *tier, *operation, *rule, *agent;
    const char *user, *session; /* whose it is, as the sandbox's metadata say; NULL: ours */
    const char *ending;
    const struct sg_sandbox_limits *limits;
    const struct sg_amounts *amounts;
    const char *input, *output; /* JSON, or NULL */
    int64_t exit_code;          /* -1: there is none */
};

/* ---- trace_span.c ---- */

struct sg_told sg_told_of(struct sg_sandbox *s); /* what all spans of a sandbox have */
void sg_told_tell(struct sg_manager *m, struct sg_told *t);
/* The beginning of a command, as JSON; returns owned. */
char *sg_told_argv(char *const *argv);
/* How something ended, and what it said (`output`: one of each stream, or NULL); returns owned. */
char *sg_told_end(const char *ending, int64_t code, const struct sg_buf *output);
