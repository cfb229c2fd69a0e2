/* SPDX-License-Identifier: Apache-2.0 */
/* The gate's system call filter: policy/gate.json, compiled at build time by tools/seccompc. */
#pragma once

#include <linux/filter.h>

extern const struct sock_filter sg_seccomp_gate[];
extern const unsigned short sg_seccomp_gate_len;
