/* SPDX-License-Identifier: Apache-2.0 */
#include "base/hint.h"

#include <stdint.h>
#include <stdio.h>

#include "base/banned.h"

enum { MAX_WORD = 40 }; /* longer words are not typing mistakes */

static uint8_t least(uint8_t a, uint8_t b)
{
    return a < b ? a : b;
}

/* Edit distance with swaps of neighbours counted as one (optimal string alignment). */
static size_t edit_distance(struct sg_str a, struct sg_str b)
{
    uint8_t row[MAX_WORD + 1][MAX_WORD + 1];
    for (size_t i = 0; i <= a.n; i++)
        row[i][0] = (uint8_t)i;
    for (size_t k = 0; k <= b.n; k++)
        row[0][k] = (uint8_t)k;
    for (size_t i = 1; i <= a.n; i++)
        for (size_t k = 1; k <= b.n; k++) {
            uint8_t change = (uint8_t)(row[i - 1][k - 1] + (a.p[i - 1] != b.p[k - 1]));
            uint8_t best = least(change, (uint8_t)(1 + least(row[i - 1][k], row[i][k - 1])));
            if (i > 1 && k > 1 && a.p[i - 1] == b.p[k - 2] && a.p[i - 2] == b.p[k - 1])
                best = least(best, (uint8_t)(row[i - 2][k - 2] + 1));
            row[i][k] = best;
        }
    return row[a.n][b.n];
}

void sg_hint_try(struct sg_hint *h, const char *candidate)
{
    struct sg_str c = sg_str_of(candidate);
    if (h->word.n > MAX_WORD || c.n > MAX_WORD)
        return;
    /* "mem" of "memory"; but "run" is no short "run.memory" */
    bool is_beginning = h->word.n > 1 && c.n > h->word.n &&
                        memcmp(c.p, h->word.p, h->word.n) == 0 && c.p[h->word.n] != '.';
    size_t d = is_beginning ? 1 : edit_distance(h->word, c);
    size_t allowed = c.n < 4 ? 1 : c.n < 9 ? 2 : 3;
    if (d && d <= allowed && d < c.n && (!h->best || d < h->distance)) {
        h->best = candidate;
        h->distance = d;
    }
}

struct sg_hint_text sg_hint_text(const struct sg_hint *h, const char *prefix)
{
    struct sg_hint_text t = { "" };
    if (h->best)
        (void)snprintf(t.s, sizeof t.s, " (did you mean '%s%s'?)", prefix, h->best);
    return t;
}
