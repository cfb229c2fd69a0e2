/* SPDX-License-Identifier: Apache-2.0 */
/* "SRC:DST" and "SRC:DST[:ro|:rw]": a path here and a path there. */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "base/str.h"

struct sg_mapping {
    struct sg_str source, target; /* borrow; never empty */
    bool is_read_only;            /* of a bind */
};

/* --copy-in HOST:INSIDE, --copy-out INSIDE:HOST. The first colon divides, so a source cannot hold
 * one; a target can. */
int sg_mapping_parse_copy(const char *text, struct sg_mapping *ret, struct sg_err *err);

/* --bind HOST:INSIDE[:ro|:rw]; writable unless ":ro". INSIDE is absolute, without a colon and
 * without
 * "." and ".." in it, and neither the root nor one of the kernel's own directories. */
int sg_mapping_parse_bind(const char *text, struct sg_mapping *ret, struct sg_err *err);
