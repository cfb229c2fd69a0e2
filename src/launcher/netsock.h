/* SPDX-License-Identifier: Apache-2.0 */
/* The sockets of one sandbox, made inside its network namespace for the gate.
 *
 * The namespace has a loopback device and nothing else. A local route makes every address one of
 * its own, and a program at the lookup of sockets (sk_lookup) leads what comes to any of them to
 * our sockets, before any that the sandbox opens itself; 127.0.0.0/8 and ::1 stay the sandbox's. */
#pragma once

#include "base/err.h"

/* Enters the namespace of `pidfd` and comes back to `own_net_fd`. `ret_fds` as of G_ATTACH, owned.
 * SG_UNSUPPORTED: this kernel has no such programs. */
int sg_netsock_make(int own_net_fd, int pidfd, int *ret_fds, struct sg_err *err);
