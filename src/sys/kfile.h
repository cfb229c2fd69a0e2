/* SPDX-License-Identifier: Apache-2.0 */
/* Small files of the kernel (proc, cgroup): read or written whole, in one call. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Anchored at dir_fd as openat does. The text is terminated; SG_EXHAUSTED when it does not fit. */
int sg_file_read(int dir_fd, const char *path, char *ret, size_t cap, struct sg_err *err);
int sg_file_write(int dir_fd, const char *path, const char *text, struct sg_err *err);

/* A file that holds one number ("max" reads as UINT64_MAX). */
int sg_file_read_u64(int dir_fd, const char *path, uint64_t *ret, struct sg_err *err);

/* The number after `key` in a file of "key value" lines. */
int sg_file_read_key(int dir_fd, const char *path, const char *key, uint64_t *ret,
                     struct sg_err *err);

/* mkdir -p for our own state and run directories. */
int sg_mkdir_all(const char *path, unsigned mode, struct sg_err *err);
