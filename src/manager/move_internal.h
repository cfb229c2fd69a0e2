/* SPDX-License-Identifier: Apache-2.0 */
/* What an export and an import have in common: they are counted, and end with the manager. */
#pragma once

#include "manager/manager_internal.h"

struct sg_move {
    struct sg_manager *m;
    struct sg_org *org;
    struct sg_move *next, **link; /* the manager's list */
    void (*end)(struct sg_move *v, const struct sg_err *err);
};

/* SG_EXHAUSTED: the organisation has its share under way. */
int sg_move_enter(struct sg_move *v, struct sg_manager *m, struct sg_org *org, struct sg_err *err);
void sg_move_leave(struct sg_move *v);
/* A sandbox of ours, if it is there, goes; its id is forgotten. */
void sg_move_destroy(struct sg_move *v, struct sg_id *id);
/* The same of a snapshot that nobody sees. */
void sg_move_forget(struct sg_move *v, char *id);
/* The sandbox, or NULL with SG_UNAVAILABLE. */
struct sg_sandbox *sg_move_box(struct sg_move *v, const struct sg_id *id, struct sg_err *err);
