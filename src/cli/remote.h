/* SPDX-License-Identifier: Apache-2.0 */
/* Files of a sandbox or a volume of the service, from here. */
#pragma once

#include <sys/stat.h>

#include "cli/api.h"
#include "cli/tar.h"

struct sg_remote {
    struct sg_api *api;
    const char *kind, *owner;   /* "sandboxes" and an id, "volumes" and a name */
    struct sg_tar_count *count; /* what went over */
    uint64_t most_bytes;        /* of a tree that goes in; 0: any number */
    bool makes_parents;         /* of a file that goes in */
};

enum sg_remote_kind { SG_REMOTE_NOTHING, SG_REMOTE_FILE, SG_REMOTE_DIRECTORY };
/* With SG_REMOTE_NOTHING `err` says so. */
int sg_remote_stat(const struct sg_remote *r, const char *path, enum sg_remote_kind *ret,
                   uint64_t *ret_mode, struct sg_err *err);

/* What is below `dir_fd` (taken) goes into `path`, which is made. */
int sg_remote_put_tree(const struct sg_remote *r, int dir_fd, const char *path, struct sg_err *err);
int sg_remote_put_file(const struct sg_remote *r, int fd, const struct stat *st, const char *path,
                       struct sg_err *err);

/* Begins to get a file, or (`tail` "tar") a tree; then its bytes are read, or put into `fd`. */
int sg_remote_get(const struct sg_remote *r, const char *tail, const char *path,
                  struct sg_err *err);
int sg_remote_get_body(const struct sg_remote *r, int fd, struct sg_err *err);
