/* SPDX-License-Identifier: Apache-2.0 */
/* A sandbox as one file: its frame. docs/design/moving.md has the layout and the reasons.
 *
 *     head      24 bytes: magic, version, flags, length of the manifest, zeros; little endian
 *     manifest  JSON
 *     pieces    each 4 bytes of length, 1 to SG_MOVE_PIECE_MAX, and so many of the archive; in a
 *               whole file those of the template come first, and 4 zeros between the two
 *     end       4 zeros, 8 bytes: how much of the archive there was, 32 bytes: SHA-256 of all
 * before
 *
 * G1. Nothing is taken for whole before its end was seen and its digest was right. What is cut off
 *     is told apart from what was altered.
 * G2. The reader holds the manifest and no more; pieces are passed on as they come. Where the input
 *     is split makes no difference. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

enum {
    SG_MOVE_VERSION = 1,
    SG_MOVE_VERSION_WHOLE = 2, /* the template is in it, too */
    SG_MOVE_HEAD_BYTES = 24,
    SG_MOVE_MANIFEST_MAX = 1 << 20,
    SG_MOVE_PIECE_MAX = 1 << 20,
    SG_MOVE_DIGEST_BYTES = 32,
};

/* ---- writing: what is to be sent goes to `out` ---- */

struct sg_move_writer {
    void *digest; /* owned */
    uint64_t bytes;
};
int sg_move_writer_init(struct sg_move_writer *w, struct sg_err *err);
void sg_move_writer_done(struct sg_move_writer *w);
void sg_move_put_head(struct sg_move_writer *w, struct sg_buf *out, bool is_whole,
                      const void *manifest, size_t n);
void sg_move_put_next(struct sg_move_writer *w, struct sg_buf *out); /* the other archive begins */
void sg_move_put_piece(struct sg_move_writer *w, struct sg_buf *out, const void *p, size_t n);
void sg_move_put_end(struct sg_move_writer *w, struct sg_buf *out);

/* ---- reading ---- */

enum sg_move_event {
    SG_MOVE_MORE,     /* all was taken, and more is to come */
    SG_MOVE_MANIFEST, /* it is whole: r->text */
    SG_MOVE_DATA,     /* r->data, r->data_n: of the archive; in the input that was given */
    SG_MOVE_NEXT,     /* the archive of the template is over: the other one begins */
    SG_MOVE_END,      /* and everything was as it should be */
};
struct sg_move_reader {
    int state;
    struct sg_buf text; /* what is gathered: the head, the manifest, the end */
    uint64_t left, bytes;
    bool is_whole;     /* of the version that has the template in it; once the head is read */
    unsigned archives; /* to come */
    const uint8_t *data;
    size_t data_n;
    void *digest; /* owned */
};
int sg_move_reader_init(struct sg_move_reader *r, struct sg_err *err);
void sg_move_reader_done(struct sg_move_reader *r);
/* Takes some of `*p`, and moves it and `*n` on. SG_INVALID: it is no such file, or was altered;
 * SG_UNSUPPORTED: of a later version. After an error, or the end, it must not be called. */
int sg_move_read(struct sg_move_reader *r, const uint8_t **p, size_t *n, enum sg_move_event *ret,
                 struct sg_err *err);
/* There is no more input, before the end: says what is missing. Returns -1. */
int sg_move_cut(const struct sg_move_reader *r, struct sg_err *err);
