/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/pump.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/banned.h"

/* A terminal blocks in the middle of a write when nobody reads it; opened anew, without blocking,
 * it does not, and whoever else has it keeps it as it was. */
static int reopen_terminal(int fd)
{
    char path[32];
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

void sg_pump_init(struct sg_pump *p, int from_fd, int to_fd, uint8_t *chunk)
{
    struct stat st;
    *p = (struct sg_pump) { .from_fd = from_fd, .to_fd = to_fd, .data = chunk };
    if (to_fd >= 0 && isatty(to_fd)) {
        const int own = reopen_terminal(to_fd);
        p->owns_to = own >= 0;
        p->to_fd = own >= 0 ? own : to_fd;
    }
    p->is_to_regular = to_fd >= 0 && fstat(to_fd, &st) == 0 && S_ISREG(st.st_mode);
}

static void close_side(int *fd, bool owns)
{
    if (owns)
        sg_drop_fd(fd);
    *fd = -1;
}

static void shut(struct sg_pump *p)
{
    close_side(&p->from_fd, p->owns_from);
    close_side(&p->to_fd, p->owns_to);
    p->n = p->at = 0;
}

void sg_pump_done(struct sg_pump *p)
{
    shut(p);
}

void sg_pump_stop(struct sg_pump *p)
{
    close_side(&p->from_fd, p->owns_from);
}

bool sg_pump_is_open(const struct sg_pump *p)
{
    return p->n > 0 || p->from_fd >= 0;
}

unsigned sg_pump_poll(const struct sg_pump *p, struct pollfd *ret)
{
    if (p->n > 0) {
        *ret = (struct pollfd) { .fd = p->to_fd, .events = POLLOUT };
        return 1;
    }
    unsigned count = 0;
    if (p->from_fd >= 0)
        ret[count++] = (struct pollfd) { .fd = p->from_fd, .events = POLLIN };
    if (p->owns_to && p->to_fd >= 0) /* so that the far reader's end is noticed */
        ret[count++] = (struct pollfd) { .fd = p->to_fd, .events = 0 };
    return count;
}

static bool is_ready(int fd, short events)
{
    struct pollfd f = { .fd = fd, .events = events };
    return poll(&f, 1, 0) > 0;
}

/* After POLLOUT a pipe takes PIPE_BUF bytes without blocking, whatever its flags. */
static void drain(struct sg_pump *p)
{
    while (p->n > 0 && is_ready(p->to_fd, POLLOUT)) {
        size_t step = p->is_to_regular || p->n < PIPE_BUF ? p->n : PIPE_BUF;
        ssize_t put = write(p->to_fd, p->data + p->at, step);
        if (put < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (put < 0) { /* nobody reads any more: the command is told by its own write */
            if (errno != EPIPE)
                p->lost_sys = errno;
            shut(p);
            return;
        }
        p->at += (size_t)put;
        p->n -= (size_t)put;
    }
}

void sg_pump_run(struct sg_pump *p, uint64_t limit)
{
    if (p->owns_to && p->to_fd >= 0 && is_ready(p->to_fd, 0)) {
        shut(p);
        return;
    }
    drain(p);
    while (p->n == 0 && p->from_fd >= 0 && limit > 0 && is_ready(p->from_fd, POLLIN)) {
        size_t want = limit < SG_PUMP_CHUNK ? (size_t)limit : SG_PUMP_CHUNK;
        ssize_t got = read(p->from_fd, p->data, want);
        if (got < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (got <= 0) {
            shut(p);
            return;
        }
        p->moved += (uint64_t)got;
        limit -= (uint64_t)got;
        if (p->capture) {
            sg_buf_add(p->capture, p->data, (size_t)got);
            continue;
        }
        p->at = 0;
        p->n = (size_t)got;
        drain(p);
    }
}
