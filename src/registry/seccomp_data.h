/* SPDX-License-Identifier: Apache-2.0 */
/* policy/registry.json, compiled. */
#pragma once

#include <linux/filter.h>

extern const struct sock_filter sg_seccomp_registry[];
extern const unsigned short sg_seccomp_registry_len;
