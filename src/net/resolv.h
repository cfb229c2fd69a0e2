/* SPDX-License-Identifier: Apache-2.0 */
/* What the machine's own files say about names: resolv.conf(5) and hosts(5). */
#pragma once

#include <stddef.h>

#include "net/addr.h"

/* The addresses of the lines "nameserver ADDRESS", cut out of `text`. Returns how many. */
size_t sg_resolv_servers(char *text, char **ret, size_t max);
/* Addresses that hosts(5) has for `name`, whatever its case. Returns how many. */
size_t sg_hosts_find(const char *text, const char *name, struct sg_addr *ret, size_t max);
