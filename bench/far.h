/* SPDX-License-Identifier: Apache-2.0 */
/* The far end of connections through the gate: a process of its own with one thread. It greets
 * every connection with a byte, reads what comes, and says a second byte when the client has ended.
 * It also is the gate's name server, for which every name is this machine's loopback address. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

struct sg_far {
    pid_t pid;
    uint16_t port; /* of the greeter */
};

/* `names_port`: where the gate asks for names. */
int sg_far_start(struct sg_far *f, uint16_t names_port, struct sg_err *err);
void sg_far_stop(struct sg_far *f);
