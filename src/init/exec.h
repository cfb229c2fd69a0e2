/* SPDX-License-Identifier: Apache-2.0 */
/* The record of a process that the host started. exec.c has its life, keep.c what outlives it. */
#pragma once

#include "init/init.h"

struct sg_pty;

enum sg_exec_state {
    SG_EXEC_RUNNING,
    SG_EXEC_DRAINING, /* the process is gone, bytes of its terminal are still on their way */
    SG_EXEC_ENDED,    /* only with is_kept: waits for RELEASE */
};

struct sg_exec {
    uint32_t pid;
    enum sg_exec_state state;
    bool is_kept; /* started under KEEP: the record stays until RELEASE */
    bool is_told; /* of the RECLAIM under way */
    bool has_pty;
    struct sg_pty *pty; /* owned; NULL: plain streams, whose far ends init does not keep */
    int near_fds[3];    /* owned: the host's own ends, for safekeeping; -1: none */
    struct sg_msg_exited end;
    char tag[SG_CTL_MAX_TAG + 1];
};

/* ---- keep.c ---- */

/* How many descriptors a SPAWN must bring, near ends included. */
unsigned sg_keep_expected_fds(const struct sg_msg_spawn *m);
/* SG_INVALID or SG_CONFLICT where the request may not be kept as it says. */
int sg_keep_check(const struct sg_init *in, const struct sg_msg_spawn *m, struct sg_err *err);
/* Takes the near ends out of the packet. */
void sg_keep_take(struct sg_exec *e, struct sg_call *c);
void sg_keep_drop(struct sg_exec *e);

/* ---- exec.c ---- */

/* Takes the exec out of the table and frees it. */
void sg_exec_forget(struct sg_init *in, struct sg_exec *e);
