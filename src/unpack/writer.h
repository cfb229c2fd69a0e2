/* SPDX-License-Identifier: Apache-2.0 */
/* Makes files below one directory, never through a link, never over something that is there. */
#pragma once

#include <stdbool.h>
#include <sys/stat.h>

#include "base/err.h"
#include "unpack/name.h"

struct sg_writer {
    int root_fd; /* borrows */
    bool is_one_user;
    mode_t implied; /* of directories that nobody named */
    int parent_fd;  /* the directory of the last entry, kept because the next is often beside it */
    char parent[PATH_MAX];
};

struct sg_node {
    mode_t perm; /* with set-id and sticky bits, as decided by the caller */
    uid_t uid;
    gid_t gid;
    struct timespec mtime;
};

void sg_writer_init(struct sg_writer *w, int root_fd, bool is_one_user, mode_t implied);
void sg_writer_done(struct sg_writer *w);

/* Directories that lead to `name` are made (`implied`, root) when the archive did not name them. */
int sg_writer_dir(struct sg_writer *w, const struct sg_entry_name *name, const struct sg_node *node,
                  struct sg_err *err);
int sg_writer_symlink(struct sg_writer *w, const struct sg_entry_name *name, const char *target,
                      const struct sg_node *node, struct sg_err *err);
/* `target` must be a file or link that is already there. */
int sg_writer_hardlink(struct sg_writer *w, const struct sg_entry_name *name,
                       const struct sg_entry_name *target, struct sg_err *err);

/* A new empty file, open for writing; give its mode and owner with _finish after the content. */
int sg_writer_create(struct sg_writer *w, const struct sg_entry_name *name, struct sg_err *err);
int sg_writer_finish(struct sg_writer *w, int fd, const struct sg_entry_name *name,
                     const struct sg_node *node, struct sg_err *err);

#define sg_auto_writer __attribute__((cleanup(sg_writer_done))) struct sg_writer
