/* SPDX-License-Identifier: Apache-2.0 */
/* sandglass-gate as the launcher has it: kept running (child.h), given the sockets of every sandbox
 * that has a network, and brought together with the daemon.
 *
 * T1. Of a sandbox's sockets we keep nothing: they live and die with the gate. Until the next gate
 *     has new ones, the kernel refuses every connection.
 * T2. Whenever there is a new gate or a new daemon, each gets one end of a fresh connection. */
#pragma once

#include "engine/lead.h"
#include "launcher/child.h"

struct sg_box;
struct sg_launcher;

struct sg_gate_link {
    struct sg_child child;
    char *program; /* owned; NULL: there is none, and `why` */
    char why[240];
    enum sg_lead how; /* connections are led to it */
    struct sg_io io;  /* orders; it says nothing itself */
    int own_net_fd;   /* our own network namespace, to come back to */
    struct sg_timer retry;
};

/* Whether there can be one here, and how. */
void sg_gate_find(struct sg_launcher *l, enum sg_lead wanted);
int sg_gate_start(struct sg_launcher *l, struct sg_err *err);
void sg_gate_stop(struct sg_launcher *l); /* at the end of the service */

/* The daemon has said hello. */
void sg_gate_join(struct sg_launcher *l);

/* SG_UNSUPPORTED where there is no gate. The sockets are on their way, or will be when there is a
 * gate again. */
int sg_gate_attach(struct sg_box *b, struct sg_err *err);
void sg_gate_detach(struct sg_box *b); /* also of one that has none */
