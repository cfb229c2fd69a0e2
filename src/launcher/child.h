/* SPDX-License-Identifier: Apache-2.0 */
/* A program of the service that the launcher keeps running: started from the directory of our own
 * program, and started again when it ends, after a pause that grows while it does not stay. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "loop/loop.h"

struct sg_child;

/* The longest pause before one is started again: what is gone is back within a second. */
enum { SG_CHILD_PAUSE_MS = 500 };
_Static_assert(SG_CHILD_PAUSE_MS < 1000, "back within a second");

struct sg_child_ops {
    const char *name; /* of the program */
    const char *what; /* in the log: "daemon" */
    /* Makes what it needs, calls sg_child_spawn(), takes up the connection. */
    int (*start)(struct sg_child *c, struct sg_err *err);
    /* It is gone. False: no other one is wanted. */
    bool (*ended)(struct sg_child *c, int status);
};

struct sg_child {
    const struct sg_child_ops *ops;
    struct sg_loop *loop;
    char *program;      /* owned */
    const char *config; /* name of the settings file, or NULL */
    pid_t pid;          /* 0: none runs */
    struct sg_io gone;  /* its pidfd */
    struct sg_timer timer;
    uint64_t started_ns, pause_ns;
    unsigned starts;
    bool is_ending;
};

/* Takes `program`. Starts it, now and whenever it ends. */
int sg_child_begin(struct sg_child *c, struct sg_loop *l, const struct sg_child_ops *ops,
                   char *program, const char *config, struct sg_err *err);
/* For ops->start: `fds` (borrowed) are its descriptors 3, 4, ... */
int sg_child_spawn(struct sg_child *c, const int *fds, unsigned count, struct sg_err *err);
/* The same, with one descriptor: the far end of a connection whose near end `io` becomes, which has
 * its `ready`. */
int sg_child_spawn_joined(struct sg_child *c, struct sg_io *io, struct sg_err *err);
/* The same: after a failure behind sg_child_spawn(). */
void sg_child_abort(struct sg_child *c);
void sg_child_kill(struct sg_child *c); /* it is started anew */
/* TERM, and KILL after a while; no other one. False: none runs. ops->ended comes in any case but
 * that. */
bool sg_child_end(struct sg_child *c);

/* PROGRAM beside our own, or in FOLDER of a build directory. Returns owned. */
char *sg_child_program(const char *program, const char *folder);
