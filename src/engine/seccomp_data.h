/* SPDX-License-Identifier: Apache-2.0 */
/* The cell's system call filter: policy/cell.json, compiled at build time by tools/seccompc. */
#pragma once

#include <linux/filter.h>

extern const struct sock_filter sg_seccomp_cell[];
extern const unsigned short sg_seccomp_cell_len;
