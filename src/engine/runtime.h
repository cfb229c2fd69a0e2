/* SPDX-License-Identifier: Apache-2.0 */
/* An OCI runtime inside a cell (spec.h, sg_nested): what it is told, and whether it runs here at
 * all. docs/design/tiers.md has the picture. */
#pragma once

#include "base/buf.h"
#include "engine/spec.h"

/* Plain data, borrowed. */
struct sg_runtime {
    const char *path;
    const char *platform; /* how gVisor gets hold of system calls; "" or NULL: its own choice */
    char *const *arguments;
    size_t argument_count;
    bool has_gate; /* its network is the cell's; else it has none */
};

bool sg_runtime_is_gvisor(const char *path);
/* A program of that name, or at that path. Returns owned, or NULL. */
char *sg_runtime_find(const char *name);
/* How it is started, a word a line. Returns owned; NULL: it is too long. */
char *sg_runtime_command(const struct sg_runtime *r);

/* What is told of a cell. Borrows everything but `err`, and `text`, which is filled. */
int sg_runtime_fill(const struct sg_runtime *r, const char *command, int bridge_fd,
                    const struct sg_cell_spec *spec, struct sg_buf *text, struct sg_nested *ret,
                    struct sg_err *err);

/* ---- runtime_try.c ---- */

enum { SG_PLATFORM_COUNT = 3 };
extern const char *const sg_platforms[SG_PLATFORM_COUNT]; /* the best first */

/* What a cell is tried with; borrowed. */
struct sg_runtime_trial {
    struct sg_runtime runtime;       /* without a platform */
    const struct sg_cell_spec *cell; /* an ordinary one: template, limits */
    int bridge_fd;
};

/* Runs sandglass-init behind the wall and ends it: SG_OK where it came up. SG_UNAVAILABLE with what
 * the runtime said; SG_TIMEOUT. Blocks so long; the caller has one thread. */
int sg_runtime_try(const struct sg_runtime_trial *t, const char *platform, unsigned timeout_ms,
                   struct sg_err *err);

struct sg_platform_found {
    bool works;
    char why[240]; /* it does not: the reason */
};

/* All of them, each tried once a boot for a program: what was found is kept in the run directory.
 * The index of the best, or -1. */
int sg_runtime_platforms(const struct sg_runtime_trial *t,
                         struct sg_platform_found ret[SG_PLATFORM_COUNT]);
/* One by name. What does not work is tried anew each time: it may have been mended. */
int sg_runtime_platform(const struct sg_runtime_trial *t, const char *platform, struct sg_err *err);
