/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/path.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/str.h"
#include "base/banned.h"

static int open_resolved(int root_fd, const char *path, int flags, mode_t mode, uint64_t resolve,
                         struct sg_err *err)
{
    const struct open_how how = {
        .flags = (unsigned)flags | O_CLOEXEC,
        .mode = (flags & O_CREAT) ? mode : 0,
        .resolve = resolve | RESOLVE_NO_MAGICLINKS,
    };
    for (int tries = 0; tries < 32; tries++) {
        long fd = syscall(SYS_openat2, root_fd, path, &how, sizeof how);
        if (fd >= 0)
            return (int)fd;
        if (errno != EINTR && errno != EAGAIN) /* EAGAIN: raced with a rename */
            return sg_fail_sys(err, "open %s inside the sandbox", sg_quote(path).s);
    }
    return sg_fail(err, SG_UNAVAILABLE, "open %s: path kept changing", sg_quote(path).s);
}

int sg_open_in(int root_fd, const char *path, int flags, mode_t mode, struct sg_err *err)
{
    return open_resolved(root_fd, path, flags, mode, RESOLVE_IN_ROOT, err);
}

int sg_open_beneath(int root_fd, const char *path, int flags, mode_t mode, struct sg_err *err)
{
    return open_resolved(root_fd, path, flags, mode, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS, err);
}

/* One component: made when missing, then opened without following anything. */
static int step_into(int dir_fd, const char *name, unsigned id, struct sg_err *err)
{
    const int flags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    int fd = openat(dir_fd, name, flags);
    if (fd < 0 && errno == ENOENT) {
        if (mkdirat(dir_fd, name, 0755) < 0 ||
            fchownat(dir_fd, name, id, id, AT_SYMLINK_NOFOLLOW) < 0)
            return sg_fail_sys(err, "make directory %s in the template's root", sg_quote(name).s);
        fd = openat(dir_fd, name, flags);
    }
    if (fd >= 0)
        return fd;
    if (errno == ENOTDIR || errno == ELOOP)
        return sg_fail(err, SG_INVALID,
                       "%s in the template's root is not a real directory: a link there could "
                       "point anywhere; replace it in the template",
                       sg_quote(name).s);
    return sg_fail_sys(err, "open %s in the template's root", sg_quote(name).s);
}

/* Walks to the parent of the last component, which is copied to `ret_last`. */
static int walk_to_parent(int root_fd, const char *path, unsigned id, char ret_last[NAME_MAX + 1],
                          struct sg_err *err)
{
    sg_auto_fd dir = openat(root_fd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return sg_fail_sys(err, "open the template's root");
    for (const char *p = path + strspn(path, "/");;) {
        size_t n = strcspn(p, "/");
        const char *next = p + n + strspn(p + n, "/");
        bool is_dots = (n == 1 && p[0] == '.') || (n == 2 && p[0] == '.' && p[1] == '.');
        if (n == 0 || n > NAME_MAX || is_dots)
            return sg_fail(err, SG_INVALID, "%s is not a plain absolute path", sg_quote(path).s);
        memcpy(ret_last, p, n);
        ret_last[n] = '\0';
        if (!*next)
            return sg_take_fd(&dir);
        int fd = step_into(dir, ret_last, id, err);
        if (fd < 0)
            return -1;
        sg_drop_fd(&dir);
        dir = fd;
        p = next;
    }
}

/* Most paths are one name: that needs no walk. NULL: one with more to it, or none at all. */
static const char *single_name(const char *path)
{
    path += strspn(path, "/");
    const size_t n = strlen(path);
    return n == 0 || n > NAME_MAX || strchr(path, '/') || path[0] == '.' ? NULL : path;
}

int sg_make_dir_in(int root_fd, const char *path, unsigned id, struct sg_err *err)
{
    char last[NAME_MAX + 1];
    const char *name = single_name(path);
    if (name)
        return step_into(root_fd, name, id, err);
    sg_auto_fd parent = walk_to_parent(root_fd, path, id, last, err);
    return parent < 0 ? -1 : step_into(parent, last, id, err);
}

int sg_make_file_in(int root_fd, const char *path, unsigned id, struct sg_err *err)
{
    char last[NAME_MAX + 1];
    sg_auto_fd parent = walk_to_parent(root_fd, path, id, last, err);
    if (parent < 0)
        return -1;
    sg_auto_fd made =
        openat(parent, last, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (made < 0 ? errno != EEXIST : fchown(made, id, id) < 0)
        return sg_fail_sys(err, "make file %s in the template's root", sg_quote(path).s);
    sg_auto_fd fd = openat(parent, last, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        return sg_fail_sys(err, "open %s in the template's root", sg_quote(path).s);
    if (S_ISLNK(st.st_mode) || S_ISDIR(st.st_mode))
        return sg_fail(err, SG_INVALID, "%s in the template's root is not a file",
                       sg_quote(path).s);
    return sg_take_fd(&fd);
}
