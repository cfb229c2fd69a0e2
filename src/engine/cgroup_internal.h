/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by cgroup.c, cgroup_kept.c and their test only. */
#pragma once

#include <stddef.h>

#include "engine/cgroup.h"

/* Our own cgroup in the hierarchy of `controller` (NULL: the v2 tree), from the text of
 * /proc/self/cgroup: lines "id:controllers:path". "" for the root, and where it cannot be told. */
void sg_cgroup_own_path(const char *table, const char *controller, char *ret, size_t cap);

/* Sets one limit below the directory. `is_growing`: the memory limit rises (v1 wants an order). */
int sg_cgroup_limit_one(const struct sg_cgroup *g, enum sg_controller c, int dir,
                        const struct sg_limits *l, bool is_growing, struct sg_err *err);
