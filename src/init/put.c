/* SPDX-License-Identifier: Apache-2.0 */
/* PUT: a part of an archive goes to a place in the file tree, as COPY of a build does it.
 *
 * P1. `source` names a part of the archive: an entry, or all below a directory; "" is everything.
 *     A file becomes `path`, or goes into it where that is (or is said to be) a directory; of a
 *     directory the contents go into `path`.
 * P2. Here links are followed on the way to an entry, unlike in TAR_IN: a tree that brings
 *     bin/tool must find the directory where /bin leads. Who asks is the one who builds the tree,
 *     and nothing leads out of the sandbox that this worker is in. Names with ".." are refused.
 * P3. The entry itself is made with a call that neither follows nor replaces; what is there is
 *     unlinked before. A directory that is there keeps its mode and owner. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/str.h"
#include "init/path.h"
#include "init/stream.h"
#include "init/tar.h"
#include "init/worker.h"
#include "base/banned.h"

enum { DIR_MODE = 0755, MODE_BITS = 07777, DEPTH_MAX = 128 };

struct putting {
    const char *place; /* absolute, without a slash at its end; "": the root */
    char source[SG_TAR_NAME_MAX + 1];
    bool is_into;
    const uint32_t *mode; /* NULL: as the archive says */
    uid_t uid;
    gid_t gid;
    char name[SG_TAR_NAME_MAX + 1]; /* of the entry, plain */
    struct sg_tar_entry entry;
    struct sg_tar_reader tar;
};
struct order {
    const struct sg_msg_put *m;
    uid_t uid;
    gid_t gid;
};

/* ---- names ---- */

/* Drops empty components and "."; false for a "..". */
static bool make_plain(const char *raw, char *to)
{
    size_t n = 0;
    for (const char *p = raw; *p; p += strspn(p, "/")) {
        const struct sg_str part = { p, strcspn(p, "/") };
        p += part.n;
        if (!part.n || sg_str_is(part, "."))
            continue;
        if (sg_str_is(part, "..") || n + part.n + 2 > SG_TAR_NAME_MAX)
            return false;
        if (n)
            to[n++] = '/';
        memcpy(to + n, part.p, part.n);
        n += part.n;
    }
    to[n] = '\0';
    return true;
}

/* What of `name` is below the source; NULL: it is no part of it. "": it is the source. */
static const char *below(const struct putting *u, const char *name)
{
    const size_t n = strlen(u->source);
    if (n == 0)
        return name;
    if (strncmp(name, u->source, n) != 0 || (name[n] && name[n] != '/'))
        return NULL;
    return name + n + (name[n] == '/');
}

static int fail_entry(const struct putting *u, struct sg_err *err)
{
    if (errno == EISDIR || errno == EEXIST || errno == ENOTEMPTY)
        return sg_fail(err, SG_CONFLICT, "entry %s would replace a directory",
                       sg_quote(u->entry.name).s);
    return sg_fail_sys(err, "put %s", sg_quote(u->entry.name).s);
}

/* ---- directories ---- */

/* Opens the directory, and makes what is missing of it. */
static int open_dir(const struct putting *u, const char *path, unsigned depth)
{
    int fd = sg_path_open_at(AT_FDCWD, *path ? path : "/", O_PATH | O_DIRECTORY, 0);
    if (fd >= 0 || errno != ENOENT || depth == DEPTH_MAX)
        return fd;
    const char *slash = strrchr(path, '/');
    sg_auto_free char *above = sg_printf("%.*s", (int)(slash - path), path);
    sg_auto_fd parent = open_dir(u, above, depth + 1);
    if (parent < 0)
        return -1;
    if (mkdirat(parent, slash + 1, DIR_MODE) == 0) {
        if (fchownat(parent, slash + 1, u->uid, u->gid, AT_SYMLINK_NOFOLLOW) < 0)
            return -1;
    } else if (errno != EEXIST) {
        return -1;
    }
    return sg_path_open_at(parent, slash + 1, O_PATH | O_DIRECTORY, 0);
}

/* Opens the directory of `path`; `*ret_leaf` is what is behind its last slash. */
static int open_parent(const struct putting *u, const char *path, const char **ret_leaf,
                       struct sg_err *err)
{
    const char *slash = strrchr(path, '/');
    sg_auto_free char *above = sg_printf("%.*s", (int)(slash - path), path);
    int fd = open_dir(u, above, 0);
    *ret_leaf = slash + 1;
    return fd < 0 ? fail_entry(u, err) : fd;
}

static int put_dir(struct putting *u, const char *path, struct sg_err *err)
{
    const char *leaf;
    sg_auto_fd there = sg_path_open_at(AT_FDCWD, *path ? path : "/", O_PATH | O_DIRECTORY, 0);
    if (there >= 0)
        return 0;
    sg_auto_fd parent = open_parent(u, path, &leaf, err);
    if (parent < 0)
        return -1;
    const mode_t mode = (u->mode ? *u->mode : u->entry.mode) & MODE_BITS;
    if (mkdirat(parent, leaf, 0700) < 0 ||
        fchownat(parent, leaf, u->uid, u->gid, AT_SYMLINK_NOFOLLOW) < 0 ||
        fchmodat(parent, leaf, mode, 0) < 0)
        return sg_fail_sys(err, "put %s", sg_quote(u->entry.name).s);
    return 0;
}

/* ---- files and links ---- */

static int copy_data(struct putting *u, int fd, struct sg_err *err)
{
    const uint8_t *p;
    ssize_t n;
    while ((n = sg_tar_data(&u->tar, &p, err)) > 0)
        if (sg_stream_write(fd, p, (size_t)n) < 0)
            return fail_entry(u, err);
    if (n < 0)
        return sg_wrap(err, "entry %s", sg_quote(u->entry.name).s);
    const struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, u->entry.mtime };
    const mode_t mode = (u->mode ? *u->mode : u->entry.mode) & MODE_BITS;
    if (fchown(fd, u->uid, u->gid) < 0 || fchmod(fd, mode) < 0 || futimens(fd, times) < 0)
        return fail_entry(u, err);
    return 0;
}

static int put_file(struct putting *u, int parent, const char *leaf, struct sg_err *err)
{
    sg_auto_fd fd =
        openat(parent, leaf, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return fail_entry(u, err);
    if (copy_data(u, fd, err) == 0)
        return 0;
    (void)unlinkat(parent, leaf, 0);
    return -1;
}

static int put_symlink(struct putting *u, int parent, const char *leaf, struct sg_err *err)
{
    const struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, u->entry.mtime };
    if (symlinkat(u->entry.target, parent, leaf) < 0 ||
        fchownat(parent, leaf, u->uid, u->gid, AT_SYMLINK_NOFOLLOW) < 0 ||
        utimensat(parent, leaf, times, AT_SYMLINK_NOFOLLOW) < 0)
        return fail_entry(u, err);
    return 0;
}

/* To an entry that was put before. */
static int put_hardlink(struct putting *u, int parent, const char *leaf, struct sg_err *err)
{
    char plain[SG_TAR_NAME_MAX + 1];
    const char *rest = make_plain(u->entry.target, plain) ? below(u, plain) : NULL, *from_leaf;
    if (!rest || !*rest)
        return sg_fail(err, SG_INVALID, "entry %s is a link to %s, which is not put",
                       sg_quote(u->entry.name).s, sg_quote(u->entry.target).s);
    sg_auto_free char *path = sg_printf("%s/%s", u->place, rest);
    sg_auto_fd from = open_parent(u, path, &from_leaf, err);
    if (from < 0)
        return -1;
    return linkat(from, from_leaf, parent, leaf, 0) < 0 ? fail_entry(u, err) : 0;
}

/* ---- one entry ---- */

static bool is_dir(const char *path)
{
    sg_auto_fd fd = sg_path_open_at(AT_FDCWD, *path ? path : "/", O_PATH | O_DIRECTORY, 0);
    return fd >= 0;
}

/* Where the entry goes; returns owned. P1 */
static char *place_of(const struct putting *u, const char *rest)
{
    if (*rest)
        return sg_printf("%s/%s", u->place, rest);
    if (u->entry.kind == SG_TAR_DIR || !(u->is_into || is_dir(u->place)))
        return sg_strdup(u->place);
    const struct sg_str name = sg_last_part(u->source);
    return sg_printf("%s/%.*s", u->place, (int)name.n, name.p);
}

static int put_entry(struct putting *u, struct sg_err *err)
{
    static int (*const makers[])(struct putting * u, int parent, const char *leaf,
                                 struct sg_err *err) = {
        [SG_TAR_FILE] = put_file,
        [SG_TAR_SYMLINK] = put_symlink,
        [SG_TAR_HARDLINK] = put_hardlink,
    };
    const char *leaf;
    if (u->entry.name[0] == '/' || !make_plain(u->entry.name, u->name))
        return sg_fail(err, SG_INVALID, "entry %s has a name that leads out",
                       sg_quote(u->entry.name).s);
    const char *rest = below(u, u->name);
    if (!rest)
        return 0;
    sg_auto_free char *path = place_of(u, rest);
    if (u->entry.kind == SG_TAR_DIR)
        return put_dir(u, path, err);
    if (!*path)
        return sg_fail(err, SG_INVALID, "a file cannot be put in the place of '/'");
    sg_auto_fd parent = open_parent(u, path, &leaf, err);
    if (parent < 0)
        return -1;
    if (unlinkat(parent, leaf, 0) < 0 && errno != ENOENT)
        return fail_entry(u, err);
    return makers[u->entry.kind](u, parent, leaf, err);
}

/* ---- the request ---- */

static ssize_t pull_from(void *fd, void *p, size_t n)
{
    return sg_stream_read(*(int *)fd, p, n);
}

static int work(int fd, const void *arg, struct sg_err *err)
{
    const struct order *o = arg;
    char place[SG_CTL_MAX_PATH + 1];
    struct putting *u = sg_new(struct putting);
    size_t n = o->m->path.n;
    while (n && o->m->path.p[n - 1] == '/')
        n--;
    memcpy(place, o->m->path.p, n);
    place[n] = '\0';
    u->place = place;
    u->uid = o->uid;
    u->gid = o->gid;
    u->is_into = o->m->flags & SG_PUT_INTO || n < o->m->path.n;
    u->mode = o->m->flags & SG_PUT_MODE ? &o->m->mode : NULL;
    if (!make_plain(o->m->source.p, u->source))
        return sg_fail(err, SG_INVALID, "%s leads out", sg_quote(o->m->source.p).s);
    if (u->is_into) { /* also where nothing comes */
        sg_auto_fd made = open_dir(u, place, 0);
        if (made < 0)
            return sg_fail_sys(err, "make %s", sg_quote(place).s);
    }
    int result;
    sg_tar_reader_init(&u->tar, pull_from, &fd);
    do {
        result = sg_tar_next(&u->tar, &u->entry, err);
        if (result > 0 && put_entry(u, err) < 0)
            result = -1;
    } while (result > 0);
    if (result == 0)
        sg_tar_drain(&u->tar);
    sg_tar_reader_done(&u->tar);
    free(u);
    return result;
}

int sg_handle_put(struct sg_init *in, struct sg_call *c, struct sg_err *err)
{
    struct sg_user owner = c->user;
    const struct sg_msg_put *m = &c->m->put;
    if (c->packet->fd_count != 1 || m->path.p[0] != '/')
        return sg_fail(err, SG_INVALID, "an archive needs a descriptor and an absolute path");
    if (m->owner.n && sg_users_find_owner(&in->users, m->owner.p, &owner, err) < 0)
        return -1;
    const struct order o = { m, owner.uid, owner.gid };
    return sg_worker_start(in, c, "sandglass-put", work, c->packet->fds[0], &o, err);
}
