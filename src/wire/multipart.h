/* SPDX-License-Identifier: Apache-2.0 */
/* multipart/form-data (RFC 7578), as a stream: the parts of an upload come in pieces, whatever
 * their size, and only their small heads are kept.
 *
 * Lines end in CRLF; a part must have a Content-Disposition with a name. What is before the first
 * delimiter and after the last is passed over. */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "base/str.h"
#include "wire/input.h"

enum { SG_MULTIPART_MAX_BOUNDARY = 70, SG_MULTIPART_MAX_HEAD = 4096 };

enum sg_multipart_got {
    SG_MULTIPART_MORE,
    SG_MULTIPART_PART, /* a part begins: name, filename, type */
    SG_MULTIPART_DATA, /* a piece of it */
    SG_MULTIPART_PART_END,
    SG_MULTIPART_END,
    SG_MULTIPART_BAD,
};

struct sg_multipart {
    /* of the part; terminated UTF-8, in `head`; NULL: not given */
    const char *name, *filename, *type;
    /* the decoder's own */
    uint8_t state, delim_n, matched;
    bool is_in_part;
    char delim[4 + SG_MULTIPART_MAX_BOUNDARY]; /* CRLF, "--", boundary */
    size_t head_n, line_n;
    char head[SG_MULTIPART_MAX_HEAD + 1];
};

/* `content_type` is the whole header's value. SG_INVALID: not multipart/form-data with a boundary.
 */
int sg_multipart_init(struct sg_multipart *m, const char *content_type, struct sg_err *err);

/* The input has ended well only when END came. */
enum sg_multipart_got sg_multipart_next(struct sg_multipart *m, struct sg_input *in,
                                        struct sg_input *ret, struct sg_err *err);
