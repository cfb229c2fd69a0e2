/* SPDX-License-Identifier: Apache-2.0 */
/* Reading and writing pipes that a sandbox shares, without ever waiting.
 *
 * Init keeps duplicates of our ends, and O_NONBLOCK belongs to the open file: whoever has become
 * init could switch it off while we read or write, and hold up the whole daemon. splice(2) with
 * SPLICE_F_NONBLOCK asks nobody, so bytes go through a pipe of our own. */
#pragma once

#include <stddef.h>
#include <sys/types.h>

enum { SG_NOWAIT_MAX = 65536 }; /* of one call */

/* As read(2) and write(2) on a non-blocking pipe: -1 with errno, EAGAIN for "not now". */
ssize_t sg_nowait_read(int pipe_fd, void *to, size_t cap);
ssize_t sg_nowait_write(int pipe_fd, const void *p, size_t n);
