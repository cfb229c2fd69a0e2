/* SPDX-License-Identifier: Apache-2.0 */
/* Volumes: directories of an organisation's own that outlive sandboxes, with a size, mounted into
 * one or many of them.
 *
 * U1. A row exists before its subvolume does, and goes after it: what a crash leaves by halves is
 *     found by its row's state and removed at the next start. A volume is told of when both are on
 *     the disk.
 * U2. Its size counts as disk of the organisation from the first moment on.
 * U3. Its files are reached without a sandbox of the caller's through one of ours, in which nothing
 *     runs and which shows that volume and nothing else (sg_volume_visit). Paths are resolved in
 *     there, by a process that is itself confined; it ends when nobody has asked for a while. */
#pragma once

#include "ctl/msg.h"
#include "manager/manager.h"

enum { SG_VOLUMES_MAX = 100, SG_VOLUME_TOKEN_LEN = 68, SG_MOUNTS_MAX = SG_L_MOUNTS_MAX };
enum { SG_MOUNTS_TEXTS = SG_MOUNTS_MAX * 3 + 1 };
/* Of a batch: SG_VOLUME_BATCH and an id. One that a daemon left behind goes at the next start. */
#define SG_VOLUME_BATCH        "batch-"
#define SG_VOLUME_BATCH_LETTER 'b'
#define SG_VOLUME_BYTES        (UINT64_C(1) << 30) /* of one that asks for nothing */

enum sg_volume_state { SG_VOLUME_MAKING, SG_VOLUME_READY, SG_VOLUME_REMOVING };

struct sg_volume {
    struct sg_id id;
    struct sg_org *org;
    char *name; /* owned */
    uint64_t bytes;
    char token[SG_VOLUME_TOKEN_LEN + 1]; /* its id and a secret: who shows it reaches the files */
    int64_t created_ms;
    enum sg_volume_state state;
    bool is_changing;     /* its size */
    struct sg_id visitor; /* our sandbox that shows it; "": none was made */
    struct sg_volume *next;
};

typedef void sg_volume_cb(void *arg, const struct sg_volume *v, const struct sg_err *err);

/* `bytes` 0: the usual. SG_CONFLICT: there is one of that name. SG_UNSUPPORTED: no storage pool. */
int sg_volume_create(struct sg_manager *m, const struct sg_who *who, const char *name,
                     uint64_t bytes, sg_volume_cb *cb, void *arg, struct sg_err *err);
/* SG_CONFLICT: more is stored than that. */
int sg_volume_resize(struct sg_manager *m, const struct sg_who *who, const char *which,
                     uint64_t bytes, sg_volume_cb *cb, void *arg, struct sg_err *err);
/* `which`: id or name. SG_CONFLICT while sandboxes have it, unless `force`: theirs is then an empty
 * directory that takes nothing. */
int sg_volume_remove(struct sg_manager *m, const struct sg_who *who, const char *which, bool force,
                     sg_tenant_cb *cb, void *arg, struct sg_err *err);
/* NULL with SG_NOT_FOUND. */
struct sg_volume *sg_volume_find(struct sg_manager *m, const struct sg_who *who, const char *which,
                                 struct sg_err *err);
/* By its token, whoever shows it; NULL. */
struct sg_volume *sg_volume_by_token(struct sg_manager *m, const char *token);
/* The next one by name; `v` NULL: the first. */
const struct sg_volume *sg_volume_next(struct sg_manager *m, const struct sg_who *who,
                                       const struct sg_volume *v);
unsigned sg_volume_users(struct sg_manager *m, const struct sg_volume *v); /* sandboxes */

typedef void sg_volume_use_cb(void *arg, uint64_t used_bytes, const struct sg_err *err);
int sg_volume_use(struct sg_manager *m, const struct sg_volume *v, sg_volume_use_cb *cb, void *arg,
                  struct sg_err *err);

/* A sandbox that shows it at its root; for sg_files_...() as root. May call back at once. */
int sg_volume_visit(struct sg_manager *m, struct sg_volume *v, sg_sandbox_cb *cb, void *arg,
                    struct sg_err *err);
/* The one that was visited before, for the next question of the same call. SG_NOT_FOUND: no such
 * volume; SG_UNAVAILABLE: it has ended meanwhile. */
struct sg_sandbox *sg_volume_visitor(struct sg_manager *m, const struct sg_who *who,
                                     const char *which, struct sg_err *err);
void sg_volume_touch(struct sg_manager *m, const struct sg_volume *v); /* it is in use */
/* Everything written to volumes so far is on the disk. */
int sg_volume_sync(struct sg_manager *m, sg_tenant_cb *cb, void *arg, struct sg_err *err);

/* ---- the manager's own ---- */

int sg_volume_load(struct sg_manager *m, struct sg_err *err);
/* `done` NULL: nobody waits. */
void sg_volume_put_row(struct sg_manager *m, const struct sg_volume *v, enum sg_volume_state state,
                       void (*done)(void *arg, const struct sg_err *err), void *arg);
/* May the organisation have a volume of so many bytes, of which it has `had` already? */
int sg_volume_check_bytes(struct sg_manager *m, const struct sg_org *org, uint64_t bytes,
                          uint64_t had, struct sg_err *err);
void sg_volume_recover(struct sg_manager *m); /* ends what was left by halves */
void sg_volume_free_all(struct sg_manager *m);
/* Rules of what is to be mounted; SG_INVALID names what is wrong, also a volume that is none. */
int sg_mounts_check(struct sg_manager *m, const struct sg_who *who, const struct sg_mount_spec *v,
                    size_t n, struct sg_err *err);
int sg_mount_check_place(const char *path, struct sg_err *err);
/* Copies what was checked. */
void sg_mounts_copy(struct sg_sandbox *s, const struct sg_who *who, const struct sg_mount_spec *v,
                    size_t n);
void sg_mounts_add(struct sg_sandbox *s, const char *volume, const char *path, bool is_read_only);
void sg_mounts_done(struct sg_sandbox *s);
/* Mounts all of them into the new cell, one after the other, then `next`: a step of its life. */
void sg_mounts_begin(struct sg_sandbox *s, void (*next)(struct sg_sandbox *s));
/* Those that go with the create (sg_tier_create()): fills `ret`, which borrows, or returns NULL. */
char *const *sg_mounts_ahead(const struct sg_sandbox *s, char *ret[SG_MOUNTS_TEXTS]);
