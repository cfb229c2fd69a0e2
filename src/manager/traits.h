/* SPDX-License-Identifier: Apache-2.0 */
/* What a template that was built says beside its files: user, directory, environment, and a command
 * that runs in each sandbox of it. They are the template's defaults in the place of those below.
 *
 * The start command is started when the cell is there, in the background, and the ready command is
 * asked until it succeeds; only then is the sandbox told of. What it had written when the template
 * was built is not in the template: each sandbox starts it on the same files. */
#pragma once

#include "manager/sandbox.h"

struct sg_jval;
struct sg_json;

void sg_traits_copy(struct sg_traits *to, const struct sg_traits *from);
void sg_traits_done(struct sg_traits *t);
bool sg_traits_is_empty(const struct sg_traits *t);
/* "" is as NULL. */
void sg_traits_set(char **to, const char *value);
void sg_traits_set_env(struct sg_traits *t, const char *name, const char *value);
void sg_traits_put(struct sg_json *j, const struct sg_traits *t); /* an object */
/* What is not there stays as it is; `v` may be NULL. */
void sg_traits_read(const struct sg_jval *v, struct sg_traits *to);
void sg_traits_apply(struct sg_sandbox *s); /* over what the launcher said of its cell */

/* ---- start.c: a step of a create; `err` NULL: it is ready ---- */

typedef void sg_start_done(struct sg_sandbox *s, const struct sg_err *err);
void sg_start_begin(struct sg_sandbox *s, sg_start_done *done);
void sg_start_stop(
    struct sg_sandbox *s); /* it shall end, or has died: `done` comes, with an error */
