/* SPDX-License-Identifier: Apache-2.0 */
/* Traces: one span for each operation, to wherever the settings say.
 *
 * O1. A span goes into the spool (meter/spool.h) at the end of its operation, and nothing waits for
 *     it. It is sent from there by the exporter, a file at a time, and stays until it was taken.
 * O2. An endpoint that is away is tried again after a pause that doubles up to a minute; one that
 *     refuses a file for good gets the next.
 * O3. Commands, code and output are in a span only where the settings say so. */
#pragma once

#include "meter/span.h"

struct sg_code_run;
struct sg_err;
struct sg_exec;
struct sg_manager;
struct sg_sandbox;
struct sg_task;

struct sg_trace_options {
    int dir_fd; /* taken */
    uint64_t max_bytes;
    const char *environment, *version; /* borrowed */
    bool has_content;
};

int sg_traces_start(struct sg_manager *m, const struct sg_trace_options *o, struct sg_err *err);
void sg_traces_free(struct sg_manager *m);
void sg_traces_link(void *manager, int fd); /* takes it: a new exporter */
bool sg_traces_want_content(const struct sg_manager *m);

struct sg_trace_counts {
    uint64_t spans, sent_files, refused_files, dropped, spooled_bytes;
};
struct sg_trace_counts sg_traces_counts(const struct sg_manager *m);

/* ---- trace.c: a finished span, as a line ---- */

void sg_traces_add(struct sg_manager *m, const struct sg_buf *line);

/* ---- trace_span.c, trace_exec.c, trace_task.c, trace_code.c: what is told of what ---- */

void sg_trace_create(struct sg_sandbox *s, const struct sg_err *err); /* err NULL: it runs */
void sg_trace_exec(struct sg_exec *x);
void sg_trace_task(struct sg_task *t);
void sg_trace_code(struct sg_code_run *r);
