/* SPDX-License-Identifier: Apache-2.0 */
/* A connection to a host that a secret is bound to: its TLS ends here, is begun anew towards the
 * server, and the requests in between are rewritten (gate/rewrite.h).
 *
 * T1. Not a byte goes to the server before its certificate was verified for the name.
 * T2. Every request names the host that the connection was let through for.
 * T3. What goes wrong is told inside as an HTTP answer where that is still possible, and in the
 *     record always. */
#pragma once

#include "gate/flow.h"
#include "seal/seal.h"
#include "tls/authority.h"

/* ---- term_tls.c: keys ---- */

struct sg_trust; /* what the gate has, and nobody else */
struct sg_trust_options {
    const char *seal_dir;
    const char *ca_file; /* authorities of servers beside the system's; NULL: none */
};
/* While files can still be seen. */
struct sg_trust *sg_trust_open(const struct sg_trust_options *o, struct sg_err *err);
void sg_trust_free(struct sg_trust *t);
int sg_trust_unseal(const struct sg_trust *t, const char *context, const char *sealed,
                    struct sg_buf *ret, struct sg_err *err);
/* A session with a client that wants `name`, and one with the server of that name. */
struct sg_session *sg_trust_near(struct sg_trust *t, int fd, const char *name, struct sg_err *err);
struct sg_session *sg_trust_far(struct sg_trust *t, int fd, const char *name, struct sg_err *err);

/* ---- term.c ---- */

/* Takes over a flow whose first bytes were looked at. `is_tls` false: requests in the clear. */
void sg_term_begin(struct sg_flow *f, bool is_tls);
void sg_term_free(struct sg_term *t);
void sg_term_pump(struct sg_flow *f); /* the flow may be gone after it */
