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
#include "engine/kept.h"
#include "engine/spec.h"

struct sg_cell;

enum {
    SG_CELL_SWEPT = 1,  /* a sweeper removes what is left when this process ends, however */
    SG_CELL_NESTED = 2, /* its spec will have `nested`; it ends with this process */
};

/* Descriptors of a kept cell's pid 1, beside the control socket (3). The lock of its slot lives as
 * long as it does. */
enum { SG_INIT_LISTEN_FD = 4, SG_INIT_LOCK_FD = 5 };

/* Returns owned, or NULL. `is_rootless`: the caller has become root of an own user namespace. */
struct sg_cell *sg_cell_start(bool is_rootless, unsigned flags, struct sg_err *err);

/* A cell that, once it is made, outlives this process: sg_cell_keep(). It is made in a place that
 * the caller claimed, and wrote down for whoever comes after it (kept.h). Takes the claim. */
struct sg_cell *sg_cell_start_kept(bool is_rootless, struct sg_kept_place *place,
                                   struct sg_err *err);

/* Whatever it returns, sg_cell_free() leaves nothing. */
int sg_cell_build(struct sg_cell *c, const struct sg_cell_spec *spec, struct sg_err *err);

int sg_cell_settle(struct sg_cell *c, struct sg_err *err);

/* Has pid 1 been started, or did a step fail? sg_cell_settle() does not wait then. */
bool sg_cell_is_settled(const struct sg_cell *c);

/* A settled one of sg_cell_start_kept(): moves what lives on to `ret` and our end of the control
 * socket to `ret_ctl_fd`. Takes `c`. */
void sg_cell_keep(struct sg_cell *c, struct sg_kept *ret, int *ret_ctl_fd);

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
