/* SPDX-License-Identifier: Apache-2.0 */
/* Directory entries inside a LISTED reply: packed one after the other. */
#pragma once

#include <stdbool.h>

#include "ctl/msg.h"

struct sg_entry {
    uint32_t mode, uid, gid;
    uint32_t flags; /* SG_ENTRY_... */
    uint64_t bytes, mtime_ns;
    struct sg_text name; /* one path component: never empty, "." or "..", never with a slash */
};

enum { SG_ENTRY_NAME_MAX = 255 };
enum { SG_ENTRY_LABELLED = 1 }; /* it has labels: msg.h */

void sg_entry_put(struct sg_buf *out, const struct sg_entry *e);

/* Takes the next entry off the front. False at the end; `*ret_is_bad` tells the end from rubbish.
 */
bool sg_entry_next(struct sg_bytes *list, struct sg_entry *ret, bool *ret_is_bad);
