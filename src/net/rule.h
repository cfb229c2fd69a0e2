/* SPDX-License-Identifier: Apache-2.0 */
/* A rule names destinations: [tcp:|udp:]HOST[:PORTS]
 *
 *     HOST    example.com, *.example.com (what is below it), * (everything), 192.0.2.1,
 *             192.0.2.0/24, 2001:db8::/32; IPv6 before a port stands in brackets
 *     PORTS   443, 80,443 or 8000-8999; none: all
 *
 * A rule is about TCP unless it says udp. */
#pragma once

#include "net/addr.h"
#include "net/name.h"

enum { SG_NETRULE_PORTS = 8, SG_NETRULE_TEXT = 320 };
enum sg_netrule_kind { SG_NETRULE_ANY, SG_NETRULE_NAME, SG_NETRULE_BELOW, SG_NETRULE_CIDR };

struct sg_netrule {
    enum sg_netrule_kind kind;
    bool is_udp;
    uint8_t port_count; /* 0: all */
    struct {
        uint16_t first, last;
    } ports[SG_NETRULE_PORTS];
    struct sg_cidr cidr;
    char *name; /* owned; of NAME and BELOW */
    char *text; /* owned; as it was written */
};

int sg_netrule_parse(struct sg_str text, struct sg_netrule *ret, struct sg_err *err);
void sg_netrule_done(struct sg_netrule *r);

/* Where somebody wants to go. `name` NULL: an address as such; `addr` NULL: not known yet. */
struct sg_target {
    const char *name; /* canonical */
    const struct sg_addr *addr;
    uint16_t port; /* 0: any (a question for the name alone) */
    bool is_udp;
};
bool sg_netrule_matches(const struct sg_netrule *r, const struct sg_target *t);
/* The same, where the rule names the port. */
bool sg_netrule_names_port(const struct sg_netrule *r);

/* "host:port" or "[v6]:port" as a target; `name` and `addr` give it room. */
int sg_target_parse(struct sg_str text, struct sg_name *name, struct sg_addr *addr,
                    struct sg_target *ret, struct sg_err *err);
