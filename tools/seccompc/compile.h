/* SPDX-License-Identifier: Apache-2.0 */
/* From a parsed policy to a checked seccomp program. */
#pragma once

#include "seccompc/bpf.h"
#include "seccompc/policy.h"

/* Fills b, which may hold anything before. SG_EXHAUSTED when the program has no room. */
int sg_policy_compile(const struct sg_policy *p, struct sg_bpf *b, unsigned *ret_longest,
                      struct sg_err *err);
