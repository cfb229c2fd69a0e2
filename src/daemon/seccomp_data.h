/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon's system call filter: policy/daemon.json, compiled at build time by tools/seccompc. */
#pragma once

#include <linux/filter.h>

extern const struct sock_filter sg_seccomp_daemon[];
extern const unsigned short sg_seccomp_daemon_len;
