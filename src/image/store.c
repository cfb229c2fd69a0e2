/* SPDX-License-Identifier: Apache-2.0 */
#include "image/store.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/auto.h"
#include "base/str.h"
#include "image/tree.h"
#include "sys/kfile.h"

#include "sys/uapi.h"
#include "base/banned.h"

enum { LOCK_TRIES = 64 };

/* flock(2) by number: with src in the include path <sys/file.h> is our own sys/file.h. */
static int lock_dir(int fd, int how)
{
    return (int)syscall(SYS_flock, fd, how);
}

int sg_templates_open(const char *state_dir, bool may_make, struct sg_err *err)
{
    sg_auto_free char *path = sg_printf("%s/templates", state_dir);
    if (may_make && sg_mkdir_all(path, 0700, err) < 0)
        return -1;
    sg_auto_fd fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return sg_fail_sys(err, "open %s", sg_quote(path).s);
    if (may_make && fchmod(fd, 0700) < 0)
        return sg_fail_sys(err, "close %s to others", sg_quote(path).s);
    return sg_take_fd(&fd);
}

static int open_dir(int store_fd, const char *name)
{
    return openat(store_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* A lock is worth something only when the name still leads to what was locked. */
static bool is_still_named(int store_fd, const char *name, int fd)
{
    struct stat named, held;
    return fstat(fd, &held) == 0 && fstatat(store_fd, name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
           named.st_ino == held.st_ino && named.st_dev == held.st_dev;
}

int sg_templates_use(int store_fd, const char *name, struct sg_err *err)
{
    for (int tries = 0; tries < LOCK_TRIES; tries++) {
        sg_auto_fd fd = open_dir(store_fd, name);
        if (fd < 0)
            return sg_fail_sys(err, "open template %s", sg_quote(name).s);
        if (lock_dir(fd, LOCK_SH) < 0)
            return sg_fail_sys(err, "lock template %s", sg_quote(name).s);
        if (is_still_named(store_fd, name, fd))
            return sg_take_fd(&fd);
    }
    return sg_fail(err, SG_UNAVAILABLE, "template %s keeps changing", sg_quote(name).s);
}

/* ---- images without a name ---- */

/* The same files with set-id bits are another template. */
void sg_templates_image_name(const char *hex, bool grants_sudo, char ret[SG_IMAGE_NAME])
{
    (void)snprintf(ret, SG_IMAGE_NAME, SG_TEMPLATES_IMAGE_PREFIX "%c%.*s", grants_sudo ? '1' : '0',
                   SG_IMAGE_NAME_HEX - 1, hex);
}

/* ---- pins: empty files, pins/<id> ---- */

#define PINS "pins"

static void pin_path(const char *id, char ret[80])
{
    (void)snprintf(ret, 80, PINS "/%.60s", id);
}

int sg_templates_pin(int dir_fd, const char *id, struct sg_err *err)
{
    char path[80];
    pin_path(id, path);
    if (mkdirat(dir_fd, PINS, 0700) < 0 && errno != EEXIST)
        return sg_fail_sys(err, "pin a template");
    sg_auto_fd fd = openat(dir_fd, path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    return fd < 0 ? sg_fail_sys(err, "pin a template") : 0;
}

void sg_templates_unpin(int dir_fd, const char *id)
{
    char path[80];
    pin_path(id, path);
    (void)unlinkat(dir_fd, path, 0);
    (void)unlinkat(dir_fd, PINS, AT_REMOVEDIR); /* the last one */
}

void sg_templates_repin(int dir_fd, const char *id, const char *new_id)
{
    char path[80], new_path[80];
    pin_path(id, path);
    pin_path(new_id, new_path);
    (void)renameat(dir_fd, path, dir_fd, new_path);
}

bool sg_templates_is_pinned(int dir_fd, const char *id)
{
    char path[80];
    pin_path(id, path);
    return faccessat(dir_fd, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static bool has_pins(int dir_fd)
{
    return faccessat(dir_fd, PINS, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static bool has_pin_at(int store_fd, const char *name, const char *id)
{
    sg_auto_fd fd = open_dir(store_fd, name);
    return fd >= 0 && sg_templates_is_pinned(fd, id);
}

int sg_templates_find_pin(int store_fd, const char *name, const char *id, char ret[80],
                          struct sg_err *err)
{
    (void)snprintf(ret, 80, "%s", name);
    if (has_pin_at(store_fd, name, id))
        return 0;
    int fd = openat(store_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    sg_auto_dir dir = fd < 0 ? NULL : fdopendir(fd);
    for (struct dirent *d; dir && (d = readdir(dir));) {
        if (!sg_starts_with(d->d_name, SG_TEMPLATES_NEW_PREFIX) ||
            !has_pin_at(store_fd, d->d_name, id))
            continue;
        (void)snprintf(ret, 80, "%.79s", d->d_name);
        return 0;
    }
    return sg_fail(err, SG_NOT_FOUND, "the template %s that it is based on is gone",
                   sg_quote(name).s);
}

static void each_pin_of(int dir_fd, void (*each)(void *arg, int dir_fd, const char *id), void *arg)
{
    const int fd = openat(dir_fd, PINS, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    sg_auto_dir dir = fd < 0 ? NULL : fdopendir(fd);
    for (struct dirent *d; dir && (d = readdir(dir));)
        if (d->d_name[0] != '.')
            each(arg, dir_fd, d->d_name);
}

void sg_templates_each_pin(int store_fd, void (*each)(void *arg, int dir_fd, const char *id),
                           void *arg)
{
    const int fd = openat(store_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    sg_auto_dir dir = fd < 0 ? NULL : fdopendir(fd);
    for (struct dirent *d; dir && (d = readdir(dir));) {
        sg_auto_fd one = open_dir(store_fd, d->d_name);
        if (one >= 0 && strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0)
            each_pin_of(one, each, arg);
    }
}

static void random_name(char *ret, size_t cap)
{
    uint64_t r = 0;
    (void)!getrandom(&r, sizeof r, 0); /* a clash is caught by EEXIST */
    (void)snprintf(ret, cap, SG_TEMPLATES_NEW_PREFIX "%016" PRIx64, r);
}

/* Out of the way first, so that the name is free at once and a crash leaves only what is swept. */
static int remove_locked(int store_fd, const char *name, struct sg_err *err)
{
    char aside[32];
    random_name(aside, sizeof aside);
    if (renameat(store_fd, name, store_fd, aside) < 0)
        return sg_fail_sys(err, "remove template %s", sg_quote(name).s);
    return sg_tree_remove(store_fd, aside, err);
}

int sg_templates_remove(int store_fd, const char *name, struct sg_err *err)
{
    sg_auto_fd fd = open_dir(store_fd, name);
    if (fd < 0 && errno == ENOENT)
        return sg_fail(err, SG_NOT_FOUND, "no template %s", sg_quote(name).s);
    if (fd < 0)
        return sg_fail_sys(err, "open template %s", sg_quote(name).s);
    if (lock_dir(fd, LOCK_EX | LOCK_NB) < 0)
        return sg_fail(err, SG_CONFLICT, "template %s is in use by a sandbox; end it first",
                       sg_quote(name).s);
    if (!is_still_named(store_fd, name, fd))
        return sg_fail(err, SG_CONFLICT, "template %s was just replaced", sg_quote(name).s);
    if (has_pins(fd))
        return sg_fail(err, SG_CONFLICT,
                       "template %s has snapshots (or paused sandboxes); remove them first",
                       sg_quote(name).s);
    return remove_locked(store_fd, name, err);
}

static void sweep_one(int store_fd, const char *name)
{
    struct sg_err ignored;
    sg_auto_fd fd = open_dir(store_fd, name);
    if (fd >= 0 && lock_dir(fd, LOCK_EX | LOCK_NB) == 0 && is_still_named(store_fd, name, fd) &&
        !has_pins(fd))
        (void)remove_locked(store_fd, name, &ignored);
}

void sg_templates_sweep(int store_fd, const char *keep_host)
{
    int fd = openat(store_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    sg_auto_dir dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir)
        return sg_close_p(&fd);
    struct dirent *d;
    while ((d = readdir(dir))) {
        bool is_old_host = keep_host && sg_starts_with(d->d_name, SG_TEMPLATES_HOST_PREFIX) &&
                           strcmp(d->d_name, keep_host) != 0;
        if (is_old_host || sg_starts_with(d->d_name, SG_TEMPLATES_NEW_PREFIX) ||
            sg_templates_is_image(d->d_name))
            sweep_one(store_fd, d->d_name);
    }
}

bool sg_templates_has_spare(int store_fd)
{
    bool has = false;
    int dup_fd = openat(store_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    sg_auto_dir dir = dup_fd < 0 ? NULL : fdopendir(dup_fd);
    for (struct dirent *d; dir && !has && (d = readdir(dir));) {
        const bool is_one =
            sg_templates_is_image(d->d_name) || sg_starts_with(d->d_name, SG_TEMPLATES_NEW_PREFIX);
        sg_auto_fd fd = is_one ? open_dir(store_fd, d->d_name) : -1;
        has = fd >= 0 && !has_pins(fd) && lock_dir(fd, LOCK_EX | LOCK_NB) == 0;
    }
    return has;
}

int sg_stage_new(const char *state_dir, struct sg_stage *ret, struct sg_err *err)
{
    sg_auto_fd store = sg_templates_open(state_dir, true, err);
    if (store < 0)
        return -1;
    sg_templates_sweep(store, NULL);
    for (int tries = 0; tries < LOCK_TRIES; tries++) {
        struct sg_stage s = { .fd = -1 };
        random_name(s.name, sizeof s.name);
        if (mkdirat(store, s.name, 0700) < 0)
            return sg_fail_sys(err, "make a directory for the new template");
        sg_auto_fd fd = open_dir(store, s.name);
        /* A sweeper can come between the making and the lock: then start over. */
        if (fd < 0 || lock_dir(fd, LOCK_EX | LOCK_NB) < 0 || !is_still_named(store, s.name, fd))
            continue;
        s.fd = sg_take_fd(&fd);
        s.store_fd = sg_take_fd(&store);
        *ret = s;
        return 0;
    }
    return sg_fail(err, SG_UNAVAILABLE, "the directory for the new template kept vanishing");
}

void sg_stage_done(struct sg_stage *s)
{
    struct sg_err ignored;
    if (s->name[0])
        (void)sg_tree_remove(s->store_fd, s->name, &ignored);
    sg_drop_fd(&s->fd);
    sg_drop_fd(&s->store_fd);
}

static int rename_to(const struct sg_stage *s, const char *name, unsigned flags)
{
    return (int)renameat2(s->store_fd, s->name, s->store_fd, name, flags);
}

/* After an exchange the stage's name leads to the old version. */
static void drop_old(struct sg_stage *s)
{
    sweep_one(s->store_fd, s->name);
}

int sg_stage_commit(struct sg_stage *s, const char *name, bool replaces, struct sg_err *err)
{
    if (syncfs(s->fd) < 0)
        return sg_fail_sys(err, "write template %s to disk", sg_quote(name).s);
    bool is_done = rename_to(s, name, RENAME_NOREPLACE) == 0;
    if (!is_done && errno == EEXIST && replaces && rename_to(s, name, RENAME_EXCHANGE) == 0) {
        drop_old(s);
        is_done = true;
    }
    if (!is_done && errno == EEXIST)
        return sg_fail(err, SG_CONFLICT, "template %s exists; remove it first or use --force",
                       sg_quote(name).s);
    if (!is_done)
        return sg_fail_sys(err, "name template %s", sg_quote(name).s);
    (void)fsync(s->store_fd);
    s->name[0] = '\0';
    return 0;
}

int sg_stage_use(struct sg_stage *s, const char *name, struct sg_err *err)
{
    if (lock_dir(s->fd, LOCK_SH) < 0)
        return sg_fail_sys(err, "lock %s", sg_quote(name).s);
    if (!is_still_named(s->store_fd, name, s->fd))
        return sg_fail(err, SG_UNAVAILABLE, "%s was removed meanwhile; try again",
                       sg_quote(name).s);
    return sg_take_fd(&s->fd);
}
