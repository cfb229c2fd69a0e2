/* SPDX-License-Identifier: Apache-2.0 */
/* What the hands do in the storage pool: in processes of their own, where waiting is fine. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/str.h"
#include "image/tree.h"
#include "launcher/vault.h"
#include "sys/kfile.h"
#include "base/banned.h"

const char *const sg_vault_folders[SG_VAULT_KIND_COUNT] = {
    [SG_VAULT_CELL] = "cells",
    [SG_VAULT_SNAP] = "snaps",
    [SG_VAULT_VOLUME] = "volumes",
};

const char sg_vault_gone[] = "gone";

static int open_dir(int fd, const char *name, struct sg_err *err)
{
    const int dir = openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return dir < 0 ? sg_fail_sys(err, "open %s in the storage pool", sg_quote(name).s) : dir;
}

static int limit(int part_fd, uint64_t bytes, struct sg_err *err)
{
    uint64_t id;
    if (sg_btrfs_id(part_fd, &id, err) < 0)
        return -1;
    return sg_btrfs_limit(part_fd, id, bytes, err);
}

/* A spare has one, most often the same: written anew it would be on its way to the disk at once. */
static int name_base(int part_fd, const char *base, struct sg_err *err)
{
    char had[SG_ERRAND_NAME_MAX + 1];
    if (sg_file_read(part_fd, "base", had, sizeof had, NULL) == 0 && strcmp(had, base) == 0)
        return 0;
    sg_auto_fd file =
        openat(part_fd, "base", O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    const size_t n = strlen(base);
    if (file < 0 || write(file, base, n) != (ssize_t)n)
        return sg_fail_sys(err, "name the template of a writable layer");
    return 0;
}

/* The overlay's two directories, and the name of what is below. */
static int fill_layer(int part_fd, const char *base, struct sg_err *err)
{
    if (name_base(part_fd, base, err) < 0)
        return -1;
    if (mkdirat(part_fd, "up", 0755) < 0 || mkdirat(part_fd, "wk", 0755) < 0 ||
        fchmodat(part_fd, "up", 0755, 0) < 0) /* no umask */
        return sg_fail_sys(err, "prepare a writable layer");
    return 0;
}

/* What the overlay of the other cell left in its work directory is nothing to the next one. */
static int renew_work(int part_fd, struct sg_err *err)
{
    if (sg_tree_remove(part_fd, "wk", err) < 0)
        return -1;
    return mkdirat(part_fd, "wk", 0755) < 0 ? sg_fail_sys(err, "prepare a writable layer") : 0;
}

static int make_in(int pool_fd, int folder, int snaps, const struct sg_errand_data *d,
                   struct sg_err *err)
{
    if (!*d->from)
        return sg_vault_spare_take(pool_fd, folder, d->name) ? 0
                                                             : sg_btrfs_make(folder, d->name, err);
    sg_auto_fd from = open_dir(snaps, d->from, err);
    return from < 0 ? -1 : sg_btrfs_snapshot(folder, d->name, from, false, err);
}

static int finish_layer(int folder, const struct sg_errand_data *d, struct sg_err *err)
{
    sg_auto_fd part = open_dir(folder, d->name, err);
    if (part < 0 || (*d->from ? renew_work(part, err) : fill_layer(part, d->text, err)) < 0)
        return -1;
    return limit(part, d->bytes, err);
}

static int make_layer(int pool_fd, const struct sg_errand_data *d, uint64_t *ret,
                      struct sg_err *err)
{
    (void)ret;
    sg_auto_fd folder = open_dir(pool_fd, sg_vault_folders[SG_VAULT_CELL], err);
    sg_auto_fd snaps = folder < 0 ? -1 : open_dir(pool_fd, sg_vault_folders[SG_VAULT_SNAP], err);
    if (snaps < 0 || make_in(pool_fd, folder, snaps, d, err) < 0)
        return -1;
    if (finish_layer(folder, d, err) == 0)
        return 0;
    (void)sg_btrfs_remove(folder, d->name, NULL);
    return -1;
}

static int make_volume(int pool_fd, const struct sg_errand_data *d, uint64_t *ret,
                       struct sg_err *err)
{
    (void)ret;
    sg_auto_fd folder = open_dir(pool_fd, sg_vault_folders[SG_VAULT_VOLUME], err);
    if (folder < 0 || sg_btrfs_make(folder, d->name, err) < 0)
        return -1;
    sg_auto_fd part = open_dir(folder, d->name, err);
    /* Whoever has it mounted may write to it, as whichever user. */
    if (part >= 0 && fchmod(part, 0777) < 0)
        (void)sg_fail_sys(err, "open a volume to all users");
    else if (part >= 0 && limit(part, d->bytes, err) == 0) {
        if (syncfs(part) == 0)
            return 0;
        (void)sg_fail_sys(err, "write a volume to the disk");
    }
    (void)sg_btrfs_remove(folder, d->name, NULL);
    return -1;
}

/* The snapshot's own call waits until it is on the disk. */
static int snapshot(int pool_fd, const struct sg_errand_data *d, uint64_t *ret, struct sg_err *err)
{
    sg_auto_fd cells = open_dir(pool_fd, sg_vault_folders[SG_VAULT_CELL], err);
    sg_auto_fd snaps = cells < 0 ? -1 : open_dir(pool_fd, sg_vault_folders[SG_VAULT_SNAP], err);
    sg_auto_fd from = snaps < 0 ? -1 : open_dir(cells, d->from, err);
    char fsid[SG_BTRFS_FSID_MAX];
    uint64_t id, unused;
    if (from < 0 || sg_btrfs_snapshot(snaps, d->name, from, true, err) < 0)
        return -1;
    sg_auto_fd made = open_dir(snaps, d->name, NULL);
    if (made >= 0 && sg_btrfs_fsid(made, fsid, NULL) == 0 && sg_btrfs_id(made, &id, NULL) == 0)
        (void)sg_btrfs_use(fsid, id, ret, &unused, NULL);
    return 0;
}

/* The kernel holds the folder of a subvolume that it removes until all that is cached of its files
 * is gone, which for a gigabyte takes a tenth of a second: whoever wants a new layer in the same
 * folder would wait. So it goes elsewhere first, where that can be: one that is read-only cannot.
 */
static int take_out(int folder, const char *name, int gone, struct sg_err *err)
{
    const bool is_out = renameat(folder, name, gone, name) == 0;
    return sg_btrfs_remove(is_out ? gone : folder, name, err);
}

static int remove_part(int pool_fd, const struct sg_errand_data *d, uint64_t *ret,
                       struct sg_err *err)
{
    (void)ret;
    struct sg_err why = { 0 };
    if (d->kind >= SG_VAULT_KIND_COUNT)
        return sg_fail(err, SG_INTERNAL, "there is nothing of that kind in the storage pool");
    sg_auto_fd folder = open_dir(pool_fd, sg_vault_folders[d->kind], err);
    sg_auto_fd gone = folder < 0 ? -1 : open_dir(pool_fd, sg_vault_gone, err);
    if (gone < 0)
        return -1;
    if (d->kind == SG_VAULT_CELL && sg_vault_spare_keep(pool_fd, folder, d->name))
        return 0;
    if (take_out(folder, d->name, gone, &why) == 0 || why.kind == SG_NOT_FOUND)
        return 0;
    return sg_fail(err, why.kind, "%s", why.msg);
}

static int sync_all(int pool_fd, const struct sg_errand_data *d, uint64_t *ret, struct sg_err *err)
{
    (void)d, (void)ret;
    return syncfs(pool_fd) < 0 ? sg_fail_sys(err, "write the storage pool to the disk") : 0;
}

static int make_room(int pool_fd, const struct sg_errand_data *d, uint64_t *ret, struct sg_err *err)
{
    (void)d, (void)ret;
    return sg_btrfs_trim(pool_fd, false, err) < 0 ? -1 : sg_btrfs_commit(pool_fd, err);
}

static int trim(int pool_fd, const struct sg_errand_data *d, uint64_t *ret, struct sg_err *err)
{
    (void)d, (void)ret;
    return sg_btrfs_trim(pool_fd, true, err);
}

static int tidy(int pool_fd, const struct sg_errand_data *d, uint64_t *ret, struct sg_err *err)
{
    (void)d;
    char fsid[SG_BTRFS_FSID_MAX];
    if (sg_btrfs_fsid(pool_fd, fsid, err) < 0)
        return -1;
    *ret = sg_btrfs_forget_gone(pool_fd, fsid);
    return 0;
}

static sg_errand_fn *const rows[SG_ERRAND_OP_COUNT] = {
    [SG_ERRAND_MAKE] = make_layer,
    [SG_ERRAND_SNAPSHOT] = snapshot,
    [SG_ERRAND_VOLUME] = make_volume,
    [SG_ERRAND_REMOVE] = remove_part,
    [SG_ERRAND_SYNC] = sync_all,
    [SG_ERRAND_ROOM] = make_room,
    [SG_ERRAND_TRIM] = trim,
    [SG_ERRAND_TIDY] = tidy,
    [SG_ERRAND_UNFOLD] = sg_vault_unfold_work,
};

int sg_vault_work(int pool_fd, const struct sg_errand_data *d, uint64_t *ret_value,
                  struct sg_err *err)
{
    if (d->op >= SG_ERRAND_OP_COUNT)
        return sg_fail(err, SG_INTERNAL, "the storage pool knows no such errand");
    return rows[d->op](pool_fd, d, ret_value, err);
}
