/* SPDX-License-Identifier: Apache-2.0 */
/* What a sandbox may use without having it: secrets, opened here and nowhere else, with the hosts
 * they are bound to; fields that are added to requests; a proxy that its connections go through.
 *
 * K1. A value is in this process's memory only: it comes sealed, and leaves by sg_swap() alone.
 * K2. A secret goes to hosts of its own binding, over TLS unless the binding says otherwise. One
 *     without a binding goes where a field of the sandbox's own settings puts it, over TLS.
 * K3. A new set takes the place of the old one when all of it is there. */
#pragma once

#include "gate/gate.h"
#include "gate/swap.h"
#include "net/binding.h"
#include "seal/seal.h"

struct sg_creds;

/* One part of a box's next set; the last one puts it in force. */
int sg_creds_order(struct sg_gate_box *b, const struct sg_msg_g_cred *m, struct sg_err *err);
void sg_creds_free(struct sg_creds *c);

/* Whether requests there are to be looked into. */
bool sg_creds_want(const struct sg_gate_box *b, const char *name, uint16_t port, bool is_tls);
/* What holds there, now. Returns one reference; it may be empty. */
struct sg_swaps *sg_creds_swaps(const struct sg_gate_box *b, const char *name, uint16_t port,
                                bool is_tls);
