/* SPDX-License-Identifier: Apache-2.0 */
/* TAR_IN: an archive from a stranger, unpacked below a directory by a worker that is the user.
 *
 * T1. A name is neither absolute nor has it a "..". And the directory of every entry is opened
 *     beneath the root without following links, so neither an earlier entry nor a rename by
 *     somebody else leads out.
 *
 * T2. The last component is made with a call that neither follows nor replaces (O_EXCL, mkdirat,
 *     symlinkat, linkat). Replacing is unlink, then that.
 *
 * T3. A directory that was there before keeps its mode and times; one that we made gets those of
 *     the archive at the end, when nothing more is put into it. */
#include "init/tar_in.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/str.h"
#include "init/path.h"
#include "init/stream.h"
#include "init/worker.h"
#include "base/banned.h"

enum {
    DIR_MODE = 0755,
    MODE_BITS = 0777, /* no set-id bits: who sends an archive must not make programs of others */
    /* Of directories to be finished. Past it they stay writable by their owner, and new. */
    MAX_PENDING_BYTES = 8 * 1024 * 1024,
};

struct pending { /* follows its path in the buffer, which is walked backwards */
    struct timespec mtime;
    mode_t mode;
    size_t path_bytes;
};

struct unpacking {
    int root_fd;
    uint32_t flags;
    struct sg_buf pending;
    int parent_fd; /* of the last entry, since the next one is mostly its neighbour; -1: none */
    char parent[SG_TAR_NAME_MAX + 1];
    char name[SG_TAR_NAME_MAX + 1], target[SG_TAR_NAME_MAX + 1]; /* made plain */
    struct sg_tar_entry entry;
    struct sg_tar_reader tar;
};

/* ---- names ---- */

static int refuse(const struct unpacking *u, const char *why, struct sg_err *err)
{
    return sg_fail(err, SG_INVALID, "entry %s %s", sg_quote(u->entry.name).s, why);
}

/* Takes one component off the front, with the slashes after it. */
static struct sg_str next_part(const char **p)
{
    struct sg_str part = { *p, strcspn(*p, "/") };
    *p += part.n;
    *p += strspn(*p, "/");
    return part;
}

/* Drops empty components and "."; "" is the root. 0; -1 for an absolute name, -2 for "..". */
static int make_plain(const char *raw, char *to)
{
    size_t n = 0;
    if (raw[0] == '/')
        return -1;
    for (const char *p = raw; *p;) {
        struct sg_str part = next_part(&p);
        if (!part.n || sg_str_is(part, "."))
            continue;
        if (sg_str_is(part, ".."))
            return -2;
        if (n)
            to[n++] = '/';
        memcpy(to + n, part.p, part.n);
        n += part.n;
    }
    to[n] = '\0';
    return 0;
}

/* Whether a symbolic link at `name` to `target` stays below the root, read as text. */
static bool stays_inside(const char *name, const char *target)
{
    long depth = 0;
    if (target[0] == '/')
        return false;
    for (const char *p = strchr(name, '/'); p; p = strchr(p + 1, '/'))
        depth++;
    for (const char *p = target; *p;) {
        struct sg_str part = next_part(&p);
        if (sg_str_is(part, ".."))
            depth--;
        else if (part.n && !sg_str_is(part, "."))
            depth++;
        if (depth < 0)
            return false;
    }
    return true;
}

/* The words for an errno that an archive can cause; anything else is the system's own. */
static int fail_entry(const struct unpacking *u, struct sg_err *err)
{
    static const struct {
        int sys;
        enum sg_kind kind;
        const char *why;
    } reasons[] = {
        { ELOOP, SG_INVALID, "goes through a symbolic link" },
        { ENOTDIR, SG_INVALID, "is below something that is not a directory" },
        { EXDEV, SG_INVALID, "leads out of the directory" },
        { EEXIST, SG_CONFLICT, "is there already" },
        { EISDIR, SG_CONFLICT, "is there already, and a directory" },
    };
    for (size_t i = 0; i < SG_COUNT(reasons); i++)
        if (errno == reasons[i].sys)
            return sg_fail(err, reasons[i].kind, "entry %s %s", sg_quote(u->entry.name).s,
                           reasons[i].why);
    return sg_fail_sys(err, "unpack %s", sg_quote(u->entry.name).s);
}

/* ---- directories ---- */

/* Makes what is missing of `path`, a directory below the root. */
static int make_parents(const struct unpacking *u, const char *path)
{
    char prefix[SG_TAR_NAME_MAX + 1];
    for (const char *end = strchrnul(path, '/');; end = strchrnul(end + 1, '/')) {
        size_t n = (size_t)(end - path);
        memcpy(prefix, path, n);
        prefix[n] = '\0';
        char *slash = strrchr(prefix, '/');
        if (slash)
            *slash = '\0';
        sg_auto_fd above =
            sg_path_open_beneath(u->root_fd, slash ? prefix : ".", O_PATH | O_DIRECTORY, 0);
        if (above < 0 ||
            (mkdirat(above, slash ? slash + 1 : prefix, DIR_MODE) < 0 && errno != EEXIST))
            return -1;
        if (!*end)
            return 0;
    }
}

static int open_dir(const struct unpacking *u, const char *path)
{
    int fd = sg_path_open_beneath(u->root_fd, path, O_PATH | O_DIRECTORY, 0);
    if (fd < 0 && errno == ENOENT && make_parents(u, path) == 0)
        fd = sg_path_open_beneath(u->root_fd, path, O_PATH | O_DIRECTORY, 0);
    return fd;
}

/* The directory of the entry in hand (borrowed until the next call) and its last component. */
static int find_parent(struct unpacking *u, const char **ret_leaf, struct sg_err *err)
{
    const char *slash = strrchr(u->name, '/');
    if (!u->name[0])
        return refuse(u, "would replace the directory itself", err);
    *ret_leaf = slash ? slash + 1 : u->name;
    if (!slash)
        return u->root_fd;
    size_t n = (size_t)(slash - u->name);
    if (u->parent_fd >= 0 && strlen(u->parent) == n && memcmp(u->parent, u->name, n) == 0)
        return u->parent_fd;
    sg_drop_fd(&u->parent_fd);
    memcpy(u->parent, u->name, n);
    u->parent[n] = '\0';
    u->parent_fd = open_dir(u, u->parent);
    return u->parent_fd >= 0 ? u->parent_fd : fail_entry(u, err);
}

static void remember(struct unpacking *u)
{
    const struct pending p = { u->entry.mtime, u->entry.mode & MODE_BITS, strlen(u->name) + 1 };
    if (u->pending.n + p.path_bytes + sizeof p > MAX_PENDING_BYTES)
        return;
    sg_buf_add(&u->pending, u->name, p.path_bytes);
    sg_buf_add(&u->pending, &p, sizeof p);
}

static int unpack_dir(struct unpacking *u, struct sg_err *err)
{
    const char *leaf;
    if (!u->name[0])
        return 0;
    int parent = find_parent(u, &leaf, err);
    if (parent < 0)
        return -1;
    if (mkdirat(parent, leaf, (u->entry.mode & MODE_BITS) | 0700) == 0) {
        remember(u);
        return 0;
    }
    if (errno != EEXIST)
        return fail_entry(u, err);
    struct stat st;
    if (fstatat(parent, leaf, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode))
        return 0;
    return sg_fail(err, SG_CONFLICT, "entry %s is there already, and not a directory",
                   sg_quote(u->entry.name).s);
}

/* Backwards: those below before the one that may then not be entered any more. */
static void finish_dirs(struct unpacking *u)
{
    while (u->pending.n) {
        struct pending p;
        u->pending.n -= sizeof p;
        memcpy(&p, u->pending.p + u->pending.n, sizeof p);
        u->pending.n -= p.path_bytes;
        const char *path = (const char *)u->pending.p + u->pending.n;
        sg_auto_fd fd = sg_path_open_beneath(u->root_fd, path, O_RDONLY | O_DIRECTORY, 0);
        if (fd < 0)
            continue; /* gone, and not by us */
        const struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, p.mtime };
        (void)futimens(fd, times);
        (void)fchmod(fd, p.mode);
    }
}

/* ---- files and links ---- */

/* True where the name is free now. */
static bool make_way(const struct unpacking *u, int parent, const char *leaf)
{
    return errno == EEXIST && u->flags & SG_TAR_OVERWRITE && unlinkat(parent, leaf, 0) == 0;
}

static int copy_data(struct unpacking *u, int fd, struct sg_err *err)
{
    const uint8_t *p;
    ssize_t n;
    while ((n = sg_tar_data(&u->tar, &p, err)) > 0)
        if (sg_stream_write(fd, p, (size_t)n) < 0)
            return fail_entry(u, err);
    if (n < 0)
        return sg_wrap(err, "entry %s", sg_quote(u->entry.name).s);
    const struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, u->entry.mtime };
    return futimens(fd, times) < 0 ? fail_entry(u, err) : 0;
}

static int unpack_file(struct unpacking *u, struct sg_err *err)
{
    const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    const mode_t mode = u->entry.mode & MODE_BITS;
    const char *leaf;
    int parent = find_parent(u, &leaf, err);
    if (parent < 0)
        return -1;
    sg_auto_fd fd = openat(parent, leaf, flags, mode);
    if (fd < 0 && make_way(u, parent, leaf))
        fd = openat(parent, leaf, flags, mode);
    if (fd < 0)
        return fail_entry(u, err);
    if (copy_data(u, fd, err) == 0)
        return 0;
    (void)unlinkat(parent, leaf, 0); /* half a file is worse than none */
    return -1;
}

static int refuse_link(const struct unpacking *u, const char *why, struct sg_err *err)
{
    return sg_fail(err, SG_INVALID, "entry %s is a link to %s, which %s", sg_quote(u->entry.name).s,
                   sg_quote(u->entry.target).s, why);
}

static int unpack_symlink(struct unpacking *u, struct sg_err *err)
{
    const struct sg_tar_entry *e = &u->entry;
    const char *leaf;
    if (!e->target[0])
        return refuse(u, "is a link to nothing", err);
    if (!(u->flags & SG_TAR_ANY_LINK) && !stays_inside(u->name, e->target))
        return refuse_link(u, "leads out", err);
    int parent = find_parent(u, &leaf, err);
    if (parent < 0)
        return -1;
    int result = symlinkat(e->target, parent, leaf);
    if (result < 0 && make_way(u, parent, leaf))
        result = symlinkat(e->target, parent, leaf);
    const struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, e->mtime };
    if (result < 0 || utimensat(parent, leaf, times, AT_SYMLINK_NOFOLLOW) < 0)
        return fail_entry(u, err);
    return 0;
}

static int unpack_hardlink(struct unpacking *u, struct sg_err *err)
{
    const char *leaf;
    if (make_plain(u->entry.target, u->target) < 0 || !u->target[0])
        return refuse_link(u, "leads out", err);
    if (strcmp(u->target, u->name) == 0)
        return refuse(u, "is a link to itself", err);
    int parent = find_parent(u, &leaf, err);
    if (parent < 0)
        return -1;
    char *slash = strrchr(u->target, '/');
    if (slash)
        *slash = '\0';
    const char *from_leaf = slash ? slash + 1 : u->target;
    sg_auto_fd from =
        sg_path_open_beneath(u->root_fd, slash ? u->target : ".", O_PATH | O_DIRECTORY, 0);
    struct stat st;
    if (from < 0 || fstatat(from, from_leaf, &st, AT_SYMLINK_NOFOLLOW) < 0 || S_ISDIR(st.st_mode))
        return refuse_link(u, "is no file in here", err);
    int result = linkat(from, from_leaf, parent, leaf, 0);
    if (result < 0 && make_way(u, parent, leaf))
        result = linkat(from, from_leaf, parent, leaf, 0);
    return result < 0 ? fail_entry(u, err) : 0;
}

static int unpack_entry(struct unpacking *u, struct sg_err *err)
{
    static int (*const makers[])(struct unpacking * u, struct sg_err * err) = {
        [SG_TAR_FILE] = unpack_file,
        [SG_TAR_DIR] = unpack_dir,
        [SG_TAR_SYMLINK] = unpack_symlink,
        [SG_TAR_HARDLINK] = unpack_hardlink,
    };
    int plain = make_plain(u->entry.name, u->name);
    if (plain < 0)
        return refuse(u, plain == -1 ? "has an absolute name" : "has '..' in its name", err);
    return makers[u->entry.kind](u, err);
}

int sg_tar_unpack(int root_fd, uint32_t flags, sg_tar_pull *pull, void *arg, struct sg_err *err)
{
    struct unpacking *u = sg_new(struct unpacking);
    u->root_fd = root_fd;
    u->flags = flags;
    u->parent_fd = -1;
    sg_buf_init(&u->pending, MAX_PENDING_BYTES);
    sg_tar_reader_init(&u->tar, pull, arg);
    int result;
    do {
        result = sg_tar_next(&u->tar, &u->entry, err);
        if (result > 0 && unpack_entry(u, err) < 0)
            result = -1;
    } while (result > 0);
    finish_dirs(u);
    if (result == 0)
        sg_tar_drain(&u->tar);
    sg_drop_fd(&u->parent_fd);
    sg_buf_done(&u->pending);
    sg_tar_reader_done(&u->tar);
    free(u);
    return result;
}

/* ---- the request ---- */

static ssize_t pull_from(void *fd, void *p, size_t n)
{
    return sg_stream_read(*(int *)fd, p, n);
}

static int work(int fd, const void *arg, struct sg_err *err)
{
    const struct sg_msg_tar *m = arg;
    if (sg_path_make(m->path, DIR_MODE, err) < 0)
        return -1;
    sg_auto_fd root = sg_path_open(m->path, O_PATH | O_DIRECTORY, 0, err);
    return root < 0 ? -1 : sg_tar_unpack(root, m->flags, pull_from, &fd, err);
}

int sg_handle_tar_in(struct sg_init *in, struct sg_call *c, struct sg_err *err)
{
    if (c->packet->fd_count != 1 || !c->m->tar.path.n)
        return sg_fail(err, SG_INVALID, "an archive needs a descriptor and a directory");
    return sg_worker_start(in, c, "sandglass-tar", work, c->packet->fds[0], &c->m->tar, err);
}
