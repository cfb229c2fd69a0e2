/* SPDX-License-Identifier: Apache-2.0 */
/* Words of a Dockerfile's instruction: quotes, escapes, variables, lists in JSON. */
#pragma once

#include "image/dockerfile.h"

struct sg_docker_var {
    const char *name, *value; /* value NULL: declared, and without one */
    bool is_arg;              /* of ARG; else of ENV */
};
struct sg_docker_vars {
    struct sg_docker_var v[512];
    size_t n;
};

/* The reading of one instruction. */
struct sg_docker_words {
    struct sg_arena *arena;
    const struct sg_docker_vars *vars; /* NULL: none are replaced */
    char escape;                       /* '\\' or '`' */
    unsigned line;
};

/* The value of a variable, or NULL. */
const char *sg_docker_var(const struct sg_docker_vars *v, struct sg_str name);
int sg_docker_set(struct sg_docker_vars *v, const char *name, const char *value, bool is_arg,
                  unsigned line, struct sg_err *err);

/* The next word at `*p`, without its quotes and with its variables; NULL at the end (and *ret_bad
 * where it is no word: the error is set). `keeps_quotes`: as it is written, but whole. */
int sg_docker_word(const struct sg_docker_words *w, const char **p, const char **ret,
                   struct sg_err *err);
/* All of them, NULL-terminated. */
int sg_docker_split(const struct sg_docker_words *w, const char *text, const char ***ret,
                    size_t *ret_n, struct sg_err *err);
/* A whole text, in which only variables are replaced. */
int sg_docker_expand(const struct sg_docker_words *w, const char *text, const char **ret,
                     struct sg_err *err);
/* ["a", "b"]: 1; something else: 0. */
int sg_docker_json(const struct sg_docker_words *w, const char *text, const char ***ret,
                   size_t *ret_n, struct sg_err *err);
