/* SPDX-License-Identifier: Apache-2.0 */
/* The envelope of a Connect stream (connectrpc.com/docs/protocol): one byte of flags, the length of
 * the message in four bytes, big endian, then the message. */
#pragma once

#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

enum { SG_CONNECT_HEAD = 5 };
enum { SG_CONNECT_COMPRESSED = 1, SG_CONNECT_END = 2 }; /* flags; END: the last of a stream */

struct sg_connect_frame {
    unsigned flags;
    struct sg_str data; /* into the input */
};

/* Takes a whole envelope off the front. 1: there it is; 0: nothing is left; -1 (SG_INVALID): it is
 * cut off, or its flags are unknown. */
int sg_connect_take(struct sg_str *in, struct sg_connect_frame *ret, struct sg_err *err);

/* Appends the head of an envelope whose message the caller appends next. The returned mark is for
 * the end, which fills in the length. */
size_t sg_connect_open(struct sg_buf *out);
void sg_connect_close(struct sg_buf *out, size_t mark, unsigned flags);
