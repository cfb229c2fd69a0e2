/* SPDX-License-Identifier: Apache-2.0 */
/* Where keys are kept: a directory of root's, in which whoever comes first makes them. The daemon
 * (a process of its own, for the public halves) and the gate (for the private ones) start at the
 * same moment, so that the directory is locked while one of them looks. */
#pragma once

#include "base/err.h"
#include "seal/seal.h"

/* Made where missing, 0700. The lock goes with the descriptor. */
int sg_seal_dir_open(const char *path, struct sg_err *err);
/* The private key, of DIR/key (32 bytes, 0600). SG_INVALID: damaged, with the remedy: it is never
 * replaced, what was sealed to it would be lost without a word. */
int sg_seal_key_open(int dir_fd, struct sg_seal_key *ret, struct sg_err *err);
