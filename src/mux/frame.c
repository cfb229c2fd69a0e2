/* SPDX-License-Identifier: Apache-2.0 */
#include "mux/frame.h"

#include "base/banned.h"

enum { MESSAGE_MAX = SG_CTL_MAX_BYTES + 1 + SG_CTL_MAX_FDS * SG_FRAME_FD_BYTES };

static const struct {
    uint32_t least, most;
} sizes[SG_FRAME_TYPE_COUNT] = {
    [SG_FRAME_MESSAGE] = { 1, MESSAGE_MAX },
    [SG_FRAME_DATA] = { 1, SG_FRAME_PIECE },
    [SG_FRAME_FIN] = { 0, 0 },
    [SG_FRAME_STOP] = { 0, 0 },
    [SG_FRAME_CREDIT] = { 4, 4 },
    [SG_FRAME_OPEN] = { 0, 0 },
    [SG_FRAME_HANGUP] = { 0, 0 },
};

static uint32_t get(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static void put(uint8_t *p, uint32_t v)
{
    for (unsigned i = 0; i < 4; i++)
        p[i] = (uint8_t)(v >> 8 * i);
}

int sg_frame_parse(const uint8_t *p, size_t n, struct sg_frame *ret, struct sg_err *err)
{
    if (n < SG_FRAME_HEAD_BYTES)
        return 0;
    const uint32_t bytes = get(p);
    const uint8_t type = p[4];
    if (type >= SG_FRAME_TYPE_COUNT || p[5] || p[6] || p[7])
        return sg_fail(err, SG_INVALID, "the other side speaks of something else");
    if (bytes < sizes[type].least || bytes > sizes[type].most)
        return sg_fail(err, SG_INVALID, "a frame of type %u has %u bytes", type, (unsigned)bytes);
    if (n - SG_FRAME_HEAD_BYTES < bytes)
        return 0;
    *ret =
        (struct sg_frame) { (enum sg_frame_type)type, get(p + 8), p + SG_FRAME_HEAD_BYTES, bytes };
    return (int)(SG_FRAME_HEAD_BYTES + bytes);
}

int sg_frame_split(const struct sg_frame *f, struct sg_frame_fd ret[SG_CTL_MAX_FDS],
                   unsigned *ret_count, struct sg_bytes *ret_packet, struct sg_err *err)
{
    const unsigned count = f->p[0];
    const size_t head = 1 + (size_t)count * SG_FRAME_FD_BYTES;
    if (count > SG_CTL_MAX_FDS || head > f->n)
        return sg_fail(err, SG_INVALID, "a message comes with %u descriptors", count);
    for (unsigned i = 0; i < count; i++) {
        const uint8_t *p = f->p + 1 + (size_t)i * SG_FRAME_FD_BYTES;
        if (p[4] >= SG_FRAME_KINDS)
            return sg_fail(err, SG_INVALID, "a descriptor of kind %u", p[4]);
        ret[i] = (struct sg_frame_fd) { get(p), (enum sg_frame_kind)p[4] };
    }
    *ret_count = count;
    *ret_packet = (struct sg_bytes) { f->p + head, f->n - head };
    return 0;
}

uint32_t sg_frame_u32(const struct sg_frame *f)
{
    return get(f->p);
}

static void put_head(struct sg_buf *out, enum sg_frame_type type, uint32_t id, size_t n)
{
    uint8_t head[SG_FRAME_HEAD_BYTES] = { 0 };
    put(head, (uint32_t)n);
    head[4] = (uint8_t)type;
    put(head + 8, id);
    sg_buf_add(out, head, sizeof head);
}

void sg_frame_put(struct sg_buf *out, enum sg_frame_type type, uint32_t id, const void *p, size_t n)
{
    put_head(out, type, id, n);
    sg_buf_add(out, p, n);
}

void sg_frame_put_u32(struct sg_buf *out, enum sg_frame_type type, uint32_t id, uint32_t value)
{
    uint8_t p[4];
    put(p, value);
    sg_frame_put(out, type, id, p, sizeof p);
}

void sg_frame_put_message(struct sg_buf *out, uint32_t connection, const struct sg_frame_fd *fds,
                          unsigned count, const void *packet, size_t n)
{
    uint8_t head[1 + SG_CTL_MAX_FDS * SG_FRAME_FD_BYTES] = { (uint8_t)count };
    const size_t head_n = 1 + (size_t)count * SG_FRAME_FD_BYTES;
    for (unsigned i = 0; i < count; i++) {
        uint8_t *p = head + 1 + (size_t)i * SG_FRAME_FD_BYTES;
        put(p, fds[i].id);
        p[4] = (uint8_t)fds[i].kind;
    }
    put_head(out, SG_FRAME_MESSAGE, connection, head_n + n);
    sg_buf_add(out, head, head_n);
    sg_buf_add(out, packet, n);
}
