/* SPDX-License-Identifier: Apache-2.0 */
#include "init/stream.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "base/banned.h"

/* True where the call is to be made again. */
static bool wait_for(int fd, short events)
{
    if (errno == EINTR)
        return true;
    if (errno != EAGAIN)
        return false;
    struct pollfd p = { .fd = fd, .events = events };
    return poll(&p, 1, -1) >= 0 || errno == EINTR;
}

ssize_t sg_stream_read(int fd, void *p, size_t n)
{
    ssize_t got;
    do
        got = read(fd, p, n);
    while (got < 0 && wait_for(fd, POLLIN));
    return got;
}

int sg_stream_write(int fd, const void *p, size_t n)
{
    for (const uint8_t *at = p; n;) {
        ssize_t sent = write(fd, at, n);
        if (sent < 0 && !wait_for(fd, POLLOUT))
            return -1;
        if (sent > 0) {
            at += sent;
            n -= (size_t)sent;
        }
    }
    return 0;
}

static void flush(struct sg_out *o)
{
    if (!o->sys && sg_stream_write(o->fd, o->bytes, o->n) < 0)
        o->sys = errno;
    o->n = 0;
}

void sg_out_add(struct sg_out *o, const void *p, size_t n)
{
    if (n > sizeof o->bytes - o->n)
        flush(o);
    if (n > sizeof o->bytes) {
        if (!o->sys && sg_stream_write(o->fd, p, n) < 0)
            o->sys = errno;
        return;
    }
    memcpy(o->bytes + o->n, p, n);
    o->n += n;
}

int sg_out_flush(struct sg_out *o)
{
    flush(o);
    errno = o->sys;
    return o->sys ? -1 : 0;
}
