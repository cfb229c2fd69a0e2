/* SPDX-License-Identifier: Apache-2.0 */
/* What is tried: a cell from its making to its end, on a small root that looks like the host's. */
#pragma once

#include "base/err.h"

/* Makes a directory with the least that a root needs; returns owned. */
char *scene_make_root(void);
void scene_remove_root(char *root);

enum { SCENE_KEPT = 1 << 16 }; /* beside the flags of a cell: one that is to be kept */

/* create, HELLO, SPAWN /bin/true, EXITED, and (unless `flags` has SG_CELL_SWEPT) free. */
int scene_play(const char *root, unsigned flags, struct sg_err *err);
