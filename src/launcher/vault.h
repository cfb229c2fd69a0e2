/* SPDX-License-Identifier: Apache-2.0 */
/* The storage pool: where writable layers, snapshots and volumes lie, each a subvolume of btrfs
 * with a limit of its own. `sg_pool` is something else: parked cells.
 *
 *     cells/<name>      the writable layer of a cell: up, wk (of the overlay), base (the name of
 *                       the template that is below it)
 *     snaps/<id>        what a layer was at one moment, read-only
 *     volumes/<id>      a volume
 *     gone/<name>       what is being removed
 *
 * S1. The pool is a directory on btrfs that the settings name, or an image that we make and mount,
 *     or absent: then layers are in memory (tmpfs), and there are no snapshots and no volumes.
 * S2. It is mounted nosuid and nodev, in the launcher's own mount namespace: nobody else sees it.
 * S3. Every subvolume has its limit before anybody can write to it. Ids in it are those inside (0
 * to 65535); it is shown through mounts that shift them. S4. What is acknowledged is on the disk: a
 * snapshot and a volume when `done` says so. S5. A name leads to something whole: what is made by
 * halves is removed before anybody is told, and what a killed launcher left in cells/ is removed by
 * the next one.
 *
 * How to use it from another part of the launcher (volumes, say):
 *
 *     sg_vault_is_open(&l->vault)                      else SG_UNSUPPORTED, "no storage pool"
 *     sg_vault_has_room(&l->vault, err)                before anything new is made
 *     sg_vault_make_volume(v, id, bytes, done, arg)    `done` comes from the loop, later
 *     sg_vault_open_part(v, SG_VAULT_VOLUME, id, err)  a descriptor of its directory
 *     sg_vault_limit(v, kind, id, bytes, err), sg_vault_use(v, kind, id, &used, &limit, err)
 *     sg_vault_remove(v, kind, id, done, arg)          in the background; done may be NULL
 *     sg_vault_list(v, kind, each, arg)                names, for reconciling
 *
 * A directory that is bound into a cell directly (not as a part of its overlay) must be bound with
 * the ids shifted, nosuid and nodev, as SG_BIND_IDMAP does; the calls that make subvolumes are
 * forbidden to cells by their seccomp filter, or they could make one without a limit. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "launcher/hand.h"
#include "loop/loop.h"
#include "sys/btrfs.h"

struct sg_config;

enum sg_vault_kind { SG_VAULT_CELL, SG_VAULT_SNAP, SG_VAULT_VOLUME, SG_VAULT_KIND_COUNT };

enum sg_vault_source { SG_VAULT_NONE, SG_VAULT_DIRECTORY, SG_VAULT_IMAGE };

struct sg_vault {
    enum sg_vault_source source;
    int root_fd;              /* the pool; -1: there is none */
    int lock_fd;              /* of the image or directory: one launcher at a time */
    int host_fd;              /* of an image: the directory that it lies in */
    char *mount_point, *path; /* owned: in our namespace only; what the settings led to */
    char fsid[SG_BTRFS_FSID_MAX];
    char why[240]; /* there is no pool: the reason */
    struct sg_hands *hands;
    struct sg_loop *loop;
    struct sg_timer timer; /* looks after room and counting */
    uint64_t total_bytes, free_bytes, errors;
    bool is_full, is_counting;
    bool is_short;       /* full, and not only because the disk that an image lies on is */
    bool is_not_trimmed; /* until there is room again */
    bool has_removed, had_removed; /* since the last tidying, before it */
    unsigned looks;
};

typedef void sg_vault_done(void *arg, uint64_t value, const struct sg_err *err);

void sg_vault_init(struct sg_vault *v);
/* Finds or makes the pool. Without one it succeeds, and says why in the log, unless the settings
 * asked for a certain one. */
int sg_vault_open(struct sg_vault *v, struct sg_loop *l, const struct sg_config *c,
                  bool is_rootless, struct sg_err *err);
void sg_vault_close(struct sg_vault *v); /* the hands end, the mount goes */

bool sg_vault_is_open(const struct sg_vault *v);
const char *sg_vault_source_name(const struct sg_vault *v); /* "tmpfs", "image", "directory" */
/* SG_EXHAUSTED: nothing new is to be made. SG_UNAVAILABLE: limits do not hold at the moment. */
int sg_vault_has_room(const struct sg_vault *v, struct sg_err *err);

/* ---- in the background ---- */

struct sg_errand *sg_vault_make_layer(struct sg_vault *v, const char *name, const char *snapshot,
                                      const char *base, uint64_t bytes, sg_vault_done *done,
                                      void *arg);
/* `value`: the bytes that it holds. */
struct sg_errand *sg_vault_snapshot(struct sg_vault *v, const char *layer, const char *snapshot,
                                    sg_vault_done *done, void *arg);
struct sg_errand *sg_vault_make_volume(struct sg_vault *v, const char *id, uint64_t bytes,
                                       sg_vault_done *done, void *arg);
struct sg_errand *sg_vault_remove(struct sg_vault *v, enum sg_vault_kind kind, const char *name,
                                  sg_vault_done *done, void *arg);
/* The same, after whatever was asked for before. */
void sg_vault_remove_made(struct sg_vault *v, enum sg_vault_kind kind, const char *name);
/* Of a cell in which nothing runs. SG_UNSUPPORTED: it means nothing without what is below it. */
struct sg_errand *sg_vault_unfold(struct sg_vault *v, const char *layer, sg_vault_done *done,
                                  void *arg);
struct sg_errand *sg_vault_sync(struct sg_vault *v, sg_vault_done *done, void *arg);

/* ---- at once: a matter of microseconds ---- */

/* SG_NOT_FOUND. */
int sg_vault_open_part(const struct sg_vault *v, enum sg_vault_kind kind, const char *name,
                       struct sg_err *err);
bool sg_vault_has(const struct sg_vault *v, enum sg_vault_kind kind, const char *name);
/* SG_CONFLICT: more is in use. */
int sg_vault_limit(const struct sg_vault *v, enum sg_vault_kind kind, const char *name,
                   uint64_t bytes, struct sg_err *err);
int sg_vault_use(const struct sg_vault *v, enum sg_vault_kind kind, const char *name,
                 uint64_t *ret_used, uint64_t *ret_limit, struct sg_err *err);
/* The template that is below a snapshot. */
int sg_vault_base_of(const struct sg_vault *v, const char *snapshot,
                     char ret[SG_ERRAND_NAME_MAX + 1], struct sg_err *err);
void sg_vault_list(const struct sg_vault *v, enum sg_vault_kind kind,
                   void (*each)(void *arg, const char *name), void *arg);

/* ---- vault_work.c, vault_image.c: between the parts of this one ---- */

extern const char *const sg_vault_folders[SG_VAULT_KIND_COUNT];
extern const char sg_vault_gone[];  /* the folder of what is on its way out */
extern const char sg_vault_spare[]; /* that of emptied layers: vault_spare.c */
sg_errand_fn sg_vault_work, sg_vault_unfold_work;
/* The layer becomes a spare, a spare becomes the layer. False: not this one, there is none. */
bool sg_vault_spare_keep(int pool_fd, int cells_fd, const char *name);
bool sg_vault_spare_take(int pool_fd, int cells_fd, const char *name);
/* Opens (and makes, and grows) the image, and mounts it at v->mount_point. */
int sg_vault_mount_image(struct sg_vault *v, const char *state_dir, uint64_t bytes,
                         struct sg_err *err);
