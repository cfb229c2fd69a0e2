/* SPDX-License-Identifier: Apache-2.0 */
/* What must hold of anything that a decoder hands on. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "manager/manager.h"

static inline void demand(bool is_so)
{
    if (!is_so)
        abort();
}

static inline void check_text(const char *s)
{
    demand(!s || sg_utf8_valid(s, strlen(s)));
}

static inline void check_pairs(const struct sg_pair *v, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        demand(v[i].name && v[i].value);
        check_text(v[i].name);
        check_text(v[i].value);
    }
}

/* What a call ends with where the manager's work would begin. */
static inline int refused(struct sg_err *err)
{
    return sg_fail(err, SG_CONFLICT, "no further");
}
