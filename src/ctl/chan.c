/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/chan.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/banned.h"

enum { SOCKET_BUFFER_BYTES = 2 * SG_CTL_MAX_BYTES };

void sg_packet_init(struct sg_packet *p)
{
    memset(p, 0, sizeof *p);
    sg_buf_init(&p->bytes, SG_CTL_MAX_BYTES);
    for (unsigned i = 0; i < SG_CTL_MAX_FDS; i++)
        p->fds[i] = -1;
}

void sg_packet_clear(struct sg_packet *p)
{
    for (unsigned i = 0; i < SG_CTL_MAX_FDS; i++)
        sg_drop_fd(&p->fds[i]);
    p->fd_count = 0;
    sg_buf_clear(&p->bytes);
    memset(&p->msg, 0, sizeof p->msg);
}

void sg_packet_done(struct sg_packet *p)
{
    sg_packet_clear(p);
    sg_buf_done(&p->bytes);
}

int sg_packet_take_fd(struct sg_packet *p, unsigned index)
{
    return index < SG_CTL_MAX_FDS ? sg_take_fd(&p->fds[index]) : -1;
}

void sg_chan_make_room(int fd)
{
    int bytes = SOCKET_BUFFER_BYTES;
    if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof bytes) < 0)
        (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
}

int sg_chan_pair(int ret_fds[2], struct sg_err *err)
{
    int fds[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) < 0)
        return sg_fail_sys(err, "make a control socket");
    for (unsigned i = 0; i < 2; i++)
        sg_chan_make_room(fds[i]);
    memcpy(ret_fds, fds, sizeof fds);
    return 0;
}

int sg_chan_send_bytes(int fd, const void *p, size_t n, const int *fds, unsigned fd_count,
                       bool may_block, struct sg_err *err)
{
    if (fd_count > SG_CTL_MAX_FDS)
        return sg_fail(err, SG_INTERNAL, "%u descriptors in one message", fd_count);
    struct iovec iov = { (void *)(uintptr_t)p, n };
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int) * SG_CTL_MAX_FDS)];
    } control;
    memset(&control, 0, sizeof control);
    struct msghdr mh = { .msg_iov = &iov, .msg_iovlen = 1 };
    if (fd_count) {
        control.head.cmsg_level = SOL_SOCKET;
        control.head.cmsg_type = SCM_RIGHTS;
        control.head.cmsg_len = CMSG_LEN(sizeof(int) * fd_count);
        memcpy(CMSG_DATA(&control.head), fds, sizeof(int) * fd_count);
        mh.msg_control = &control;
        mh.msg_controllen = CMSG_SPACE(sizeof(int) * fd_count);
    }
    for (;;) {
        if (sendmsg(fd, &mh, MSG_NOSIGNAL | (may_block ? 0 : MSG_DONTWAIT)) >= 0)
            return 0;
        if (errno != EINTR)
            return sg_fail_sys(err, "send a control message");
    }
}

int sg_chan_send(int fd, const struct sg_msg *m, const int *fds, unsigned fd_count, bool may_block,
                 struct sg_err *err)
{
    sg_auto_buf bytes;
    sg_buf_init(&bytes, SG_CTL_MAX_BYTES);
    if (sg_msg_encode(m, &bytes, err) < 0)
        return -1;
    if (sg_chan_send_bytes(fd, bytes.p, bytes.n, fds, fd_count, may_block, err) < 0)
        return sg_wrap(err, "message %s", sg_msg_table[m->type].name);
    return 0;
}

/* Moves received descriptors into the packet; those beyond its slots are closed. */
static void collect_fds(struct msghdr *mh, struct sg_packet *p)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(mh); c; c = CMSG_NXTHDR(mh, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int got;
            memcpy(&got, CMSG_DATA(c) + i * sizeof(int), sizeof got);
            if (p->fd_count < SG_CTL_MAX_FDS)
                p->fds[p->fd_count++] = got;
            else
                (void)close(got);
        }
    }
}

/* `*ret_id` is set as soon as it is known which question would go without an answer. */
static int check(struct sg_packet *p, unsigned roles, int flags, uint32_t *ret_id,
                 struct sg_err *err)
{
    if (flags & MSG_TRUNC)
        return sg_fail(err, SG_INVALID, "control message was cut short");
    if (sg_msg_decode(p->bytes.p, p->bytes.n, SG_ROLE_NONE, &p->msg, err) < 0)
        return -1;
    const struct sg_msg_desc *d = &sg_msg_table[p->msg.type];
    if (!(roles & 1u << d->role))
        return sg_fail(err, SG_INVALID, "message %s does not belong in this direction", d->name);
    *ret_id = p->msg.id;
    if (flags & MSG_CTRUNC) /* our own limit of open files, or more than any message may have */
        return sg_fail(err, SG_EXHAUSTED, "no room for the descriptors of message %s", d->name);
    if (p->fd_count > d->max_fds)
        return sg_fail(err, SG_INVALID, "message %s came with %u descriptors", d->name,
                       p->fd_count);
    return 0;
}

enum sg_recv sg_chan_recv(int fd, unsigned roles, bool may_block, struct sg_packet *p,
                          struct sg_err *err)
{
    sg_packet_clear(p);
    uint8_t *room = sg_buf_grow(&p->bytes, SG_CTL_MAX_BYTES);
    if (!room) {
        sg_fail(err, SG_EXHAUSTED, "no memory for a control message");
        return SG_RECV_ERROR;
    }
    struct iovec iov = { room, SG_CTL_MAX_BYTES };
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int) * SG_CTL_MAX_FDS)];
    } control;
    struct msghdr mh = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control
    };
    ssize_t n;
    do
        n = recvmsg(fd, &mh, MSG_CMSG_CLOEXEC | (may_block ? 0 : MSG_DONTWAIT));
    while (n < 0 && errno == EINTR);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return SG_RECV_AGAIN;
    if (n < 0 && errno != ECONNRESET) {
        sg_fail_sys(err, "receive a control message");
        return SG_RECV_ERROR;
    }
    if (n >= 0)
        collect_fds(&mh, p); /* even an empty packet can carry some */
    if (n <= 0) {
        sg_packet_clear(p);
        return SG_RECV_CLOSED;
    }
    p->bytes.n = (size_t)n;
    uint32_t id = 0;
    if (check(p, roles, mh.msg_flags, &id, err) < 0) {
        sg_packet_clear(p);
        p->msg.id = id;
        return SG_RECV_ERROR;
    }
    return SG_RECV_MESSAGE;
}
