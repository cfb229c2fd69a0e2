/* SPDX-License-Identifier: Apache-2.0 */
/* A directory of the storage pool inside a cell that runs already: parked cells are made before
 * anybody knows what is to be mounted in them. */
#pragma once

#include <stdbool.h>

#include "engine/kept.h"

/* Shows the directory at `path` of the cell, whose own ids are those of the directory; nosuid and
 * nodev. The path leads through no link. SG_INVALID: it does, or is no directory; SG_NOT_FOUND. */
int sg_mount_into(const struct sg_kept *k, int dir_fd, const char *path, bool is_read_only,
                  struct sg_err *err);
