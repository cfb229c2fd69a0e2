/* SPDX-License-Identifier: Apache-2.0 */
/* The counter of calls: one for all processes of a trial, in memory that they share.
 *
 * Every call that the engine makes into the kernel or the allocator is counted while the counter is
 * armed, whichever process makes it. The call with the number `stop_at` fails, or (to be killed at
 * that very place) halts until released. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum fault_mode { FAULT_FAIL, FAULT_HALT };

struct fault {
    uint32_t is_armed, count;
    uint32_t stop_at;
    enum fault_mode mode;
    int32_t sys;        /* errno of the failure */
    uint32_t is_ending; /* the cell is being removed */
    /* the call that was hit */
    uint32_t is_hit, is_released; /* is_released: futex word */
    uint32_t was_ending;
    long nr, arg; /* nr -1: of libc */
    char name[24], detail[72];
};

extern struct fault *fault; /* NULL: nothing is counted */

/* Counts one call; returns the errno with which it is to fail, or 0. */
int fault_call(const char *name, long nr, long arg, const char *detail);

void fault_release(void);
