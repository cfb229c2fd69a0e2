/* SPDX-License-Identifier: Apache-2.0 */
/* Monotonic time, in nanoseconds. */
#pragma once

#include <stdint.h>
#include <time.h>

static inline uint64_t sg_now_ns(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}
