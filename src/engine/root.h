/* SPDX-License-Identifier: Apache-2.0 */
/* The root filesystem of a cell, built detached and described as steps for the child.
 *
 * R1. One tmpfs, the scratch, carries everything the cell may write: the overlay's upper layer,
 *     /tmp, /dev/shm; its size is the disk limit. One superblock a cell keeps memory low. With a
 *     disk, a directory of the storage pool, the upper layer and /tmp are there, as parts of the
 *     overlay: no file of the pool's own filesystem is ever in reach.
 * R2. Template layers are read-only and shifted into the cell's id range; host paths come in as
 *     bind mounts with nosuid and nodev. Nothing of the host is ever mounted otherwise.
 * R3. A path that an image could have prepared is opened inside the root and through no link. */
#pragma once

#include "engine/ids.h"
#include "engine/plan.h"
#include "engine/spec.h"
#include "sys/mnt.h"

struct sg_root {
    int fds[SG_CELL_MAX_LAYERS + SG_CELL_MAX_BINDS +
            16]; /* owned; closed once the child has exec'd */
    unsigned fd_count;
    int root_fd, scratch_fd; /* among fds */
    int top_fd;              /* among fds: what is pivoted to; the root, or what is around it */
    int usr_fd, runtime_fd;  /* among fds; of a nested one */
    int disk_fd;             /* among fds: where the upper layer is; the scratch, or the pool */
    int layers_fd; /* by path only, among fds: the scratch, while attached in our namespace */
    int upper_fd, work_fd; /* among fds */
    struct sg_overlay overlay;
};

void sg_root_init(struct sg_root *r);
void sg_root_done(struct sg_root *r);

/* Builds the root and appends the steps up to "switch to the new root". `userns_fd` shifts ids, -1
 * without root; `disk_userns_fd` those of the disk, where there is one. */
int sg_root_build(struct sg_root *r, const struct sg_cell_spec *spec, const struct sg_ids *ids,
                  int userns_fd, int disk_userns_fd, struct sg_plan *plan, struct sg_err *err);

/* Changes the size of a scratch by way of a mount of a part of it. SG_CONFLICT: more is in use. */
int sg_scratch_resize(int part_fd, uint64_t bytes, struct sg_err *err);

/* How many bytes of the scratch are free, and how large it is. */
int sg_root_space(const struct sg_root *r, uint64_t *ret_total, uint64_t *ret_free);
