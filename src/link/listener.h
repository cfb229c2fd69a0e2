/* SPDX-License-Identifier: Apache-2.0 */
/* A listening socket on the loop. When descriptors run out it rests for a moment instead of
 * spinning; the connections that wait are not lost. */
#pragma once

#include <stdbool.h>

#include "loop/loop.h"

struct sg_acceptor {
    struct sg_io io;
    struct sg_timer rest;
    struct sg_loop *loop;
    uint64_t told_ns;                            /* when the log last heard of it */
    void (*came)(struct sg_acceptor *a, int fd); /* takes the connection: non-blocking */
};

/* Takes `fd`, which listens already. */
int sg_acceptor_open(struct sg_acceptor *a, struct sg_loop *l, int fd,
                     void (*came)(struct sg_acceptor *a, int fd), struct sg_err *err);
void sg_acceptor_close(struct sg_acceptor *a);
