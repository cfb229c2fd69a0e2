/* SPDX-License-Identifier: Apache-2.0 */
/* Output of an exec, as lines of NDJSON: on our own stdout and stderr, or kept. */
#pragma once

#include "cli/api.h"

struct sg_output {
    bool shows_lines;                 /* the lines themselves, on stdout */
    struct sg_buf *out, *err;         /* keep the bytes here instead; NULL: show them */
    int watch_fd;                     /* -1, or: */
    void (*ready)(void *arg, int fd); /* ... called when it can be read */
    void *arg;
    /* what is found */
    bool has_ended;     /* false: the exec goes on, or its sandbox is gone */
    uint64_t truncated; /* bytes that are no longer kept */
    struct sg_buf end;  /* the exec as JSON, once it has ended */
};
void sg_output_init(struct sg_output *o);
void sg_output_done(struct sg_output *o);

/* Reads the answer that was received to its end. */
int sg_output_run(struct sg_output *o, struct sg_api *a, struct sg_err *err);

/* What `run` would exit with for an exec that ended so. */
int sg_exec_exit_code(const struct sg_jval *exec);

#define sg_auto_output __attribute__((cleanup(sg_output_done))) struct sg_output
