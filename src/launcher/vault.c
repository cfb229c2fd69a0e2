/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/vault.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "config/config.h"
#include "sys/kfile.h"
#include "sys/mnt.h"
#include "base/banned.h"

#define MIB (UINT64_C(1) << 20)

/* Nothing new below these: what runs can still go on, and the filesystem has room to remove. */
enum { LEAST_FREE_PART = 32 };
static const uint64_t LEAST_FREE = 64 * MIB, LEAST_FREE_OF_HOST = 256 * MIB;
enum { TIDY_LOOKS = 16 };
static const uint64_t LOOK_NS = 1000000000, LOCK_PATIENCE_NS = 3000000000;

void sg_vault_init(struct sg_vault *v)
{
    *v = (struct sg_vault) { .root_fd = -1, .lock_fd = -1, .host_fd = -1 };
}

bool sg_vault_is_open(const struct sg_vault *v)
{
    return v->root_fd >= 0;
}

const char *sg_vault_source_name(const struct sg_vault *v)
{
    static const char *const names[] = { "tmpfs", "directory", "image" };
    return names[sg_vault_is_open(v) ? v->source : SG_VAULT_NONE];
}

/* ---- looking after it ---- */

static void measure(struct sg_vault *v)
{
    struct statvfs pool, host;
    if (fstatvfs(v->root_fd, &pool) < 0)
        return;
    v->total_bytes = (uint64_t)pool.f_blocks * pool.f_frsize;
    v->free_bytes = (uint64_t)pool.f_bavail * pool.f_frsize;
    uint64_t least = v->total_bytes / LEAST_FREE_PART;
    least = least < LEAST_FREE ? least : LEAST_FREE;
    v->is_short = v->free_bytes < least;
    bool is_full = v->is_short;
    if (v->host_fd >= 0 && fstatvfs(v->host_fd, &host) == 0) {
        const uint64_t left = (uint64_t)host.f_bavail * host.f_frsize;
        is_full |= left < LEAST_FREE_OF_HOST;
        v->free_bytes = left < v->free_bytes ? left : v->free_bytes;
    }
    const bool is_counting = sg_btrfs_is_counting(v->fsid);
    if (is_full != v->is_full)
        sg_log(SG_LOG_WARN, is_full ? "the storage pool is nearly full: nothing new is made"
                                    : "the storage pool has room again");
    if (!is_counting && v->is_counting) {
        sg_log(SG_LOG_WARN, "the storage pool is counted anew: nothing new is made meanwhile");
        (void)sg_btrfs_recount(v->root_fd, NULL);
    }
    v->is_full = is_full;
    v->is_counting = is_counting;
    const uint64_t before = v->errors;
    if (sg_btrfs_errors(v->root_fd, &v->errors, NULL) == 0 && v->errors > before) {
        char text[24];
        (void)snprintf(text, sizeof text, "%" PRIu64, v->errors);
        sg_log(SG_LOG_ERROR, "the disk of the storage pool has had errors", SG_KV("errors", text));
    }
}

/* A counter can go when the kernel has taken its subvolume apart: perhaps not at the next look. */
static void tidy(struct sg_vault *v)
{
    if (++v->looks % TIDY_LOOKS != 0 || sg_hands_busy(v->hands))
        return;
    if (v->has_removed || v->had_removed)
        (void)sg_hands_give(v->hands, &(struct sg_errand_data) { .op = SG_ERRAND_TIDY }, NULL,
                            NULL);
    v->had_removed = v->has_removed;
    v->has_removed = false;
}

/* What was removed is free after a commit: in an image that is trimmed only when that is done, half
 * a minute later. So it is not trimmed while it is short of room. Where the disk below is full,
 * trimming is what helps. */
static void seek_room(struct sg_vault *v)
{
    const bool is_image = v->source == SG_VAULT_IMAGE;
    struct sg_errand_data d = { .op = SG_ERRAND_SYNC };
    if (is_image && v->is_short)
        d.op = SG_ERRAND_ROOM;
    else if (v->is_not_trimmed)
        d.op = SG_ERRAND_TRIM;
    else if (!v->is_full)
        return;
    if (sg_hands_busy(v->hands))
        return;
    v->is_not_trimmed = d.op == SG_ERRAND_ROOM;
    (void)sg_hands_give(v->hands, &d, NULL, NULL);
}

static void look_after(struct sg_timer *t, uint64_t now_ns)
{
    struct sg_vault *v = SG_OWNER(t, struct sg_vault, timer);
    measure(v);
    if (!v->is_counting) /* asked once more: the first may have come while one was under way */
        (void)sg_btrfs_recount(v->root_fd, NULL);
    seek_room(v);
    tidy(v);
    sg_timer_set(v->loop, t, now_ns + LOOK_NS);
}

int sg_vault_has_room(const struct sg_vault *v, struct sg_err *err)
{
    if (!v->is_counting)
        return sg_fail(err, SG_UNAVAILABLE, "the storage pool is being counted; try again");
    if (v->is_full)
        return sg_fail(err, SG_EXHAUSTED,
                       "the storage pool is nearly full (%" PRIu64 " MiB of %" PRIu64
                       " MiB are free): remove sandboxes or snapshots, or let it grow "
                       "(serve.storage_size)",
                       v->free_bytes / MIB, v->total_bytes / MIB);
    return 0;
}

/* ---- opening ---- */

static void rest(void)
{
    const struct timespec t = { .tv_nsec = 5000000 };
    (void)nanosleep(&t, NULL);
}

/* One launcher a pool. Helpers of one that was killed finish what they are at first. */
static int lock_pool(struct sg_vault *v, struct sg_err *err)
{
    const uint64_t until = sg_now_ns() + LOCK_PATIENCE_NS;
    sg_auto_fd fd = openat(v->root_fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return sg_fail_sys(err, "lock the storage pool");
    while (syscall(SYS_flock, fd, LOCK_EX | LOCK_NB) < 0) {
        if (sg_now_ns() >= until)
            return sg_fail(err, SG_UNAVAILABLE, "another service uses %s", sg_quote(v->path).s);
        rest();
    }
    v->lock_fd = sg_take_fd(&fd);
    return 0;
}

static int mount_directory(struct sg_vault *v, const char *path, struct sg_err *err)
{
    v->path = sg_printf("%s/sandglass", path);
    sg_auto_fd given = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (given < 0)
        return sg_fail_sys(err, "open %s", sg_quote(path).s);
    struct statfs fs;
    if (!sg_btrfs_is(given))
        return sg_fail(err, SG_UNSUPPORTED,
                       fstatfs(given, &fs) == 0 && fs.f_type == XFS_SUPER_MAGIC
                           ? "%s is on XFS, whose project quotas limit but do not copy in an "
                             "instant: name a directory on btrfs, or 'image'"
                           : "%s is not on btrfs: name a directory that is, or 'image'",
                       sg_quote(path).s);
    if (mkdirat(given, "sandglass", 0700) < 0 && errno != EEXIST)
        return sg_fail_sys(err, "make %s", sg_quote(v->path).s);
    sg_auto_fd tree = sg_mnt_clone(given, "sandglass", false, err);
    if (tree < 0 || sg_mnt_attr(tree, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, 0, err) < 0)
        return -1;
    if (move_mount(tree, "", AT_FDCWD, v->mount_point, MOVE_MOUNT_F_EMPTY_PATH) < 0)
        return sg_fail_sys(err, "attach %s", sg_quote(v->path).s);
    return 0;
}

/* What one who was killed had begun to remove. */
static void remove_gone(struct sg_vault *v)
{
    const int fd = openat(v->root_fd, sg_vault_gone, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    sg_auto_dir dir = fd < 0 ? NULL : fdopendir(fd);
    for (struct dirent *d; dir && (d = readdir(dir));)
        if (d->d_name[0] != '.')
            (void)sg_btrfs_remove(fd, d->d_name, NULL);
}

static int make_folders(const struct sg_vault *v, struct sg_err *err)
{
    const char *more[] = { sg_vault_gone, sg_vault_spare };
    for (unsigned i = 0; i < SG_VAULT_KIND_COUNT + SG_COUNT(more); i++) {
        const bool is_kind = i < SG_VAULT_KIND_COUNT;
        const char *name = is_kind ? sg_vault_folders[i] : more[i - SG_VAULT_KIND_COUNT];
        if (mkdirat(v->root_fd, name, 0700) < 0 && errno != EEXIST)
            return sg_fail_sys(err, "prepare the storage pool");
    }
    return 0;
}

/* The top: closed to everybody, a folder for each kind, and counted. */
static int enter(struct sg_vault *v, struct sg_err *err)
{
    v->root_fd = open(v->mount_point, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (v->root_fd < 0 || fchmod(v->root_fd, 0700) < 0)
        return sg_fail_sys(err, "open the storage pool");
    if (lock_pool(v, err) < 0 || sg_btrfs_count(v->root_fd, err) < 0 ||
        sg_btrfs_fsid(v->root_fd, v->fsid, err) < 0)
        return -1;
    if (make_folders(v, err) < 0)
        return -1;
    remove_gone(v);
    const uint64_t until = sg_now_ns() + LOCK_PATIENCE_NS; /* of a new one there is little to do */
    while (!sg_btrfs_is_counting(v->fsid) && sg_now_ns() < until)
        rest();
    v->hands = sg_hands_new(v->loop, v->root_fd, sg_vault_work, err);
    return v->hands ? 0 : -1;
}

static int open_source(struct sg_vault *v, const struct sg_config *c, struct sg_err *err)
{
    if (mkdir(v->mount_point, 0700) < 0 && errno != EEXIST)
        return sg_fail_sys(err, "make %s", sg_quote(v->mount_point).s);
    const bool is_directory = c->serve_storage[0] == '/';
    v->source = is_directory ? SG_VAULT_DIRECTORY : SG_VAULT_IMAGE;
    const int mounted = is_directory
                            ? mount_directory(v, c->serve_storage, err)
                            : sg_vault_mount_image(v, c->state_dir, c->serve_storage_bytes, err);
    if (mounted < 0)
        return -1;
    return enter(v, err);
}

static void note_why(struct sg_vault *v, const char *why)
{
    (void)snprintf(v->why, sizeof v->why, "%s", why);
}

int sg_vault_open(struct sg_vault *v, struct sg_loop *l, const struct sg_config *c,
                  bool is_rootless, struct sg_err *err)
{
    struct sg_err why = { 0 };
    const bool may_miss = strcmp(c->serve_storage, "auto") == 0;
    v->loop = l;
    if (strcmp(c->serve_storage, "tmpfs") == 0) {
        note_why(v, "the settings say so");
        return 0;
    }
    v->mount_point = sg_printf("%s/pool", c->serve_run_dir);
    if (is_rootless)
        (void)sg_fail(&why, SG_UNSUPPORTED, "without root there is no storage pool");
    else if (open_source(v, c, &why) == 0) {
        v->is_counting = true;
        measure(v);
        v->timer.fire = look_after;
        sg_timer_set(l, &v->timer, sg_loop_now(l) + LOOK_NS);
        return 0;
    }
    sg_vault_close(v);
    note_why(v, why.msg);
    if (may_miss) {
        sg_log(is_rootless ? SG_LOG_INFO : SG_LOG_WARN,
               "no storage pool: sandboxes are in memory, there are no snapshots",
               SG_KV("why", why.msg));
        return 0;
    }
    *err = why;
    return sg_wrap(err, "serve.storage");
}

void sg_vault_close(struct sg_vault *v)
{
    if (v->loop)
        sg_timer_stop(v->loop, &v->timer);
    sg_hands_free(sg_take_ptr(&v->hands));
    sg_drop_fd(&v->lock_fd);
    const bool was_open = v->root_fd >= 0;
    sg_drop_fd(&v->root_fd);
    sg_drop_fd(&v->host_fd);
    if (v->mount_point) {
        if (was_open && umount2(v->mount_point, 0) < 0) /* cells that stay have their own hold */
            (void)umount2(v->mount_point, MNT_DETACH);
        else if (!was_open)
            (void)umount2(v->mount_point, MNT_DETACH);
        (void)rmdir(v->mount_point);
    }
    free(sg_take_ptr(&v->mount_point));
    free(sg_take_ptr(&v->path));
}

/* ---- in the background ---- */

static void put(char *to, const char *from)
{
    (void)snprintf(to, SG_ERRAND_NAME_MAX + 1, "%s", from);
}

static struct sg_errand *give(struct sg_vault *v, enum sg_errand_op op, const char *name,
                              const char *from, const char *text, uint64_t bytes, uint32_t kind,
                              sg_vault_done *done, void *arg)
{
    struct sg_errand_data d = { .op = op, .kind = kind, .bytes = bytes };
    put(d.name, name);
    put(d.from, from);
    put(d.text, text);
    v->has_removed |= op == SG_ERRAND_REMOVE;
    return sg_hands_give(v->hands, &d, done, arg);
}

struct sg_errand *sg_vault_make_layer(struct sg_vault *v, const char *name, const char *snapshot,
                                      const char *base, uint64_t bytes, sg_vault_done *done,
                                      void *arg)
{
    return give(v, SG_ERRAND_MAKE, name, snapshot, base, bytes, SG_VAULT_CELL, done, arg);
}

struct sg_errand *sg_vault_snapshot(struct sg_vault *v, const char *layer, const char *snapshot,
                                    sg_vault_done *done, void *arg)
{
    return give(v, SG_ERRAND_SNAPSHOT, snapshot, layer, "", 0, SG_VAULT_SNAP, done, arg);
}

struct sg_errand *sg_vault_make_volume(struct sg_vault *v, const char *id, uint64_t bytes,
                                       sg_vault_done *done, void *arg)
{
    return give(v, SG_ERRAND_VOLUME, id, "", "", bytes, SG_VAULT_VOLUME, done, arg);
}

struct sg_errand *sg_vault_remove(struct sg_vault *v, enum sg_vault_kind kind, const char *name,
                                  sg_vault_done *done, void *arg)
{
    return give(v, SG_ERRAND_REMOVE, name, "", "", 0, kind, done, arg);
}

void sg_vault_remove_made(struct sg_vault *v, enum sg_vault_kind kind, const char *name)
{
    struct sg_errand_data d = { .op = SG_ERRAND_REMOVE, .kind = kind, .is_ordered = true };
    put(d.name, name);
    v->has_removed = true;
    (void)sg_hands_give(v->hands, &d, NULL, NULL);
}

struct sg_errand *sg_vault_unfold(struct sg_vault *v, const char *layer, sg_vault_done *done,
                                  void *arg)
{
    return give(v, SG_ERRAND_UNFOLD, layer, "", "", 0, SG_VAULT_CELL, done, arg);
}

struct sg_errand *sg_vault_sync(struct sg_vault *v, sg_vault_done *done, void *arg)
{
    return give(v, SG_ERRAND_SYNC, "", "", "", 0, 0, done, arg);
}

/* ---- at once ---- */

int sg_vault_open_part(const struct sg_vault *v, enum sg_vault_kind kind, const char *name,
                       struct sg_err *err)
{
    char path[16 + SG_ERRAND_NAME_MAX];
    if (!*name || strchr(name, '/') || name[0] == '.' || strlen(name) > SG_ERRAND_NAME_MAX)
        return sg_fail(err, SG_INVALID, "%s is no name in the storage pool", sg_quote(name).s);
    (void)snprintf(path, sizeof path, "%s/%s", sg_vault_folders[kind], name);
    const int fd = openat(v->root_fd, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? sg_fail_sys(err, "open %s in the storage pool", sg_quote(name).s) : fd;
}

bool sg_vault_has(const struct sg_vault *v, enum sg_vault_kind kind, const char *name)
{
    if (!sg_vault_is_open(v))
        return false;
    sg_auto_fd fd = sg_vault_open_part(v, kind, name, NULL);
    return fd >= 0;
}

int sg_vault_use(const struct sg_vault *v, enum sg_vault_kind kind, const char *name,
                 uint64_t *ret_used, uint64_t *ret_limit, struct sg_err *err)
{
    uint64_t id;
    sg_auto_fd fd = sg_vault_open_part(v, kind, name, err);
    if (fd < 0 || sg_btrfs_id(fd, &id, err) < 0)
        return -1;
    return sg_btrfs_use(v->fsid, id, ret_used, ret_limit, err);
}

int sg_vault_limit(const struct sg_vault *v, enum sg_vault_kind kind, const char *name,
                   uint64_t bytes, struct sg_err *err)
{
    uint64_t id, used = 0, limit;
    sg_auto_fd fd = sg_vault_open_part(v, kind, name, err);
    if (fd < 0 || sg_btrfs_id(fd, &id, err) < 0)
        return -1;
    if (sg_btrfs_use(v->fsid, id, &used, &limit, NULL) == 0 && used > bytes)
        return sg_fail(err, SG_CONFLICT, "more is stored than that");
    return sg_btrfs_limit(fd, id, bytes, err);
}

int sg_vault_base_of(const struct sg_vault *v, const char *snapshot,
                     char ret[SG_ERRAND_NAME_MAX + 1], struct sg_err *err)
{
    sg_auto_fd fd = sg_vault_open_part(v, SG_VAULT_SNAP, snapshot, err);
    if (fd < 0)
        return -1;
    return sg_file_read(fd, "base", ret, SG_ERRAND_NAME_MAX + 1, err);
}

void sg_vault_list(const struct sg_vault *v, enum sg_vault_kind kind,
                   void (*each)(void *arg, const char *name), void *arg)
{
    const int fd = openat(v->root_fd, sg_vault_folders[kind], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    sg_auto_dir dir = fd < 0 ? NULL : fdopendir(fd);
    for (struct dirent *d; dir && (d = readdir(dir));)
        if (d->d_name[0] != '.')
            each(arg, d->d_name);
}
