/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes into a pipe that a process of a sandbox empties at its own speed. Nobody waits: what does
 * not fit is kept, and the giver is told when all is gone. So at most one piece is held, and a
 * sandbox that does not read holds up nobody but its own caller. */
#pragma once

#include "base/buf.h"
#include "loop/loop.h"

struct sg_pour {
    struct sg_loop *loop;
    struct sg_io io;    /* borrows the end of the pipe */
    struct sg_buf rest; /* what did not fit, from `at` on */
    size_t at;
    bool is_broken; /* nobody reads any more; what is added is dropped */
    void (*emptied)(struct sg_pour *p);
};

/* `fd` must not block. */
void sg_pour_open(struct sg_pour *p, struct sg_loop *l, int fd, void (*emptied)(struct sg_pour *p));
/* Out of the loop; the descriptor stays as it is. Also for one that was never opened, of zeros. */
void sg_pour_close(struct sg_pour *p);

/* True: all is in the pipe. False: `emptied` is called when it is. Copies what it keeps, at most
 * SG_CALL_MAX_BODY; past that the pour is broken. */
bool sg_pour_add(struct sg_pour *p, const void *bytes, size_t n);
static inline bool sg_pour_is_empty(const struct sg_pour *p)
{
    return p->rest.n == 0;
}
