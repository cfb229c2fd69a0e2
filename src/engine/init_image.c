/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/init_image.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/banned.h"

#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U
#endif

/* Put there by init_image.S. */
extern const char sg_init_image_start[], sg_init_image_end[];

const void *sg_init_image_bytes(size_t *ret_n)
{
    *ret_n = (uintptr_t)sg_init_image_end - (uintptr_t)sg_init_image_start;
    return sg_init_image_start;
}

int sg_init_image_open(struct sg_err *err)
{
    const unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
    sg_auto_fd fd = memfd_create("sandglass-init", flags | MFD_EXEC);
    if (fd < 0 && errno == EINVAL) /* before Linux 6.3 */
        fd = memfd_create("sandglass-init", flags);
    if (fd < 0 && errno == EACCES)
        return sg_fail(err, SG_UNSUPPORTED,
                       "sysctl vm.memfd_noexec=2 forbids running sandglass-init from memory: set "
                       "it to 1 or 0");
    if (fd < 0)
        return sg_fail_sys(err, "make a file in memory for sandglass-init");
    const size_t n = (uintptr_t)sg_init_image_end - (uintptr_t)sg_init_image_start;
    if (write(fd, sg_init_image_start, n) != (ssize_t)n)
        return sg_fail_sys(err, "copy sandglass-init into memory");
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0)
        return sg_fail_sys(err, "seal sandglass-init");
    return sg_take_fd(&fd);
}
