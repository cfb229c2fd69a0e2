/* SPDX-License-Identifier: Apache-2.0 */
/* What the `template` commands share: the way of an archive into the store, and progress. */
#pragma once

#include <sys/types.h>

#include "cli/cmd.h"
#include "image/template.h"

/* ---- progress, on stderr: one line that changes on a terminal, plain lines elsewhere ---- */

struct sg_progress {
    bool is_silent, is_terminal;
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
};

struct sg_import_result {
    uint64_t entries, bytes, skipped, setuid_dropped;
};

/* Unpacks inside a cell that can write only the new layer, then stores it under its name. SG_DENIED
 * when the archive is refused. Nothing is left behind on failure. */
int sg_template_import(const struct sg_import *in, struct sg_progress *p,
                       struct sg_import_result *ret, struct sg_err *err);

/* Runs `in->program` on the root at `layer`. That it fails is told, and no failure of ours: what it
 * makes is an improvement. */
int sg_template_finish(const struct sg_import *in, const char *layer, bool is_idmapped,
                       struct sg_progress *p, struct sg_err *err);

/* `template build -f`. Returns the exit code. */
int sg_template_dockerfile(struct sg_cli *cli);

/* A file that was installed (or built) beside this program: the first of `candidates`, relative to
 * the program's directory, that is there. Returns owned; NULL with SG_UNSUPPORTED. */
char *sg_find_beside(const char *const *candidates, size_t count, struct sg_err *err);
