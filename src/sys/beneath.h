/* SPDX-License-Identifier: Apache-2.0 */
/* Opening names where neither links nor mounts have any business: archives, removal of trees.
 * Stricter than sg_open_beneath(), and with errno, because the caller has its own words for it. */
#pragma once

#include <sys/types.h>

/* Like openat(dir_fd, path, flags | O_CLOEXEC, mode), but the path may not leave dir_fd, pass a
 * symbolic link (ELOOP) or a mount point (EXDEV). Returns the descriptor, or -1 with errno. */
int sg_open_plain(int dir_fd, const char *path, int flags, mode_t mode);
