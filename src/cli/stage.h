/* SPDX-License-Identifier: Apache-2.0 */
/* Where an agent's file tools work while the files themselves are in the sandbox of its session: a
 * directory of this user's own, with a copy of each file that was asked for, at its path inside.
 *
 * G1. What was changed here is put into the sandbox before anything else is done there.
 * G2. A copy that is still as in the sandbox is left alone: agents notice that a file was changed
 *     under them by its time.
 * G3. Paths are plain ones (router/intercept.h), and are followed through no link. */
#pragma once

#include "cli/remote.h"

struct sg_stage {
    char *dir, *files; /* owned: ".../hook/SESSION" and what is below it */
    int fd, lock_fd;   /* of `dir`; lock -1: nobody is kept out */
};

/* Made where it is not there, in $XDG_STATE_HOME or ~/.local/state. */
int sg_stage_open(struct sg_stage *s, const char *session, struct sg_err *err);
void sg_stage_close(struct sg_stage *s);
int sg_stage_lock(struct sg_stage *s, struct sg_err *err); /* until it is closed */
int sg_stage_remove(struct sg_stage *s, struct sg_err *err);

/* Whether the session's directory was put into this sandbox already. */
bool sg_stage_is_filled(const struct sg_stage *s, const char *sandbox);
int sg_stage_set_filled(const struct sg_stage *s, const char *sandbox, struct sg_err *err);

/* The copy of `path` is as it is inside (not there, if it is not there). Returns owned: its place.
 */
int sg_stage_get(const struct sg_stage *s, const struct sg_remote *r, const char *path,
                 char **ret_place, struct sg_err *err);
/* Whatever becomes of the copy from now on belongs into the sandbox. */
int sg_stage_expect(const struct sg_stage *s, const char *sandbox, const char *path,
                    struct sg_err *err);
/* Puts what was changed into `sandbox`; NULL: into the one that was expected to get it. */
int sg_stage_put(const struct sg_stage *s, struct sg_api *api, const char *sandbox,
                 struct sg_err *err);

#define sg_auto_stage __attribute__((cleanup(sg_stage_close))) struct sg_stage
