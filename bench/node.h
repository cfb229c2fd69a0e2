/* SPDX-License-Identifier: Apache-2.0 */
/* sdk.mjs, running: it does what it is told by name, and tells how long that took. */
#pragma once

#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "base/err.h"

struct sg_node {
    pid_t pid; /* 0: none */
    FILE *in, *out;
};

/* `env` is all that it gets. */
int sg_node_open(struct sg_node *n, char *const *argv, char *const *env, struct sg_err *err);
/* Ends it by the end of its input. */
void sg_node_close(struct sg_node *n);

int sg_node_do(struct sg_node *n, const char *deed, uint64_t *ret_ns, struct sg_err *err);
