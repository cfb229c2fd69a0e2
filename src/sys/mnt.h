/* SPDX-License-Identifier: Apache-2.0 */
/* The mount API by descriptor: every mount is made detached and attached later, by whoever owns
 * the mount namespace. All functions return a descriptor (or 0) and -1 with the kernel's reason. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "sys/uapi.h"

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

/* Changes the limits of the tmpfs whose mount (or one of a part of it) `mnt_fd` is. SG_CONFLICT:
 * more is in use. */
int sg_mnt_tmpfs_resize(int mnt_fd, uint64_t bytes, uint64_t inodes, struct sg_err *err);

/* An overlay in the making. Layers are given as descriptors where the kernel takes them (newer than
 * 6.12), which is found out by giving it the first; else by path, for which all of them must be
 * attached in our own mount namespace by the time of sg_overlay_finish(). */
struct sg_overlay {
    int fs_fd;
    bool by_path;
};
int sg_overlay_begin(struct sg_overlay *o, int upper_fd, int work_fd, bool force_path,
                     struct sg_err *err);
enum {
    SG_OVERLAY_USERXATTR = 1,
    /* Nothing is sent to the disk on behalf of the overlay: neither when it is asked to, nor when
     * it is unmounted. For an upper layer that does not outlive its mount. */
    SG_OVERLAY_VOLATILE = 2,
};
/* `lower_fds`: topmost first. The upper ones are read again when by_path. */
int sg_overlay_finish(struct sg_overlay *o, const int *lower_fds, size_t lower_count, int upper_fd,
                      int work_fd, unsigned flags, uint64_t attrs, struct sg_err *err);
void sg_overlay_done(struct sg_overlay *o);
