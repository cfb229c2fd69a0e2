/* SPDX-License-Identifier: Apache-2.0 */
/* A SOCKS 5 proxy that a sandbox's connections go through: where it is, and the password for it,
 * sealed to the gate's key (seal/seal.h). The box is bound to the organisation, the address and the
 * user name: whoever takes over the daemon cannot have the password sent elsewhere. */
#pragma once

#include "net/rule.h"

enum { SG_EGRESS_TEXT = 255 }; /* of a user name, and of a password (RFC 1929) */

struct sg_egress {
    char *address; /* owned; "HOST:PORT"; NULL: there is none */
    char *user;    /* owned; NULL: none is needed */
    char *sealed;  /* owned; the password's box; NULL: there is no user */
};

void sg_egress_done(struct sg_egress *e);
void sg_egress_copy(struct sg_egress *to, const struct sg_egress *from);
bool sg_egress_is_same(const struct sg_egress *a, const struct sg_egress *b);

/* The address, as a target; `name` and `addr` give it room. SG_INVALID. */
int sg_egress_target(const char *address, struct sg_name *name, struct sg_addr *addr,
                     struct sg_target *ret, struct sg_err *err);
/* What the password's box is bound to. Returns owned. */
char *sg_egress_context(const struct sg_egress *e, const char *org);
