/* SPDX-License-Identifier: Apache-2.0 */
#include "meter/spool.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/parse.h"
#include "base/banned.h"

#define SUFFIX ".spans"
enum { NAME_BYTES = 40, LINE_GUESS = 1024 }; /* a line of a file that another process wrote */

struct file {
    uint64_t number, bytes, lines;
};

struct sg_spool {
    int dir_fd, fd; /* fd: of the newest, while it is written; -1 */
    uint64_t max_bytes, bytes, next, dropped;
    struct file *v; /* owned: oldest first */
    size_t n, cap;
};

static void name_of(uint64_t number, char ret[NAME_BYTES])
{
    (void)snprintf(ret, NAME_BYTES, "%020" PRIu64 SUFFIX, number);
}

static void add_file(struct sg_spool *s, struct file f)
{
    if (s->n == s->cap) {
        s->cap = s->cap ? s->cap * 2 : 16;
        struct file *more = sg_alloc(s->cap * sizeof *more);
        if (s->n)
            memcpy(more, s->v, s->n * sizeof *more);
        free(s->v);
        s->v = more;
    }
    s->v[s->n++] = f;
    s->bytes += f.bytes;
    if (f.number >= s->next)
        s->next = f.number + 1;
}

static void remove_at(struct sg_spool *s, size_t at)
{
    char name[NAME_BYTES];
    name_of(s->v[at].number, name);
    (void)unlinkat(s->dir_fd, name, 0);
    if (at == s->n - 1)
        sg_drop_fd(&s->fd);
    s->bytes -= s->v[at].bytes;
    memmove(&s->v[at], &s->v[at + 1], (s->n - at - 1) * sizeof *s->v);
    s->n--;
}

/* ---- what is there ---- */

static int by_number(const void *a, const void *b)
{
    const struct file *x = a, *y = b;
    return x->number < y->number ? -1 : x->number > y->number;
}

static void look_at(struct sg_spool *s, const char *name)
{
    const size_t n = strlen(name), suffix = sizeof SUFFIX - 1;
    struct stat st;
    uint64_t number;
    if (n <= suffix || strcmp(name + n - suffix, SUFFIX) != 0 ||
        sg_parse_u64((struct sg_str) { name, n - suffix }, 0, UINT64_MAX - 1, &number, NULL) < 0 ||
        fstatat(s->dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
        return;
    const uint64_t bytes = (uint64_t)st.st_size;
    add_file(s, (struct file) { number, bytes, bytes / LINE_GUESS + 1 });
}

struct sg_spool *sg_spool_open(int dir_fd, uint64_t max_bytes, struct sg_err *err)
{
    sg_auto_fd own = dir_fd;
    const int copy = fcntl(dir_fd, F_DUPFD_CLOEXEC, 3);
    DIR *d = copy >= 0 ? fdopendir(copy) : NULL;
    if (!d) {
        if (copy >= 0)
            (void)close(copy);
        (void)sg_fail_sys(err, "read the directory of the spool");
        return NULL;
    }
    struct sg_spool *s = sg_new(struct sg_spool);
    *s = (struct sg_spool) { .dir_fd = sg_take_fd(&own), .fd = -1, .max_bytes = max_bytes };
    rewinddir(d);
    for (const struct dirent *e; (e = readdir(d));)
        look_at(s, e->d_name);
    (void)closedir(d);
    if (s->n)
        qsort(s->v, s->n, sizeof *s->v, by_number);
    return s;
}

void sg_spool_free(struct sg_spool *s)
{
    if (!s)
        return;
    sg_drop_fd(&s->fd);
    sg_drop_fd(&s->dir_fd);
    free(s->v);
    free(s);
}

/* ---- writing ---- */

static int begin_file(struct sg_spool *s, struct sg_err *err)
{
    char name[NAME_BYTES];
    name_of(s->next, name);
    s->fd = openat(s->dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC | O_NOFOLLOW,
                   0600);
    if (s->fd < 0)
        return sg_fail_sys(err, "make a file of the spool");
    add_file(s, (struct file) { .number = s->next });
    return 0;
}

int sg_spool_add(struct sg_spool *s, struct sg_str line, struct sg_err *err)
{
    const struct iovec parts[] = { { (void *)(uintptr_t)line.p, line.n },
                                   { (char[]) { '\n' }, 1 } };
    if (line.n > SG_SPOOL_LINE_MAX || memchr(line.p, '\n', line.n))
        return sg_fail(err, SG_EXHAUSTED, "a line of the spool is over %d bytes",
                       SG_SPOOL_LINE_MAX);
    while (s->n && s->bytes + line.n + 1 > s->max_bytes) {
        s->dropped += s->v[0].lines;
        remove_at(s, 0);
    }
    if (s->fd >= 0 && s->v[s->n - 1].bytes + line.n >= SG_SPOOL_FILE_BYTES)
        sg_drop_fd(&s->fd);
    if (s->fd < 0 && begin_file(s, err) < 0)
        return -1;
    const ssize_t wrote = writev(s->fd, parts, SG_COUNT(parts));
    if (wrote > 0) {
        s->v[s->n - 1].bytes += (uint64_t)wrote;
        s->bytes += (uint64_t)wrote;
    }
    if (wrote != (ssize_t)line.n + 1) { /* what it left has no end: nobody adds to that */
        sg_drop_fd(&s->fd);
        s->dropped++;
        return sg_fail_sys(err, "write to the spool");
    }
    s->v[s->n - 1].lines++;
    return 0;
}

/* ---- sending ---- */

int sg_spool_first(struct sg_spool *s, uint64_t *ret_number)
{
    char name[NAME_BYTES];
    while (s->n) {
        name_of(s->v[0].number, name);
        const int fd = openat(s->dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        if (fd >= 0) {
            if (s->n == 1)
                sg_drop_fd(&s->fd);
            *ret_number = s->v[0].number;
            return fd;
        }
        remove_at(s, 0); /* somebody took it away */
    }
    return -1;
}

void sg_spool_remove(struct sg_spool *s, uint64_t number)
{
    for (size_t i = 0; i < s->n; i++)
        if (s->v[i].number == number) {
            remove_at(s, i);
            return;
        }
}

uint64_t sg_spool_bytes(const struct sg_spool *s)
{
    return s->bytes;
}

uint64_t sg_spool_dropped(const struct sg_spool *s)
{
    return s->dropped;
}
