/* SPDX-License-Identifier: Apache-2.0 */
/* Random names: one letter for the kind, then 19 of a-z and 0-9 (98 bits). They are fit for a host
 * name's label, a file name and a URL. */
#pragma once

#include <stdbool.h>

enum { SG_ID_LEN = 20 };

struct sg_id {
    char s[SG_ID_LEN + 1];
};

struct sg_id sg_id_new(char kind); /* 's' sandbox, 'x' exec, 'o' org, 'k' key, 'r' request */
bool sg_id_is_valid(const char *s, char kind);
