/* SPDX-License-Identifier: Apache-2.0 */
/* Base64 (RFC 4648 4), with padding and nothing else around it. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"

/* Characters for n bytes. */
static inline size_t sg_base64_length(size_t n)
{
    return (n + 2) / 3 * 4;
}
void sg_base64_encode(struct sg_buf *out, const void *p, size_t n);
/* SG_INVALID: not base64, or not the one form that the bytes have. */
int sg_base64_decode(struct sg_buf *out, struct sg_str text, struct sg_err *err);
