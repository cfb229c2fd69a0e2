/* SPDX-License-Identifier: Apache-2.0 */
/* What the skeleton of `host` consists of: tables, read by host.c. All names are relative. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct sg_host_dir {
    const char *name;
    mode_t mode;
    bool is_users; /* uid and gid 1000 inside */
};

struct sg_host_file {
    const char *name;
    mode_t mode;
    const char *text;
};

struct sg_host_link {
    const char *name, *target;
};

/* An entry of the host's /etc that is copied when everybody may read it. */
struct sg_host_copy {
    const char *name;
    bool is_prefix; /* of names directly in /etc */
    const char *why;
};

extern const struct sg_host_dir sg_host_dirs[];
extern const size_t sg_host_dir_count;
extern const struct sg_host_file sg_host_files[];
extern const size_t sg_host_file_count;
extern const struct sg_host_link sg_host_links[]; /* made where no copy has the name */
extern const size_t sg_host_link_count;
extern const struct sg_host_copy sg_host_copies[];
extern const size_t sg_host_copy_count;

/* Top-level names that are links into /usr on merged systems and directories elsewhere. */
extern const char *const sg_host_roots[];
extern const size_t sg_host_root_count;
