/* SPDX-License-Identifier: Apache-2.0 */
#include "init/dir.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/banned.h"

void sg_dir_init(struct sg_dir *d, int fd)
{
    d->fd = fd;
    d->n = d->at = 0;
}

const struct sg_dirent *sg_dir_next(struct sg_dir *d)
{
    for (;;) {
        if (d->at == d->n) {
            errno = 0;
            d->at = 0;
            d->n = syscall(SYS_getdents64, d->fd, d->room, sizeof d->room);
            if (d->n <= 0) {
                d->n = 0;
                return NULL;
            }
        }
        const struct sg_dirent *e = (const void *)(d->room + d->at);
        d->at += e->bytes;
        if (strcmp(e->name, ".") != 0 && strcmp(e->name, "..") != 0)
            return e;
    }
}
