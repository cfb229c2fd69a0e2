/* SPDX-License-Identifier: Apache-2.0 */
/* The bridge's system call filter: policy/bridge.json, compiled at build time by tools/seccompc. */
#pragma once

#include <linux/filter.h>

extern const struct sock_filter sg_seccomp_bridge[];
extern const unsigned short sg_seccomp_bridge_len;
