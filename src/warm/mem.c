/* SPDX-License-Identifier: Apache-2.0 */
/* What a compiler calls without being asked. */
#include "warm/mem.h"
#include "base/banned.h"

void *memcpy(void *restrict to, const void *restrict from, size_t n)
{
    unsigned char *t = to;
    const unsigned char *f = from;
    while (n--)
        *t++ = *f++;
    return to;
}

void *memset(void *at, int byte, size_t n)
{
    unsigned char *p = at;
    while (n--)
        *p++ = (unsigned char)byte;
    return at;
}
