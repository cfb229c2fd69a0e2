/* SPDX-License-Identifier: Apache-2.0 */
/* Entries of a directory in hand, straight from the kernel: libc's readdir() would take the
 * descriptor and an allocation, and hides the position that a LIST cursor needs. */
#pragma once

#include <stdint.h>

struct sg_dirent { /* of getdents64(2) */
    uint64_t inode;
    int64_t next; /* position of the entry after this one */
    uint16_t bytes;
    uint8_t type; /* DT_DIR and so on */
    char name[];
};

struct sg_dir {
    int fd; /* borrowed */
    long n, at;
    _Alignas(8) char room[8192];
};

void sg_dir_init(struct sg_dir *d, int fd);
/* The next entry but "." and "..", valid until the next call. NULL at the end, with errno 0, and on
 * failure. */
const struct sg_dirent *sg_dir_next(struct sg_dir *d);
