/* SPDX-License-Identifier: Apache-2.0 */
/* Paths that the host names, resolved inside with the rights in force. Relative ones start at
 * /workspace where that exists, else at /.
 *
 * Magic links (/proc/self/fd/3 and its like) are refused: they would lead to what init itself has
 * open, whoever the request speaks for. */
#pragma once

#include <sys/types.h>

#include "base/err.h"
#include "ctl/msg.h"

enum { SG_PATH_NAME_MAX = 255, SG_PATH_LINK_BYTES = 32 };

/* From now on every path is one below this directory, which is their root: neither ".." nor a link
 * leads out of it, whatever is in it. NULL: no more. For a sandbox that shows one volume. */
void sg_path_confine(const char *view);

/* The directory where relative paths start; static storage. */
const char *sg_path_base(void);

/* Returns owned; always close-on-exec. */
int sg_path_open(struct sg_text path, int flags, mode_t mode, struct sg_err *err);
/* The same from a directory in hand, for one path below it. */
int sg_path_open_at(int dir_fd, const char *path, int flags, mode_t mode);

/* The same without a link anywhere on the way, and never out of the directory. */
int sg_path_open_beneath(int dir_fd, const char *path, int flags, mode_t mode);

/* Makes the directory `path` and those above it that are missing. One that exists is fine. */
int sg_path_make(struct sg_text path, mode_t mode, struct sg_err *err);

/* Opens the directory that holds the last component, which goes to `ret_name`. SG_INVALID where
 * there is no such component: "/", ".", "..". */
int sg_path_open_parent(struct sg_text path, char ret_name[SG_PATH_NAME_MAX + 1],
                        struct sg_err *err);

/* openat2(2) without the kernel's help; no RESOLVE_IN_ROOT. path_walk.c */
struct open_how;
int sg_path_walk(int dir_fd, const char *path, const struct open_how *how);

/* A path to what `fd` has open, for calls that take no descriptor. */
void sg_path_of_fd(int fd, char ret[SG_PATH_LINK_BYTES]);
