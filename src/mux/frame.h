/* SPDX-License-Identifier: Apache-2.0 */
/* What crosses the channel: frames, little endian, one after the other.
 *
 *     u32 bytes of the payload, u8 type, three zeros, u32 id; the payload
 *
 * F1. Before its first frame a side sends SG_FRAME_GREETING; whatever comes before the other's is
 *     skipped, since a serial port may have spoken of other things (a kernel's start) before.
 * F2. A frame with anything wrong ends the channel: bytes have no edges to find again.
 * F3. Every type has its ceiling: what a side must hold of a frame is bounded before it is read. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "ctl/msg.h"

#define SG_FRAME_GREETING "\nSGMUX1 \x01\x02\x03\xfe\xff\n"
enum {
    SG_FRAME_GREETING_BYTES = sizeof SG_FRAME_GREETING - 1,
    SG_FRAME_HEAD_BYTES = 12,
    SG_FRAME_PIECE = 32 * 1024, /* of a stream, in one frame */
    SG_FRAME_MAX_NOISE = 1 << 20,
};

enum sg_frame_type {
    SG_FRAME_MESSAGE, /* id: the connection; payload: what came with it, then the packet */
    SG_FRAME_DATA,    /* id: the stream */
    SG_FRAME_FIN,     /* no more bytes of this one */
    SG_FRAME_STOP,    /* nobody reads it any more: end it, FIN is still to come */
    SG_FRAME_CREDIT,  /* u32: so many bytes more may come; id 0: of messages */
    SG_FRAME_OPEN,    /* id: a new connection, in place of the one before */
    SG_FRAME_HANGUP,  /* id: that connection has ended */
    SG_FRAME_TYPE_COUNT,
};

/* What a descriptor beside a packet is, as the one who gets it sees it. */
enum sg_frame_kind { SG_KIND_NONE, SG_KIND_READ, SG_KIND_WRITE, SG_KIND_BOTH, SG_KIND_FILE };
enum { SG_FRAME_KINDS = SG_KIND_FILE + 1, SG_FRAME_FD_BYTES = 5 };

struct sg_frame {
    enum sg_frame_type type;
    uint32_t id;
    const uint8_t *p; /* into the buffer that it was read from */
    size_t n;
};

struct sg_frame_fd {
    uint32_t id; /* the stream's */
    enum sg_frame_kind kind;
};

/* The first frame of these bytes: how many they are, 0: it is not whole yet, -1: SG_INVALID. */
int sg_frame_parse(const uint8_t *p, size_t n, struct sg_frame *ret, struct sg_err *err);
/* A message's payload. -1: SG_INVALID. */
int sg_frame_split(const struct sg_frame *f, struct sg_frame_fd ret[SG_CTL_MAX_FDS],
                   unsigned *ret_count, struct sg_bytes *ret_packet, struct sg_err *err);
uint32_t sg_frame_u32(const struct sg_frame *f);

void sg_frame_put(struct sg_buf *out, enum sg_frame_type type, uint32_t id, const void *p,
                  size_t n);
void sg_frame_put_u32(struct sg_buf *out, enum sg_frame_type type, uint32_t id, uint32_t value);
void sg_frame_put_message(struct sg_buf *out, uint32_t connection, const struct sg_frame_fd *fds,
                          unsigned count, const void *packet, size_t n);
