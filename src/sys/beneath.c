/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/beneath.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/banned.h"

int sg_open_plain(int dir_fd, const char *path, int flags, mode_t mode)
{
    const struct open_how how = {
        .flags = (unsigned)flags | O_CLOEXEC,
        .mode = (flags & O_CREAT) ? mode : 0,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV,
    };
    for (int tries = 0; tries < 32; tries++) {
        long fd = syscall(SYS_openat2, dir_fd, path, &how, sizeof how);
        if (fd >= 0)
            return (int)fd;
        if (errno != EINTR && errno != EAGAIN) /* EAGAIN: raced with a rename */
            return -1;
    }
    return -1;
}
