/* SPDX-License-Identifier: Apache-2.0 */
/* A terminal inside, pumped through the pipes that the host made: stdin pipe -> master -> stdout
 * pipe. The master never leaves the sandbox, since whoever shares it could stall the other side. */
#pragma once

#include "init/init.h"

struct sg_pty;

/* Opens a terminal of the given size (0: 24 by 80) that belongs to `user`. Takes `in_fd` and
 * `out_fd` (-1: no input; output is thrown away), which must be pipes or sockets. `*ret_slave`
 * stays the pty's. `drained(in, owner)` is called once, at the end of what sg_pty_finish() began.
 */
struct sg_pty *sg_pty_new(struct sg_init *in, unsigned rows, unsigned cols,
                          const struct sg_user *user, int in_fd, int out_fd, int *ret_slave,
                          struct sg_err *err);
void sg_pty_free(struct sg_init *in, struct sg_pty *p);

int sg_pty_resize(struct sg_pty *p, unsigned rows, unsigned cols, struct sg_err *err);

/* The host has nothing more to type: the program reads an end of file, unless the line is raw. */
void sg_pty_end_input(struct sg_init *in, struct sg_pty *p);

/* The program is gone: passes on what it wrote, then calls `drained` (perhaps before returning). */
void sg_pty_finish(struct sg_init *in, struct sg_pty *p,
                   void (*drained)(struct sg_init *in, void *owner), void *owner);
