/* SPDX-License-Identifier: Apache-2.0 */
/* Of the programs that have no C library. Hidden: in a guest they are nobody else's. */
#pragma once

#include <stddef.h>

__attribute__((visibility("hidden"))) void *memcpy(void *restrict to, const void *restrict from,
                                                   size_t n);
__attribute__((visibility("hidden"))) void *memset(void *at, int byte, size_t n);
