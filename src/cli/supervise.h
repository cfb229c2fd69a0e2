/* SPDX-License-Identifier: Apache-2.0 */
/* The supervisor: one process that keeps sandglass-launcher running.
 *
 * S1. Whoever holds the lock on RUN/serve.pid is the supervisor; its pid is in the file.
 * S2. SIGTERM and SIGINT are passed on: the launcher knows what they mean for the sandboxes. */
#pragma once

#include <sys/types.h>

#include "cli/cmd.h"

/* Takes the lock, making RUN where it is missing. Returns a descriptor; SG_CONFLICT names the pid
 * of the supervisor that is there. */
int sg_supervise_lock(const struct sg_cli *cli, struct sg_err *err);

/* Supervises until a signal ends it; takes `lock_fd`. Returns the exit code. */
int sg_supervise(const struct sg_cli *cli, int lock_fd);

/* The same in a process of its own, whose log is RUN/serve.log. Returns its pidfd. */
int sg_supervise_detached(const struct sg_cli *cli, pid_t *ret_pid, struct sg_err *err);
char *sg_supervise_log(const struct sg_cli *cli); /* returns owned */
char *sg_supervise_url(const struct sg_cli *cli); /* RUN/serve.url: its address; returns owned */

/* The pidfd of the supervisor that is there, and its pid; SG_NOT_FOUND: there is none. */
int sg_supervise_find(const struct sg_cli *cli, pid_t *ret_pid, struct sg_err *err);
