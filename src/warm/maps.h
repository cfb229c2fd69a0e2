/* SPDX-License-Identifier: Apache-2.0 */
/* /proc/self/maps, read line by line without a C library. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { SG_MAPS_LINE = 4096 + 128 };

struct sg_maps {
    int fd;
    uint32_t have, at; /* bytes in the buffer, and where the next line begins */
    char buffer[2 * SG_MAPS_LINE];
};

struct sg_map {
    uint64_t start, end, offset;
    uint32_t prot; /* PROT_READ and so on */
    bool is_shared;
    const char *name; /* "": anonymous; lives until the next line is read */
};

bool sg_maps_open(struct sg_maps *m);
/* 1, 0 at the end, -1 for a line that makes no sense. */
int sg_maps_next(struct sg_maps *m, struct sg_map *ret);
void sg_maps_close(struct sg_maps *m);

/* One line, which it changes. Pure: for tests. */
bool sg_maps_parse(char *line, struct sg_map *ret);
