/* SPDX-License-Identifier: Apache-2.0 */
/* Templates: a root filesystem plus defaults, from which cells are made.
 *
 *   <state>/templates/<name>/root/          the layer, ids 0 to 65535 as seen inside
 *   <state>/templates/<name>/template.toml  user, workdir, sudo, env, origin, digest of the recipe
 *
 * <state> is /var/lib/sandglass for root and $XDG_DATA_HOME/sandglass (~/.local/share/sandglass)
 * for everybody else. A template appears by rename, so it is whole or absent. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

enum { SG_TEMPLATE_MAX_BINDS = 8, SG_TEMPLATE_MAX_ENV = 64 };

struct sg_template_bind {
    char *source, *target; /* owned; always read-only */
};

struct sg_template {
    char *name;                                           /* owned, as are all strings here */
    char *layer;                                          /* host directory */
    struct sg_template_bind binds[SG_TEMPLATE_MAX_BINDS]; /* `host`: /usr and its like */
    size_t bind_count;
    char *user, *home, *workdir, *path; /* "user", "/home/user", "/workspace", the PATH inside */
    char *env[SG_TEMPLATE_MAX_ENV];     /* "NAME=value" */
    size_t env_count;
    bool grants_sudo;
    bool is_idmapped; /* the layer holds ids 0 to 65535 */
};

/* Finds `name`: "host" (made or refreshed on the spot), a stored template, or, with a slash in it,
 * any directory. SG_NOT_FOUND names the remedy. */
int sg_template_open(const char *state_dir, const char *name, struct sg_template *ret,
                     struct sg_err *err);
void sg_template_done(struct sg_template *t);
