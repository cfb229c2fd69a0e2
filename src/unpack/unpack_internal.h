/* SPDX-License-Identifier: Apache-2.0 */
/* One archive in hand: what unpack.c and image.c share. */
#pragma once

#include "unpack/source.h"
#include "unpack/unpack.h"
#include "unpack/writer.h"

struct archive_entry;

struct sg_unpack_job {
    const struct sg_unpack_options *options; /* borrows */
    struct sg_source in;
    struct sg_writer out;
    struct sg_unpack_result result;
    char last[96]; /* the entry at hand, quoted: libarchive's messages do not name it */
};

/* The next entry: 1, or 0 at the end. Names it, counts it, and parses its name. */
int sg_unpack_next(struct sg_unpack_job *job, struct archive_entry **ret,
                   struct sg_entry_name *ret_name, struct sg_err *err);
/* The content of the entry at hand into `fd`. `digest` may be NULL. */
int sg_unpack_content(struct sg_unpack_job *job, struct archive_entry *e, int fd,
                      struct sg_digest *digest, struct sg_err *err);

/* Whether an archive that begins with this entry is one of an image, and not of a root. */
bool sg_image_is_first(const char *path);
/* Such an archive, of which `e` is the first entry: its parts go into the target directory. */
int sg_image_take(struct sg_unpack_job *job, struct archive_entry *e,
                  const struct sg_entry_name *name, struct sg_err *err);
