/* SPDX-License-Identifier: Apache-2.0 */
/* The other way: a directory into an image of one layer. */
#pragma once

#include "unpack/unpack.h"

/* Writes the parts ("sha256-<hex>") of an image into `out_fd`: the tree below `root_fd` as a layer
 * (gzip), a configuration, a manifest. `config` is the JSON of how to run it. Names are sorted and
 * the packer notes no time of its own: the same tree is the same bytes. Sockets, FIFOs and device
 * nodes are left out and counted. */
int sg_pack(int root_fd, int out_fd, struct sg_str config, struct sg_arena *a,
            struct sg_unpack_result *ret, struct sg_err *err);
