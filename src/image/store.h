/* SPDX-License-Identifier: Apache-2.0 */
/* The directory of stored templates: how one comes to be, is found, and goes.
 *
 * T1. A name always leads to a whole template: it is built as .new-<random>, synced, then renamed.
 * T2. Who builds or removes holds an exclusive lock (flock) on the directory, who uses it a shared
 *     one. Locks go with their process, so after a crash the rest is swept by the next builder.
 * T3. The directory is closed to everybody else (0700): layers hold ids as seen inside, so a
 *     template's sudo is a set-id program of the real root. */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "image/unnamed.h"

/* Opens <state>/templates. With `may_make` it is made; without, SG_NOT_FOUND when absent. */
int sg_templates_open(const char *state_dir, bool may_make, struct sg_err *err);

/* Opens the template's directory and locks it against removal. SG_NOT_FOUND. */
int sg_templates_use(int store_fd, const char *name, struct sg_err *err);

/* SG_NOT_FOUND, or SG_CONFLICT while it is in use, or pinned. */
int sg_templates_remove(int store_fd, const char *name, struct sg_err *err);

/* Removes what crashed builders left, and with `keep_host` every other version of `host` that
 * nobody uses. Never fails: what cannot be removed now is found again. */
void sg_templates_sweep(int store_fd, const char *keep_host);

/* Whether there is something to sweep but old versions of `host`. */
bool sg_templates_has_spare(int store_fd);

/* Pins: what lies elsewhere and cannot do without this template (snapshots of its sandboxes, and
 * sandboxes that may live longer than the launcher that holds it for them). A
 * pinned one is not removed; where it is replaced, it stays under another name. `dir_fd`: the
 * template's directory. */
int sg_templates_pin(int dir_fd, const char *id, struct sg_err *err);
void sg_templates_unpin(int dir_fd, const char *id); /* fine when there is none */
void sg_templates_repin(int dir_fd, const char *id, const char *new_id); /* one for another */
bool sg_templates_is_pinned(int dir_fd, const char *id);
/* The name of the directory that has this pin: `name`, or what it was renamed to. SG_NOT_FOUND. */
int sg_templates_find_pin(int store_fd, const char *name, const char *id, char ret[80],
                          struct sg_err *err);

/* Each pin that there is: `dir_fd` is its template's directory. The call may take it off. */
void sg_templates_each_pin(int store_fd, void (*each)(void *arg, int dir_fd, const char *id),
                           void *arg);

/* That of an image (unnamed.h) by its manifest's digest. */
void sg_templates_image_name(const char *hex, bool grants_sudo, char ret[SG_IMAGE_NAME]);

/* A template under construction; removed by _done unless committed. */
struct sg_stage {
    int store_fd; /* owned */
    int fd;       /* the new directory, locked */
    char name[32];
};

int sg_stage_new(const char *state_dir, struct sg_stage *ret, struct sg_err *err);
void sg_stage_done(struct sg_stage *s);

/* Gives it its name. SG_CONFLICT when the name is taken, unless `replaces`; then cells that use the
 * old one keep it until they end. */
int sg_stage_commit(struct sg_stage *s, const char *name, bool replaces, struct sg_err *err);

/* What was committed as `name` stays in use by us, as sg_templates_use() has it. Returns the
 * descriptor; SG_UNAVAILABLE: somebody removed it that very moment. */
int sg_stage_use(struct sg_stage *s, const char *name, struct sg_err *err);

#define SG_TEMPLATES_HOST_PREFIX ".host-"
#define SG_TEMPLATES_NEW_PREFIX  ".new-"
#define sg_auto_stage            __attribute__((cleanup(sg_stage_done))) struct sg_stage
