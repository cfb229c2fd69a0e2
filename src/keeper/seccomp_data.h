/* SPDX-License-Identifier: Apache-2.0 */
/* The keeper's system call filter: policy/keeper.json, compiled at build time by tools/seccompc. */
#pragma once

#include <linux/filter.h>

extern const struct sock_filter sg_seccomp_keeper[];
extern const unsigned short sg_seccomp_keeper_len;
