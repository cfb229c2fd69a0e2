/* SPDX-License-Identifier: Apache-2.0 */
/* The body of a call, piece by piece into a file of a sandbox. At most one piece is held, and the
 * file has its name when all of it came and not before. */
#pragma once

#include "api/call.h"
#include "api/pour.h"
#include "manager/files.h"

struct sg_body_file {
    struct sg_call *call;
    struct sg_file_write *write; /* NULL: not opened yet, or over */
    struct sg_pour pour;
    uint64_t bytes;
    bool is_last;
    void (*moved)(struct sg_body_file *f); /* a piece has come; NULL: nobody asks */
    /* `err` NULL: the file is there. Not called when the sender went away: nothing is left then. */
    void (*done)(struct sg_body_file *f, const struct sg_err *err);
};

/* `f` has its call and what to call, lives as long as the call, and becomes its state. Pauses the
 * body until the file is open. */
int sg_body_file_begin(struct sg_body_file *f, struct sg_sandbox *s,
                       const struct sg_file_spec *spec, struct sg_err *err);
