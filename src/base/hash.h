/* SPDX-License-Identifier: Apache-2.0 */
/* A 64-bit FNV-1a hash: tells "changed" from "the same". Not for anything an adversary chooses. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define SG_HASH_START 0xcbf29ce484222325u

static inline uint64_t sg_hash_add(uint64_t h, const void *p, size_t n)
{
    const uint8_t *bytes = p;
    for (size_t i = 0; i < n; i++)
        h = (h ^ bytes[i]) * 0x100000001b3u;
    return h;
}

/* A number, its lowest byte first, on every machine. */
static inline uint64_t sg_hash_add_u64(uint64_t h, uint64_t v)
{
    for (unsigned shift = 0; shift < 64; shift += 8) {
        const uint8_t byte = (uint8_t)(v >> shift);
        h = sg_hash_add(h, &byte, 1);
    }
    return h;
}
