/* SPDX-License-Identifier: Apache-2.0 */
/* Each entry's parent is opened with sg_open_plain() from the root descriptor, and the entry is
 * made in it with a call that never follows or replaces its last component (mkdirat, symlinkat,
 * linkat, open with O_EXCL). Modes and owners are set by descriptor, or with AT_SYMLINK_NOFOLLOW.
 */
#include "unpack/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/xattr.h>

#include "base/auto.h"
#include "base/str.h"
#include "image/layers.h"
#include "sys/beneath.h"

#include "base/banned.h"

void sg_writer_init(struct sg_writer *w, int root_fd, bool is_one_user, mode_t implied)
{
    *w = (struct sg_writer) {
        .root_fd = root_fd, .is_one_user = is_one_user, .implied = implied, .parent_fd = -1
    };
}

void sg_writer_done(struct sg_writer *w)
{
    sg_drop_fd(&w->parent_fd);
}

/* The words for an errno that a hostile archive can cause; anything else is the system's own. */
static int fail_entry(const char *name, const char *doing, struct sg_err *err)
{
    static const struct {
        int sys;
        const char *why;
    } reasons[] = {
        { ELOOP, "goes through a symbolic link" },
        { ENOTDIR, "is below something that is not a directory" },
        { EEXIST, "appears twice" },
        { EXDEV, "crosses a mount point" },
    };
    for (size_t i = 0; i < SG_COUNT(reasons); i++)
        if (errno == reasons[i].sys)
            return sg_fail(err, SG_INVALID, "entry %s %s", sg_quote(name).s, reasons[i].why);
    return sg_fail_sys(err, "%s %s", doing, sg_quote(name).s);
}

/* Makes the missing directories on the way to the last component of `path`. */
static int make_parents(const struct sg_writer *w, const char *path)
{
    char prefix[PATH_MAX];
    for (const char *slash = strchr(path, '/');; slash = strchr(slash + 1, '/')) {
        size_t n = slash ? (size_t)(slash - path) : strlen(path);
        memcpy(prefix, path, n);
        prefix[n] = '\0';
        char *leaf = strrchr(prefix, '/');
        sg_auto_fd above = -1;
        if (leaf) {
            *leaf++ = '\0';
            above = sg_open_plain(w->root_fd, prefix, O_PATH | O_DIRECTORY, 0);
            if (above < 0)
                return -1;
        }
        int dir = leaf ? above : w->root_fd;
        const char *last = leaf ? leaf : prefix;
        if (mkdirat(dir, last, 0700) == 0) /* a directory of our own: the umask may have cut it */
            (void)fchmodat(dir, last, w->implied, 0);
        else if (errno != EEXIST)
            return -1;
        if (!slash)
            return 0;
    }
}

static int open_parent(struct sg_writer *w, const char *path)
{
    int fd = sg_open_plain(w->root_fd, path, O_PATH | O_DIRECTORY, 0);
    if (fd < 0 && errno == ENOENT && make_parents(w, path) == 0)
        fd = sg_open_plain(w->root_fd, path, O_PATH | O_DIRECTORY, 0);
    return fd;
}

/* The directory that holds `name` (borrowed until the next call) and the last component. */
static int find_parent(struct sg_writer *w, const struct sg_entry_name *name, const char **ret_leaf,
                       struct sg_err *err)
{
    const char *slash = strrchr(name->path, '/');
    if (!slash) {
        *ret_leaf = name->path;
        return w->root_fd;
    }
    size_t n = (size_t)(slash - name->path);
    if (w->parent_fd < 0 || strlen(w->parent) != n || memcmp(w->parent, name->path, n) != 0) {
        sg_drop_fd(&w->parent_fd);
        memcpy(w->parent, name->path, n);
        w->parent[n] = '\0';
        w->parent_fd = open_parent(w, w->parent);
        if (w->parent_fd < 0)
            return fail_entry(name->path, "open the directory of", err);
    }
    *ret_leaf = slash + 1;
    return w->parent_fd;
}

/* The owner comes first: a change of owner clears set-id bits. */
static int apply(const struct sg_writer *w, int fd, mode_t perm, const struct sg_node *node)
{
    if (!w->is_one_user && fchown(fd, node->uid, node->gid) < 0)
        return -1;
    return fchmod(fd, perm);
}

int sg_writer_dir(struct sg_writer *w, const struct sg_entry_name *name, const struct sg_node *node,
                  struct sg_err *err)
{
    sg_auto_fd dir = -1;
    mode_t perm = node->perm;
    if (name->path[0] == '\0') {
        /* Archives of a private directory say 0700 here; nobody could then enter the sandbox. */
        perm |= 0555;
        dir = sg_open_plain(w->root_fd, ".", O_RDONLY | O_DIRECTORY, 0);
    } else {
        const char *leaf = name->path;
        int parent = find_parent(w, name, &leaf, err);
        if (parent < 0)
            return -1;
        if (mkdirat(parent, leaf, 0700) < 0 && errno != EEXIST)
            return fail_entry(name->path, "make directory", err);
        dir = sg_open_plain(parent, leaf, O_RDONLY | O_DIRECTORY, 0);
        if (dir < 0 && (errno == ENOTDIR || errno == ELOOP))
            errno = EEXIST; /* the name is taken by something else */
    }
    if (w->is_one_user)
        perm |= 0700; /* or the entries below could not be written */
    if (dir < 0 || apply(w, dir, perm, node) < 0)
        return fail_entry(name->path, "make directory", err);
    if (perm == SG_MODE_IMPLIED && w->implied == SG_MODE_IMPLIED &&
        fsetxattr(dir, SG_MARK_NAMED, "", 0, 0) < 0)
        return fail_entry(name->path, "mark directory", err);
    return 0;
}

int sg_writer_symlink(struct sg_writer *w, const struct sg_entry_name *name, const char *target,
                      const struct sg_node *node, struct sg_err *err)
{
    const char *leaf = name->path;
    int parent = find_parent(w, name, &leaf, err);
    if (parent < 0)
        return -1;
    const struct timespec times[2] = { { .tv_nsec = UTIME_NOW }, node->mtime };
    if (symlinkat(target, parent, leaf) < 0 ||
        (!w->is_one_user &&
         fchownat(parent, leaf, node->uid, node->gid, AT_SYMLINK_NOFOLLOW) < 0) ||
        utimensat(parent, leaf, times, AT_SYMLINK_NOFOLLOW) < 0)
        return fail_entry(name->path, "make symbolic link", err);
    return 0;
}

int sg_writer_hardlink(struct sg_writer *w, const struct sg_entry_name *name,
                       const struct sg_entry_name *target, struct sg_err *err)
{
    const char *leaf = name->path;
    int parent = find_parent(w, name, &leaf, err);
    if (parent < 0)
        return -1;
    const char *slash = strrchr(target->path, '/');
    sg_auto_fd from = -1;
    if (slash) {
        char dir[PATH_MAX];
        size_t n = (size_t)(slash - target->path);
        memcpy(dir, target->path, n);
        dir[n] = '\0';
        from = sg_open_plain(w->root_fd, dir, O_PATH | O_DIRECTORY, 0);
        if (from < 0)
            return sg_fail(err, SG_INVALID, "entry %s is a link to %s, which %s",
                           sg_quote(name->path).s, sg_quote(target->path).s,
                           errno == ELOOP ? "goes through a symbolic link"
                                          : "is not in the archive before it");
    }
    if (linkat(slash ? from : w->root_fd, slash ? slash + 1 : target->path, parent, leaf, 0) < 0) {
        if (errno == ENOENT || errno == EPERM) /* EPERM: a directory */
            return sg_fail(err, SG_INVALID,
                           "entry %s is a link to %s, which is not a file before it",
                           sg_quote(name->path).s, sg_quote(target->path).s);
        return fail_entry(name->path, "make link", err);
    }
    return 0;
}

int sg_writer_create(struct sg_writer *w, const struct sg_entry_name *name, struct sg_err *err)
{
    const char *leaf = name->path;
    int parent = find_parent(w, name, &leaf, err);
    if (parent < 0)
        return -1;
    int fd = openat(parent, leaf, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    return fd >= 0 ? fd : fail_entry(name->path, "make file", err);
}

int sg_writer_finish(struct sg_writer *w, int fd, const struct sg_entry_name *name,
                     const struct sg_node *node, struct sg_err *err)
{
    const struct timespec times[2] = { { .tv_nsec = UTIME_NOW }, node->mtime };
    if (apply(w, fd, node->perm, node) < 0 || futimens(fd, times) < 0)
        return fail_entry(name->path, "set the owner and mode of", err);
    return 0;
}
