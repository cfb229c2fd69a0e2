/* SPDX-License-Identifier: Apache-2.0 */
/* Open templates, shared by the cells that are made of them. While one is open, its directory is
 * locked and cannot be removed from under a cell (image/store.h). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/id.h"
#include "ctl/msg.h"
#include "engine/spec.h"
#include "image/template.h"

struct sg_launcher;

enum { SG_TMPL_NAME_MAX = 64 }; /* as of image/template.h */

/* A snapshot is a template, too: what its sandbox was made of, and a layer of the storage pool to
 * begin with. */
struct sg_tmpl {
    struct sg_template t;
    char snapshot[SG_ID_LEN + 1];                                    /* "": none */
    char base[SG_TMPL_NAME_MAX + 1], identity[SG_TMPL_NAME_MAX + 1]; /* "": not known */
    uint64_t dev, ino;                                               /* of its directory */
    unsigned refs;
};

/* What an image of an Engine is called; what it says of itself is not known yet. */
struct sg_tmpl *sg_tmpl_of_image(const char *name);

/* Returns a reference. `name` may be the id of a snapshot. */
struct sg_tmpl *sg_tmpl_open(const struct sg_launcher *l, const char *name, struct sg_err *err);
struct sg_tmpl *sg_tmpl_ref(struct sg_tmpl *t);
void sg_tmpl_unref(struct sg_tmpl *t); /* NULL is fine */

/* For a cell that was made of a directory which the name may no longer lead to: what the name says
 * now, or the usual, but the lock on the directory that it was made of, where that is still there.
 * Never fails. */
struct sg_tmpl *sg_tmpl_reopen(const struct sg_launcher *l, const char *name, uint64_t dev,
                               uint64_t ino);

/* What the name leads to, as a number: another after every import and every build, the same after a
 * restart of the machine. Never 0. And by what it is known on another machine. */
int sg_tmpl_identify(const struct sg_launcher *l, const char *name, uint64_t *ret,
                     char identity[SG_TMPL_NAME_MAX + 1], struct sg_err *err);

/* Does its name still lead to it? */
bool sg_tmpl_is_current(const struct sg_launcher *l, const struct sg_tmpl *t);

/* A snapshot of a sandbox of it is there, or a sandbox that has to find it again: it must stay. Of
 * `host` nothing must. */
int sg_tmpl_pin(const struct sg_tmpl *t, const char *id, struct sg_err *err);
void sg_tmpl_unpin(const struct sg_tmpl *t, const char *id);
/* A snapshot that is being made, or removed, has a pin of another name: what a launcher that was
 * killed in the midst of it has left is known by that, and goes at the start of the next
 * (adopt.c). */
#define SG_TMPL_PIN_PASSING "+"
int sg_tmpl_pin_making(const struct sg_tmpl *t, const char *snapshot, struct sg_err *err);
void sg_tmpl_pin_made(const struct sg_tmpl *t, const char *snapshot);
void sg_tmpl_unpin_making(const struct sg_tmpl *t, const char *snapshot);
void sg_tmpl_unpin_begin(const struct sg_launcher *l, const char *base, const char *snapshot);
void sg_tmpl_unpin_end(const struct sg_launcher *l, const char *base, const char *snapshot,
                       bool is_gone);

/* At the beginning and at the end, when nobody waits: what was replaced and is in no use any more
 * goes. In between the next builder does it. */
void sg_tmpl_sweep(const struct sg_launcher *l);

/* Fills what a template decides; borrows from it. */
void sg_tmpl_fill_spec(const struct sg_tmpl *t, bool is_rootless, struct sg_cell_spec *spec);

/* Fills what L_CELL says of a template; borrows from it and from `env`, which is filled. */
int sg_tmpl_fill_cell(const struct sg_tmpl *t, struct sg_buf *env, struct sg_msg_l_cell *ret,
                      struct sg_err *err);
