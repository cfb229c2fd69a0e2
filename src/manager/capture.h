/* SPDX-License-Identifier: Apache-2.0 */
/* Files that are kept when a sandbox ends, by pattern; checkpoints of its files every so many
 * commands; and the removal of both when nobody has a use for them.
 *
 * A1. Files are kept in a volume of the organisation, SG_ARTIFACTS, made when there is none: below
 *     the sandbox's id, as its own files were. Whoever reaches volumes reaches them, and they count
 *     as the organisation's.
 * A2. They are taken before the sandbox is destroyed or expires, while it still runs; it ends all
 *     the same when that fails or takes more than a minute. One that died has none.
 * A3. A checkpoint is a snapshot whose name is the sandbox's id, with a tag of its own: c1, c2, ...
 *     The last few are kept. */
#pragma once

#include "manager/manager.h"

struct sg_snapshot;

#define SG_ARTIFACTS "artifacts"
enum {
    SG_CAPTURES_MAX = 16,
    SG_CHECKPOINT_EVERY_MAX = 1000000,
    SG_ARTIFACT_DAYS = 7,
    SG_LAYER_DAYS = 30
};

/* Is it a pattern: [DIRECTORY/]GLOB, every file below the directory whose name is like that. */
int sg_captures_check(const char *const *v, size_t n, struct sg_err *err);
void sg_captures_copy(struct sg_sandbox *s, const char *const *v, size_t n);
void sg_captures_done(struct sg_sandbox *s);
/* True: files are being kept first; the end is asked for again when they are. */
bool sg_capture_begin(struct sg_sandbox *s);

/* A command has ended. */
void sg_checkpoint_count(struct sg_sandbox *s);
bool sg_checkpoint_is(const struct sg_snapshot *t);

/* ---- gc.c ---- */

/* What is in no use any more: checkpoints of sandboxes that are gone, and files that were kept for
 * more than `days`. */
struct sg_gc_found {
    const char *const *snapshots, *const *artifacts; /* ids; artifacts: those of their sandboxes */
    const char *const *layers;                       /* of builds (layer.c) */
    size_t snapshots_n, artifacts_n, layers_n;
    uint64_t snapshot_bytes, layer_bytes;
};
struct sg_gc_wish {
    unsigned artifact_days, layer_days; /* older ones go; 0: all that nobody needs */
    bool is_dry;                        /* nothing is removed */
};
typedef void sg_gc_cb(void *arg, const struct sg_gc_found *f, const struct sg_err *err);
int sg_manager_gc(struct sg_manager *m, const struct sg_who *who, const struct sg_gc_wish *w,
                  sg_gc_cb *cb, void *arg, struct sg_err *err);
void sg_gc_start(struct sg_manager *m); /* by itself, for everybody, now and then */
