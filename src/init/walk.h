/* SPDX-License-Identifier: Apache-2.0 */
/* A walk over a tree, for workers: directories before what is in them, links never followed, file
 * systems that are windows into the kernel (/proc and its like) seen but not entered. */
#pragma once

#include <stdbool.h>
#include <sys/stat.h>

#include "base/err.h"

enum { SG_WALK_PATH_MAX = 4095, SG_WALK_MAX_DEPTH = 512 };

struct sg_walk_item {
    int dir_fd;       /* borrowed: where `name` is */
    const char *name; /* the last component */
    const char *path; /* below the root */
    const struct stat *st;
};

/* 0: go on; 1: that is enough; -1: end with this error. */
typedef int sg_walk_visit(void *arg, const struct sg_walk_item *item, struct sg_err *err);

/* What is gone meanwhile is passed over. What may not be read is an error where `is_strict`, else
 * passed over, too. Too deep a tree is an error in either case. */
int sg_walk(int root_fd, bool is_strict, sg_walk_visit *visit, void *arg, struct sg_err *err);
