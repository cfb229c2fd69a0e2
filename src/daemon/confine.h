/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon leaves everything that it does not need, before it reads a byte from anybody.
 *
 * Afterwards: the file tree is empty but for /state; no network, no other process's IPC; an id of
 * its own, no groups, no capability and no way to one; no core file, no tracing by others of the
 * same id; and only the system calls of policy/daemon.json.
 *
 * Without root (or where the id is not mapped) a user namespace of its own takes the place of the
 * id: the rest is the same. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

enum { SG_DAEMON_ID = 0x6ffffffe }; /* just below the ranges of the cells */

struct sg_confined {
    uint32_t uid;
    bool has_own_id; /* false: as the caller, in a user namespace */
};

/* `state_dir` is made where missing, given to our id, and is /state from then on. Must be called
 * with a single thread. Every step that fails is an error: there is no weaker daemon. */
int sg_confine(const char *state_dir, struct sg_confined *ret, struct sg_err *err);
