/* SPDX-License-Identifier: Apache-2.0 */
/* Writing archives: ustar, with a pax header before what does not fit (POSIX.1-2001). */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/str.h"
#include "cli/tar.h"
#include "base/banned.h"

enum { BLOCK = 512, NAME_FIELD = 100, MAX_DEPTH = 256, MAX_PATH = 4096, COPY_BYTES = 64 << 10 };
static const uint64_t MAX_OCTAL_SIZE = 077777777777;

struct packer {
    int (*put)(void *arg, const void *p, size_t n, struct sg_err *err);
    void *arg;
    struct sg_tar_count *count;
    struct sg_err *err;
    bool is_timeless;
    char path[MAX_PATH]; /* of the entry in hand */
};

/* ---- headers ---- */

/* Digits to the left of a NUL. */
static void put_octal(char *field, size_t n, uint64_t v)
{
    for (size_t i = n - 1; i-- > 0; v >>= 3)
        field[i] = (char)('0' + (v & 7));
}

static int put_block(struct packer *k, const char *name, char kind, const struct stat *st,
                     uint64_t bytes, const char *target)
{
    char b[BLOCK] = "";
    memcpy(b, name, strnlen(name, NAME_FIELD));
    put_octal(b + 100, 8, st->st_mode & 07777);
    put_octal(b + 108, 8, 0); /* who unpacks it owns it */
    put_octal(b + 116, 8, 0);
    put_octal(b + 124, 12, bytes < MAX_OCTAL_SIZE ? bytes : MAX_OCTAL_SIZE);
    put_octal(b + 136, 12, st->st_mtime > 0 && !k->is_timeless ? (uint64_t)st->st_mtime : 0);
    memset(b + 148, ' ', 8);
    b[156] = kind;
    memcpy(b + 157, target, strnlen(target, NAME_FIELD));
    static const char magic[8] = { 'u', 's', 't', 'a', 'r', '\0', '0', '0' };
    memcpy(b + 257, magic, sizeof magic);
    unsigned sum = 0;
    for (size_t i = 0; i < BLOCK; i++)
        sum += (unsigned char)b[i];
    (void)snprintf(b + 148, 8, "%06o", sum);
    return k->put(k->arg, b, BLOCK, k->err);
}

static int put_padding(struct packer *k, uint64_t bytes)
{
    static const char zeros[BLOCK];
    const size_t n = (BLOCK - bytes % BLOCK) % BLOCK;
    return n ? k->put(k->arg, zeros, n, k->err) : 0;
}

/* "LENGTH key=value\n", where the length counts its own digits. */
static void add_record(struct sg_buf *out, const char *key, const char *value)
{
    const size_t rest = strlen(key) + strlen(value) + 3;
    size_t length = rest + 1, digits = 1;
    for (size_t power = 10; length >= power; power *= 10, digits++)
        length = rest + digits + 1;
    sg_buf_addf(out, "%zu %s=%s\n", length, key, value);
}

static int put_header(struct packer *k, char kind, const struct stat *st, uint64_t bytes,
                      const char *target)
{
    sg_auto_buf records;
    sg_buf_init(&records, 2 * MAX_PATH + 256);
    if (strlen(k->path) > NAME_FIELD)
        add_record(&records, "path", k->path);
    if (strlen(target) > NAME_FIELD)
        add_record(&records, "linkpath", target);
    if (bytes > MAX_OCTAL_SIZE) {
        char text[24];
        (void)snprintf(text, sizeof text, "%llu", (unsigned long long)bytes);
        add_record(&records, "size", text);
    }
    if (records.n &&
        (put_block(k, "pax", 'x', st, records.n, "") < 0 ||
         k->put(k->arg, records.p, records.n, k->err) < 0 || put_padding(k, records.n) < 0))
        return -1;
    return put_block(k, k->path, kind, st, bytes, target);
}

/* ---- entries ---- */

static int put_file(struct packer *k, int dir_fd, const char *name)
{
    sg_auto_fd fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        return sg_fail_sys(k->err, "read %s", sg_quote(k->path).s);
    if (!S_ISREG(st.st_mode)) { /* it was one a moment ago */
        k->count->skipped++;
        return 0;
    }
    uint64_t left = (uint64_t)st.st_size;
    if (put_header(k, '0', &st, left, "") < 0)
        return -1;
    char piece[COPY_BYTES];
    while (left) {
        ssize_t n = read(fd, piece, left < sizeof piece ? (size_t)left : sizeof piece);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return sg_fail_sys(k->err, "read %s", sg_quote(k->path).s);
        if (n == 0)
            return sg_fail(k->err, SG_CONFLICT, "%s became shorter while it was read",
                           sg_quote(k->path).s);
        if (k->put(k->arg, piece, (size_t)n, k->err) < 0)
            return -1;
        left -= (uint64_t)n;
    }
    k->count->files++;
    k->count->bytes += (uint64_t)st.st_size;
    return put_padding(k, (uint64_t)st.st_size);
}

static int put_link(struct packer *k, int dir_fd, const char *name, const struct stat *st)
{
    char target[PATH_MAX];
    ssize_t n = readlinkat(dir_fd, name, target, sizeof target - 1);
    if (n < 0)
        return sg_fail_sys(k->err, "read the link %s", sg_quote(k->path).s);
    target[n] = '\0';
    return put_header(k, '2', st, 0, target);
}

static int put_tree(struct packer *k, int dir_fd, unsigned depth);

static int put_entry(struct packer *k, int dir_fd, const char *name, unsigned depth)
{
    struct stat st;
    if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : sg_fail_sys(k->err, "look at %s", sg_quote(k->path).s);
    if (S_ISREG(st.st_mode))
        return put_file(k, dir_fd, name);
    if (S_ISLNK(st.st_mode))
        return put_link(k, dir_fd, name, &st);
    if (!S_ISDIR(st.st_mode)) {
        k->count->skipped++;
        return 0;
    }
    const int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return sg_fail_sys(k->err, "read the directory %s", sg_quote(k->path).s);
    return put_tree(k, fd, depth + 1);
}

/* Takes `dir_fd`; k->path is the directory's name, with a slash at its end. */
static int put_tree(struct packer *k, int dir_fd, unsigned depth)
{
    sg_auto_dir dir = fdopendir(dir_fd);
    struct stat st;
    const size_t n = strlen(k->path);
    if (!dir) {
        (void)close(dir_fd);
        return sg_fail_sys(k->err, "read the directory %s", sg_quote(k->path).s);
    }
    if (depth > MAX_DEPTH)
        return sg_fail(k->err, SG_EXHAUSTED, "directories are over %d deep", MAX_DEPTH);
    if (n && k->path[n - 1] != '/')
        (void)snprintf(k->path + n, sizeof k->path - n, "/");
    const size_t start = strlen(k->path);
    if (fstat(dirfd(dir), &st) < 0 || put_header(k, '5', &st, 0, "") < 0)
        return -1;
    for (struct dirent *d; (d = readdir(dir));) {
        if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
            continue;
        const int m = snprintf(k->path + start, sizeof k->path - start, "%s", d->d_name);
        if ((size_t)m + 2 >= sizeof k->path - start)
            return sg_fail(k->err, SG_EXHAUSTED, "a path is over %d bytes", MAX_PATH);
        if (put_entry(k, dirfd(dir), d->d_name, depth) < 0)
            return -1;
        k->path[start] = '\0';
    }
    return 0;
}

int sg_tar_pack(int dir_fd, int (*put)(void *arg, const void *p, size_t n, struct sg_err *err),
                void *arg, struct sg_tar_count *count, struct sg_err *err)
{
    static const char end[2 * BLOCK];
    sg_auto_free struct packer *k = sg_new(struct packer);
    *k = (struct packer) { .put = put, .arg = arg, .count = count, .err = err, .path = "./" };
    return put_tree(k, dir_fd, 0) < 0 ? -1 : put(arg, end, sizeof end, err);
}

static int put_item(struct packer *k, int dir_fd, const char *file)
{
    struct stat st;
    if (fstatat(dir_fd, file, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return sg_fail_sys(k->err, "look at %s", sg_quote(file).s);
    if (S_ISREG(st.st_mode))
        return put_file(k, dir_fd, file);
    if (S_ISLNK(st.st_mode))
        return put_link(k, dir_fd, file, &st);
    if (S_ISDIR(st.st_mode))
        return put_header(k, '5', &st, 0, "");
    k->count->skipped++;
    return 0;
}

int sg_tar_pack_items(int dir_fd, const struct sg_tar_item *items, size_t n,
                      int (*put)(void *arg, const void *p, size_t n, struct sg_err *err), void *arg,
                      struct sg_tar_count *count, struct sg_err *err)
{
    static const char end[2 * BLOCK];
    sg_auto_free struct packer *k = sg_new(struct packer);
    *k =
        (struct packer) { .put = put, .arg = arg, .count = count, .err = err, .is_timeless = true };
    for (size_t i = 0; i < n; i++) {
        if (snprintf(k->path, sizeof k->path, "%s", items[i].name) >= (int)sizeof k->path)
            return sg_fail(err, SG_EXHAUSTED, "a path is over %d bytes", MAX_PATH);
        if (put_item(k, dir_fd, items[i].file) < 0)
            return -1;
    }
    return put(arg, end, sizeof end, err);
}
