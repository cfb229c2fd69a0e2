/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes of a worker's descriptor. It came from the host and may or may not block; here it always
 * does, since a worker has nothing else to do. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { SG_STREAM_BYTES = 64 * 1024 };

/* Some bytes; 0 at the end, -1 with errno. */
ssize_t sg_stream_read(int fd, void *p, size_t n);
/* All of them. 0, or -1 with errno. */
int sg_stream_write(int fd, const void *p, size_t n);

/* What goes out, gathered. The first failure sticks: ask once, at sg_out_flush(). */
struct sg_out {
    int fd;
    int sys; /* errno of the failure, or 0 */
    size_t n;
    uint8_t bytes[SG_STREAM_BYTES];
};

void sg_out_add(struct sg_out *o, const void *p, size_t n);
int sg_out_flush(struct sg_out *o); /* 0, or -1 with errno */
