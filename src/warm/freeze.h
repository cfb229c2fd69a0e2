/* SPDX-License-Identifier: Apache-2.0 */
/* The freezer: a process with one thread becomes a warm image. See docs/design/interpreter.md. */
#pragma once

#include <stdint.h>

/* What only the process's own C library knows. */
struct sg_freeze_libc {
    uint64_t rseq, rseq_bytes; /* 0: none is registered */
    uint64_t current_break;    /* of `__curbrk`: NULL in the image, so that it is asked for anew */
};

/* Like fork() across time: returns 0 in the process that calls it, 1 in every process that is
 * started from the image. -errno where it failed; sg_freeze_why() then tells more. */
int sg_freeze(const char *path, const struct sg_freeze_libc *libc);
const char *sg_freeze_why(void);

/* In a process that came from an image: its environment, "A=b" each with its NUL. */
const char *sg_freeze_env(uint64_t *ret_bytes);
