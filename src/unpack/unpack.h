/* SPDX-License-Identifier: Apache-2.0 */
/* Unpacking one hostile archive into one directory.
 *
 * U1. Nothing outside of the target directory is made, changed or linked to: every name is opened
 *     below the target, through no symbolic link and onto no other mount.
 * U2. Nothing that exists is replaced: a second entry of the same name is refused, except that a
 *     directory may be named again.
 * U3. No device node, set-id bit (unless asked for), extended attribute or id above 65535 gets in.
 * U4. Memory use does not depend on the archive; entries, bytes, ratio, depth and names have
 * limits. On failure the caller throws the target away: it holds whatever came before the bad
 * entry. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "image/oci.h"

struct sg_unpack_options {
    uint64_t max_entries;
    uint64_t max_bytes;        /* of content; a sparse file counts with its full size */
    uint64_t max_ratio;        /* unpacked bytes per archive byte ... */
    uint64_t ratio_free_bytes; /* ... once this much has been unpacked */
    unsigned max_depth;        /* components of a name */
    bool is_one_user;          /* everything stays owned by the caller */
    bool keeps_setuid;         /* for templates whose profile grants sudo */
    bool skips_devices;        /* outside of dev/ too, where they are skipped anyway */
    bool is_layer;             /* one of several of an image: see image/layers.h */
    const char *diff;          /* NULL, or what the SHA-256 of the archive without compression is */
    /* Not NULL: an archive of an image (OCI's, or of `docker save`) is taken apart instead, and
     * what is found is described in here. */
    struct sg_arena *arena;
    const struct sg_oci_platform *platform; /* then: which of its images */
    const char *image;                      /* the same, by name; NULL: it has one */
};

/* The limits that the program starts with; flags off. */
struct sg_unpack_options sg_unpack_defaults(void);

struct sg_unpack_result {
    uint64_t entries, bytes;
    uint64_t skipped; /* FIFOs, sockets, devices in dev/ */
    uint64_t setuid_dropped;
    char first_skipped[96];     /* quoted, or empty */
    struct sg_oci_image *image; /* NULL: it was a root. Its parts are in the target directory */
};

/* Reads a tar archive (plain, gzip, bzip2, xz or zstd) from `archive_fd`. SG_INVALID names the
 * entry that is not acceptable, SG_EXHAUSTED the limit. Blocks. */
int sg_unpack(int archive_fd, int target_fd, const struct sg_unpack_options *options,
              struct sg_unpack_result *ret, struct sg_err *err);
