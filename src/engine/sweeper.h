/* SPDX-License-Identifier: Apache-2.0 */
/* The sweeper: a tiny process that outlives a one-shot run and removes its cgroups. Until there is
 * something to sweep it makes itself useful and makes the cell's network namespace (net.h).
 *
 * S1. It is started before anything that could be left behind, and waits for the end of a pipe
 *     whose other end only its parent holds: a normal exit and a kill -9 look the same to it.
 * S2. It holds the slot's lock, so nobody mistakes the cgroups for leftovers while it works.
 * S3. It shares our memory (what sg_sweeper_aim() gave it must not change any more), keeps no
 *     descriptor but the three it needs, and lives in a process group of its own. If it is killed
 *     as well, the next claim of the slot, or `sandglass doctor`, finds and removes what is left.
 *     So `sandglass run` ends with its command, and destruction runs behind.
 * S4. It holds our end of the control socket, too, and lets go of it a moment after we are gone.
 *     Else the socket would close in the midst of our exit, and pid 1 of the cell would wake and
 *     tear its namespaces down before whoever waits for us is told. Our death ends it all the
 *     same, by signal (STEP_DIE_WITH_PARENT); the socket comes after, for what that missed. */
#pragma once

#include "base/err.h"
#include "engine/cgroup.h"
#include "engine/ids.h"

struct sg_sweeper {
    /* read by the child */
    const char *dirs[SG_CTRL_COUNT];
    unsigned dir_count;
    int pipe_fd, lock_fd, ctl_fd;
    bool makes_net;
    uint32_t net; /* its answer: see net.h */
    /* ours */
    int keep_fd; /* closing it starts the sweep */
    int ns_fd;   /* /proc/<pid>/ns, where the network namespace is found */
    char *stack;
    int pid;
};

/* `s` must stay where it is until the process ends. */
int sg_sweeper_start(struct sg_sweeper *s, const struct sg_ids *ids, int ctl_fd, bool makes_net,
                     struct sg_err *err);

/* Says what there will be to sweep, before it is made. Borrows the paths for good. */
void sg_sweeper_aim(struct sg_sweeper *s, const struct sg_cgroup *g);

/* For a process that goes on: lets the sweeper finish, now that there is nothing left to sweep. */
void sg_sweeper_stop(struct sg_sweeper *s);

/* The child's side (sweeper_child.c). Never returns. */
void sg_sweeper_child(void *sweeper);
