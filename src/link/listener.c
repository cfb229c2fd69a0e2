/* SPDX-License-Identifier: Apache-2.0 */
#include "link/listener.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/auto.h"
#include "base/log.h"
#include "base/banned.h"

enum { AT_ONCE = 64, REST_NS = 50 * 1000 * 1000 };
#define TELL_AGAIN_NS 60000000000u

static void rest_is_over(struct sg_timer *t, uint64_t now_ns)
{
    (void)now_ns;
    struct sg_acceptor *a = SG_OWNER(t, struct sg_acceptor, rest);
    (void)sg_io_want(a->loop, &a->io, EPOLLIN, NULL);
}

static void rest(struct sg_acceptor *a, const char *why)
{
    const uint64_t now_ns = sg_loop_now(a->loop);
    if (!a->told_ns || now_ns - a->told_ns >= TELL_AGAIN_NS) {
        sg_log(SG_LOG_WARN, "cannot accept a connection", SG_KV("cause", why));
        a->told_ns = now_ns;
    }
    (void)sg_io_want(a->loop, &a->io, 0, NULL);
    sg_timer_set(a->loop, &a->rest, now_ns + REST_NS);
}

static void on_ready(struct sg_io *io, uint32_t events)
{
    (void)events;
    struct sg_acceptor *a = SG_OWNER(io, struct sg_acceptor, io);
    for (int i = 0; i < AT_ONCE && a->io.fd >= 0; i++) {
        int fd = accept4(a->io.fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            a->came(a, fd);
            continue;
        }
        int why = errno;
        if (why == EMFILE || why == ENFILE || why == ENOBUFS || why == ENOMEM)
            rest(a, strerror(why));
        if (why != ECONNABORTED && why != EINTR && why != EPERM)
            return;
    }
}

int sg_acceptor_open(struct sg_acceptor *a, struct sg_loop *l, int fd,
                     void (*came)(struct sg_acceptor *a, int fd), struct sg_err *err)
{
    *a = (struct sg_acceptor) {
        .io = { .fd = fd, .ready = on_ready },
        .rest = { .fire = rest_is_over },
        .loop = l,
        .came = came,
    };
    int on = 1, flags = fcntl(fd, F_GETFL);
    /* Accepted sockets inherit it; a unix socket refuses, and does not need it. */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0) {
        sg_fail_sys(err, "prepare a listening socket");
        sg_drop_fd(&a->io.fd);
        return -1;
    }
    if (sg_io_want(l, &a->io, EPOLLIN, err) < 0) {
        sg_drop_fd(&a->io.fd);
        return -1;
    }
    return 0;
}

void sg_acceptor_close(struct sg_acceptor *a)
{
    if (!a->loop)
        return;
    sg_timer_stop(a->loop, &a->rest);
    sg_io_drop(a->loop, &a->io);
}
