/* SPDX-License-Identifier: Apache-2.0 */
/* One control connection: packets with descriptors over a SEQPACKET socket. */
#pragma once

#include "base/buf.h"
#include "ctl/msg.h"

/* A received packet: owns its bytes and its descriptors. */
struct sg_packet {
    struct sg_buf bytes;
    struct sg_msg msg; /* views into bytes */
    int fds[SG_CTL_MAX_FDS];
    unsigned fd_count;
};

void sg_packet_init(struct sg_packet *p);
void sg_packet_clear(
    struct sg_packet *p); /* closes the descriptors that nobody took; keeps memory */
void sg_packet_done(struct sg_packet *p);
int sg_packet_take_fd(struct sg_packet *p, unsigned index); /* -1 when there is none */

/* Makes a connected pair with room for a whole message. Both ends are close-on-exec. */
int sg_chan_pair(int ret_fds[2], struct sg_err *err);

/* For sockets that were connected or accepted instead: room for a whole message. */
void sg_chan_make_room(int fd);

/* Sends with `fds` attached (borrowed). Blocks only when `may_block`; else SG_UNAVAILABLE. */
int sg_chan_send(int fd, const struct sg_msg *m, const int *fds, unsigned fd_count, bool may_block,
                 struct sg_err *err);

/* The same for a packet that is encoded already. err.sys is EAGAIN where it would have blocked. */
int sg_chan_send_bytes(int fd, const void *p, size_t n, const int *fds, unsigned fd_count,
                       bool may_block, struct sg_err *err);

enum sg_recv { SG_RECV_ERROR = -1, SG_RECV_CLOSED = 0, SG_RECV_MESSAGE = 1, SG_RECV_AGAIN = 2 };

/* Receives one packet into `p` (cleared first). A packet that is not a valid message of a role
 * in `roles` (1 << enum sg_msg_role), or carries more descriptors than its row permits, is
 * SG_RECV_ERROR with its descriptors closed; the connection itself stays usable (err.sys is 0
 * then, and an errno where the socket failed). p->msg.id is then that of the message whose
 * descriptors were the trouble, or 0. An empty packet counts as the end. */
enum sg_recv sg_chan_recv(int fd, unsigned roles, bool may_block, struct sg_packet *p,
                          struct sg_err *err);

#define sg_auto_packet __attribute__((cleanup(sg_packet_done))) struct sg_packet
