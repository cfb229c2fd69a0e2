/* SPDX-License-Identifier: Apache-2.0 */
/* Work on templates that the daemon asked for: images that are fetched, that came with a sandbox,
 * or that leave with one. It is done by `sandglass` itself, one process each, as a person's
 * `template import` is: what it may do to the store is in cli/image_work.h. We start it with the
 * daemon's descriptors and read none of them; it ends with them. */
#pragma once

#include <stdint.h>

struct sg_err;
struct sg_image_work;
struct sg_launcher;
struct sg_msg;

enum { SG_IMAGE_WORKS_MAX = 8 };

struct sg_image_link {
    struct sg_image_work *first;
    unsigned count;
    uint64_t next_ns; /* when to tidy up again, at the earliest */
};

/* SG_EXHAUSTED: enough of them are at work. SG_UNSUPPORTED: without root there is no pool. */
int sg_serve_image(struct sg_launcher *l, const struct sg_msg *m, struct sg_err *err);

/* Now and then: templates without a name that nobody uses any more go. */
void sg_image_tidy(struct sg_launcher *l);
