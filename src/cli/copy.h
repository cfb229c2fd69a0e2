/* SPDX-License-Identifier: Apache-2.0 */
/* Files in and out of a cell, through its pid 1.
 *
 * C1. A path inside is resolved by pid 1, as the sandboxed user, in its own root: a link swapped
 *     during the copy can only lead to another place inside.
 * C2. Names that come out are single components, checked; on our side they are created relative to
 *     an open directory, never through a link, and an existing file is replaced by rename.
 * C3. Of a tree only regular files and directories are taken, either way; links, pipes and devices
 *     are left where they are, and counted.
 * C4. What comes out is bounded: a hole takes no room in a cell and all of it on our disk. */
#pragma once

#include "cli/client.h"
#include "config/config.h"

/* Lists of "SRC:DST". A relative path inside starts at `workdir`. A DST that is a directory or ends
 * with a slash receives SRC under its own name. `disk_bytes` is the disk limit of the cell: more
 * than can honestly be there fails with SG_EXHAUSTED. Adds to `skipped` what C3 left out. */
int sg_copy_in_all(struct sg_client *c, const char *user, const char *workdir,
                   const struct sg_strlist *list, uint64_t *skipped, struct sg_err *err);
int sg_copy_out_all(struct sg_client *c, const char *user, const char *workdir,
                    const struct sg_strlist *list, uint64_t disk_bytes, uint64_t *skipped,
                    struct sg_err *err);
