/* SPDX-License-Identifier: Apache-2.0 */
/* Labels of files: texts that a client keeps with a file, as extended attributes whose names begin
 * with SG_LABEL_PREFIX. Programs inside can read and change them like any of their own, so what is
 * read is bounded, and what is no text is passed over. */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "ctl/msg.h"

/* Name, value, name, value, ... of what `path` leads to. `store` is filled and must outlive `ret`.
 * None where there are none, or where the file system knows no attributes. */
int sg_labels_read(const char *path, struct sg_buf *store, struct sg_texts *ret,
                   struct sg_err *err);
bool sg_labels_any(const char *path); /* links are not followed */

/* Those of the open file become exactly `pairs`. A file system that knows no attributes is fine. */
int sg_labels_replace(int fd, struct sg_texts pairs, struct sg_err *err);
