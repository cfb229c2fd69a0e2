/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of a Dockerfile: continued ones joined, comments left out, here-documents gathered. */
#pragma once

#include "image/dockerfile.h"

struct sg_docker_line {
    unsigned number;     /* where it begins, from 1 */
    char escape;         /* '\\', or what "# escape=" says */
    const char *text;    /* without blanks at either end */
    const char *heredoc; /* of RUN: what a shell is to be given in its place; NULL: none */
};
/* SG_INVALID: "line N: ...". */
int sg_docker_lines(struct sg_arena *a, struct sg_str text,
                    int (*take)(void *arg, const struct sg_docker_line *line, struct sg_err *err),
                    void *arg, struct sg_err *err);
