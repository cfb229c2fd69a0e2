/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by root.c and scratch.c only. */
#pragma once

#include "engine/root.h"

/* What the scratch holds, and where parts of it appear in the cell. */
struct sg_part {
    const char *name, *target;
    uint64_t attrs;  /* of the mount */
    bool is_on_disk; /* where there is one, it is not a part of the scratch */
};
enum { SG_PART_COUNT = 3 };
extern const struct sg_part sg_parts[SG_PART_COUNT];

/* Remembers a descriptor until sg_root_done(). */
int sg_root_keep(struct sg_root *r, int fd);

/* Makes the scratch; `owner` is the host id of root inside. */
int sg_scratch_make(struct sg_root *r, const struct sg_cell_spec *spec, uint32_t owner,
                    struct sg_err *err);

/* What is around the root of a nested cell: nested.c. Makes it, as r->top_fd; the steps that attach
 * the root, and what else it has. */
int sg_nested_make(struct sg_root *r, const struct sg_nested *n, uint32_t owner,
                   struct sg_err *err);
void sg_nested_add(struct sg_root *r, struct sg_plan *plan);

/* Without root: steps that bind the host's device files where nodes cannot be made. */
int sg_scratch_bind_nodes(struct sg_root *r, struct sg_plan *plan, struct sg_err *err);
