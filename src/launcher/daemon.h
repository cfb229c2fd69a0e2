/* SPDX-License-Identifier: Apache-2.0 */
/* sandglassd: started from the directory of our own program, and started again when it ends, after
 * a pause that grows while it does not stay. When the very first one says that its settings are
 * wrong, the service ends: whoever starts it is there to read why. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "loop/loop.h"

struct sg_launcher;

struct sg_daemon {
    char *program;       /* owned; NULL: there is none to start (tests) */
    char *config;        /* owned: name of the settings file, or NULL */
    int tcp_fd, unix_fd; /* owned: the listeners, handed to each of them */
    pid_t pid;           /* 0: none runs */
    struct sg_io gone;   /* its pidfd */
    struct sg_timer timer;
    uint64_t started_ns, pause_ns;
    unsigned starts;
    bool is_ending;
    bool is_hopeless; /* the first one found its settings wrong */
};

/* Starts it, now and whenever it ends. */
int sg_daemon_start(struct sg_launcher *l, struct sg_err *err);
/* It broke the rules, or closed its socket: it is started anew. */
void sg_daemon_kill(struct sg_launcher *l);
/* TERM, and KILL after a while; no other one. sg_launcher_daemon_gone() follows. */
void sg_daemon_end(struct sg_launcher *l);
