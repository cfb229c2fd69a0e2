/* SPDX-License-Identifier: Apache-2.0 */
/* The mount API by descriptor: every mount is made detached and attached later, by whoever owns
 * the mount namespace. All functions return a descriptor (or 0) and -1 with the kernel's reason. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mount.h>

#include "base/err.h"

/* A detached copy of the tree at `path`. The source is opened first and checked by the caller's
 * own rights; symbolic links are followed. */
int sg_mnt_clone(int dir_fd, const char *path, bool is_recursive, struct sg_err *err);

/* Sets and clears MOUNT_ATTR_* flags on the whole tree. */
int sg_mnt_attr(int mnt_fd, uint64_t set, uint64_t clear, struct sg_err *err);

/* Shifts ids by the map of a user namespace. */
int sg_mnt_idmap(int mnt_fd, int userns_fd, struct sg_err *err);

/* A tmpfs of at most `bytes` and `inodes`. */
int sg_mnt_tmpfs(uint64_t bytes, uint64_t inodes, uint64_t attrs, struct sg_err *err);

struct sg_overlay {
    const int *lower_fds; /* topmost first */
    size_t lower_count;
    int upper_fd, work_fd;
    bool uses_userxattr; /* in a user namespace */
    bool by_path;        /* kernels before 6.13: layers must be attached in our namespace */
};
int sg_mnt_overlay(const struct sg_overlay *o, uint64_t attrs, struct sg_err *err);

/* Does this kernel take overlay layers as descriptors? Asked once, answered by trying. */
bool sg_mnt_overlay_takes_fds(void);
