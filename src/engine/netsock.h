/* SPDX-License-Identifier: Apache-2.0 */
/* The sockets of one sandbox, made inside its network namespace for the gate.
 *
 * The namespace has a loopback device and nothing else. A local route makes every address one of
 * its own, and what comes to any of them is led to our sockets (lead.h). */
#pragma once

#include "engine/lead.h"

/* In the namespace that the caller is in. `ret_fds` as of G_ATTACH, owned. `how` is not AUTO.
 * SG_UNSUPPORTED: this kernel does not permit it. */
int sg_netsock_make(enum sg_lead how, int *ret_fds, struct sg_err *err);
/* Enters the namespace of `pidfd` and comes back to `own_net_fd`. */
int sg_netsock_make_in(enum sg_lead how, int own_net_fd, int pidfd, int *ret_fds,
                       struct sg_err *err);

/* ---- netsock_apart.c: by a child of ours ---- */

/* The same for who cannot come back: without root our own namespace is the host's, which nobody
 * enters. `pidfd` -1: a new namespace, to see whether it can be done. */
int sg_netsock_make_apart(enum sg_lead how, int pidfd, int *ret_fds, struct sg_err *err);
