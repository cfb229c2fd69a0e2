/* SPDX-License-Identifier: Apache-2.0 */
/* "Did you mean": the candidate nearest to a word that was not understood.
 *
 *     struct sg_hint hint = { .word = sg_str_of("memroy") };
 *     for (...) sg_hint_try(&hint, names[i]);
 *     sg_fail(err, SG_INVALID, "unknown option 'memroy'%s", sg_hint_text(&hint, "--").s); */
#pragma once

#include "base/str.h"

struct sg_hint {
    struct sg_str word;
    const char *best; /* NULL while nothing is near enough; borrows */
    size_t distance;
};

void sg_hint_try(struct sg_hint *h, const char *candidate);

struct sg_hint_text {
    char s[96];
};
/* " (did you mean 'PREFIXbest'?)", or "" without a near one. */
struct sg_hint_text sg_hint_text(const struct sg_hint *h, const char *prefix);
