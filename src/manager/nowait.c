/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/nowait.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/banned.h"

/* Always empty between two calls; made for the first one and kept. The loop's thread alone uses it.
 */
static int own[2] = { -1, -1 };

static int make_own(void)
{
    return own[0] >= 0 ? 0 : pipe2(own, O_CLOEXEC | O_NONBLOCK);
}

static ssize_t move_bytes(int from, int to, size_t n)
{
    ssize_t moved;
    do
        moved = splice(from, NULL, to, NULL, n, SPLICE_F_NONBLOCK | SPLICE_F_MOVE);
    while (moved < 0 && errno == EINTR);
    return moved;
}

ssize_t sg_nowait_read(int pipe_fd, void *to, size_t cap)
{
    if (make_own() < 0)
        return -1;
    ssize_t n = move_bytes(pipe_fd, own[1], cap < SG_NOWAIT_MAX ? cap : SG_NOWAIT_MAX);
    return n <= 0 ? n : read(own[0], to, (size_t)n);
}

static void empty_own(size_t n)
{
    char nowhere[4096];
    while (n) {
        ssize_t got = read(own[0], nowhere, n < sizeof nowhere ? n : sizeof nowhere);
        if (got <= 0)
            return;
        n -= (size_t)got;
    }
}

ssize_t sg_nowait_write(int pipe_fd, const void *p, size_t n)
{
    if (make_own() < 0)
        return -1;
    ssize_t offered = write(own[1], p, n < SG_NOWAIT_MAX ? n : SG_NOWAIT_MAX);
    if (offered <= 0)
        return offered;
    ssize_t moved = move_bytes(own[0], pipe_fd, (size_t)offered);
    int keep = errno;
    empty_own((size_t)(offered - (moved > 0 ? moved : 0)));
    errno = keep;
    return moved;
}
