/* SPDX-License-Identifier: Apache-2.0 */
/* The layer is a skeleton of our own (host_parts.c): mount points, a home, a made-up /etc with a
 * few files of the host's that programs need. /usr is not part of it; it is bound read-only per
 * cell, because a live directory must not be a lower layer of an overlay.
 *
 * H1. The directory's name is a hash over the tables and over the state of everything they copy,
 *     so a lookup either finds a skeleton that fits the machine as it is now, or builds one.
 * H2. Building is a rename at the end; two builders race for the name and the loser uses the
 *     winner's. Cells keep the version they started with (store.h, T2). */
#include "image/host.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "base/hash.h"
#include "base/str.h"
#include "image/host_parts.h"
#include "image/store.h"
#include "image/tree.h"

#include "base/banned.h"

enum { USER_ID = 1000, OPEN_TRIES = 8, MAX_ROOTS = 8 };

static const struct sg_tree_budget copy_budget = {
    .bytes = 64 << 20,
    .entries = 20000,
    .max_file_bytes = 8 << 20,
};

struct view { /* of the host, as it is now */
    int etc_fd;
    bool is_real_dir[MAX_ROOTS]; /* by index in sg_host_roots */
    bool has_local;
    char name[40]; /* ".host-<stamp>" */
};

static void view_done(struct view *v)
{
    sg_drop_fd(&v->etc_fd);
}

static uint64_t hash_state(uint64_t h, const struct stat *st)
{
    const uint64_t parts[] = {
        st->st_ino,
        (uint64_t)st->st_size,
        st->st_mode,
        (uint64_t)st->st_mtim.tv_sec,
        (uint64_t)st->st_mtim.tv_nsec,
        (uint64_t)st->st_ctim.tv_sec, /* a change of permissions changes what may be copied */
        (uint64_t)st->st_ctim.tv_nsec,
    };
    return sg_hash_add(h, parts, sizeof parts);
}

static uint64_t hash_path(uint64_t h, int dir_fd, const char *name)
{
    struct stat st;
    h = sg_hash_add(h, name, strlen(name));
    return fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 ? hash_state(h, &st) : h;
}

/* The tables are part of it: a new version of this program must not use an old skeleton. */
static uint64_t hash_tables(void)
{
    uint64_t h = SG_HASH_START;
    for (size_t i = 0; i < sg_host_file_count; i++)
        h = sg_hash_add(h, sg_host_files[i].text, strlen(sg_host_files[i].text) + 1);
    for (size_t i = 0; i < sg_host_dir_count; i++)
        h = sg_hash_add(h, sg_host_dirs[i].name, strlen(sg_host_dirs[i].name) + 1);
    for (size_t i = 0; i < sg_host_link_count; i++)
        h = sg_hash_add(h, sg_host_links[i].target, strlen(sg_host_links[i].target) + 1);
    uid_t uid = geteuid();
    return sg_hash_add(h, &uid, sizeof uid);
}

static int look(struct view *ret, struct sg_err *err)
{
    /* Directories whose own entry does not change with what is in them. */
    static const char *const inner[] = { ".", "ssl/certs/ca-certificates.crt", "fonts/conf.d" };
    *ret = (struct view) { .etc_fd = open("/etc", O_RDONLY | O_DIRECTORY | O_CLOEXEC) };
    if (ret->etc_fd < 0)
        return sg_fail_sys(err, "open '/etc'");
    uint64_t h = hash_tables();
    for (size_t i = 0; i < SG_COUNT(inner); i++)
        h = hash_path(h, ret->etc_fd, inner[i]);
    for (size_t i = 0; i < sg_host_copy_count; i++)
        if (!sg_host_copies[i].is_prefix)
            h = hash_path(h, ret->etc_fd, sg_host_copies[i].name);
    for (size_t i = 0; i < sg_host_root_count && i < MAX_ROOTS; i++) {
        struct stat st;
        char path[16];
        (void)snprintf(path, sizeof path, "/%s", sg_host_roots[i]);
        bool is_there = lstat(path, &st) == 0;
        ret->is_real_dir[i] = is_there && S_ISDIR(st.st_mode);
        const uint64_t parts[] = { i, is_there ? st.st_mode & S_IFMT : 0u };
        h = sg_hash_add(h, parts, sizeof parts);
    }
    ret->has_local = access("/usr/local", F_OK) == 0;
    (void)snprintf(ret->name, sizeof ret->name, SG_TEMPLATES_HOST_PREFIX "%016" PRIx64, h);
    return 0;
}

static int make_dir(int root_fd, const char *name, mode_t mode, bool is_users, struct sg_err *err)
{
    if (mkdirat(root_fd, name, 0700) < 0 && errno != EEXIST)
        return sg_fail_sys(err, "make '%s'", name);
    /* EINVAL: the root of a user namespace in which there is nobody else to give it to. */
    if (is_users && geteuid() == 0 && fchownat(root_fd, name, USER_ID, USER_ID, 0) < 0 &&
        errno != EINVAL)
        return sg_fail_sys(err, "give away '%s'", name);
    if (fchmodat(root_fd, name, mode, 0) < 0)
        return sg_fail_sys(err, "set the mode of '%s'", name);
    return 0;
}

static int make_file(int root_fd, const struct sg_host_file *f, struct sg_err *err)
{
    sg_auto_fd fd = openat(root_fd, f->name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    size_t n = strlen(f->text);
    if (fd < 0 || write(fd, f->text, n) != (ssize_t)n || fchmod(fd, f->mode) < 0)
        return sg_fail_sys(err, "write '%s'", f->name);
    return 0;
}

/* "ssl/certs" into etc/: the directories before the last component are made plain. */
static int copy_named(const struct view *v, int etc_fd, const char *name,
                      struct sg_tree_budget *budget, struct sg_err *err)
{
    const char *leaf = strrchr(name, '/');
    if (!leaf)
        return sg_tree_copy(v->etc_fd, etc_fd, name, budget, err);
    sg_auto_free char *dir = sg_strdup(name);
    dir[leaf - name] = '\0';
    sg_auto_fd from = openat(v->etc_fd, dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (from < 0)
        return 0;
    for (char *slash = dir; (slash = strchr(slash, '/')); *slash++ = '/') {
        *slash = '\0';
        if (make_dir(etc_fd, dir, 0755, false, err) < 0)
            return -1;
    }
    if (make_dir(etc_fd, dir, 0755, false, err) < 0)
        return -1;
    sg_auto_fd to = openat(etc_fd, dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (to < 0)
        return sg_fail_sys(err, "open '%s'", dir);
    return sg_tree_copy(from, to, leaf + 1, budget, err);
}

static int copy_prefixed(const struct view *v, int etc_fd, const char *prefix,
                         struct sg_tree_budget *budget, struct sg_err *err)
{
    int fd = openat(v->etc_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    sg_auto_dir dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir) {
        sg_close_p(&fd);
        return sg_fail_sys(err, "list '/etc'");
    }
    struct dirent *d;
    while ((d = readdir(dir)))
        if (sg_starts_with(d->d_name, prefix) &&
            sg_tree_copy(v->etc_fd, etc_fd, d->d_name, budget, err) < 0)
            return -1;
    return 0;
}

static int fill_etc(const struct view *v, int root_fd, struct sg_err *err)
{
    struct sg_tree_budget budget = copy_budget;
    sg_auto_fd etc = openat(root_fd, "etc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (etc < 0)
        return sg_fail_sys(err, "open 'etc'");
    for (size_t i = 0; i < sg_host_copy_count; i++) {
        const struct sg_host_copy *c = &sg_host_copies[i];
        int got = c->is_prefix ? copy_prefixed(v, etc, c->name, &budget, err)
                               : copy_named(v, etc, c->name, &budget, err);
        if (got < 0)
            return sg_wrap(err, "copy '/etc/%s'", c->name);
    }
    return 0;
}

/* Merged systems have links to usr/... here; where a directory is bound, its mount point. */
static int make_roots(const struct view *v, int root_fd, struct sg_err *err)
{
    for (size_t i = 0; i < sg_host_root_count && i < MAX_ROOTS; i++) {
        const char *name = sg_host_roots[i];
        if (v->is_real_dir[i]) {
            if (make_dir(root_fd, name, 0755, false, err) < 0)
                return -1;
            continue;
        }
        char path[16], target[64];
        (void)snprintf(path, sizeof path, "/%s", name);
        ssize_t n = readlink(path, target, sizeof target - 1);
        if (n <= 0)
            continue;
        target[n] = '\0';
        if (symlinkat(target, root_fd, name) < 0)
            return sg_fail_sys(err, "make link '%s'", name);
    }
    return 0;
}

static int fill(const struct view *v, int root_fd, struct sg_err *err)
{
    for (size_t i = 0; i < sg_host_dir_count; i++)
        if (make_dir(root_fd, sg_host_dirs[i].name, sg_host_dirs[i].mode, sg_host_dirs[i].is_users,
                     err) < 0)
            return -1;
    if (make_roots(v, root_fd, err) < 0 || fill_etc(v, root_fd, err) < 0)
        return -1;
    for (size_t i = 0; i < sg_host_file_count; i++)
        if (make_file(root_fd, &sg_host_files[i], err) < 0)
            return -1;
    for (size_t i = 0; i < sg_host_link_count; i++)
        if (symlinkat(sg_host_links[i].target, root_fd, sg_host_links[i].name) < 0 &&
            errno != EEXIST)
            return sg_fail_sys(err, "make link '%s'", sg_host_links[i].name);
    return fchmod(root_fd, 0755) < 0 ? sg_fail_sys(err, "set the mode of the root") : 0;
}

static int build(const char *state_dir, const struct view *v, struct sg_err *err)
{
    sg_auto_stage stage = { .store_fd = -1, .fd = -1 };
    if (sg_stage_new(state_dir, &stage, err) < 0)
        return -1;
    if (mkdirat(stage.fd, "root", 0755) < 0)
        return sg_fail_sys(err, "make the root of the 'host' template");
    sg_auto_fd root = openat(stage.fd, "root", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (root < 0 || fill(v, root, err) < 0)
        return root < 0 ? sg_fail_sys(err, "open the new root") : -1;
    if (sg_stage_commit(&stage, v->name, false, err) < 0 && err->kind != SG_CONFLICT)
        return -1;
    sg_templates_sweep(stage.store_fd, v->name);
    return 0;
}

static void add_bind(struct sg_template *t, const char *name)
{
    struct sg_template_bind *b = &t->binds[t->bind_count++];
    b->source = sg_printf("/%s", name);
    b->target = sg_printf("/%s", name);
}

static int describe(const char *state_dir, const struct view *v, struct sg_template *t)
{
    t->layer = sg_printf("%s/templates/%s/root", state_dir, v->name);
    add_bind(t, "usr");
    for (size_t i = 0; i < sg_host_root_count && i < MAX_ROOTS; i++)
        if (v->is_real_dir[i])
            add_bind(t, sg_host_roots[i]);
    if (v->has_local)
        t->hide[t->hide_count++] = sg_strdup("/usr/local");
    t->is_idmapped = geteuid() == 0;
    t->origin = sg_strdup("host");
    return 0;
}

int sg_host_open(const char *state_dir, struct sg_template *t, struct sg_err *err)
{
    for (int tries = 0; tries < OPEN_TRIES; tries++) {
        __attribute__((cleanup(view_done))) struct view v = { .etc_fd = -1 };
        if (look(&v, err) < 0)
            return -1;
        sg_auto_fd store = sg_templates_open(state_dir, tries > 0, err);
        if (store >= 0)
            t->lock_fd = sg_templates_use(store, v.name, err);
        if (t->lock_fd >= 0)
            return describe(state_dir, &v, t);
        if (err->kind != SG_NOT_FOUND || build(state_dir, &v, err) < 0)
            return sg_wrap(err, "template 'host'");
    }
    return sg_fail(err, SG_UNAVAILABLE, "template 'host': the host's /etc keeps changing");
}
