/* SPDX-License-Identifier: Apache-2.0 */
/* Btrfs by its own calls: subvolumes, snapshots, and limits on both. All of it needs root.
 *
 * A limit is on what a subvolume refers to, shared or not, metadata included: a snapshot begins
 * with what it was made of, and what is removed counts no more. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

enum { SG_BTRFS_FSID_MAX = 40 };

bool sg_btrfs_is(int fd); /* is it on btrfs? */

/* A new, empty subvolume `name` below the directory. */
int sg_btrfs_make(int dir_fd, const char *name, struct sg_err *err);
/* The subvolume that `source_fd` is the top of, as it is now. It is on the disk on return. */
int sg_btrfs_snapshot(int dir_fd, const char *name, int source_fd, bool is_read_only,
                      struct sg_err *err);
/* SG_NOT_FOUND. Its space comes back later, by the kernel's own. */
int sg_btrfs_remove(int dir_fd, const char *name, struct sg_err *err);
/* The number of the subvolume that the file is in. */
int sg_btrfs_id(int fd, uint64_t *ret, struct sg_err *err);

/* Whether files without a name are left in the subvolume: somebody has them open, and they count.
 */
bool sg_btrfs_has_orphans(int fd);

/* Begins to count; fine when it does already. */
int sg_btrfs_count(int fd, struct sg_err *err);
/* SG_CONFLICT: more is in use. */
int sg_btrfs_limit(int fd, uint64_t subvolume, uint64_t bytes, struct sg_err *err);
int sg_btrfs_fsid(int fd, char ret[SG_BTRFS_FSID_MAX], struct sg_err *err);
/* As of this moment. `ret_limit` UINT64_MAX: none. */
int sg_btrfs_use(const char *fsid, uint64_t subvolume, uint64_t *ret_used, uint64_t *ret_limit,
                 struct sg_err *err);
/* Counting was given up by the kernel, or never began: limits do not hold. */
bool sg_btrfs_is_counting(const char *fsid);
/* Counts everything anew, in the background. */
int sg_btrfs_recount(int fd, struct sg_err *err);
/* Forgets the counters of subvolumes that are gone (kernels before 6.11 keep them). How many. */
unsigned sg_btrfs_forget_gone(int fd, const char *fsid);

/* Everything to the disk, and the kernel begins at once with what it cleans up in its own time. */
int sg_btrfs_commit(int fd, struct sg_err *err);
/* Whether it gives its device back what is free; `root_fd`: the root of a mount of it. Where it
 * does, room that was lent to files stays theirs until that is done, for half a minute. */
int sg_btrfs_trim(int root_fd, bool trims, struct sg_err *err);
/* Errors of reading, writing and checksums that its devices have had, ever. */
int sg_btrfs_errors(int fd, uint64_t *ret, struct sg_err *err);
/* As large as its device is. */
int sg_btrfs_grow(int fd, struct sg_err *err);
