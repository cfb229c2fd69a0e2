/* SPDX-License-Identifier: Apache-2.0 */
/* What an exact archive has beside names and bytes: the attributes of a file, its holes, and which
 * directories hide those below them. Told in records of pax headers:
 *
 *     SCHILY.xattr.NAME=VALUE      an extended attribute, as other programs write them, too
 *     GNU.sparse.size=BYTES, GNU.sparse.map=OFFSET,BYTES,...
 *                                  a file with holes; its data are the pieces, one after the other
 *     SANDGLASS.opaque=1           a directory that begins empty, whatever there was
 *
 * Of attributes those go along that mean the same on every machine: `user.`, file capabilities and
 * access lists. Labels of the host's own policies stay where they are. */
#pragma once

#include <stdbool.h>
#include <sys/stat.h>

#include "init/tar.h"

enum { SG_TAR_PIECES_MAX = 16384 }; /* of one file; what comes after them is told without holes */

/* Records of what `fd` is: its attributes, its times to the nanosecond, its mark. */
int sg_tar_put_attributes(struct sg_buf *records, int fd, const struct stat *st,
                          struct sg_err *err);

/* A file as pieces. With one that is the whole of it there is nothing to tell. */
struct sg_tar_pieces {
    uint64_t bytes; /* of all of them */
    size_t n;
    struct sg_tar_piece {
        uint64_t at, bytes;
    } * v; /* owned */
};
int sg_tar_find_pieces(int fd, uint64_t bytes, struct sg_tar_pieces *ret, struct sg_err *err);
bool sg_tar_has_holes(const struct sg_tar_pieces *p, uint64_t bytes);
void sg_tar_put_pieces(struct sg_buf *records, const struct sg_tar_pieces *p, uint64_t bytes);
/* False: the records tell of none. SG_INVALID: what they tell makes no sense. */
int sg_tar_read_pieces(struct sg_str pax, uint64_t data_bytes, struct sg_tar_pieces *ret,
                       uint64_t *ret_bytes, bool *ret_is_sparse, struct sg_err *err);
void sg_tar_pieces_done(struct sg_tar_pieces *p);

bool sg_tar_is_opaque(struct sg_str pax);
/* Gives `fd` the attributes that the records tell of. SG_INVALID: one that none may have. */
int sg_tar_set_attributes(int fd, struct sg_str pax, struct sg_err *err);
