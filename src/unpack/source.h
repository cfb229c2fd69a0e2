/* SPDX-License-Identifier: Apache-2.0 */
/* The archive as a stream: compression off, and, where asked, the digest of what was below it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "digest/digest.h"

struct archive;

struct sg_source {
    struct archive *tar;     /* owned: what entries are read from */
    struct archive *packed;  /* owned: decodes for it; NULL: `tar` does that itself */
    struct sg_digest digest; /* of what `packed` decoded */
    uint64_t decoded;        /* bytes of that */
};

/* With `has_digest` decoding and reading are apart, which costs a little. */
int sg_source_open(struct sg_source *s, int fd, bool has_digest, struct sg_err *err);
void sg_source_done(struct sg_source *s);

/* Bytes of the archive as it came, and of the stream in it, so far. */
uint64_t sg_source_packed(const struct sg_source *s);
uint64_t sg_source_stream(const struct sg_source *s);

/* What is behind the last entry belongs to the digest, too: the next piece of that. 1: there was
 * one, 0: that was all. */
int sg_source_skip(struct sg_source *s, struct sg_err *err);
int sg_source_fail(const struct sg_source *s, const char *after, struct sg_err *err);
