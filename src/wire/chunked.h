/* SPDX-License-Identifier: Apache-2.0 */
/* The chunked transfer coding (RFC 9112 7.1), both ways.
 *
 * Strict as http1.h: CRLF exactly, sizes of hexadecimal digits only and without overflow. Chunk
 * extensions and trailer fields are checked, bounded and dropped. */
#pragma once

#include "base/err.h"
#include "wire/input.h"

enum {
    SG_CHUNK_MAX_LINE = 256,            /* size and extensions of one chunk */
    SG_CHUNK_MAX_TRAILER = 8 << 10,     /* all trailer fields together */
    SG_CHUNK_MAX_EXTENSIONS = 16 << 10, /* in a whole body: a chunk a byte costs no more */
};

enum sg_chunked_got { SG_CHUNKED_MORE, SG_CHUNKED_DATA, SG_CHUNKED_END, SG_CHUNKED_BAD };

struct sg_chunked {
    uint8_t state;
    unsigned line, extensions, trailer; /* bytes seen */
    uint64_t left;                      /* of the chunk */
};

static inline void sg_chunked_init(struct sg_chunked *c)
{
    *c = (struct sg_chunked) { 0 };
}

/* DATA: `ret` is the next piece of the body. END: what is left in `in` is behind the body. */
enum sg_chunked_got sg_chunked_next(struct sg_chunked *c, struct sg_input *in, struct sg_input *ret,
                                    struct sg_err *err);

/* The line before a chunk of n > 0 bytes; CRLF comes after it. Returns its length. */
enum { SG_CHUNK_HEAD = 18 };
size_t sg_chunk_head(char out[SG_CHUNK_HEAD], size_t n);
#define SG_CHUNK_TAIL "\r\n"
#define SG_CHUNK_LAST "0\r\n\r\n"
