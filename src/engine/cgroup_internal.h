/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by cgroup.c and its test only. */
#pragma once

#include <stddef.h>

/* Our own cgroup in the hierarchy of `controller` (NULL: the v2 tree), from the text of
 * /proc/self/cgroup: lines "id:controllers:path". "" for the root, and where it cannot be told. */
void sg_cgroup_own_path(const char *table, const char *controller, char *ret, size_t cap);
