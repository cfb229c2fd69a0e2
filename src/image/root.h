/* SPDX-License-Identifier: Apache-2.0 */
/* What every root filesystem of a template must be like. */
#pragma once

#include "base/err.h"

/* The places where a cell's own mounts and files go must not lead elsewhere: each of /dev, /etc,
 * /proc, /run, /sys, /tmp and /usr is a real directory or absent, else SG_INVALID. */
int sg_root_check(int root_fd, struct sg_err *err);
