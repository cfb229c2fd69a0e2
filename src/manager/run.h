/* SPDX-License-Identifier: Apache-2.0 */
/* One command of our own in a sandbox, from its start to its end, its output line by line. */
#pragma once

#include "base/str.h"
#include "manager/exec.h"

enum { SG_RUN_LINE_MAX = 4096 }; /* what is longer comes in pieces */

struct sg_run; /* owned by the caller, until `done` or sg_run_leave() */
struct sg_run_ops {
    void (*line)(void *arg, enum sg_stream stream, struct sg_str line); /* may be NULL */
    /* Once, later. `x` NULL: it could not be started, or its sandbox went away; `err` says why. */
    void (*done)(void *arg, const struct sg_exec *x, const struct sg_err *err);
};
struct sg_run *sg_run_start(struct sg_sandbox *s, const struct sg_exec_spec *spec,
                            const struct sg_run_ops *ops, void *arg, struct sg_err *err);
/* Nobody wants to know any more; what runs, runs on. */
void sg_run_leave(struct sg_run *r);

/* "ended with status 3", "was ended by signal 9", ... of one that has ended. */
int sg_run_fail(const struct sg_exec *x, struct sg_err *err);
