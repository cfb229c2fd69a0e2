/* SPDX-License-Identifier: Apache-2.0 */
/* Templates: a root filesystem plus defaults, from which cells are made.
 *
 *   <state>/templates/<name>/root/          the layer, ids 0 to 65535 as seen inside
 *   <state>/templates/<name>/template.toml  user, workdir, sudo, env, origin, digest of the recipe
 *   <state>/templates/.host-<stamp>/        the skeleton of `host`, one per state of the machine
 *   <state>/templates/.new-<random>/        under construction, or on its way out
 *
 * <state> is /var/lib/sandglass for root and $XDG_DATA_HOME/sandglass (~/.local/share/sandglass)
 * for everybody else. A template appears by rename, so it is whole or absent. An open template
 * holds a shared lock on its directory, so nothing is removed from under a running cell. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { SG_TEMPLATE_MAX_BINDS = 8, SG_TEMPLATE_MAX_ENV = 64, SG_TEMPLATE_MAX_HIDE = 4 };

struct sg_template_bind {
    char *source, *target; /* owned; always read-only */
};

struct sg_template_list {
    char **v; /* owned, as are its strings */
    size_t n;
};

struct sg_template {
    char *name;                                           /* owned, as are all strings here */
    char *layer;                                          /* host directory */
    struct sg_template_bind binds[SG_TEMPLATE_MAX_BINDS]; /* `host`: /usr and its like */
    size_t bind_count;
    char *
        hide[SG_TEMPLATE_MAX_HIDE]; /* absolute paths inside, to be covered by an empty directory */
    size_t hide_count;
    char *user, *home, *workdir, *path; /* "user", "/home/user", "/workspace", the PATH inside */
    char *env[SG_TEMPLATE_MAX_ENV];     /* "NAME=value" */
    size_t env_count;
    bool grants_sudo;
    bool is_idmapped; /* the layer holds ids 0 to 65535 */
    int lock_fd;      /* the template's directory, locked; -1 for a directory of the user's own */

    /* For people: where it came from. NULL or 0 where nobody knows. */
    char *origin; /* "archive", "recipe", "host", "directory", "image" */
    char *digest; /* of the recipe */
    uint64_t bytes, entries;

    /* Of an image: what it would start; its layers (names in the store, image/layers.h) and what
     * they came as; its two documents, which lie beside template.toml. */
    struct sg_template_list entrypoint, cmd, layers, blobs;
    char *manifest, *config, *media_type, *reference; /* NULL: not of an image */
};

/* Fills in everything but the layer: user "user", /home/user, /workspace, a PATH, LANG. */
void sg_template_init(struct sg_template *t, const char *name);
void sg_template_done(struct sg_template *t); /* releases the lock */

void sg_template_list_add(struct sg_template_list *list, const char *text);

/* Finds `name`: "host" (made or refreshed on the spot), a stored template, or, with a slash in it,
 * any directory. SG_NOT_FOUND names the remedy. */
int sg_template_open(const char *state_dir, const char *name, struct sg_template *ret,
                     struct sg_err *err);

/* What a snapshot is based on: `host`, or the stored template `name` that has the pin `id`,
 * whatever it is called by now. */
int sg_template_open_pinned(const char *state_dir, const char *name, const char *id,
                            struct sg_template *ret, struct sg_err *err);

/* The stored template whose directory is called `dir` by now, under the name that it was known by.
 */
int sg_template_open_as(const char *state_dir, const char *dir, const char *name,
                        struct sg_template *ret, struct sg_err *err);

/* [a-z0-9][a-z0-9._-]{0,63}, and not the reserved "host". */
int sg_template_check_name(const char *name, struct sg_err *err);

/* Looks into a root for who lives there: the user with uid 1000, else root. What an image says is
 * taken only where it is plain (names of letters and digits, absolute home). Refuses a root whose
 * mount points are symbolic links. */
int sg_template_read_root(struct sg_template *t, int root_fd, struct sg_err *err);
/* The same for an image, which says itself who: "name", "1000" or with ":group". "": root. */
int sg_template_read_user(struct sg_template *t, int root_fd, const char *user, struct sg_err *err);

#define sg_auto_template __attribute__((cleanup(sg_template_done))) struct sg_template
