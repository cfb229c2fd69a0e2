/* SPDX-License-Identifier: Apache-2.0 */
/* Layers of images, each stored once, however many templates have it.
 *
 *   <state>/templates/.layer-<diff>/tree/           what it has, and whiteouts as .wh.<name>
 *   <state>/templates/.layer-<diff>/blob-<digest>   as it came: for export and push
 *   <state>/templates/.layer-<diff>/layer.toml      numbers
 *   <state>/templates/.layer-<diff>s/               the same where set-id bits are kept
 *
 * A template's root is put together of the trees by hard links: one root, as fast as any other, and
 * a file that two templates have is one on the disk. Nobody writes to a root, so nobody sees that.
 *
 * L1. A layer appears by rename, whole, after its content had the digest that is its name.
 * L2. Who uses one holds a shared lock; one that no template names and nobody holds is swept. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "image/oci.h"
#include "image/template.h"

#define SG_LAYER_PREFIX ".layer-"
#define SG_WHITEOUT     ".wh."
#define SG_WHITEOUT_ALL ".wh..wh..opq"

/* An attribute of one that a layer names with this very mode. */
#define SG_MARK_NAMED "user.sandglass.named"

enum {
    /* Of a directory that a layer has entries in but does not name: it is as it is below. */
    SG_MODE_IMPLIED = 01701, /* and without SG_MARK_NAMED */
    SG_PART_NAME = 7 + SG_OCI_HEX + 1,
    SG_LAYER_NAME = 7 + SG_OCI_HEX + 2,
};

/* "sha256-<hex>": a part of an image that was laid down. */
void sg_part_name(const struct sg_oci_hex *hex, char ret[SG_PART_NAME]);
void sg_blob_name(const struct sg_oci_hex *hex, char ret[SG_PART_NAME]);
void sg_layer_name(const struct sg_oci_hex *diff, bool keeps_setuid, char ret[SG_LAYER_NAME]);

struct sg_layer_numbers {
    uint64_t entries, bytes, skipped, setuid_dropped;
};
int sg_layer_numbers_write(int layer_fd, const struct sg_layer_numbers *n, struct sg_err *err);
int sg_layer_numbers_read(int layer_fd, struct sg_layer_numbers *ret, struct sg_err *err);

/* Adds a layer's tree to a root, above what is there. `left` is what is left of the entries that a
 * root may have. */
int sg_layer_merge(int tree_fd, int root_fd, uint64_t *left, struct sg_err *err);

/* Removes layers that no template names. Never fails: what is in use is found again. */
void sg_layers_sweep(int store_fd);
