/* SPDX-License-Identifier: Apache-2.0 */
/* The freezer's scratch memory: regions as they are found, then the metadata as a whole. */
#pragma once

#include "warm/image.h"
#include "warm/maps.h"

enum { SG_SCAN_STRINGS = 256 << 10, SG_SCAN_CHUNK = 64 << 10 };

/* Whole pages, so that nothing else is in its last one. */
struct sg_scan {
    struct sg_maps maps;
    struct sg_warm_head head;
    struct sg_warm_region regions[SG_WARM_MAX_REGIONS];
    uint32_t region_count;
    uint32_t first_of_map; /* index: what belongs to the mapping that is looked at */
    struct sg_warm_file files[SG_WARM_MAX_FILES];
    uint32_t file_count;
    char strings[SG_SCAN_STRINGS];
    uint32_t string_bytes;
    unsigned char chunk[SG_SCAN_CHUNK];
    uint64_t whole[SG_WARM_MAX_HEAD / sizeof(uint64_t)];
} __attribute__((aligned(4096)));

/* NULL, or what is wrong. */
const char *sg_scan_memory(struct sg_scan *s, const struct sg_map *m); /* anonymous */
const char *sg_scan_file(struct sg_scan *s, const struct sg_map *m);
int sg_scan_add_zero(struct sg_scan *s, uint64_t start, uint64_t end, uint32_t prot);
uint64_t sg_scan_end(const struct sg_scan *s); /* of what was found so far */

/* Places for the pages, the metadata in one piece with its checksum; NULL: it is too much. */
const struct sg_warm_head *sg_scan_finish(struct sg_scan *s);
