/* SPDX-License-Identifier: Apache-2.0 */
/* What is said to a Docker Engine and what it says: JSON and structs, no sockets.
 *
 * D1. A container of ours is as closed as the Engine can make it: no network, a read-only root,
 *     no way to new privileges, its own limits. What pid 1 needs to act as a user is left to it,
 *     and it hands nothing of that on (init/join.h).
 * D2. An answer is somebody else's text: bounded, and looked at only for what is needed. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

struct sg_jval; /* base/jsonr.h */

#define SG_DOCKER_DIR         "/.sandglass" /* inside: what `dir` is there */
#define SG_DOCKER_LABEL       "sandglass.service"
#define SG_DOCKER_NAME_PREFIX "sandglass-"
#define SG_DOCKER_TEMPLATES   "sandglass-template" /* images of ours: their repository */

struct sg_docker_spec {
    const char *name, *image;
    const char *dir;     /* on the host: holds `init`, and the socket `ctl` that it comes to */
    const char *service; /* whose it is: the value of the label */
    uint64_t mem_bytes, cpu_milli, pids, disk_bytes, open_files; /* 0: none */
    /* Of a user, on the whole machine. 0: the Engine's own. Podman's own is more than a machine may
     * have, and then its runtime fails where it may not raise limits (CAP_SYS_RESOURCE). */
    uint64_t user_processes;
};

/* What an image says of itself. Texts live in the arena that it was read with. */
struct sg_docker_image {
    const char *id;
    const struct sg_jval *env;     /* an array of texts, or NULL */
    const struct sg_jval *volumes; /* an object, its keys are paths; or NULL */
};

/* What a container is to be: the body of POST /containers/create. */
void sg_docker_write_create(const struct sg_docker_spec *s, const struct sg_docker_image *image,
                            struct sg_buf *out);

/* [a-z0-9][a-z0-9._:/@-]*, at most 200 characters, without "..": a name, and no part of a URL. */
int sg_docker_check_image(const char *name, struct sg_err *err);
/* SG_DOCKER_NAME_PREFIX and [a-z0-9.-]+. */
int sg_docker_check_name(const char *name, struct sg_err *err);

/* GET /images/NAME/json. */
int sg_docker_read_image(struct sg_str body, struct sg_arena *a, struct sg_docker_image *ret,
                         struct sg_err *err);
/* POST /containers/create: the id. */
int sg_docker_read_created(struct sg_str body, struct sg_arena *a, const char **ret_id,
                           struct sg_err *err);
/* GET /containers/json: calls `each` with the names that have our prefix. */
int sg_docker_read_list(struct sg_str body, struct sg_arena *a,
                        void (*each)(void *arg, const char *name), void *arg, struct sg_err *err);
/* GET /version. Podman says so among its components. */
int sg_docker_read_version(struct sg_str body, struct sg_arena *a, const char **ret,
                           bool *ret_is_podman, struct sg_err *err);
/* What a failed call says, as one line; "" where it says nothing. */
void sg_docker_read_message(struct sg_str body, char *ret, size_t cap);
/* POST /images/create: lines of JSON, of which one may be an error. */
int sg_docker_read_pull(struct sg_str body, struct sg_err *err);

/* ---- docker_image.c: templates of ours as images ---- */

/* SG_DOCKER_TEMPLATES, ":" and a tag of [a-z0-9._-]. */
int sg_docker_check_template(const char *image, struct sg_err *err);
/* "sha256:" and 64 digits. */
int sg_docker_check_id(const char *id, struct sg_err *err);
/* As a part of a query. */
void sg_docker_escape(struct sg_buf *out, const char *text);
/* The path of an import, with our label; then each variable. One that cannot be said is left out.
 */
void sg_docker_write_import(struct sg_buf *out, const char *service);
void sg_docker_write_import_env(struct sg_buf *out, const char *variable);
/* POST /images/create?fromSrc: the id. */
int sg_docker_read_imported(struct sg_str body, struct sg_arena *a, const char **ret_id,
                            struct sg_err *err);
/* GET /images/json: calls `each` with names of ours, and with the ids of what has none. */
int sg_docker_read_images(struct sg_str body, struct sg_arena *a,
                          void (*each)(void *arg, const char *name), void *arg, struct sg_err *err);
