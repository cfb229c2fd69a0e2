/* SPDX-License-Identifier: Apache-2.0 */
#include "init/path.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/str.h"
#include "base/banned.h"

enum { DIR_MODE = 0755, MAX_TRIES = 32 };

static const char *view; /* NULL: the root of the file tree */

void sg_path_confine(const char *root)
{
    view = root;
}

const char *sg_path_base(void)
{
    struct stat st;
    return stat("/workspace", &st) == 0 && S_ISDIR(st.st_mode) ? "/workspace" : "/";
}

/* Asked once whether the kernel has it: path_walk.c. */
static long open_how(int dir_fd, const char *path, const struct open_how *how)
{
    static bool has_none;
    long fd = has_none ? -1 : syscall(SYS_openat2, dir_fd, path, how, sizeof *how);
    if (fd < 0 && !has_none && errno == ENOSYS)
        has_none = true;
    return has_none ? sg_path_walk(dir_fd, path, how) : fd;
}

int sg_path_open_at(int dir_fd, const char *path, int flags, mode_t mode)
{
    const struct open_how how = {
        .flags = (unsigned)flags | O_CLOEXEC,
        .mode = flags & O_CREAT ? mode : 0,
        .resolve = RESOLVE_NO_MAGICLINKS,
    };
    long fd;
    do
        fd = open_how(dir_fd, path, &how);
    while (fd < 0 && errno == EINTR);
    return (int)fd;
}

static int open_tries(int dir_fd, const char *path, const struct open_how *how)
{
    for (int tries = 0; tries < MAX_TRIES; tries++) {
        long fd = open_how(dir_fd, path, how);
        if (fd >= 0)
            return (int)fd;
        if (errno != EINTR && errno != EAGAIN) /* EAGAIN: raced with a rename */
            return -1;
    }
    return -1;
}

int sg_path_open_beneath(int dir_fd, const char *path, int flags, mode_t mode)
{
    const struct open_how how = {
        .flags = (unsigned)flags | O_CLOEXEC,
        .mode = flags & O_CREAT ? mode : 0,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS,
    };
    return open_tries(dir_fd, path, &how);
}

/* Links lead to where they would if the view were all there is. */
static int open_in_view(const char *path, int flags, mode_t mode)
{
    const struct open_how how = {
        .flags = (unsigned)flags | O_CLOEXEC,
        .mode = flags & O_CREAT ? mode : 0,
        .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
    };
    sg_auto_fd root = open(view, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return root < 0 ? -1 : open_tries(root, path, &how);
}

/* Opens the start of a relative path; AT_FDCWD for an absolute one, where it does not matter. */
static int open_base(const char *path)
{
    return path[0] == '/' ? AT_FDCWD : open(sg_path_base(), O_PATH | O_DIRECTORY | O_CLOEXEC);
}

int sg_path_open(struct sg_text path, int flags, mode_t mode, struct sg_err *err)
{
    sg_auto_fd base = view ? AT_FDCWD : open_base(path.p);
    if (base == -1)
        return sg_fail_sys(err, "open the directory of relative paths");
    int fd = view ? open_in_view(path.p, flags, mode) : sg_path_open_at(base, path.p, flags, mode);
    return fd < 0 ? sg_fail_sys(err, "open %s", sg_quote(path.p).s) : fd;
}

int sg_path_open_parent(struct sg_text path, char ret_name[SG_PATH_NAME_MAX + 1],
                        struct sg_err *err)
{
    size_t end = path.n;
    while (end && path.p[end - 1] == '/')
        end--;
    size_t start = end;
    while (start && path.p[start - 1] != '/')
        start--;
    struct sg_str name = { path.p + start, end - start };
    if (name.n == 0 || sg_str_is(name, ".") || sg_str_is(name, ".."))
        return sg_fail(err, SG_INVALID, "%s does not name an entry", sg_quote(path.p).s);
    if (name.n > SG_PATH_NAME_MAX || start > SG_CTL_MAX_PATH) {
        errno = ENAMETOOLONG;
        return sg_fail_sys(err, "open %s", sg_quote(path.p).s);
    }
    char parent[SG_CTL_MAX_PATH + 2] = ".";
    if (start) {
        memcpy(parent, path.p, start);
        parent[start] = '\0';
    }
    int fd =
        sg_path_open((struct sg_text) { parent, strlen(parent) }, O_PATH | O_DIRECTORY, 0, err);
    if (fd < 0)
        return -1;
    memcpy(ret_name, name.p, name.n);
    ret_name[name.n] = '\0';
    return fd;
}

/* One step of mkdir -p: makes `name` unless it is there, and moves `*dir` into it. */
static int make_and_enter(int *dir, const char *name, mode_t mode)
{
    if (mkdirat(*dir, name, mode) < 0 && errno != EEXIST)
        return -1;
    int next = (view ? sg_path_open_beneath : sg_path_open_at)(*dir, name, O_PATH | O_DIRECTORY, 0);
    if (next < 0)
        return -1;
    sg_close_p(dir);
    *dir = next;
    return 0;
}

int sg_path_make(struct sg_text path, mode_t mode, struct sg_err *err)
{
    const char *start = view ? view : path.p[0] == '/' ? "/" : sg_path_base();
    sg_auto_fd dir = open(start, O_PATH | O_DIRECTORY | O_CLOEXEC);
    const char *p = path.p + strspn(path.p, "/");
    if (dir < 0)
        return sg_fail_sys(err, "open %s", sg_quote(start).s);
    while (*p) {
        char name[SG_PATH_NAME_MAX + 1];
        size_t n = strcspn(p, "/");
        size_t skip = n + strspn(p + n, "/");
        errno = ENAMETOOLONG;
        if (n > SG_PATH_NAME_MAX)
            return sg_fail_sys(err, "make %s", sg_quote(path.p).s);
        memcpy(name, p, n);
        name[n] = '\0';
        p += skip;
        if (make_and_enter(&dir, name, *p ? DIR_MODE : mode) < 0)
            return sg_fail_sys(err, "make %s", sg_quote(path.p).s);
    }
    return 0;
}

void sg_path_of_fd(int fd, char ret[SG_PATH_LINK_BYTES])
{
    (void)snprintf(ret, SG_PATH_LINK_BYTES, "/proc/self/fd/%d", fd);
}
