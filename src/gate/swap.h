/* SPDX-License-Identifier: Apache-2.0 */
/* Placeholders become values on the way out, and values become stars on the way in.
 *
 * S1. A value is written only by sg_swap(), in the form that its place needs: as it is, percent
 *     encoded (a target, a form), or as part of a JSON text.
 * S2. What is masked keeps its length, so that no frame around it changes. Looked for are the
 *     value, its percent and JSON forms, and its base64 forms wherever in a longer text they begin.
 * S3. Whoever cuts a text into pieces gets the same: what could be the beginning of something is
 *     held back until it is known, and nothing else is. */
#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "base/str.h"

/* Shorter values are not looked for: they would be found in innocent places. */
enum { SG_SCRUB_LEAST = 8 };

struct sg_swap_pair {
    char *from;        /* owned: the placeholder */
    struct sg_str to;  /* owned: the value, wiped at the end */
    bool is_for_rules; /* only in fields that the gate itself adds */
};
struct sg_swap_field {  /* one that the gate adds to every request */
    char *name, *value; /* owned; with placeholders */
};
struct sg_swaps { /* what holds for one host */
    unsigned refs;
    struct sg_swap_pair *pairs;
    struct sg_swap_field *fields;
    struct sg_str *patterns; /* owned: what is masked */
    size_t pair_count, field_count, pattern_count;
};

struct sg_swaps *sg_swaps_new(void); /* one reference */
struct sg_swaps *sg_swaps_ref(struct sg_swaps *s);
void sg_swaps_unref(struct sg_swaps *s);
void sg_swaps_add(struct sg_swaps *s, const char *placeholder, struct sg_str value,
                  bool is_for_rules);
void sg_swaps_add_field(struct sg_swaps *s, const char *name, const char *value);
bool sg_swaps_has_field(const struct sg_swaps *s, struct sg_str name);

enum sg_swap_form { SG_SWAP_PLAIN, SG_SWAP_FIELD, SG_SWAP_PERCENT, SG_SWAP_JSON };
/* Appends `in` with the values in their places. -1: a value cannot stand in a field (a line end).
 */
int sg_swap(const struct sg_swaps *s, struct sg_str in, enum sg_swap_form form, bool is_rule,
            struct sg_buf *out);
/* How many bytes at the end of `p` may be the beginning of a placeholder. */
size_t sg_swap_held(const struct sg_swaps *s, const void *p, size_t n);

void sg_scrub(const struct sg_swaps *s, void *p, size_t n); /* in place */
size_t sg_scrub_held(const struct sg_swaps *s, const void *p, size_t n);
