/* SPDX-License-Identifier: Apache-2.0 */
/* Names as archives spell them, made plain. */
#pragma once

#include <limits.h>

#include "base/err.h"

struct sg_entry_name {
    char path[PATH_MAX]; /* "a/b/c": relative, no "." or "..", no doubled slash; "" is the root */
};

/* SG_INVALID for an absolute name, a ".." or what the filesystem could not hold. */
int sg_entry_name_parse(const char *raw, unsigned max_depth, struct sg_entry_name *ret,
                        struct sg_err *err);
