/* SPDX-License-Identifier: Apache-2.0 */
/* A fixed amount of work: integers, and memory in an order that no prefetcher guesses. Prints the
 * processor time that it took, in nanoseconds: who else uses the machine does not count. */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#include "base/banned.h"

enum { WORDS = 1 << 18, STEPS = 160000000 };

static uint32_t words[WORDS];

int main(void)
{
    uint32_t x = 1, sum = 0;
    for (uint32_t i = 0; i < STEPS; i++) {
        x = x * 1664525u + 1013904223u;
        uint32_t *word = &words[x >> 14];
        *word += x ^ sum;
        sum += *word >> 7;
    }
    struct timespec t;
    if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t) < 0)
        return 1;
    printf("%" PRIu64 " %" PRIu32 "\n", (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec,
           sum);
    return 0;
}
