/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/copy.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "config/mapping.h"
#include "ctl/entry.h"
#include "base/banned.h"

enum { MAX_DEPTH = 128, ENTRY_BYTES = 4096 };

struct copy {
    struct sg_client *client;
    const char *user;
    unsigned depth;
    uint64_t skipped;        /* C3 */
    uint64_t left;           /* C4: bytes that may still be written */
    struct sg_packet packet; /* the last answer; each level that walks has its own */
};

static char *join(const char *dir, const char *name)
{
    size_t n = strlen(dir);
    return sg_printf("%s%s%s", dir, n && dir[n - 1] == '/' ? "" : "/", name);
}

/* Returns owned. */
static char *base_name(const char *path)
{
    const struct sg_str name = sg_last_part(path);
    return sg_printf("%.*s", (int)name.n, name.p);
}

static int spend(struct copy *c, uint64_t bytes, const char *what, struct sg_err *err)
{
    if (bytes > c->left)
        return sg_fail(
            err, SG_EXHAUSTED,
            "%s: more than the disk limit of the sandbox can hold (holes and links count "
            "in full); --disk sets it",
            sg_quote(what).s);
    c->left -= bytes;
    return 0;
}

static int copy_bytes(struct copy *c, int from, int to, const char *what, struct sg_err *err)
{
    for (;;) {
        ssize_t n = sendfile(to, from, NULL, 1 << 20);
        if (n == 0)
            return 0;
        if (n < 0 && errno != EINTR && errno != EAGAIN)
            return sg_fail_sys(err, "copy %s", sg_quote(what).s);
        if (n > 0 && spend(c, (uint64_t)n, what, err) < 0)
            return -1;
    }
}

static int skip(struct copy *c)
{
    c->skipped++;
    return 0;
}

/* ---- questions ---- */

static int ask_mode(struct copy *c, const char *path, uint32_t *ret_mode, struct sg_err *err)
{
    struct sg_msg m = { .type = SG_MSG_STAT };
    m.stat = (struct sg_msg_path) { .user = sg_text_of(c->user), .path = sg_text_of(path) };
    if (sg_client_ask(c->client, &m, SG_MSG_STATED, &c->packet, err) < 0)
        return -1;
    *ret_mode = c->packet.msg.stated.mode;
    return 0;
}

/* A descriptor that came out of a cell is used only if it is what was asked for. */
static int ask_open(struct copy *c, const char *path, uint32_t flags, uint32_t mode,
                    struct sg_err *err)
{
    struct sg_msg m = { .type = SG_MSG_OPEN };
    m.open = (struct sg_msg_open) {
        .user = sg_text_of(c->user), .path = sg_text_of(path), .flags = flags, .mode = mode
    };
    if (sg_client_ask(c->client, &m, SG_MSG_FD, &c->packet, err) < 0)
        return -1;
    sg_auto_fd fd = sg_packet_take_fd(&c->packet, 0);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return sg_fail(err, SG_INVALID, "%s in the sandbox is not a regular file",
                       sg_quote(path).s);
    return sg_take_fd(&fd);
}

static int ask_make_dir(struct copy *c, const char *path, struct sg_err *err)
{
    struct sg_msg m = { .type = SG_MSG_MAKE };
    m.make = (struct sg_msg_make) { .user = sg_text_of(c->user),
                                    .path = sg_text_of(path),
                                    .flags = SG_MAKE_PARENTS,
                                    .mode = 0755 };
    return sg_client_ask(c->client, &m, SG_MSG_OK, &c->packet, err);
}

/* ---- in ---- */

static int copy_in(struct copy *c, int dir_fd, const char *name, const char *target,
                   struct sg_err *err);

static int copy_in_dir(struct copy *c, int dir_fd, const char *target, struct sg_err *err)
{
    if (++c->depth > MAX_DEPTH)
        return sg_fail(err, SG_EXHAUSTED, "%s is nested too deeply", sg_quote(target).s);
    if (ask_make_dir(c, target, err) < 0)
        return -1;
    int own = fcntl(dir_fd, F_DUPFD_CLOEXEC, 3);
    sg_auto_dir d = own < 0 ? NULL : fdopendir(own);
    if (!d)
        return sg_fail_sys(err, "list a directory");
    for (struct dirent *e; (e = readdir(d));) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        sg_auto_free char *below = join(target, e->d_name);
        if (copy_in(c, dir_fd, e->d_name, below, err) < 0)
            return -1;
    }
    c->depth--;
    return 0;
}

static int copy_in(struct copy *c, int dir_fd, const char *name, const char *target,
                   struct sg_err *err)
{
    /* Below the named source links are not followed: a tree is copied, not what it points at. */
    int flags = O_RDONLY | O_NONBLOCK | O_CLOEXEC | (c->depth ? O_NOFOLLOW : 0);
    sg_auto_fd fd = openat(dir_fd, name, flags);
    if (fd < 0 && c->depth && (errno == ELOOP || errno == ENXIO))
        return skip(c); /* a link or a socket inside the tree */
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        return sg_fail_sys(err, "open %s", sg_quote(name).s);
    if (S_ISDIR(st.st_mode))
        return copy_in_dir(c, fd, target, err);
    if (!S_ISREG(st.st_mode))
        return c->depth ? skip(c) : sg_fail(err, SG_INVALID, "%s is not a file", sg_quote(name).s);
    sg_auto_fd to = ask_open(c, target, O_WRONLY | O_CREAT | O_TRUNC, st.st_mode & 0777, err);
    return to < 0 ? -1 : copy_bytes(c, fd, to, name, err);
}

/* Where inside a source goes: into `target` if that is a directory, else to that very path. */
static char *place_inside(struct copy *c, const char *target, const char *source)
{
    uint32_t mode;
    size_t n = strlen(target);
    bool is_dir =
        (n && target[n - 1] == '/') || (ask_mode(c, target, &mode, NULL) == 0 && S_ISDIR(mode));
    if (!is_dir)
        return sg_strdup(target);
    sg_auto_free char *name = base_name(source);
    return join(target, name);
}

/* ---- out ---- */

static int copy_out_tree(struct copy *c, const char *source, int dir_fd, const char *name,
                         struct sg_err *err);

static int copy_out_file(struct copy *c, const char *source, int dir_fd, const char *name,
                         uint32_t mode, struct sg_err *err)
{
    sg_auto_fd from = ask_open(c, source, O_RDONLY | O_NOFOLLOW, 0, err);
    if (from < 0)
        return -1;
    char part[NAME_MAX + 32];
    (void)snprintf(part, sizeof part, ".%.*s.%d.part", 200, name, (int)getpid());
    sg_auto_fd to = openat(dir_fd, part, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                           mode & 0777); /* never setuid on our side */
    if (to < 0)
        return sg_fail_sys(err, "create %s", sg_quote(name).s);
    int ret = copy_bytes(c, from, to, source, err);
    if (ret == 0 && renameat(dir_fd, part, dir_fd, name) < 0)
        ret = sg_fail_sys(err, "create %s", sg_quote(name).s);
    if (ret < 0)
        (void)unlinkat(dir_fd, part, 0);
    return ret;
}

static int copy_out_entries(struct copy *c, const char *source, int dir_fd, struct sg_err *err)
{
    uint64_t cursor = 0;
    do {
        sg_auto_packet page;
        sg_packet_init(&page);
        struct sg_msg m = { .type = SG_MSG_LIST };
        m.list = (struct sg_msg_list) { .user = sg_text_of(c->user),
                                        .path = sg_text_of(source),
                                        .cursor = cursor };
        if (sg_client_ask(c->client, &m, SG_MSG_LISTED, &page, err) < 0)
            return -1;
        struct sg_bytes list = page.msg.listed.entries;
        struct sg_entry e;
        bool is_bad;
        while (sg_entry_next(&list, &e, &is_bad)) {
            if (!S_ISREG(e.mode) && !S_ISDIR(e.mode)) {
                (void)skip(c);
                continue;
            }
            sg_auto_free char *below = join(source, e.name.p);
            if (copy_out_tree(c, below, dir_fd, e.name.p, err) < 0)
                return -1;
        }
        if (is_bad)
            return sg_fail(err, SG_INVALID, "the sandbox sent a broken list of %s",
                           sg_quote(source).s);
        if (page.msg.listed.next && page.msg.listed.next == cursor)
            return sg_fail(err, SG_INVALID, "the list of %s does not end", sg_quote(source).s);
        cursor = page.msg.listed.next;
    } while (cursor);
    return 0;
}

static int copy_out_tree(struct copy *c, const char *source, int dir_fd, const char *name,
                         struct sg_err *err)
{
    uint32_t mode;
    if (ask_mode(c, source, &mode, err) < 0 || spend(c, ENTRY_BYTES, source, err) < 0)
        return -1;
    if (!S_ISDIR(mode))
        return copy_out_file(c, source, dir_fd, name, mode, err);
    if (++c->depth > MAX_DEPTH)
        return sg_fail(err, SG_EXHAUSTED, "%s is nested too deeply", sg_quote(source).s);
    if (mkdirat(dir_fd, name, 0755) < 0 && errno != EEXIST)
        return sg_fail_sys(err, "make directory %s", sg_quote(name).s);
    sg_auto_fd dir = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir < 0)
        return sg_fail_sys(err, "open directory %s", sg_quote(name).s);
    int ret = copy_out_entries(c, source, dir, err);
    c->depth--;
    return ret;
}

/* `target` is the caller's own path: a directory takes the source's name, else it is the file. */
static int copy_out(struct copy *c, const char *source, const char *target, struct sg_err *err)
{
    struct stat st;
    size_t n = strlen(target);
    bool is_dir = (n && target[n - 1] == '/') || (stat(target, &st) == 0 && S_ISDIR(st.st_mode));
    sg_auto_free char *name = base_name(is_dir ? source : target);
    sg_auto_free char *dir = sg_strdup(target);
    char *slash = strrchr(dir, '/');
    if (!is_dir && slash)
        slash[slash == dir] = '\0';
    const char *where = is_dir || slash ? dir : ".";
    if (!*name || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return sg_fail(err, SG_INVALID, "%s names no file", sg_quote(source).s);
    sg_auto_fd dir_fd = open(where, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir_fd < 0)
        return sg_fail_sys(err, "open directory %s", sg_quote(where).s);
    return copy_out_tree(c, source, dir_fd, name, err);
}

/* ---- lists ---- */

static char *inside_path(const char *workdir, struct sg_str path)
{
    if (path.n && path.p[0] == '/')
        return sg_printf("%.*s", (int)path.n, path.p);
    return sg_printf("%s/%.*s", workdir, (int)path.n, path.p);
}

int sg_copy_in_all(struct sg_client *client, const char *user, const char *workdir,
                   const struct sg_strlist *list, uint64_t *skipped, struct sg_err *err)
{
    struct copy c = { .client = client, .user = user, .left = UINT64_MAX };
    sg_packet_init(&c.packet);
    int ret = 0;
    for (size_t i = 0; ret == 0 && i < list->n; i++) {
        struct sg_mapping m;
        ret = sg_mapping_parse_copy(list->v[i], &m, err);
        if (ret < 0)
            break;
        sg_auto_free char *source = sg_printf("%.*s", (int)m.source.n, m.source.p);
        sg_auto_free char *wanted = inside_path(workdir, m.target);
        sg_auto_free char *target = place_inside(&c, wanted, source);
        ret = copy_in(&c, AT_FDCWD, source, target, err);
        if (ret < 0)
            sg_wrap(err, "copy %s in", sg_quote(source).s);
    }
    sg_packet_done(&c.packet);
    *skipped += c.skipped;
    return ret;
}

int sg_copy_out_all(struct sg_client *client, const char *user, const char *workdir,
                    const struct sg_strlist *list, uint64_t disk_bytes, uint64_t *skipped,
                    struct sg_err *err)
{
    /* Each entry costs as much as an inode of the cell's disk does: together at most twice. */
    struct copy c = { .client = client, .user = user, .left = 2 * disk_bytes + (1u << 20) };
    sg_packet_init(&c.packet);
    int ret = 0;
    for (size_t i = 0; ret == 0 && i < list->n; i++) {
        struct sg_mapping m;
        ret = sg_mapping_parse_copy(list->v[i], &m, err);
        if (ret < 0)
            break;
        sg_auto_free char *source = inside_path(workdir, m.source);
        sg_auto_free char *target = sg_printf("%.*s", (int)m.target.n, m.target.p);
        ret = copy_out(&c, source, target, err);
        if (ret < 0)
            sg_wrap(err, "copy %s out", sg_quote(source).s);
    }
    sg_packet_done(&c.packet);
    *skipped += c.skipped;
    return ret;
}
