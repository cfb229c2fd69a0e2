/* SPDX-License-Identifier: Apache-2.0 */
/* Work on a template that a process of its own does for us (cli/image_work.h): we have neither the
 * store of templates nor a network. What it says is read as lines of JSON.
 *
 * J1. `over` comes once, from the loop, and nothing after it; or sg_image_end() is called, and
 *     nothing comes any more.
 * J2. The end of a job, by either, ends the work, and takes back its hold on what it made. */
#pragma once

#include "base/buf.h"
#include "manager/manager_internal.h"

struct sg_jval;
struct sg_image_job; /* ours; until `over`, or sg_image_end() */

enum { SG_IMAGE_JOBS_MAX = 2 }; /* at once: of an organisation */

struct sg_image_ops {
    void (*said)(void *arg, const struct sg_jval *line); /* ends with the call */
    void (*over)(void *arg, const struct sg_err *err);   /* NULL: it has ended by itself */
};

enum sg_image_data { SG_IMAGE_NO_DATA, SG_IMAGE_TAKES, SG_IMAGE_GIVES };

/* `request` is one line. *ret_fd, which is the caller's and does not block: the near end of what it
 * takes or gives; NULL where it does neither. SG_EXHAUSTED: the organisation has enough of them. */
struct sg_image_job *sg_image_begin(struct sg_manager *m, struct sg_org *org,
                                    const struct sg_buf *request, enum sg_image_data data,
                                    int *ret_fd, const struct sg_image_ops *ops, void *arg,
                                    struct sg_err *err);
void sg_image_end(struct sg_image_job *j); /* NULL is fine */
