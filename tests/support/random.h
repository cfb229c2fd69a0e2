/* SPDX-License-Identifier: Apache-2.0 */
/* Seeded randomness for property tests: the seed is printed, SANDGLASS_SEED=<n> repeats a run. */
#pragma once

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/parse.h"

struct rng {
    uint64_t state;
};

/* splitmix64: one addition and a mix, and every seed gives a full period. */
static inline uint64_t rng_next(struct rng *r)
{
    uint64_t z = r->state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* 0 to below - 1. */
static inline uint64_t rng_below(struct rng *r, uint64_t below)
{
    return rng_next(r) % below;
}

/* A number of random magnitude: small ones and the extremes are as likely as the rest. */
static inline uint64_t rng_magnitude(struct rng *r)
{
    return rng_next(r) >> rng_below(r, 64);
}

static inline struct rng rng_start(const char *what)
{
    const char *given = getenv("SANDGLASS_SEED");
    uint64_t seed = sg_now_ns();
    if (given && sg_parse_u64(sg_str_of(given), 0, UINT64_MAX, &seed, NULL) < 0)
        abort();
    (void)fprintf(stderr, "%s: SANDGLASS_SEED=%" PRIu64 "\n", what, seed);
    return (struct rng) { seed };
}
