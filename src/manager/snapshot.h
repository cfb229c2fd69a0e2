/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots: what a sandbox's files were at one moment, to make others of, or to go back to.
 *
 * Z1. A snapshot belongs to an organisation; of another one's it is not known that there is any.
 * Z2. Its row says "making" before the launcher is asked, and "ready", on the disk, before anybody
 *     is told. What says "making" after a restart is removed, as is what has no row.
 * Z3. What is made of a snapshot has a copy of its own: neither can change the other. A snapshot
 *     that sandboxes were made of is removed only when they are gone, or with them, if so asked.
 * Z4. A name and tag lead to the newest one that was given them; the one before stays, by its id.
 * Z5. A layer of a build (build.h) is a snapshot with a key. Nobody sees it; it goes when nothing
 *     needs it (sg_layers_trim). */
#pragma once

#include "manager/manager.h"

enum sg_snapshot_state { SG_SNAPSHOT_MAKING, SG_SNAPSHOT_READY, SG_SNAPSHOT_GOING };

struct sg_snapshot {
    struct sg_id id;
    struct sg_org *org;
    enum sg_snapshot_state state;
    char *name, *tag;                  /* owned; "": by its id only. Without a name no tag */
    char *sandbox, *parent, *template; /* owned; see store/schema/4.sql */
    char *layer;                       /* owned: key of a build's layer; "": none */
    struct sg_traits traits;           /* of the template that its sandbox was made of */
    int64_t used_ms;                   /* of a layer: when a build last needed it */
    uint64_t bytes, frozen_ns;         /* frozen_ns: of the making, 0 after a restart */
    int64_t created_ms;
    bool is_hidden;                    /* of a fork, for as long as that takes */
    struct sg_snapshot *newer, *older; /* the manager's list */
};

typedef void sg_snapshot_cb(void *arg, struct sg_snapshot *t, const struct sg_err *err);

/* `name` NULL: none. A name is as that of a template; a tag, NULL for "default", too. */
int sg_manager_snapshot(struct sg_sandbox *s, const struct sg_who *who, const char *name,
                        const char *tag, sg_snapshot_cb *cb, void *arg, struct sg_err *err);

/* By id, "name", "name:tag", or either behind "anything/". NULL with SG_NOT_FOUND. */
struct sg_snapshot *sg_snapshot_find(struct sg_manager *m, const struct sg_who *who,
                                     const char *ref, struct sg_err *err);
/* Walks those that `who` may see, newest first; `t` NULL: the first. */
struct sg_snapshot *sg_snapshot_next(struct sg_manager *m, const struct sg_who *who,
                                     const struct sg_snapshot *t);
/* Sandboxes that were made of it, and live. */
unsigned sg_snapshot_users(const struct sg_manager *m, const struct sg_snapshot *t);

/* SG_CONFLICT while sandboxes that were made of it live, unless they go, too. */
typedef void sg_removed_cb(void *arg, const struct sg_err *err);
int sg_snapshot_remove(struct sg_manager *m, const struct sg_who *who, struct sg_snapshot *t,
                       bool with_sandboxes, sg_removed_cb *cb, void *arg, struct sg_err *err);

/* The sandbox goes on, without its processes, with the files of the snapshot. */
int sg_manager_rollback(struct sg_sandbox *s, const struct sg_who *who, struct sg_snapshot *t,
                        sg_sandbox_cb *cb, void *arg, struct sg_err *err);

/* `count` new sandboxes with the files of this one, its metadata, environment and limits. */
enum { SG_FORKS_MAX = 100 };
struct sg_fork {
    unsigned count;
    uint64_t timeout_ms;         /* UINT64_MAX: as the sandbox's own */
    const char *const *captures; /* the same: NULL; else borrowed for the call */
    size_t captures_n;
    unsigned checkpoint_every; /* the same: UINT_MAX */
    const char *const *doors;  /* of each, or NULL; borrowed for the call */
};
struct sg_forked {
    struct sg_sandbox *s; /* NULL: `err` says why */
    struct sg_err err;
};
/* `v` ends with the call. `err`: none at all could be made. */
typedef void sg_fork_cb(void *arg, const struct sg_forked *v, unsigned n, const struct sg_err *err);
int sg_manager_fork(struct sg_sandbox *s, const struct sg_who *who, const struct sg_fork *f,
                    sg_fork_cb *cb, void *arg, struct sg_err *err);

/* ---- the storage pool ---- */

struct sg_storage {
    const char *source, *why;                 /* "image", "directory", "tmpfs"; why there is none */
    uint64_t total_bytes, free_bytes, errors; /* errors: of its disk, ever */
    bool is_full, is_counting;
    unsigned snapshots;
    const char *paused_memory; /* "reclaimed"; "files": what is read from those; "kept" */
    const char *kept_why;      /* not all of it, or none; "" */
    uint64_t swap_bytes;
};
typedef void sg_storage_cb(void *arg, const struct sg_storage *st, const struct sg_err *err);
int sg_manager_storage(struct sg_manager *m, sg_storage_cb *cb, void *arg, struct sg_err *err);
