/* SPDX-License-Identifier: Apache-2.0 */
/* Templates of ours as images of the Engine: a container of one that the Engine does not have yet
 * waits until it is there.
 *
 *     sandglass-template:NAME-STAMP      the stamp is that of what the name leads to now, of its
 *                                        digest and of this service
 *
 * G1. One import of an image at a time, whoever waits for it.
 * G2. An image gets its name when tar has said that all of it was packed (keeper/work_image.c).
 * G3. One whose template was removed or replaced is removed when no container has it any more, as
 *     is what an import left by halves. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct sg_launcher;
struct sg_tmpl;
struct sg_import;
struct sg_known_image;

struct sg_imports {
    struct sg_import *running;    /* owned */
    struct sg_known_image *known; /* owned: what the Engine has of ours */
};

/* The image of a stored template. Returns owned, or NULL. */
char *sg_import_name(const struct sg_launcher *l, const char *template, struct sg_err *err);
/* sg_container_imported() comes later. Takes a reference of `t`. */
void sg_import_want(struct sg_launcher *l, struct sg_tmpl *t, const char *image);

void sg_import_engine_is_up(struct sg_launcher *l);
/* Now and then: what is nobody's any more goes. */
void sg_import_look(struct sg_launcher *l, uint64_t now_ns);
void sg_import_done(struct sg_launcher *l);
