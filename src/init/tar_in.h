/* SPDX-License-Identifier: Apache-2.0 */
/* Unpacking an archive below a directory. */
#pragma once

#include "init/tar.h"

/* `flags` as of TAR_IN. What was unpacked before an error stays, except the file in hand. */
int sg_tar_unpack(int root_fd, uint32_t flags, sg_tar_pull *pull, void *arg, struct sg_err *err);
