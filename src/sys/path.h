/* SPDX-License-Identifier: Apache-2.0 */
/* Paths that a sandbox, an archive or a client can name are opened only here. */
#pragma once

#include <sys/types.h>

#include "base/err.h"

/* Resolves `path` with root_fd as "/": links and ".." stay inside. Returns a descriptor. */
int sg_open_in(int root_fd, const char *path, int flags, mode_t mode, struct sg_err *err);

/* The same where links have no business: any symbolic link on the way is refused. */
int sg_open_beneath(int root_fd, const char *path, int flags, mode_t mode, struct sg_err *err);

/* Opens (O_PATH) the directory `path` below root_fd, making what is missing with owner `id` and
 * mode 0755. A symbolic link or a file on the way is SG_INVALID: what an image puts there could
 * point anywhere. */
int sg_make_dir_in(int root_fd, const char *path, unsigned id, struct sg_err *err);

/* The same for a file to mount on: parents made, an empty file created when nothing is there. */
int sg_make_file_in(int root_fd, const char *path, unsigned id, struct sg_err *err);
