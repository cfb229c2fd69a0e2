/* SPDX-License-Identifier: Apache-2.0 */
/* What of a box's life differs where it is a container: somebody else makes it, its init comes to
 * us, and its last trace is the Engine's.
 *
 *     RUN/docker/<container>/       init, and the socket `ctl` until init has come
 *     RUN/docker/<container>.about  what its image says, for the next launcher
 *
 * N1. The record with the container's name is written before the Engine hears of it.
 * N2. The socket takes one connection: then it is gone. Who came is what the kernel says.
 * N3. A container that the Engine cannot remove now is removed when the Engine is back (keeper.h);
 *     its processes are gone before anybody is told. */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "loop/loop.h"

struct sg_box;
struct sg_launcher;

struct sg_container {
    struct sg_io door; /* the socket that init comes to; fd -1: nobody is awaited */
    bool is_asked;     /* the keeper makes or removes it */
    bool is_made;      /* the keeper says so */
    bool is_ready;     /* its init says so */
    bool is_removed;   /* as far as it can be */
    /* Of a stored template, until it is made: a reference; its image; whether that is imported. */
    struct sg_tmpl *source;
    char *image; /* owned */
    bool is_importing, has_imported;
};

void sg_container_init(struct sg_box *b);
/* Begins: sg_box_made() or sg_box_not_made() comes later. The slot is claimed (b->place). */
int sg_container_make(struct sg_box *b, struct sg_err *err);
/* READY came over b->ctl. */
void sg_container_ready(struct sg_box *b);
/* Pid 1 is gone, or never was. True: so is all the rest. Else sg_box_look_again() comes. */
bool sg_container_is_over(struct sg_box *b);
/* What the next launcher needs to know beside the record. */
void sg_container_adopt(struct sg_box *b);
void sg_container_free(struct sg_box *b);

/* What a name leads to: a stored template, or an image of that name. Returns a reference. */
struct sg_tmpl *sg_container_template(const struct sg_launcher *l, const char *name);
/* From import.c: the image is there, or `err` says why it never will be. */
void sg_container_imported(struct sg_launcher *l, const char *image, const struct sg_err *err);

bool sg_container_has_box(const struct sg_launcher *l, const char *container);

/* What containers of an earlier launcher left in the run directory. */
void sg_container_sweep(const struct sg_launcher *l);
