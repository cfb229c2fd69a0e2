/* SPDX-License-Identifier: Apache-2.0 */
/* Trees between this machine and a sandbox, as tar.
 *
 * T1. What comes out of a sandbox is hostile: only regular files and directories are made, below
 * one directory, through no symbolic link, without set-id bits; the rest is left out and counted.
 * T2. What goes in is the caller's own: regular files, directories and symbolic links. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"

struct sg_tar_count {
    uint64_t files, bytes, skipped;
};

/* Unpacks below `dir_fd`. `pull` gives some bytes; 0 at the end, -1 with errno. SG_DENIED names the
 * entry that would lead out. */
int sg_tar_extract(int dir_fd, ssize_t (*pull)(void *arg, void *p, size_t n), void *arg,
                   struct sg_tar_count *count, struct sg_err *err);

/* Single entries of a directory, each under a name of its own. Directories come without what is in
 * them. Times are left out, so that the same files are the same bytes. */
struct sg_tar_item {
    const char *file, *name;
};
int sg_tar_pack_items(int dir_fd, const struct sg_tar_item *items, size_t n,
                      int (*put)(void *arg, const void *p, size_t n, struct sg_err *err), void *arg,
                      struct sg_tar_count *count, struct sg_err *err);

/* Writes what is below `dir_fd` (taken) as an archive: "./", then all names below it. */
int sg_tar_pack(int dir_fd, int (*put)(void *arg, const void *p, size_t n, struct sg_err *err),
                void *arg, struct sg_tar_count *count, struct sg_err *err);
