/* SPDX-License-Identifier: Apache-2.0 */
/* A cell: one sandbox made of namespaces. Spec in, control socket out.
 *
 *     sg_cell_start()   its first process is on its way, making namespaces
 *     (find out what the cell is to be, at the same time)
 *     sg_cell_build()   builds the rest
 *     (send HELLO and what is to run: they wait in the socket)
 *     sg_cell_settle()  waits until pid 1 runs, or says which step failed
 *     ... talk over sg_cell_ctl() ...
 *     sg_cell_free()    ends every process and removes everything
 *
 * The caller is single-threaded (or has no other thread that clones or changes its namespaces). */
#pragma once

#include "base/err.h"
#include "engine/cgroup.h"
#include "engine/spec.h"

struct sg_cell;

enum { SG_CELL_SWEPT = 1 }; /* a sweeper removes what is left when this process ends, however */

/* Returns owned, or NULL. `is_rootless`: the caller has become root of an own user namespace. */
struct sg_cell *sg_cell_start(bool is_rootless, unsigned flags, struct sg_err *err);

/* Whatever it returns, sg_cell_free() leaves nothing. */
int sg_cell_build(struct sg_cell *c, const struct sg_cell_spec *spec, struct sg_err *err);

int sg_cell_settle(struct sg_cell *c, struct sg_err *err);

int sg_cell_ctl(const struct sg_cell *c);   /* borrowed: SEQPACKET, our end */
int sg_cell_pidfd(const struct sg_cell *c); /* borrowed: readable when pid 1 is gone */

struct sg_cell_report {
    struct sg_usage usage;
    uint64_t disk_bytes, disk_used_bytes; /* the writable layer: size and use right now */
    unsigned missing;                     /* controllers that were not to be had, 1 << enum */
    bool is_swap_counted;
};
int sg_cell_report(const struct sg_cell *c, struct sg_cell_report *ret, struct sg_err *err);

void sg_cell_kill(struct sg_cell *c); /* SIGKILL to pid 1: the kernel ends all others */
void sg_cell_free(struct sg_cell *c);
