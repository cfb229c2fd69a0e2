/* SPDX-License-Identifier: Apache-2.0 */
/* TAR_OUT: a file or a tree as an archive, written by a worker that is the user.
 *
 * A directory gives "./" and then names below it, so that unpacking elsewhere makes a copy; a file
 * gives its own name. Sockets, FIFOs and devices are left out: none of them means anything in
 * another place. What cannot be read ends the archive with an error, since a copy that lacks
 * something without a word is worse than none. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/str.h"
#include "init/path.h"
#include "init/stream.h"
#include "init/tar.h"
#include "init/walk.h"
#include "init/worker.h"
#include "base/banned.h"

enum {
    PERMISSIONS = 07777,
    NAME_FIELD = 100,
    PREFIX_FIELD = 155,
    HEADER_MAX_BYTES = 16 * 1024, /* two names at their longest, as records, and two blocks */
};
static const uint64_t MAX_OCTAL_11 = 077777777777, MAX_OCTAL_7 = 07777777;

/* ---- headers ---- */

static void put_text(uint8_t *block, size_t at, size_t n, const char *s, size_t bytes)
{
    memcpy(block + at, s, bytes < n ? bytes : n);
}

/* Octal digits and a NUL; what is too large is told as large as can be. */
static void put_number(uint8_t *block, size_t at, size_t n, uint64_t v)
{
    uint64_t most = n == 8 ? MAX_OCTAL_7 : MAX_OCTAL_11;
    if (v > most)
        v = most;
    for (size_t i = n - 1; i-- > 0; v >>= 3)
        block[at + i] = (uint8_t)('0' + (v & 7));
}

static void put_block(struct sg_buf *out, uint8_t *block, char kind)
{
    static const uint8_t magic[8] = { 'u', 's', 't', 'a', 'r', 0, '0', '0' };
    unsigned sum = 0;
    block[156] = (uint8_t)kind;
    memcpy(block + 257, magic, sizeof magic);
    memset(block + 148, ' ', 8);
    for (unsigned i = 0; i < SG_TAR_BLOCK; i++)
        sum += block[i];
    (void)snprintf((char *)block + 148, 8, "%06o", sum); /* NUL, and the blank after it stays */
    sg_buf_add(out, block, SG_TAR_BLOCK);
}

/* A record is told with its own length, digits included. */
static void put_record(struct sg_buf *out, const char *key, const char *value)
{
    size_t n = strlen(key) + strlen(value) + 3, total = n + 1;
    while (total < n + (size_t)snprintf(NULL, 0, "%zu", total))
        total++;
    sg_buf_addf(out, "%zu %s=%s\n", total, key, value);
}

static void put_prelude(struct sg_buf *out, const struct sg_buf *records)
{
    static const uint8_t zeros[SG_TAR_BLOCK];
    uint8_t block[SG_TAR_BLOCK] = { 0 };
    put_text(block, SG_TAR_NAME_AT, "PaxHeaders", strlen("PaxHeaders"));
    put_number(block, SG_TAR_MODE_AT, 0644);
    put_number(block, SG_TAR_UID_AT, 0);
    put_number(block, SG_TAR_GID_AT, 0);
    put_number(block, SG_TAR_SIZE_AT, records->n);
    put_number(block, SG_TAR_MTIME_AT, 0);
    put_block(out, block, 'x');
    sg_buf_add(out, records->p, records->n);
    sg_buf_add(out, zeros, -records->n % SG_TAR_BLOCK);
}

/* Puts the name into its two fields; false where it does not fit. */
static bool put_name(uint8_t *block, const char *name)
{
    size_t n = strlen(name);
    if (n <= NAME_FIELD) {
        put_text(block, SG_TAR_NAME_AT, name, n);
        return true;
    }
    const char *slash = strchr(name + (n - NAME_FIELD - 1), '/');
    if (!slash)
        return false;
    size_t at = (size_t)(slash - name);
    if (at > PREFIX_FIELD || at == 0 || at + 1 >= n)
        return false;
    put_text(block, SG_TAR_PREFIX_AT, name, at);
    put_text(block, SG_TAR_NAME_AT, slash + 1, n - at - 1);
    return true;
}

void sg_tar_put_header(struct sg_buf *out, const struct sg_tar_entry *e, uint32_t uid, uint32_t gid)
{
    static const char kinds[] = {
        [SG_TAR_FILE] = '0', [SG_TAR_DIR] = '5', [SG_TAR_SYMLINK] = '2', [SG_TAR_HARDLINK] = '1'
    };
    uint8_t block[SG_TAR_BLOCK] = { 0 };
    sg_auto_buf records;
    sg_buf_init(&records, HEADER_MAX_BYTES);
    if (!put_name(block, e->name)) {
        put_record(&records, "path", e->name);
        put_text(block, SG_TAR_NAME_AT, e->name, NAME_FIELD);
    }
    size_t target_n = strlen(e->target);
    put_text(block, SG_TAR_TARGET_AT, e->target, target_n);
    if (target_n > NAME_FIELD)
        put_record(&records, "linkpath", e->target);
    if (e->bytes > MAX_OCTAL_11) {
        char size[24];
        (void)snprintf(size, sizeof size, "%llu", (unsigned long long)e->bytes);
        put_record(&records, "size", size);
    }
    if (records.n)
        put_prelude(out, &records);
    put_number(block, SG_TAR_MODE_AT, e->mode);
    put_number(block, SG_TAR_UID_AT, uid);
    put_number(block, SG_TAR_GID_AT, gid);
    put_number(block, SG_TAR_SIZE_AT, e->bytes);
    put_number(block, SG_TAR_MTIME_AT, e->mtime.tv_sec > 0 ? (uint64_t)e->mtime.tv_sec : 0);
    put_block(out, block, kinds[e->kind]);
}

/* ---- entries ---- */

struct packing {
    struct sg_out out;
    struct sg_buf header;
    struct sg_tar_entry entry;
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
    p->entry.bytes = kind == SG_TAR_FILE ? (uint64_t)st->st_size : 0;
    if (kind != SG_TAR_SYMLINK)
        p->entry.target[0] = '\0';
    sg_buf_clear(&p->header);
    sg_tar_put_header(&p->header, &p->entry, st->st_uid, st->st_gid);
    if (sg_buf_check(&p->header, "header of an archive", err) < 0)
        return -1;
    sg_out_add(&p->out, p->header.p, p->header.n);
    return check_out(p, err);
}

/* As many bytes as the header said: a file that grows meanwhile is cut there. */
static int put_data(struct packing *p, int fd, struct sg_err *err)
{
    static const uint8_t zeros[SG_TAR_BLOCK];
    for (uint64_t left = p->entry.bytes; left;) {
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
    sg_out_add(&p->out, zeros, -p->entry.bytes % SG_TAR_BLOCK);
    return check_out(p, err);
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
    return put_entry(p, SG_TAR_FILE, &st, err) < 0 ? -1 : put_data(p, fd, err);
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

static int put_item(void *arg, const struct sg_walk_item *item, struct sg_err *err)
{
    struct packing *p = arg;
    bool is_dir = S_ISDIR(item->st->st_mode);
    int n = snprintf(p->entry.name, sizeof p->entry.name, "%s%s", item->path, is_dir ? "/" : "");
    if (n < 0 || (size_t)n >= sizeof p->entry.name)
        return sg_fail(err, SG_EXHAUSTED, "%s has too long a path", sg_quote(item->path).s);
    if (is_dir)
        return put_entry(p, SG_TAR_DIR, item->st, err);
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
        return put_entry(p, SG_TAR_DIR, &st, err) < 0 ? -1 : sg_walk(fd, true, put_item, p, err);
    }
    if (!S_ISREG(st.st_mode))
        return sg_fail(err, SG_INVALID, "%s is not a file or directory", sg_quote(path.p).s);
    const char *slash = strrchr(path.p, '/');
    (void)snprintf(p->entry.name, sizeof p->entry.name, "%s", slash ? slash + 1 : path.p);
    return put_entry(p, SG_TAR_FILE, &st, err) < 0 ? -1 : put_data(p, fd, err);
}

static int work(int fd, const void *arg, struct sg_err *err)
{
    static const uint8_t end[2 * SG_TAR_BLOCK];
    const struct sg_msg_tar *m = arg;
    struct packing *p = sg_new(struct packing);
    p->out.fd = fd;
    sg_buf_init(&p->header, HEADER_MAX_BYTES);
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
