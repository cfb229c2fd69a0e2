/* SPDX-License-Identifier: Apache-2.0 */
#include "api/pour.h"

#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "api/call.h"
#include "base/banned.h"

/* How much went in; -1 where nobody reads. */
static ssize_t push(int fd, const uint8_t *p, size_t n)
{
    size_t done = 0;
    while (done < n) {
        ssize_t got = write(fd, p + done, n - done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && errno == EAGAIN)
            break;
        if (got < 0)
            return -1;
        done += (size_t)got;
    }
    return (ssize_t)done;
}

static void break_off(struct sg_pour *p)
{
    p->is_broken = true;
    p->at = 0;
    sg_buf_clear(&p->rest);
    (void)sg_io_want(p->loop, &p->io, 0, NULL);
}

static void writable(struct sg_io *io, uint32_t events)
{
    (void)events;
    struct sg_pour *p = SG_OWNER(io, struct sg_pour, io);
    ssize_t n = push(io->fd, p->rest.p + p->at, p->rest.n - p->at);
    if (n < 0) {
        break_off(p);
    } else {
        p->at += (size_t)n;
        if (p->at < p->rest.n)
            return;
        p->at = 0;
        sg_buf_clear(&p->rest);
        (void)sg_io_want(p->loop, io, 0, NULL);
    }
    p->emptied(p);
}

void sg_pour_open(struct sg_pour *p, struct sg_loop *l, int fd, void (*emptied)(struct sg_pour *p))
{
    *p = (struct sg_pour) { .loop = l, .io = { .fd = fd, .ready = writable }, .emptied = emptied };
    sg_buf_init(&p->rest, SG_CALL_MAX_BODY);
}

void sg_pour_close(struct sg_pour *p)
{
    if (!p->loop)
        return;
    (void)sg_io_want(p->loop, &p->io, 0, NULL);
    sg_buf_done(&p->rest);
    *p = (struct sg_pour) { .io.fd = -1 };
}

bool sg_pour_add(struct sg_pour *p, const void *bytes, size_t n)
{
    ssize_t done = 0;
    if (p->is_broken)
        return true;
    if (sg_pour_is_empty(p) && (done = push(p->io.fd, bytes, n)) == (ssize_t)n)
        return true;
    if (done >= 0) {
        sg_buf_add(&p->rest, (const uint8_t *)bytes + done, n - (size_t)done);
        if (!p->rest.has_overflowed && sg_io_want(p->loop, &p->io, EPOLLOUT, NULL) == 0)
            return false;
    }
    break_off(p);
    return true;
}
