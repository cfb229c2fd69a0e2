/* SPDX-License-Identifier: Apache-2.0 */
/* Our own questions for names, to the configured servers.
 *
 * R1. A question goes out from a socket of its own, connected to the server, with a random id: an
 *     answer that did not come from there, or is to another question, is passed over.
 * R2. An answer is kept for as long as it says, within bounds, so that what was judged when a name
 *     was asked for is what a connection meets a moment later.
 * R3. IPv4 is enough where there is any; IPv6 is waited for only where there is none. */
#pragma once

#include "loop/loop.h"
#include "net/addr.h"
#include "wire/dns.h"

struct sg_resolver;

struct sg_resolved {
    int rcode; /* SG_DNS_... */
    unsigned count, alias_count;
    struct sg_addr addrs[SG_DNS_MAX_ADDRS];
    char *aliases[2 * SG_DNS_MAX_ALIASES]; /* on the way to them; canonical */
};

struct sg_lookup {
    void (*done)(struct sg_lookup *l, const struct sg_resolved *r); /* from the loop, once */
    struct sg_lookup *next, **link; /* the resolver's; link NULL: it waits for nothing */
};

struct sg_resolver *sg_resolver_new(struct sg_loop *l);
/* "ADDRESS" or "ADDRESS:PORT". */
int sg_resolver_add(struct sg_resolver *r, struct sg_str server, struct sg_err *err);
unsigned sg_resolver_servers(const struct sg_resolver *r);
void sg_resolver_free(struct sg_resolver *r); /* nobody waits any more */

/* `name` is canonical. True: `*ret` is known already, for this moment, and `l` is not called. */
bool sg_resolve(struct sg_resolver *r, const char *name, struct sg_lookup *l,
                const struct sg_resolved **ret);
void sg_resolve_cancel(struct sg_lookup *l);
