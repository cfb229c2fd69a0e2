/* SPDX-License-Identifier: Apache-2.0 */
/* An init that somebody else started (a container engine) has no descriptors of ours: it comes to
 * the socket that was put beside it and is given them. */
#pragma once

#include "base/err.h"

/* Connects to `path` and waits for what a host sends first: then the control connection is
 * descriptor `first_fd`, the listener and the lock of the slot follow it, 0 to 2 are /dev/null,
 * nothing else is open, and the filter that came along holds for us and for all that we start. */
int sg_join(const char *path, int first_fd, struct sg_err *err);
