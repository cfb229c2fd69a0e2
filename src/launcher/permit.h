/* SPDX-License-Identifier: Apache-2.0 */
/* What the daemon may ask for. The daemon parses what strangers send, and may have been taken over
 * by one: whatever it asks is checked here, against the root-owned settings, before anything is
 * done. What has no row is refused. */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "ctl/msg.h"
#include "engine/spec.h"

struct sg_permit {
    struct sg_limits least, most; /* of one cell; open_files does not count */
    char *const *images;          /* borrowed: patterns of images that may be named */
    size_t image_count;
};

/* SG_DENIED: not now, or not at all. SG_INVALID: a name that cannot be one. SG_EXHAUSTED: over what
 * the settings allow. */
int sg_permit_check(const struct sg_permit *p, bool has_hello, const struct sg_msg *m,
                    struct sg_err *err);
