/* SPDX-License-Identifier: Apache-2.0 */
/* The socket of a slot: pid 1 of its box listens there, for a host that comes back. */
#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/auto.h"
#include "launcher/box.h"
#include "launcher/launcher.h"
#include "base/banned.h"

enum { BACKLOG = 128, SOCKET_BYTES = 2 * SG_CTL_MAX_BYTES };

/* By way of the directory's descriptor: a path of any length fits into an address then. */
static void address_of(const struct sg_launcher *l, uint32_t slot, struct sockaddr_un *ret)
{
    *ret = (struct sockaddr_un) { .sun_family = AF_UNIX };
    (void)snprintf(ret->sun_path, sizeof ret->sun_path, "/proc/self/fd/%d/%u.sock", l->cells_fd,
                   (unsigned)slot);
}

int sg_box_listen(const struct sg_launcher *l, uint32_t slot, struct sg_err *err)
{
    struct sockaddr_un a;
    address_of(l, slot, &a);
    sg_auto_fd fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return sg_fail_sys(err, "make a sandbox's socket");
    int ret = bind(fd, (struct sockaddr *)&a, sizeof a);
    if (ret < 0 && errno == EADDRINUSE && unlink(a.sun_path) == 0) /* of an earlier cell */
        ret = bind(fd, (struct sockaddr *)&a, sizeof a);
    if (ret < 0 || listen(fd, BACKLOG) < 0)
        return sg_fail_sys(err, "name a sandbox's socket");
    return sg_take_fd(&fd);
}

int sg_box_connect(const struct sg_box *b, struct sg_err *err)
{
    struct sockaddr_un a;
    address_of(b->launcher, b->record.slot, &a);
    sg_auto_fd fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const int bytes = SOCKET_BYTES;
    if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof a) < 0)
        return sg_fail_sys(err, "connect to the sandbox");
    if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof bytes) < 0)
        (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
    return sg_take_fd(&fd);
}
