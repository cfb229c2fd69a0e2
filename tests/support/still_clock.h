/* SPDX-License-Identifier: Apache-2.0 */
/* A clock that stands still until the test moves it, so that nothing depends on how fast the
 * machine is. For programs of one file that are linked with --wrap=clock_gettime
 * (tests/unit/meson.build). */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

int __real_clock_gettime(clockid_t clock, struct timespec *ret);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ret);

static struct timespec clock_began[2]; /* the real ones when they were first asked */
static uint64_t clock_passed_ns;

static inline uint64_t clock_ns(const struct timespec *t)
{
    return (uint64_t)t->tv_sec * 1000000000u + (uint64_t)t->tv_nsec;
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret)
{
    const bool is_monotonic = clock == CLOCK_MONOTONIC;
    if (!is_monotonic && clock != CLOCK_REALTIME)
        return __real_clock_gettime(clock, ret);
    struct timespec *began = &clock_began[is_monotonic];
    if (!began->tv_sec && __real_clock_gettime(clock, began) < 0)
        return -1;
    const uint64_t now = clock_ns(began) + __atomic_load_n(&clock_passed_ns, __ATOMIC_RELAXED);
    *ret = (struct timespec) { .tv_sec = (time_t)(now / 1000000000u),
                               .tv_nsec = (long)(now % 1000000000u) };
    return 0;
}

static inline void clock_pass(uint64_t ns)
{
    (void)__atomic_add_fetch(&clock_passed_ns, ns, __ATOMIC_RELAXED);
}

/* For patience, which is counted in real time. */
static inline uint64_t clock_real_ns(void)
{
    struct timespec t;
    (void)__real_clock_gettime(CLOCK_MONOTONIC, &t);
    return clock_ns(&t);
}
