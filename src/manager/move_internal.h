/* SPDX-License-Identifier: Apache-2.0 */
/* What an export and an import have in common: they are counted, and end with the manager. */
#pragma once

#include "manager/manager_internal.h"
#include "manager/move_doc.h"

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
/* What an organisation takes over of a file: private networks and a proxy are left out, or become
 * its own; `notices` (owned texts) says so. SG_INVALID: the proxy is none that it may have. */
enum { SG_MOVE_NOTICES_MAX = 4 };
int sg_move_admit(struct sg_manager *m, const struct sg_who *who, struct sg_move_doc *d,
                  bool keeps_network, char *notices[SG_MOVE_NOTICES_MAX + 1], struct sg_err *err);
/* The sandbox, or NULL with SG_UNAVAILABLE. */
struct sg_sandbox *sg_move_box(struct sg_move *v, const struct sg_id *id, struct sg_err *err);
