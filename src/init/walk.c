/* SPDX-License-Identifier: Apache-2.0 */
/* One open directory a level: a name is always looked up in the directory that it was read from, so
 * a tree that is moved about meanwhile cannot lead the walk astray. */
#include "init/walk.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/vfs.h>

#include "base/auto.h"
#include "base/str.h"
#include "init/dir.h"
#include "base/banned.h"

enum { DIR_FLAGS = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC };

struct level {
    int fd;
    dev_t dev;
    size_t path_n; /* of the directory itself */
    struct sg_dir dir;
};

struct walk {
    bool is_strict;
    struct level *levels[SG_WALK_MAX_DEPTH];
    unsigned depth;
    char path[SG_WALK_PATH_MAX + 1];
};

static bool is_window(int fd)
{
    static const unsigned long kinds[] = { PROC_SUPER_MAGIC,   SYSFS_MAGIC,
                                           CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC,
                                           DEVPTS_SUPER_MAGIC, DEBUGFS_MAGIC,
                                           TRACEFS_MAGIC,      SECURITYFS_MAGIC,
                                           BPF_FS_MAGIC };
    struct statfs fs;
    if (fstatfs(fd, &fs) < 0)
        return true;
    for (size_t i = 0; i < SG_COUNT(kinds); i++)
        if ((unsigned long)fs.f_type == kinds[i])
            return true;
    return false;
}

/* Takes `fd`. */
static void enter(struct walk *w, int fd, dev_t dev)
{
    struct level *l = sg_new(struct level);
    l->fd = fd;
    l->dev = dev;
    l->path_n = strlen(w->path);
    sg_dir_init(&l->dir, fd);
    w->levels[w->depth++] = l;
}

static void leave(struct walk *w)
{
    struct level *l = w->levels[--w->depth];
    (void)close(l->fd);
    free(l);
}

/* Somebody else is at work in the tree: not our loss. */
static bool has_gone(void)
{
    return errno == ENOENT || errno == ENOTDIR || errno == ELOOP;
}

static int pass_over(const struct walk *w, struct sg_err *err)
{
    if (has_gone() || !w->is_strict)
        return 0;
    return sg_fail_sys(err, "read %s", sg_quote(w->path).s);
}

static int descend(struct walk *w, const struct sg_walk_item *item, struct sg_err *err)
{
    if (w->depth == SG_WALK_MAX_DEPTH)
        return sg_fail(err, SG_EXHAUSTED, "%s is over %d directories deep", sg_quote(w->path).s,
                       SG_WALK_MAX_DEPTH);
    sg_auto_fd fd = openat(item->dir_fd, item->name, DIR_FLAGS);
    if (fd < 0)
        return pass_over(w, err);
    if (item->st->st_dev == w->levels[w->depth - 1]->dev || !is_window(fd))
        enter(w, sg_take_fd(&fd), item->st->st_dev);
    return 0;
}

/* Puts the path of `name` into w->path. */
static int append(struct walk *w, const struct level *l, const char *name, struct sg_err *err)
{
    size_t at = l->path_n + (l->path_n > 0), n = strlen(name);
    if (at + n > SG_WALK_PATH_MAX)
        return sg_fail(err, SG_EXHAUSTED, "%s has a path of over %d bytes", sg_quote(name).s,
                       SG_WALK_PATH_MAX);
    if (l->path_n)
        w->path[l->path_n] = '/';
    memcpy(w->path + at, name, n + 1);
    return 0;
}

static int step(struct walk *w, sg_walk_visit *visit, void *arg, struct sg_err *err)
{
    struct level *l = w->levels[w->depth - 1];
    const struct sg_dirent *e = sg_dir_next(&l->dir);
    if (!e) {
        w->path[l->path_n] = '\0';
        int result = errno ? pass_over(w, err) : 0;
        leave(w);
        return result;
    }
    struct stat st;
    if (append(w, l, e->name, err) < 0)
        return -1;
    if (fstatat(l->fd, e->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return pass_over(w, err);
    const struct sg_walk_item item = { l->fd, e->name, w->path, &st };
    int result = visit(arg, &item, err);
    return result == 0 && S_ISDIR(st.st_mode) ? descend(w, &item, err) : result;
}

int sg_walk(int root_fd, bool is_strict, sg_walk_visit *visit, void *arg, struct sg_err *err)
{
    struct stat st;
    sg_auto_fd fd = openat(root_fd, ".", DIR_FLAGS);
    if (fd < 0 || fstat(fd, &st) < 0)
        return sg_fail_sys(err, "read the directory");
    struct walk *w = sg_new(struct walk);
    w->is_strict = is_strict;
    enter(w, sg_take_fd(&fd), st.st_dev);
    int result = 0;
    while (w->depth && result == 0)
        result = step(w, visit, arg, err);
    while (w->depth)
        leave(w);
    free(w);
    return result < 0 ? -1 : 0;
}
