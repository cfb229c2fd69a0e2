/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes that came in and were not taken yet. The incremental decoders of this folder (chunked, ws,
 * multipart) take from the front and say what they found, one thing a call:
 *
 *     while ((got = sg_x_next(&x, &in, ...)) != MORE) ...
 *
 * What they hand out points into the input or into the decoder, and ends with the next call. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct sg_input {
    uint8_t *p; /* borrowed; ws unmasks in place */
    size_t n;
};

static inline uint8_t *sg_input_take(struct sg_input *in, size_t n)
{
    uint8_t *p = in->p;
    in->p += n;
    in->n -= n;
    return p;
}
