/* SPDX-License-Identifier: Apache-2.0 */
/* Tier gvisor: boxes whose sandbox an OCI runtime makes, inside a cell (engine/runtime.h), as the
 * settings have it. */
#pragma once

#include "config/config.h"
#include "engine/runtime.h"

struct sg_launch;
struct sg_launcher;

struct sg_oci {
    char *why;                 /* owned: why there is none; NULL: there is */
    char *path;                /* owned: the runtime's */
    struct sg_runtime runtime; /* borrows from the settings */
    char *command;             /* owned: how it is started */
    int program_fd;            /* owned: sandglass-bridge; -1: none */
};

/* Never fails: what is missing is in `why`. Tries which platforms of gVisor run here, unless that
 * is known; borrows the settings. */
void sg_oci_init(struct sg_oci *o, const struct sg_config *c, const struct sg_launch *set,
                 bool has_gate);
void sg_oci_done(struct sg_oci *o);
const char *sg_oci_lacks(const struct sg_launcher *l); /* as of holder.h */

/* What it is told of a box. Borrows from `text`, which is filled. */
int sg_oci_fill(const struct sg_oci *o, const struct sg_cell_spec *spec, struct sg_buf *text,
                struct sg_nested *ret, struct sg_err *err);
