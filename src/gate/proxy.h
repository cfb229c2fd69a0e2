/* SPDX-License-Identifier: Apache-2.0 */
/* A SOCKS 5 proxy that a sandbox's connections are dialled through, if its policy names one.
 *
 * E1. What a connection is for was judged before, as without a proxy: name, address, this machine.
 *     A proxy takes nobody further than he could have come alone.
 * E2. The proxy itself is judged at every dial: its address as every other, and by what lies above
 *     the sandbox's policy. A name is looked up then, and the very address dialled.
 * E3. There is no other way: a proxy that cannot be used, does not answer or answers nonsense
 *     refuses the connection, and datagrams do not leave at all.
 * E4. The password is opened here, kept here, and said to that proxy only. */
#pragma once

#include "gate/flow.h"
#include "wire/socks.h"

struct sg_proxy; /* a sandbox's */

/* As the policy has it, with its password opened; NULL: it has none. One that cannot be opened is
 * one through which nothing goes; `err` says why then, and -1 is returned. */
int sg_proxy_open(const struct sg_gate_box *b, const struct sg_egress *e, const char *org,
                  struct sg_proxy **ret, struct sg_err *err);
void sg_proxy_free(struct sg_proxy *p);

/* A flow that may go on, through the proxy of its box. `is_by_name`: its name was what decided, so
 * the proxy looks it up itself. False: it was refused, and is gone. */
bool sg_via_begin(struct sg_flow *f, bool is_by_name);
void sg_via_stop(struct sg_flow *f); /* whatever is under way */
/* Whether one that goes there may still do so. */
bool sg_via_is_allowed(const struct sg_flow *f, struct sg_netverdict *ret);
