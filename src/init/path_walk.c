/* SPDX-License-Identifier: Apache-2.0 */
/* openat2(2) for kernels that have none (gVisor): the path is walked here, a component at a time,
 * each opened from the directory in hand and through no link; links are read and walked in turn. A
 * rename meanwhile can send us elsewhere in the sandbox's own tree, with the asked user's rights:
 * where a path of that moment could have led, too. */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/auto.h"
#include "init/path.h"
#include "base/banned.h"

enum { MAX_LINKS = 40, REST_BYTES = 2 * SG_CTL_MAX_PATH };

struct walk {
    int dir; /* owned */
    char rest[REST_BYTES];
    unsigned links;
    bool no_links, stays_beneath;
};

static int fail(int sys)
{
    errno = sys;
    return -1;
}

static int restart_at_root(struct walk *w)
{
    if (w->stays_beneath)
        return fail(EXDEV);
    sg_drop_fd(&w->dir);
    w->dir = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    return w->dir < 0 ? -1 : 0;
}

/* The first component of what is left, without the slashes behind it. */
static int next_name(struct walk *w, char ret[SG_PATH_NAME_MAX + 1], bool *ret_is_last)
{
    const char *p = w->rest + strspn(w->rest, "/");
    const size_t n = strcspn(p, "/"), after = n + strspn(p + n, "/");
    if (n > SG_PATH_NAME_MAX)
        return fail(ENAMETOOLONG);
    memcpy(ret, p, n);
    ret[n] = '\0';
    *ret_is_last = !p[after];
    if (*ret_is_last && after > n) { /* "name/" is a directory's */
        w->rest[0] = '/';
        w->rest[1] = '\0';
    } else {
        memmove(w->rest, p + after, strlen(p + after) + 1);
    }
    return 0;
}

/* Those of /proc that lead to what somebody has open: the others there are relative names. */
static bool is_magic(int link_fd, const char *target)
{
    struct statfs fs;
    if (fstatfs(link_fd, &fs) < 0)
        return true;
    return fs.f_type == PROC_SUPER_MAGIC && (target[0] == '/' || strstr(target, ":["));
}

/* What is left of the path is behind the link's target. */
static int follow(struct walk *w, int link_fd)
{
    char target[SG_CTL_MAX_PATH];
    if (w->no_links || ++w->links > MAX_LINKS)
        return fail(ELOOP);
    const ssize_t n = readlinkat(link_fd, "", target, sizeof target - 1);
    if (n <= 0)
        return n < 0 ? -1 : fail(ENOENT);
    target[n] = '\0';
    if (is_magic(link_fd, target))
        return fail(ELOOP);
    const size_t rest = strlen(w->rest);
    if ((size_t)n + 1 + rest + 1 > sizeof w->rest)
        return fail(ENAMETOOLONG);
    memmove(w->rest + n + 1, w->rest, rest + 1);
    memcpy(w->rest, target, (size_t)n);
    w->rest[n] = rest ? '/' : '\0';
    return target[0] == '/' ? restart_at_root(w) : 0;
}

static bool is_link(int fd)
{
    struct stat st;
    return fstat(fd, &st) == 0 && S_ISLNK(st.st_mode);
}

/* Moves into a directory, or to where a link leads. */
static int enter(struct walk *w, const char *name)
{
    sg_auto_fd fd = openat(w->dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        return -1;
    if (S_ISLNK(st.st_mode))
        return follow(w, fd);
    if (!S_ISDIR(st.st_mode))
        return fail(ENOTDIR);
    sg_drop_fd(&w->dir);
    w->dir = sg_take_fd(&fd);
    return 0;
}

/* The last one. -2: it was a link, and there is more to walk. */
static int open_last(struct walk *w, const char *name, int flags, mode_t mode)
{
    const int must_be_dir = w->rest[0] == '/' ? O_DIRECTORY : 0;
    /* What is asked for as a directory is one behind the link. */
    const bool follows = must_be_dir || (!(flags & O_NOFOLLOW) &&
                                         (flags & (O_CREAT | O_EXCL)) != (O_CREAT | O_EXCL));
    w->rest[0] = '\0';
    if (follows) {
        sg_auto_fd link = openat(w->dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
        if (link < 0 && errno != ENOENT)
            return -1;
        if (link >= 0 && is_link(link)) {
            w->rest[0] = must_be_dir ? '/' : '\0';
            w->rest[1] = '\0';
            return follow(w, link) < 0 ? -1 : -2;
        }
    }
    return openat(w->dir, name, flags | must_be_dir | O_NOFOLLOW | O_CLOEXEC, mode);
}

int sg_path_walk(int dir_fd, const char *path, const struct open_how *how)
{
    struct walk w = { .dir = -1,
                      .no_links = how->resolve & RESOLVE_NO_SYMLINKS,
                      .stays_beneath = how->resolve & RESOLVE_BENEATH };
    if (how->resolve & RESOLVE_IN_ROOT)
        return fail(ENOSYS);
    if (!*path || strlen(path) >= SG_CTL_MAX_PATH)
        return fail(*path ? ENAMETOOLONG : ENOENT);
    memcpy(w.rest, path, strlen(path) + 1);
    w.dir = path[0] == '/' ? -1 : openat(dir_fd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    int fd = path[0] == '/' && restart_at_root(&w) < 0 ? -1 : -2;
    while (fd == -2 && w.dir >= 0) {
        char name[SG_PATH_NAME_MAX + 1];
        bool is_last;
        if (next_name(&w, name, &is_last) < 0)
            fd = -1;
        else if (w.stays_beneath && strcmp(name, "..") == 0)
            fd = fail(EXDEV);
        else if (is_last)
            fd = open_last(&w, *name ? name : ".", (int)how->flags, (mode_t)how->mode);
        else if (enter(&w, name) < 0)
            fd = -1;
    }
    const int sys = errno;
    sg_drop_fd(&w.dir);
    errno = sys;
    return fd < 0 ? -1 : fd;
}
