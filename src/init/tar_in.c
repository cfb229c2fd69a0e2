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
 *     the archive at the end, when nothing more is put into it.
 *
 * T4. An exact archive is a layer over what is there: it replaces, removes, and decides owners,
 * modes and attributes of all that it names, also of directories that were there before. It stays
 * on the one file system. Its names are no less a stranger's for that: T1 and T2 hold. */
#include "init/tar_in.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/str.h"
#include "init/path.h"
#include "init/remove.h"
#include "init/stream.h"
#include "init/tar_exact.h"
#include "init/worker.h"
#include "base/banned.h"

enum {
    DIR_MODE = 0755,
    MODE_BITS = 0777, /* no set-id bits: who sends an archive must not make programs of others */
    EXACT_BITS = 07777,
    /* Of directories to be finished. Past it they stay writable by their owner, and new. */
    MAX_PENDING_BYTES = 8 * 1024 * 1024,
    MAX_EXACT_BYTES = 64 * 1024 * 1024, /* the same, where that will not do */
};

struct pending { /* follows its path and records in the buffer, which is walked backwards */
    struct timespec mtime;
    mode_t mode;
    uint32_t uid, gid;
    size_t path_bytes, pax_bytes;
};

struct unpacking {
    int root_fd;
    uint32_t flags;
    bool is_exact;
    dev_t dev; /* exact: of the root */
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

/* The words for an errno that an archive can cause; anything else is the system's own. What cannot
 * give way is something that a cell brings itself and that is mounted there (its machine id, say):
 * it stays, and is no failure. */
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
    if (u->is_exact && errno == EBUSY)
        return 0;
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

static bool is_elsewhere(const struct unpacking *u, int dir_fd)
{
    struct stat st;
    return u->is_exact && (fstat(dir_fd, &st) < 0 || st.st_dev != u->dev);
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
    if (u->parent_fd < 0)
        return fail_entry(u, err);
    return is_elsewhere(u, u->parent_fd) ? refuse(u, "is on another file system", err)
                                         : u->parent_fd;
}

static int remember(struct unpacking *u, struct sg_err *err)
{
    const struct sg_tar_entry *e = &u->entry;
    const size_t max = u->is_exact ? MAX_EXACT_BYTES : MAX_PENDING_BYTES;
    const struct pending p = {
        .mtime = e->mtime,
        .mode = e->mode & (u->is_exact ? EXACT_BITS : MODE_BITS),
        .uid = e->uid,
        .gid = e->gid,
        .path_bytes = strlen(u->name) + 1,
        .pax_bytes = u->is_exact ? e->pax.n : 0,
    };
    if (u->pending.n + p.path_bytes + p.pax_bytes + sizeof p > max)
        return u->is_exact ? sg_fail(err, SG_EXHAUSTED, "the archive has too many directories") : 0;
    sg_buf_add(&u->pending, u->name, p.path_bytes);
    sg_buf_add(&u->pending, e->pax.p, p.pax_bytes);
    sg_buf_add(&u->pending, &p, sizeof p);
    return 0;
}

/* What is there gives way, whatever it is: to a directory, unless it is one that may stay. */
static int unpack_exact_dir(struct unpacking *u, struct sg_err *err)
{
    struct stat st;
    const char *leaf;
    if (!u->name[0])
        return remember(u, err);
    const int parent = find_parent(u, &leaf, err);
    if (parent < 0)
        return -1;
    const bool is_there = fstatat(parent, leaf, &st, AT_SYMLINK_NOFOLLOW) == 0;
    if (is_there && S_ISDIR(st.st_mode) && st.st_dev != u->dev)
        return 0; /* something is mounted there, here as on the other machine */
    const bool stays = is_there && S_ISDIR(st.st_mode) && !sg_tar_is_opaque(u->entry.pax);
    if (!stays &&
        ((is_there && sg_remove_tree(parent, leaf) < 0) || mkdirat(parent, leaf, DIR_MODE) < 0))
        return fail_entry(u, err);
    return remember(u, err);
}

static int unpack_dir(struct unpacking *u, struct sg_err *err)
{
    const char *leaf;
    if (u->is_exact)
        return unpack_exact_dir(u, err);
    if (!u->name[0])
        return 0;
    int parent = find_parent(u, &leaf, err);
    if (parent < 0)
        return -1;
    if (mkdirat(parent, leaf, (u->entry.mode & MODE_BITS) | 0700) == 0)
        return remember(u, err);
    if (errno != EEXIST)
        return fail_entry(u, err);
    struct stat st;
    if (fstatat(parent, leaf, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode))
        return 0;
    return sg_fail(err, SG_CONFLICT, "entry %s is there already, and not a directory",
                   sg_quote(u->entry.name).s);
}

/* Owner, mode, attributes, time, in this order: each would be undone by those before it. */
static int dress(const struct unpacking *u, int fd, const struct pending *p, struct sg_str pax,
                 struct sg_err *err)
{
    const struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, p->mtime };
    if (fchown(fd, p->uid, p->gid) < 0 || fchmod(fd, p->mode) < 0)
        return fail_entry(u, err);
    if (sg_tar_set_attributes(fd, pax, err) < 0)
        return sg_wrap(err, "entry %s", sg_quote(u->entry.name).s);
    return futimens(fd, times) < 0 ? fail_entry(u, err) : 0;
}

/* Backwards: those below before the one that may then not be entered any more. */
static int finish_dirs(struct unpacking *u, struct sg_err *err)
{
    while (u->pending.n) {
        struct pending p;
        u->pending.n -= sizeof p;
        memcpy(&p, u->pending.p + u->pending.n, sizeof p);
        u->pending.n -= p.path_bytes + p.pax_bytes;
        const char *path = (const char *)u->pending.p + u->pending.n;
        const struct sg_str pax = { path + p.path_bytes, p.pax_bytes };
        sg_auto_fd fd =
            sg_path_open_beneath(u->root_fd, *path ? path : ".", O_RDONLY | O_DIRECTORY, 0);
        if (fd < 0)
            continue; /* gone, and not by us; or a later entry of the archive took its place */
        if (u->is_exact && dress(u, fd, &p, pax, err) < 0)
            return -1;
        if (u->is_exact)
            continue;
        const struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, p.mtime };
        (void)futimens(fd, times);
        (void)fchmod(fd, p.mode);
    }
    return 0;
}

/* ---- files and links ---- */

/* True where the name is free now. */
static bool make_way(const struct unpacking *u, int parent, const char *leaf)
{
    if (errno != EEXIST || !(u->flags & (SG_TAR_OVERWRITE | SG_TAR_EXACT)))
        return false;
    return (u->is_exact ? sg_remove_tree(parent, leaf) : unlinkat(parent, leaf, 0)) == 0;
}

/* `left` bytes; fewer are an error of the archive. What sg_tar_data() gives is cut by nobody. */
static int copy_pieces(struct unpacking *u, int fd, const struct sg_tar_pieces *pieces,
                       struct sg_err *err)
{
    const uint8_t *p = NULL;
    ssize_t have = 0;
    for (size_t i = 0; i < pieces->n; i++) {
        uint64_t left = pieces->v[i].bytes;
        if (lseek(fd, (off_t)pieces->v[i].at, SEEK_SET) < 0)
            return fail_entry(u, err);
        while (left) {
            if (!have && (have = sg_tar_data(&u->tar, &p, err)) <= 0)
                return have < 0 ? -1 : refuse(u, "ends early", err);
            const size_t n = left < (uint64_t)have ? (size_t)left : (size_t)have;
            if (sg_stream_write(fd, p, n) < 0)
                return fail_entry(u, err);
            p += n;
            have -= (ssize_t)n;
            left -= n;
        }
    }
    return 0;
}

/* 1: it had holes and is written; 0: it has none. */
static int copy_sparse(struct unpacking *u, int fd, struct sg_err *err)
{
    struct sg_tar_pieces pieces = { 0 };
    uint64_t bytes;
    bool is_sparse;
    if (sg_tar_read_pieces(u->entry.pax, u->entry.bytes, &pieces, &bytes, &is_sparse, err) < 0)
        return sg_wrap(err, "entry %s", sg_quote(u->entry.name).s);
    if (!is_sparse)
        return 0;
    int result = copy_pieces(u, fd, &pieces, err);
    sg_tar_pieces_done(&pieces);
    if (result == 0 && ftruncate(fd, (off_t)bytes) < 0)
        result = fail_entry(u, err);
    return result < 0 ? -1 : 1;
}

static int copy_data(struct unpacking *u, int fd, struct sg_err *err)
{
    const uint8_t *p;
    ssize_t n;
    const int is_sparse = u->is_exact ? copy_sparse(u, fd, err) : 0;
    if (is_sparse < 0)
        return -1;
    while (!is_sparse && (n = sg_tar_data(&u->tar, &p, err)) != 0) {
        if (n < 0)
            return sg_wrap(err, "entry %s", sg_quote(u->entry.name).s);
        if (sg_stream_write(fd, p, (size_t)n) < 0)
            return fail_entry(u, err);
    }
    if (u->is_exact) {
        const struct pending wear = { .mtime = u->entry.mtime,
                                      .mode = u->entry.mode & EXACT_BITS,
                                      .uid = u->entry.uid,
                                      .gid = u->entry.gid };
        return dress(u, fd, &wear, u->entry.pax, err);
    }
    const struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, u->entry.mtime };
    return futimens(fd, times) < 0 ? fail_entry(u, err) : 0;
}

static int unpack_file(struct unpacking *u, struct sg_err *err)
{
    const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    const mode_t mode = u->is_exact ? 0600 : u->entry.mode & MODE_BITS;
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

/* What cannot be opened. */
static int finish_leaf(const struct unpacking *u, int parent, const char *leaf, struct sg_err *err)
{
    const struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, u->entry.mtime };
    if ((u->is_exact &&
         fchownat(parent, leaf, u->entry.uid, u->entry.gid, AT_SYMLINK_NOFOLLOW) < 0) ||
        utimensat(parent, leaf, times, AT_SYMLINK_NOFOLLOW) < 0)
        return fail_entry(u, err);
    return 0;
}

static int unpack_symlink(struct unpacking *u, struct sg_err *err)
{
    const struct sg_tar_entry *e = &u->entry;
    const char *leaf;
    if (!e->target[0])
        return refuse(u, "is a link to nothing", err);
    if (!(u->flags & (SG_TAR_ANY_LINK | SG_TAR_EXACT)) && !stays_inside(u->name, e->target))
        return refuse_link(u, "leads out", err);
    int parent = find_parent(u, &leaf, err);
    if (parent < 0)
        return -1;
    int result = symlinkat(e->target, parent, leaf);
    if (result < 0 && make_way(u, parent, leaf))
        result = symlinkat(e->target, parent, leaf);
    return result < 0 ? fail_entry(u, err) : finish_leaf(u, parent, leaf, err);
}

static int unpack_fifo(struct unpacking *u, struct sg_err *err)
{
    const char *leaf;
    const int parent = find_parent(u, &leaf, err);
    if (parent < 0)
        return -1;
    int result = mkfifoat(parent, leaf, 0600);
    if (result < 0 && make_way(u, parent, leaf))
        result = mkfifoat(parent, leaf, 0600);
    return result < 0 || fchmodat(parent, leaf, u->entry.mode & MODE_BITS, 0) < 0
               ? fail_entry(u, err)
               : finish_leaf(u, parent, leaf, err);
}

static int unpack_whiteout(struct unpacking *u, struct sg_err *err)
{
    const char *leaf;
    const int parent = find_parent(u, &leaf, err);
    if (parent < 0)
        return -1;
    return sg_remove_tree(parent, leaf) < 0 && errno != ENOENT ? fail_entry(u, err) : 0;
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
        [SG_TAR_FILE] = unpack_file,       [SG_TAR_DIR] = unpack_dir,
        [SG_TAR_SYMLINK] = unpack_symlink, [SG_TAR_HARDLINK] = unpack_hardlink,
        [SG_TAR_FIFO] = unpack_fifo,       [SG_TAR_WHITEOUT] = unpack_whiteout,
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
    u->is_exact = flags & SG_TAR_EXACT;
    u->parent_fd = -1;
    sg_buf_init(&u->pending, u->is_exact ? MAX_EXACT_BYTES : MAX_PENDING_BYTES);
    sg_tar_reader_init(&u->tar, pull, arg);
    u->tar.is_exact = u->is_exact;
    struct stat st;
    int result = fstat(root_fd, &st) < 0 ? sg_fail_sys(err, "stat the directory") : 1;
    u->dev = result < 0 ? 0 : st.st_dev;
    while (result > 0) {
        result = sg_tar_next(&u->tar, &u->entry, err);
        if (result > 0 && unpack_entry(u, err) < 0)
            result = -1;
    }
    if (finish_dirs(u, result < 0 ? NULL : err) < 0)
        result = -1;
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
