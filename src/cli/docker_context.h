/* SPDX-License-Identifier: Apache-2.0 */
/* The context of a Dockerfile: the files below a directory but those that .dockerignore leaves out,
 * and what of them a COPY means. */
#pragma once

#include "cli/tar.h"
#include "image/dockerfile.h"

struct sg_context_entry {
    char *path; /* owned; below the directory */
    bool is_dir;
};
struct sg_context {
    int fd; /* -1: none */
    struct sg_context_entry *v;
    size_t n, room;
};
int sg_context_open(struct sg_context *c, const char *dir, struct sg_err *err);
void sg_context_done(struct sg_context *c);
#define sg_auto_context __attribute__((cleanup(sg_context_done))) struct sg_context

/* What the sources `v` mean: entries with their names below the destination. A single file has
 * `*ret_is_file`; its name is then its own. */
struct sg_picked {
    struct sg_tar_item *items; /* names owned */
    size_t n, room, hits;
    bool is_file;
};
/* SG_NOT_FOUND names a source that nothing matches. */
int sg_context_pick(const struct sg_context *c, const char *const *sources, size_t n,
                    struct sg_picked *ret, struct sg_err *err);
void sg_picked_done(struct sg_picked *p);
#define sg_auto_picked __attribute__((cleanup(sg_picked_done))) struct sg_picked

/* Whether the file is an archive, by its first bytes. */
bool sg_context_is_archive(const struct sg_context *c, const char *path);
