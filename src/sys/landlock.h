/* SPDX-License-Identifier: Apache-2.0 */
/* Landlock: a process gives up, for good, the files and sockets that it will not need.
 *
 * Used where a program decodes hostile bytes with a library that we did not write: whatever the
 * decoder is talked into, the kernel lets it touch only what was named here. */
#pragma once

#include <stddef.h>

#include "base/err.h"

/* From now on this process and its children can open, make, change or remove files only below
 * `dir_fd`, and can neither bind nor connect TCP sockets (where the kernel knows how to refuse
 * that). Descriptors that are already open keep working. Sets no_new_privs.
 * SG_UNSUPPORTED when the kernel has no Landlock, or one that cannot link across directories. */
int sg_landlock_keep_only(int dir_fd, struct sg_err *err);
