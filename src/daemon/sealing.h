/* SPDX-License-Identifier: Apache-2.0 */
/* What secrets are sealed with, and what sandboxes trust so that the gate may open them on their
 * way: the public halves of the keys in DIR (seal/keyfile.h, tls/authority.h). */
#pragma once

#include "base/err.h"
#include "seal/seal.h"

enum { SG_SEALING_CERT = 2048 };

struct sg_sealing {
    struct sg_seal_key to;           /* public */
    char gate_cert[SG_SEALING_CERT]; /* PEM */
};

/* To be called while we are still somebody: a process of its own reads or makes the private halves
 * and is gone, so that they never were in the memory of this one. */
int sg_sealing_open(const char *dir, struct sg_sealing *ret, struct sg_err *err);
