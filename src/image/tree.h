/* SPDX-License-Identifier: Apache-2.0 */
/* Whole directory trees by descriptor: removed, or copied from the host within bounds. Neither
 * follows a symbolic link or enters another mount. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Removes `name` and everything below it. A mount point inside is an error, not a way out: what a
 * build left mounted stays whole. */
int sg_tree_remove(int dir_fd, const char *name, struct sg_err *err);

struct sg_tree_budget {
    uint64_t bytes, entries; /* what is left */
    uint64_t max_file_bytes;
};

/* The same, as far as the budget goes: SG_EXHAUSTED, and part of it is gone, when there is more. */
int sg_tree_remove_within(int dir_fd, const char *name, struct sg_tree_budget *budget,
                          struct sg_err *err);

/* Copies the file, directory or link `name` as `name`, owned by the caller. Only what everybody may
 * read is taken: a file or directory without "other" read permission is left out, as is anything
 * that is no file, directory or link. A missing source is no error; what is over the budget is left
 * out. Modes are cut to 0755. Returns whether something was copied (0 or 1). */
int sg_tree_copy(int from_fd, int to_fd, const char *name, struct sg_tree_budget *budget,
                 struct sg_err *err);
