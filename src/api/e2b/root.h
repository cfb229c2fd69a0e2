/* SPDX-License-Identifier: Apache-2.0 */
/* Files that the user may not touch. Whoever holds a sandbox's token may act as any of its users,
 * root included, and these clients expect to: what their user is denied is tried as root, and what
 * is made so is given to the user. */
#pragma once

#include "api/e2b/e2b.h"

/* Whether to try as root what failed with `err`. From then on the visit's user is root. */
bool sg_e2b_turn_root(struct sg_call *c, const struct sg_err *err);
/* The same, and calls the route's handler again. True: it has the call now. */
bool sg_e2b_again_as_root(struct sg_call *c, const struct sg_err *err);

typedef void sg_e2b_done_cb(void *arg, const struct sg_err *err);
/* Makes the directory and what is missing above it, each the user's. */
int sg_e2b_make_owned(struct sg_call *c, const char *path, sg_e2b_done_cb *done, void *arg,
                      struct sg_err *err);
/* Gives it to the user. */
int sg_e2b_give(struct sg_call *c, const char *path, sg_e2b_done_cb *done, void *arg,
                struct sg_err *err);
