/* SPDX-License-Identifier: Apache-2.0 */
/* "SRC:DST" and "SRC:DST[:ro]": a path here and a path there. */
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

/* --bind HOST:INSIDE[:ro]; INSIDE is absolute. Also takes ":rw", the default. */
int sg_mapping_parse_bind(const char *text, struct sg_mapping *ret, struct sg_err *err);
