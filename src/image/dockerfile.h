/* SPDX-License-Identifier: Apache-2.0 */
/* Dockerfiles: text to stages of instructions, in which variables are replaced and stages are
 * found.
 *
 * D1. What is not understood is refused, with its line and the reason; nothing is passed over in
 *     silence. What has no meaning for a template (EXPOSE, LABEL, VOLUME, ...) is checked and
 * noted. D2. Nothing is read but the text: whether files and images exist is for others to find
 * out. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

enum { SG_DOCKER_MAX_BYTES = 1 << 20, SG_DOCKER_MAX_STAGES = 32, SG_DOCKER_MAX_STEPS = 500 };

enum sg_docker_op {
    SG_DOCKER_FROM,
    SG_DOCKER_RUN,
    SG_DOCKER_COPY,
    SG_DOCKER_ADD,
    SG_DOCKER_ENV,
    SG_DOCKER_ARG,
    SG_DOCKER_WORKDIR,
    SG_DOCKER_USER,
    SG_DOCKER_SHELL,
    SG_DOCKER_ENTRYPOINT,
    SG_DOCKER_CMD,
    SG_DOCKER_EXPOSE,
    SG_DOCKER_LABEL,
    SG_DOCKER_VOLUME,
    SG_DOCKER_STOPSIGNAL,
    SG_DOCKER_HEALTHCHECK,
    SG_DOCKER_MAINTAINER,
    SG_DOCKER_ONBUILD,
    SG_DOCKER_OP_COUNT,
};

/* An instruction that does something: RUN, COPY, ADD, ENV, WORKDIR, USER. */
struct sg_docker_step {
    enum sg_docker_op op;
    unsigned line;
    /* RUN: the command, or (is_exec) its arguments. COPY, ADD: sources, then the destination. ENV:
     * name, value, ... WORKDIR, USER: one. */
    const char **words;
    size_t n;
    bool is_exec;
    const char *chown, *chmod; /* COPY, ADD; NULL: not given */
    unsigned stage;            /* COPY --from: 1 and up; 0: from the context */
    const char *const *shell;  /* RUN: NULL-terminated */
    const char *const *args;   /* RUN: "NAME=value" of ARG, NULL-terminated */
};
struct sg_docker_stage {
    const char *image, *name; /* name NULL: none. image NULL: `stage` */
    unsigned stage;           /* FROM an earlier one: 1 and up */
    struct sg_docker_step *steps;
    size_t n;
    const char *start; /* of ENTRYPOINT and CMD, as a line for a shell; NULL: none */
};
struct sg_dockerfile {
    struct sg_arena arena;
    struct sg_docker_stage stages[SG_DOCKER_MAX_STAGES];
    size_t n;
    unsigned noted[SG_DOCKER_OP_COUNT]; /* line of the first that has no meaning here, or 0 */
};
extern const char *const sg_docker_names[SG_DOCKER_OP_COUNT];

/* `args`: "NAME=value" that replace defaults of ARG, NULL-terminated or NULL. SG_INVALID begins
 * with "line N: ". */
int sg_dockerfile_parse(struct sg_dockerfile *d, struct sg_str text, const char *const *args,
                        struct sg_err *err);
void sg_dockerfile_done(struct sg_dockerfile *d);
#define sg_auto_dockerfile __attribute__((cleanup(sg_dockerfile_done))) struct sg_dockerfile

/* ---- .dockerignore, and the patterns of COPY ---- */

/* Whether `path` is left out: the last line that matches it, or a directory above it, decides. */
bool sg_dockerignore_has(struct sg_str text, const char *path);
/* Go's filepath.Match, and "**" for any number of directories. */
bool sg_docker_match(const char *pattern, const char *path);
