/* SPDX-License-Identifier: Apache-2.0 */
/* Programs started without any sandbox: vfork, exec, wait. This is the floor that a spawn inside is
 * compared with, and how every contestant is run. */
#pragma once

#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

struct sg_bare {
    char *const *argv; /* argv[0] is a path */
    char *const *env;
    int null_fd;           /* /dev/null: stdin, and stdout where there is no `output` */
    struct sg_buf *output; /* what it wrote to stdout; NULL: nobody wants it */
};

/* Runs it to its end; anything but exit code 0 is an error. Fits sg_entrant. */
int sg_bare_run(void *bare, uint64_t *ret_ns, struct sg_err *err);
