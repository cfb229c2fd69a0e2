/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon, the gate and the keeper leave everything that they do not need, before they read a
 * byte from anybody.
 *
 * Afterwards: the file tree is empty but for /state and /view, where there is one; no network (but
 * the gate's), no other process's IPC; an id of its own, no groups, no capability (but what the
 * keeper needs) and no way to one; no core file, no tracing by others of the same id; and only the
 * system calls of its policy/.
 *
 * Without root (or where the id is not mapped) a user namespace of its own takes the place of the
 * id: the rest is the same. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

enum {
    SG_DAEMON_ID = 0x6ffffffe,
    SG_GATE_ID = 0x6ffffffd,
    SG_KEEPER_ID = 0x6ffffffc,
    SG_EXPORT_ID = 0x6ffffffb,
    SG_REGISTRY_ID = 0x6ffffffa
};
/* just below those of the cells */

struct sock_filter;
struct sg_confine {
    const char *name; /* for messages */
    uint32_t id;
    const char *state_dir; /* NULL: none */
    const char *view_dir;  /* NULL: none; else seen as it is, for reading only, as /view */
    uint32_t keeps_caps;   /* 1 << CAP_..., of the first 32 */
    bool keeps_net;
    const struct sock_filter *filter;
    unsigned short filter_len;
};

struct sg_confined {
    uint32_t uid;
    bool has_own_id; /* false: as the caller, in a user namespace */
};

/* `state_dir` is made where missing, given to our id, and is /state from then on. Must be called
 * with a single thread. Every step that fails is an error: there is no weaker daemon. */
int sg_confine(const struct sg_confine *o, struct sg_confined *ret, struct sg_err *err);
