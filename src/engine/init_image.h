/* SPDX-License-Identifier: Apache-2.0 */
/* sandglass-init as carried inside our own program, handed out as a sealed file in memory: nothing
 * inside a sandbox can change it through /proc/1/exe, and no host binary is left open. */
#pragma once

#include <stddef.h>

#include "base/err.h"

int sg_init_image_open(struct sg_err *err);
const void *sg_init_image_bytes(size_t *ret_n); /* the same, as bytes */
