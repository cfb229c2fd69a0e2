/* SPDX-License-Identifier: Apache-2.0 */
/* The exporter's system call filter: policy/export.json, compiled at build time by tools/seccompc.
 */
#pragma once

#include <linux/filter.h>

extern const struct sock_filter sg_seccomp_export[];
extern const unsigned short sg_seccomp_export_len;
