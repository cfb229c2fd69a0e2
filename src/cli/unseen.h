/* SPDX-License-Identifier: Apache-2.0 */
/* What nobody else is to see comes from the standard input, or is typed without being shown; never
 * from the command line, where others can read it. */
#pragma once

#include "base/buf.h"

/* Appends it; `what` is what a terminal is asked for. One line end at the end does not count. */
int sg_read_unseen(const char *what, struct sg_buf *ret, struct sg_err *err);
