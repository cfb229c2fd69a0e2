/* SPDX-License-Identifier: Apache-2.0 */
/* Work that takes its time: a process of its own, with the ids of the user for good.
 *
 * Its end is its report. It exits with 0, or with something else and an error in a pipe that init
 * reads when it reaps the worker. So all packets leave through one outbox, in order, and a worker
 * that was shot is answered for as well.
 *
 * What it writes fills the memory of the sandbox, and where that is full, the kernel ends somebody.
 * A worker offers itself: the programs of the sandbox did not ask for the upload. */
#pragma once

#include "init/init.h"

enum { SG_WORKER_FDS = 3 };

/* The work itself, in the worker. `fd` and those that follow it by number are the only descriptors
 * that it has from init. It may wait, allocate and take as long as it wants; the process ends after
 * it. */
typedef int sg_work(int fd, const void *arg, struct sg_err *err);

/* Starts a worker that answers the request in hand: returns SG_LATER, or -1. Must be called with
 * the user's ids (serve.c). Borrows everything: the worker has copies. */
int sg_worker_start(struct sg_init *in, const struct sg_call *c, const char *name, sg_work *work,
                    int fd, const void *arg, struct sg_err *err);
/* The same with `fd_count` descriptors, at most SG_WORKER_FDS. */
int sg_worker_start_with(struct sg_init *in, const struct sg_call *c, const char *name,
                         sg_work *work, const int *fds, unsigned fd_count, const void *arg,
                         struct sg_err *err);
