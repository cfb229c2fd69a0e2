/* SPDX-License-Identifier: Apache-2.0 */
/* Moving: a sandbox as one file, for another machine, and back. The file's frame is move_file.h's,
 * what is in it and why docs/design/moving.md tells.
 *
 * Y1. What is exported is a snapshot, taken for it where there is none: all files at one moment. It
 *     is read in a sandbox of ours, made of that snapshot, in which nothing runs.
 *     A whole file has the template, too, as an image that another process packs (image_job.h).
 * Y2. What is imported is unpacked in a sandbox of ours, made of the same template, as a stranger's
 *     work. Only when the file was whole and its digest right does a snapshot of that get a row or
 * a sandbox; whatever fails before leaves nothing. Y3. Neither holds more of a file in memory than
 * one piece: who is slow is waited for. Y4. Secrets, tokens, volumes and snapshots of a sandbox are
 * not in its file. */
#pragma once

#include "manager/snapshot.h"

enum { SG_MOVES_MAX = 4 }; /* at once: of an organisation */

/* ---- out ---- */

struct sg_move_out; /* ours; until `over` was called */
struct sg_move_out_ops {
    bool (*piece)(void *arg, const void *p, size_t n); /* false: wait for sg_move_out_go_on() */
    void (*over)(void *arg, const struct sg_err *err); /* NULL: all was told */
};
/* SG_UNSUPPORTED: its files are in memory. Whole: with the template below it. */
struct sg_move_out *sg_move_out_sandbox(struct sg_sandbox *s, const struct sg_who *who,
                                        bool is_whole, const struct sg_move_out_ops *ops, void *arg,
                                        struct sg_err *err);
struct sg_move_out *sg_move_out_snapshot(struct sg_manager *m, const struct sg_who *who,
                                         const struct sg_snapshot *t, bool is_whole,
                                         const struct sg_move_out_ops *ops, void *arg,
                                         struct sg_err *err);
void sg_move_out_go_on(struct sg_move_out *o);
void sg_move_out_drop(struct sg_move_out *o); /* nobody listens any more: no calls from now on */

/* ---- in ---- */

struct sg_move_in; /* ours; until `over` was called */
struct sg_move_in_ops {
    void (*ready)(void *arg); /* for the next piece */
    /* One of the two, or an error. */
    void (*over)(void *arg, struct sg_sandbox *s, struct sg_snapshot *t, const struct sg_err *err);
};
struct sg_move_in_spec {
    bool is_snapshot;       /* it becomes a snapshot, and no sandbox */
    const char *name, *tag; /* of that; NULL: none */
    const char *template;   /* in place of the one that the file names; NULL: that one */
    /* Private networks and a proxy that the file names are the importer's to give: without this
     * they are left out, and told. */
    bool keeps_network;
};
struct sg_move_in *sg_move_in_begin(struct sg_manager *m, const struct sg_who *who,
                                    const struct sg_move_in_spec *spec,
                                    const struct sg_move_in_ops *ops, void *arg,
                                    struct sg_err *err);
/* The next bytes of the file; only at the beginning, and after `ready`. */
void sg_move_in_add(struct sg_move_in *in, const void *p, size_t n, bool is_last);
/* In `over`: what was not taken over of the file, and why; NULL behind the last. */
const char *const *sg_move_in_notices(const struct sg_move_in *in);
void sg_move_in_drop(struct sg_move_in *in); /* nobody listens any more; nothing is to stay */
