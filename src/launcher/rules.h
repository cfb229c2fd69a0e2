/* SPDX-License-Identifier: Apache-2.0 */
/* The files of rules, for a daemon that sees no files: handed over as descriptors, and
 * never read here. */
#pragma once

#include <stdint.h>

#include "base/err.h"

struct sg_launch;

enum { SG_RULES_NO_FILE = 1 }; /* stamp */

/* What there is now: its stamp, and a descriptor for reading if that is not `known` (else -1).
 * Without a file at the default place there is none; one that the settings name must be there. */
int sg_rules_look(const struct sg_launch *set, uint32_t which, uint64_t known, uint64_t *ret_stamp,
                  int *ret_fd, struct sg_err *err);
