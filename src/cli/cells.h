/* SPDX-License-Identifier: Apache-2.0 */
/* Code in a sandbox of the service, as `code` and `repl` run it: a sandbox that is there or one of
 * our own, cells, and what they give. */
#pragma once

#include "cli/api.h"

struct sg_cells {
    const struct sg_cli *cli;
    struct sg_api api;
    char sandbox[64], context[64];
    bool is_ours;      /* it ends with us */
    int signals_fd;    /* SIGINT and SIGTERM; -1: not blocked */
    int got_signal;    /* 0: none */
    bool interrupts;   /* SIGINT is for what runs, not for us */
    unsigned pictures; /* shown or saved so far */
    bool has_failed;   /* the last cell gave an error */
};

/* The sandbox of --sandbox, or a fresh one of --template. `with_context`: with a context of our
 * own. What was begun is ended by sg_cells_close(), also after a failure. */
int sg_cells_open(struct sg_cells *c, const struct sg_cli *cli, bool with_context,
                  struct sg_err *err);
void sg_cells_close(struct sg_cells *c);
#define sg_auto_cells __attribute__((cleanup(sg_cells_close))) struct sg_cells

/* Runs one and shows what comes. SG_CONFLICT: a signal ended us. */
int sg_cells_run(struct sg_cells *c, struct sg_str code, struct sg_err *err);
/* A fresh interpreter for the context. */
int sg_cells_restart(struct sg_cells *c, struct sg_err *err);

/* ---- show.c ---- */

/* One event, for people. `v` is its tree. */
int sg_cells_show(struct sg_cells *c, const struct sg_jval *v, struct sg_err *err);
