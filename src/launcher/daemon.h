/* SPDX-License-Identifier: Apache-2.0 */
/* sandglassd, which is kept running (child.h). When the very first one says that its settings are
 * wrong, the service ends: whoever starts it is there to read why. */
#pragma once

#include "launcher/child.h"

struct sg_launcher;

struct sg_daemon {
    struct sg_child child;
    char *program;       /* owned; NULL: there is none to start (tests) */
    char *config;        /* owned: name of the settings file, or NULL */
    int tcp_fd, unix_fd; /* owned: the listeners, handed to each of them */
    bool is_hopeless;    /* the first one found its settings wrong */
};

/* Starts it, now and whenever it ends. */
int sg_daemon_start(struct sg_launcher *l, struct sg_err *err);
/* It broke the rules, or closed its socket: it is started anew. */
void sg_daemon_kill(struct sg_launcher *l);
/* TERM, and KILL after a while; no other one. sg_launcher_daemon_gone() follows. */
void sg_daemon_end(struct sg_launcher *l);
