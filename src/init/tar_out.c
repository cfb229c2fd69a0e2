/* SPDX-License-Identifier: Apache-2.0 */
/* TAR_OUT: a file or a tree as an archive, written by a worker that is the user.
 *
 * A directory gives "./" and then names below it, so that unpacking elsewhere makes a copy; a file
 * gives its own name. Sockets, FIFOs and devices are left out: none of them means anything in
 * another place. What cannot be read ends the archive with an error, since a copy that lacks
 * something without a word is worse than none.
 *
 * An exact archive is that of a layer, for nobody but tar_in.c of another machine: with owners,
 * attributes (tar_exact.h), holes, FIFOs, one entry and links to it for a file of several names,
 * and what the layer says is no more. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/map.h"
#include "base/str.h"
#include "init/path.h"
#include "init/stream.h"
#include "init/tar_exact.h"
#include "init/walk.h"
#include "init/worker.h"
#include "base/banned.h"

enum {
    PERMISSIONS = 07777,
    HEADER_MAX_BYTES = 1024 * 1024, /* as much as is read again */
    SEEN_MAX_BYTES = 32 * 1024 * 1024,
};

/* ---- entries ---- */

struct packing {
    bool is_exact;
    struct sg_map seen;    /* exact: files of several names, by their number */
    size_t seen_bytes;     /* that this takes */
    struct sg_buf records; /* of the entry in hand */
    struct sg_out out;
    struct sg_buf header;
    struct sg_tar_entry entry;
    uint64_t data_bytes; /* of the file in hand */
    uint8_t room[SG_STREAM_BYTES];
};

static int check_out(const struct packing *p, struct sg_err *err)
{
    errno = p->out.sys;
    return p->out.sys ? sg_fail_sys(err, "write the archive") : 0;
}

static int put_entry(struct packing *p, enum sg_tar_kind kind, const struct stat *st,
                     struct sg_err *err)
{
    p->entry.kind = kind;
    p->entry.mode = st->st_mode & PERMISSIONS;
    p->entry.mtime = st->st_mtim;
    p->entry.bytes = kind == SG_TAR_FILE ? p->data_bytes : 0;
    if (kind != SG_TAR_SYMLINK && kind != SG_TAR_HARDLINK)
        p->entry.target[0] = '\0';
    sg_buf_clear(&p->header);
    sg_tar_put_header_with(&p->header, &p->entry, st->st_uid, st->st_gid, &p->records);
    if (sg_buf_check(&p->records, "attributes of a file", err) < 0 ||
        sg_buf_check(&p->header, "header of an archive", err) < 0)
        return -1;
    sg_out_add(&p->out, p->header.p, p->header.n);
    return check_out(p, err);
}

/* As many bytes as the header said: a file that grows meanwhile is cut there. */
static int put_bytes(struct packing *p, int fd, uint64_t left, struct sg_err *err)
{
    while (left) {
        size_t most = left < sizeof p->room ? (size_t)left : sizeof p->room;
        ssize_t n = sg_stream_read(fd, p->room, most);
        if (n < 0)
            return sg_fail_sys(err, "read %s", sg_quote(p->entry.name).s);
        if (n == 0)
            return sg_fail(err, SG_CONFLICT, "%s was cut while it was read",
                           sg_quote(p->entry.name).s);
        left -= (uint64_t)n;
        sg_out_add(&p->out, p->room, (size_t)n);
        if (check_out(p, err) < 0)
            return -1;
    }
    return 0;
}

static int put_padding(struct packing *p, struct sg_err *err)
{
    static const uint8_t zeros[SG_TAR_BLOCK];
    sg_out_add(&p->out, zeros, -p->entry.bytes % SG_TAR_BLOCK);
    return check_out(p, err);
}

static int put_data(struct packing *p, int fd, struct sg_err *err)
{
    return put_bytes(p, fd, p->entry.bytes, err) < 0 ? -1 : put_padding(p, err);
}

static int put_in_pieces(struct packing *p, int fd, const struct stat *st,
                         const struct sg_tar_pieces *pieces, struct sg_err *err)
{
    if (sg_tar_has_holes(pieces, (uint64_t)st->st_size))
        sg_tar_put_pieces(&p->records, pieces, (uint64_t)st->st_size);
    p->data_bytes = pieces->bytes;
    if (put_entry(p, SG_TAR_FILE, st, err) < 0)
        return -1;
    for (size_t i = 0; i < pieces->n; i++)
        if (lseek(fd, (off_t)pieces->v[i].at, SEEK_SET) < 0 ||
            put_bytes(p, fd, pieces->v[i].bytes, err) < 0)
            return sg_wrap(err, "read %s", sg_quote(p->entry.name).s);
    return put_padding(p, err);
}

static int put_exact_file(struct packing *p, int fd, const struct stat *st, struct sg_err *err)
{
    struct sg_tar_pieces pieces = { 0 };
    if (sg_tar_put_attributes(&p->records, fd, st, err) < 0 ||
        sg_tar_find_pieces(fd, (uint64_t)st->st_size, &pieces, err) < 0)
        return sg_wrap(err, "read %s", sg_quote(p->entry.name).s);
    const int result = put_in_pieces(p, fd, st, &pieces, err);
    sg_tar_pieces_done(&pieces);
    return result;
}

static int put_file(struct packing *p, const struct sg_walk_item *item, struct sg_err *err)
{
    struct stat st;
    sg_auto_fd fd =
        openat(item->dir_fd, item->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 && (errno == ENOENT || errno == ELOOP))
        return 0; /* gone */
    if (fd < 0 || fstat(fd, &st) < 0)
        return sg_fail_sys(err, "read %s", sg_quote(item->path).s);
    if (!S_ISREG(st.st_mode))
        return 0;
    if (p->is_exact)
        return put_exact_file(p, fd, &st, err);
    p->data_bytes = (uint64_t)st.st_size;
    return put_entry(p, SG_TAR_FILE, &st, err) < 0 ? -1 : put_data(p, fd, err);
}

/* ---- files of several names ---- */

struct seen {
    char number[20];
    char path[];
};

/* 1: it is in the archive already, and is now once more as a link; 0: it is not. */
static int put_link(struct packing *p, const struct sg_walk_item *item, struct sg_err *err)
{
    char number[20];
    if (item->st->st_nlink < 2)
        return 0;
    (void)snprintf(number, sizeof number, "%llx", (unsigned long long)item->st->st_ino);
    const struct seen *first = sg_map_find(&p->seen, number);
    if (first) {
        (void)snprintf(p->entry.target, sizeof p->entry.target, "%s", first->path);
        return put_entry(p, SG_TAR_HARDLINK, item->st, err) < 0 ? -1 : 1;
    }
    const size_t n = strlen(item->path) + 1;
    p->seen_bytes += sizeof *first + n + sizeof(struct sg_map_slot) * 2;
    if (p->seen_bytes > SEEN_MAX_BYTES)
        return sg_fail(err, SG_EXHAUSTED, "too many files have several names");
    struct seen *s = sg_alloc(sizeof *s + n); /* for as long as the worker lives */
    memcpy(s->number, number, sizeof s->number);
    memcpy(s->path, item->path, n);
    sg_map_put(&p->seen, s->number, s);
    return 0;
}

static int put_symlink(struct packing *p, const struct sg_walk_item *item, struct sg_err *err)
{
    ssize_t n = readlinkat(item->dir_fd, item->name, p->entry.target, SG_TAR_NAME_MAX);
    if (n < 0 && (errno == ENOENT || errno == EINVAL))
        return 0;
    if (n < 0)
        return sg_fail_sys(err, "read the link %s", sg_quote(item->path).s);
    p->entry.target[n] = '\0';
    return put_entry(p, SG_TAR_SYMLINK, item->st, err);
}

static int put_dir(struct packing *p, const struct sg_walk_item *item, struct sg_err *err)
{
    sg_auto_fd fd = p->is_exact ? openat(item->dir_fd, item->name,
                                         O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
                                : -1;
    if (p->is_exact && fd < 0)
        return sg_fail_sys(err, "read %s", sg_quote(item->path).s);
    if (p->is_exact && sg_tar_put_attributes(&p->records, fd, item->st, err) < 0)
        return sg_wrap(err, "read %s", sg_quote(item->path).s);
    return put_entry(p, SG_TAR_DIR, item->st, err);
}

static int put_exact_item(struct packing *p, const struct sg_walk_item *item, struct sg_err *err)
{
    const mode_t mode = item->st->st_mode;
    if (S_ISCHR(mode) && item->st->st_rdev == 0)
        return put_entry(p, SG_TAR_WHITEOUT, item->st, err);
    const int is_link =
        S_ISREG(mode) || S_ISLNK(mode) || S_ISFIFO(mode) ? put_link(p, item, err) : 0;
    if (is_link)
        return is_link < 0 ? -1 : 0;
    if (S_ISREG(mode))
        return put_file(p, item, err);
    if (!S_ISLNK(mode) && !S_ISFIFO(mode))
        return 0;
    if (sg_tar_put_attributes(&p->records, -1, item->st, err) < 0)
        return -1;
    return S_ISLNK(mode) ? put_symlink(p, item, err) : put_entry(p, SG_TAR_FIFO, item->st, err);
}

static int put_item(void *arg, const struct sg_walk_item *item, struct sg_err *err)
{
    struct packing *p = arg;
    bool is_dir = S_ISDIR(item->st->st_mode);
    int n = snprintf(p->entry.name, sizeof p->entry.name, "%s%s", item->path, is_dir ? "/" : "");
    if (n < 0 || (size_t)n >= sizeof p->entry.name)
        return sg_fail(err, SG_EXHAUSTED, "%s has too long a path", sg_quote(item->path).s);
    sg_buf_clear(&p->records);
    if (is_dir)
        return put_dir(p, item, err);
    if (p->is_exact)
        return put_exact_item(p, item, err);
    if (S_ISREG(item->st->st_mode))
        return put_file(p, item, err);
    return S_ISLNK(item->st->st_mode) ? put_symlink(p, item, err) : 0;
}

/* ---- the request ---- */

static int put_all(struct packing *p, struct sg_text path, struct sg_err *err)
{
    struct stat st;
    sg_auto_fd fd = sg_path_open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0, err);
    if (fd < 0)
        return -1;
    if (fstat(fd, &st) < 0)
        return sg_fail_sys(err, "stat %s", sg_quote(path.p).s);
    if (S_ISDIR(st.st_mode)) {
        (void)snprintf(p->entry.name, sizeof p->entry.name, "./");
        if (p->is_exact && sg_tar_put_attributes(&p->records, fd, &st, err) < 0)
            return -1;
        return put_entry(p, SG_TAR_DIR, &st, err) < 0 ? -1 : sg_walk(fd, true, put_item, p, err);
    }
    if (!S_ISREG(st.st_mode))
        return sg_fail(err, SG_INVALID, "%s is not a file or directory", sg_quote(path.p).s);
    const char *slash = strrchr(path.p, '/');
    (void)snprintf(p->entry.name, sizeof p->entry.name, "%s", slash ? slash + 1 : path.p);
    p->data_bytes = (uint64_t)st.st_size;
    return put_entry(p, SG_TAR_FILE, &st, err) < 0 ? -1 : put_data(p, fd, err);
}

static int work(int fd, const void *arg, struct sg_err *err)
{
    static const uint8_t end[2 * SG_TAR_BLOCK];
    const struct sg_msg_tar *m = arg;
    struct packing *p = sg_new(struct packing);
    p->out.fd = fd;
    p->is_exact = m->flags & SG_TAR_EXACT;
    sg_map_init(&p->seen);
    sg_buf_init(&p->records, HEADER_MAX_BYTES);
    sg_buf_init(&p->header, 2 * HEADER_MAX_BYTES);
    if (put_all(p, m->path, err) < 0)
        return -1;
    sg_out_add(&p->out, end, sizeof end);
    return sg_out_flush(&p->out) < 0 ? check_out(p, err) : 0;
}

int sg_handle_tar_out(struct sg_init *in, struct sg_call *c, struct sg_err *err)
{
    if (c->packet->fd_count != 1)
        return sg_fail(err, SG_INVALID, "an archive needs a descriptor");
    return sg_worker_start(in, c, "sandglass-tar", work, c->packet->fds[0], &c->m->tar, err);
}
