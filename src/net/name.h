/* SPDX-License-Identifier: Apache-2.0 */
/* Host names in one canonical form, which is the one that is checked and the one that is used.
 *
 * Lower case, no trailing dot, labels of letters, digits, '-' and '_', 1 to 63 bytes each, 253 in
 * all. Names in other scripts are understood in their ASCII form only ("xn--..."). What is an
 * address in one of its spellings (127.1, 0x7f000001, 2130706433) is no name. */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "base/str.h"

enum { SG_NAME_MAX = 253 };

struct sg_name {
    char s[SG_NAME_MAX + 1];
};

/* SG_INVALID says what is wrong. */
int sg_name_parse(struct sg_str text, struct sg_name *ret, struct sg_err *err);

/* Is `name` below `suffix` ("a.b.c" below "b.c"), but not the same? Both canonical. */
bool sg_name_is_below(const char *name, const char *suffix);
