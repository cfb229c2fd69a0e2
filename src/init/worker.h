/* SPDX-License-Identifier: Apache-2.0 */
/* Work that takes its time: a process of its own, with the ids of the user for good.
 *
 * Its end is its report. It exits with 0, or with something else and an error in a pipe that init
 * reads when it reaps the worker. So all packets leave through one outbox, in order, and a worker
 * that was shot is answered for as well. */
#pragma once

#include "init/init.h"

/* The work itself, in the worker. `fd` is the only descriptor that it has from init. It may wait,
 * allocate and take as long as it wants; the process ends after it. */
typedef int sg_work(int fd, const void *arg, struct sg_err *err);

/* Starts a worker that answers the request in hand: returns SG_LATER, or -1. Must be called with
 * the user's ids (serve.c). Borrows everything: the worker has copies. */
int sg_worker_start(struct sg_init *in, const struct sg_call *c, const char *name, sg_work *work,
                    int fd, const void *arg, struct sg_err *err);
