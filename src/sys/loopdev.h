/* SPDX-License-Identifier: Apache-2.0 */
/* Loop devices: a file as a block device. */
#pragma once

#include "base/err.h"

/* Opens the device that shows the file; an unused one is set up where none does yet. It shows the
 * file only as long as somebody has it open or mounted (LO_FLAGS_AUTOCLEAR): there is no state in
 * which it could be forgotten. `ret_path`: "/dev/loop7". */
int sg_loopdev_open(int image_fd, char ret_path[32], struct sg_err *err);

/* The file has grown. */
int sg_loopdev_resize(int dev_fd, struct sg_err *err);
