/* SPDX-License-Identifier: Apache-2.0 */
/* The key pair that secrets are sealed with: made at the first start, kept in DIR/key (32 bytes,
 * root's alone), for whoever is to open them. */
#pragma once

#include "base/err.h"
#include "seal/seal.h"

/* The public half. To be called while we are still somebody: a process of its own reads or makes
 * the private one and is gone, so that it never was in the memory of this one. */
int sg_sealing_key(const char *dir, struct sg_seal_key *ret_public, struct sg_err *err);
