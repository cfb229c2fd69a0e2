/* SPDX-License-Identifier: Apache-2.0 */
/* What the `template` commands share: the way of an archive into the store, and progress. */
#pragma once

#include <sys/types.h>

#include "cli/cmd.h"
#include "image/layers.h"
#include "image/oci.h"
#include "image/store.h"
#include "image/template.h"

/* ---- progress, on stderr: one line that changes on a terminal, plain lines elsewhere ---- */

struct sg_progress {
    bool is_silent, is_terminal;
    int report_fd; /* 0 (unset): none; else each line goes there as {"say": ...} */
    pid_t ticker;  /* follows a descriptor while we are busy; 0: none */
    int ticker_fd; /* closing it ends the ticker */
};

void sg_progress_init(struct sg_progress *p, const struct sg_cli *cli);
void sg_progress_say(struct sg_progress *p, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Until the next call: shows how far `fd` (a file of `total` bytes that somebody reads) is. */
void sg_progress_follow(struct sg_progress *p, const char *what, int fd, uint64_t total);
void sg_progress_done(struct sg_progress *p); /* ends the line */

#define sg_auto_progress __attribute__((cleanup(sg_progress_done))) struct sg_progress

/* ---- import ---- */

struct sg_import {
    const char *state_dir, *name;
    int archive_fd;               /* borrows */
    struct sg_template *defaults; /* borrows; NULL: read from the archive's own passwd */
    const char *origin, *digest;  /* digest may be NULL */
    bool grants_sudo, skips_devices, replaces;
    /* Where the archive comes from a process: whether it ended well. Asked before the template gets
     * its name. May be NULL. */
    int (*finish)(void *arg, struct sg_err *err);
    void *finish_arg;
    /* Of a recipe: a program inside that is run in a cell of the new root, and the directory inside
     * that it may fill; NULL: none. */
    const char *program, *writes;
    /* An archive of an image is wanted as such; which of its images, and for what machine; "": as
     * there is, and this one. */
    bool takes_images;
    const char *image, *platform;
    bool is_idmapped; /* set by sg_import_begin() */
    /* Of an image that gets no name of its own but one by its digest, which is told here, and stays
     * in use by us (image/store.h). NULL: `name` it is. Where it is stored already, that is it. */
    struct sg_unnamed *unnamed;
};

struct sg_unnamed {
    char name[SG_IMAGE_NAME];
    int fd; /* owned by the caller; -1: not stored */
};

struct sg_import_result {
    struct sg_layer_numbers numbers;
    struct sg_oci_hex digest; /* of an image's manifest; "": it was a root */
    size_t layers, shared;    /* of an image: how many, and how many of them were there already */
};

/* Unpacks inside a cell that can write only the new layer, then stores it under its name. SG_DENIED
 * when the archive is refused. Nothing is left behind on failure. */
int sg_template_import(const struct sg_import *in, struct sg_progress *p,
                       struct sg_import_result *ret, struct sg_err *err);

/* ---- images ---- */

/* Runs sandglass-unpack in a cell that can write only `dir`. `flags` come before the directory,
 * NULL-terminated; `summary` gets its JSON. */
int sg_unpack_in_cell(const struct sg_import *in, const struct sg_template *host, int archive_fd,
                      const char *dir, const char *const *flags, struct sg_buf *summary,
                      struct sg_err *err);
/* The same, but a tree becomes the parts of an image; `config_fd` says how it is run. */
int sg_pack_in_cell(const struct sg_import *in, const struct sg_template *host, int config_fd,
                    const char *root, const char *dir, struct sg_buf *summary, struct sg_err *err);

struct sg_jval;
/* That JSON. `ret_image` may be NULL. */
int sg_unpack_summary(const struct sg_buf *text, struct sg_arena *a, struct sg_layer_numbers *ret,
                      const struct sg_jval **ret_image, struct sg_err *err);

/* Opens what an import needs: the template that it runs in, and a stage with an empty root. Without
 * root we are root of our own from here on: what is opened later must be of the same mounts. */
int sg_import_begin(struct sg_import *in, struct sg_template *host, struct sg_stage *stage,
                    struct sg_err *err);

/* Makes a stage's root of an image whose parts are in `parts_fd`, and fills in what the image says
 * of itself. Parts of layers that are stored already need not be there. */
int sg_image_assemble(const struct sg_import *in, const struct sg_template *host,
                      struct sg_stage *stage, int parts_fd, const struct sg_oci_image *image,
                      struct sg_progress *p, struct sg_template *t, struct sg_import_result *ret,
                      struct sg_err *err);
/* Writes template.toml, and gives the stage its name. */
int sg_import_commit(const struct sg_import *in, struct sg_stage *stage, struct sg_template *t,
                     const struct sg_import_result *r, struct sg_progress *p, struct sg_err *err);
/* Layers of what failed and of what was replaced go. After the stage has gone. */
void sg_import_sweep(const char *state_dir);
int sg_import_print(const struct sg_cli *cli, const char *name, const struct sg_import_result *r);

/* ---- the other way ---- */

/* An image that lies as an OCI layout in `dir_fd`, ready to leave. */
struct sg_leaving {
    struct sg_stage stage;
    int dir_fd;                /* owned: oci-layout, index.json, manifest.json, blobs/sha256/ */
    struct sg_oci_image image; /* without what is in its configuration */
    struct sg_arena arena;
    size_t n; /* different blobs; the last is the manifest */
    struct sg_oci_hex *blobs;
};
/* Of an image as it came; of any other template one is made, with one layer. `reference` is the
 * name in it. */
int sg_leaving_make(struct sg_leaving *l, const struct sg_cli *cli, const char *name,
                    const char *reference, struct sg_progress *p, struct sg_err *err);
/* The same of one that is open. */
int sg_leaving_of(struct sg_leaving *l, const char *state_dir, const struct sg_template *t,
                  const char *reference, struct sg_progress *p, struct sg_err *err);
int sg_leaving_write(struct sg_leaving *l, int fd, struct sg_err *err); /* as one archive */
void sg_leaving_done(struct sg_leaving *l);
#define sg_auto_leaving __attribute__((cleanup(sg_leaving_done))) struct sg_leaving

/* The template of an image of a registry, which is pulled where it is not there. Returns its name,
 * owned; NULL on failure. */
char *sg_template_pull_missing(struct sg_cli *cli, const char *image, struct sg_err *err);

/* An image of a registry. `who` NULL: as the files of credentials say; `unnamed`: as in sg_import.
 */
struct sg_credentials;
struct sg_oci_ref;
int sg_registry_pull(struct sg_cli *cli, const char *name, const struct sg_oci_ref *ref,
                     const struct sg_credentials *who, struct sg_unnamed *unnamed,
                     struct sg_progress *p, struct sg_import_result *ret, struct sg_err *err);

/* Runs `in->program` on the root at `layer`. That it fails is told, and no failure of ours: what it
 * makes is an improvement. */
int sg_template_finish(const struct sg_import *in, const char *layer, bool is_idmapped,
                       struct sg_progress *p, struct sg_err *err);

/* `template build -f`. Returns the exit code. */
int sg_template_dockerfile(struct sg_cli *cli);

/* A file that was installed (or built) beside this program: the first of `candidates`, relative to
 * the program's directory, that is there. Returns owned; NULL with SG_UNSUPPORTED. */
char *sg_find_beside(const char *const *candidates, size_t count, struct sg_err *err);
