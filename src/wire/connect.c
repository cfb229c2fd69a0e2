/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/connect.h"

#include "base/banned.h"

int sg_connect_take(struct sg_str *in, struct sg_connect_frame *ret, struct sg_err *err)
{
    const uint8_t *p = (const uint8_t *)in->p;
    if (!in->n)
        return 0;
    if (in->n < SG_CONNECT_HEAD)
        return sg_fail(err, SG_INVALID, "the head of an envelope is cut off");
    if (p[0] & ~(unsigned)(SG_CONNECT_COMPRESSED | SG_CONNECT_END))
        return sg_fail(err, SG_INVALID, "an envelope has unknown flags %#x", p[0]);
    size_t n = (size_t)p[1] << 24 | (size_t)p[2] << 16 | (size_t)p[3] << 8 | p[4];
    if (n > in->n - SG_CONNECT_HEAD)
        return sg_fail(err, SG_INVALID, "an envelope is cut off");
    *ret = (struct sg_connect_frame) { p[0], { in->p + SG_CONNECT_HEAD, n } };
    in->p += SG_CONNECT_HEAD + n;
    in->n -= SG_CONNECT_HEAD + n;
    return 1;
}

size_t sg_connect_open(struct sg_buf *out)
{
    static const uint8_t none[SG_CONNECT_HEAD] = { 0 };
    size_t mark = out->n;
    sg_buf_add(out, none, sizeof none);
    return mark;
}

void sg_connect_close(struct sg_buf *out, size_t mark, unsigned flags)
{
    if (out->has_overflowed) /* and is never sent */
        return;
    uint8_t *p = out->p + mark;
    size_t n = out->n - mark - SG_CONNECT_HEAD;
    p[0] = (uint8_t)flags;
    p[1] = (uint8_t)(n >> 24);
    p[2] = (uint8_t)(n >> 16);
    p[3] = (uint8_t)(n >> 8);
    p[4] = (uint8_t)n;
}
