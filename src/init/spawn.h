/* SPDX-License-Identifier: Apache-2.0 */
/* Starting a program: everything is prepared in the parent, the child only walks the steps. */
#pragma once

#include <stdbool.h>

#include "ctl/msg.h"
#include "init/user.h"

enum {
    SG_SPAWN_MAX_PATHS = 128,             /* directories of PATH that are looked at */
    SG_SPAWN_MAX_TEXT_BYTES = 256 * 1024, /* candidates and added variables together */
};

enum sg_spawn_step {
    SG_SPAWN_SESSION,
    SG_SPAWN_TERMINAL,
    SG_SPAWN_STREAMS,
    SG_SPAWN_IDS,
    SG_SPAWN_CAPS,
    SG_SPAWN_DIRECTORY,
    SG_SPAWN_DESCRIPTORS,
    SG_SPAWN_SIGNALS,
    SG_SPAWN_EXEC,
    SG_SPAWN_STEP_COUNT,
};

/* Borrows the message and the user. The child, which shares our memory until it has become the
 * program, writes `failed` and `sys`. */
struct sg_spawn {
    char **vectors;               /* owned: argv, envp and paths are parts of it */
    char **argv, **envp, **paths; /* paths: what to try, in order */
    struct sg_buf text;           /* owned: the strings that we made */
    const char *base, *cwd;       /* base: NULL, or where a relative cwd starts */
    bool may_use_root;            /* "/" where cwd is not usable: nobody asked for it by name */
    const struct sg_user *user;
    int fds[3];        /* -1: as init has it, which is /dev/null */
    bool has_terminal; /* fds[0] becomes the controlling one */
    bool drops_caps;
    enum sg_spawn_step failed;
    int sys; /* 0: the program runs */
};

/* SG_INVALID for an empty argv, SG_EXHAUSTED where it is too much. */
int sg_spawn_prepare(struct sg_spawn *s, const struct sg_msg_spawn *m, const struct sg_user *user,
                     struct sg_err *err);
void sg_spawn_done(struct sg_spawn *s);

/* Returns the pid once the program runs. Else the error has the errno of the step that failed. */
int sg_spawn_start(struct sg_spawn *s, struct sg_err *err);

/* The child: spawn_child.c. `arg` is the struct sg_spawn. */
int sg_spawn_child(void *arg);
