/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/docker_context.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/banned.h"

enum { ENTRIES_MAX = 500000, DEPTH_MAX = 128, IGNORE_BYTES = 1 << 20 };

/* ---- what is there ---- */

struct walk {
    struct sg_context *c;
    struct sg_str ignore;
    bool has_exceptions;
    struct sg_err *err;
};

void sg_context_done(struct sg_context *c)
{
    for (size_t i = 0; i < c->n; i++)
        free(c->v[i].path);
    free(c->v);
    sg_close_p(&c->fd);
}

static int add(struct sg_context *c, char *path, bool is_dir, struct sg_err *err)
{
    if (c->n == ENTRIES_MAX) {
        free(path);
        return sg_fail(err, SG_EXHAUSTED, "the context has over %d files: see .dockerignore",
                       ENTRIES_MAX);
    }
    if (c->n == c->room) {
        const size_t room = c->room ? 2 * c->room : 256;
        struct sg_context_entry *v = sg_alloc(room * sizeof *v);
        if (c->n)
            memcpy(v, c->v, c->n * sizeof *v);
        free(c->v);
        c->v = v;
        c->room = room;
    }
    c->v[c->n++] = (struct sg_context_entry) { path, is_dir };
    return 0;
}

static int walk(struct walk *w, const char *path, unsigned depth)
{
    int fd = openat(w->c->fd, *path ? path : ".", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    sg_auto_dir dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (!dir)
        return sg_fail_sys(w->err, "read the directory %s", sg_quote(*path ? path : ".").s);
    if (depth == DEPTH_MAX)
        return sg_fail(w->err, SG_EXHAUSTED, "directories of the context are over %d deep",
                       DEPTH_MAX);
    for (struct dirent *d; (d = readdir(dir));) {
        if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
            continue;
        char *below = sg_printf("%s%s%s", path, *path ? "/" : "", d->d_name);
        struct stat st;
        const bool is_there = fstatat(w->c->fd, below, &st, AT_SYMLINK_NOFOLLOW) == 0;
        const bool is_dir = is_there && S_ISDIR(st.st_mode);
        const bool is_out = sg_dockerignore_has(w->ignore, below);
        if (is_dir && (!is_out || w->has_exceptions) && walk(w, below, depth + 1) < 0) {
            free(below);
            return -1;
        }
        if (is_out || !is_there)
            free(below);
        else if (add(w->c, below, is_dir, w->err) < 0)
            return -1;
    }
    return 0;
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct sg_context_entry *)a)->path,
                  ((const struct sg_context_entry *)b)->path);
}

int sg_context_open(struct sg_context *c, const char *dir, struct sg_err *err)
{
    sg_auto_buf text;
    sg_buf_init(&text, IGNORE_BYTES);
    c->fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (c->fd < 0)
        return sg_fail_sys(err, "open the context %s", sg_quote(dir).s);
    sg_auto_fd fd = openat(c->fd, ".dockerignore", O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && sg_buf_read_fd(&text, fd, ".dockerignore", err) < 0)
        return -1;
    struct walk w = { .c = c, .err = err };
    w.ignore = (struct sg_str) { text.n ? (const char *)text.p : "", text.n };
    w.has_exceptions = w.ignore.n && memchr(w.ignore.p, '!', w.ignore.n);
    if (walk(&w, "", 0) < 0)
        return -1;
    if (c->n)
        qsort(c->v, c->n, sizeof *c->v, by_path);
    return 0;
}

/* ---- what a COPY means ---- */

void sg_picked_done(struct sg_picked *p)
{
    for (size_t i = 0; i < p->n; i++)
        free((char *)(uintptr_t)p->items[i].name);
    free(p->items);
}

static void pick(struct sg_picked *p, const char *file, char *name)
{
    if (p->n == p->room) {
        const size_t room = p->room ? 2 * p->room : 64;
        struct sg_tar_item *v = sg_alloc(room * sizeof *v);
        if (p->n)
            memcpy(v, p->items, p->n * sizeof *v);
        free(p->items);
        p->items = v;
        p->room = room;
    }
    p->items[p->n++] = (struct sg_tar_item) { file, name };
}

/* Of a directory what is in it. */
static void pick_below(const struct sg_context *c, const char *dir, struct sg_picked *p)
{
    const size_t n = strlen(dir);
    for (size_t i = 0; i < c->n; i++) {
        const char *path = c->v[i].path;
        if (n && (strncmp(path, dir, n) != 0 || path[n] != '/'))
            continue;
        pick(p, path, sg_strdup(n ? path + n + 1 : path));
    }
}

static char *plain(const char *source)
{
    while (*source == '/' || (source[0] == '.' && (source[1] == '/' || !source[1])))
        source += 1 + (source[0] == '.' && source[1] == '/');
    size_t n = strlen(source);
    while (n && source[n - 1] == '/')
        n--;
    return sg_printf("%.*s", (int)n, source);
}

int sg_context_pick(const struct sg_context *c, const char *const *sources, size_t n,
                    struct sg_picked *ret, struct sg_err *err)
{
    for (size_t k = 0; k < n; k++) {
        sg_auto_free char *pattern = plain(sources[k]);
        const size_t before = ret->hits;
        if (!*pattern) {
            ret->hits += 2; /* a directory, hence no single file */
            pick_below(c, "", ret);
            continue;
        }
        for (size_t i = 0; i < c->n; i++) {
            const struct sg_context_entry *e = &c->v[i];
            if (strcmp(pattern, e->path) != 0 && !sg_docker_match(pattern, e->path))
                continue;
            ret->hits++;
            const struct sg_str name = sg_last_part(e->path);
            if (e->is_dir)
                pick_below(c, e->path, ret);
            else
                pick(ret, e->path, sg_printf("%.*s", (int)name.n, name.p));
            ret->is_file = !e->is_dir;
        }
        if (ret->hits == before)
            return sg_fail(err, SG_NOT_FOUND,
                           "no file of the context is %s, or .dockerignore "
                           "leaves it out",
                           sg_quote(sources[k]).s);
    }
    ret->is_file = ret->is_file && ret->hits == 1;
    return 0;
}

bool sg_context_is_archive(const struct sg_context *c, const char *path)
{
    static const struct {
        size_t at;
        const char *bytes;
        size_t n;
    } magic[] = {
        { 0, "\x1f\x8b", 2 },
        { 0, "BZh", 3 },
        { 0,
          "\xfd"
          "7zXZ",
          5 },
        { 0, "\x28\xb5\x2f\xfd", 4 },
        { 257, "ustar", 5 },
    };
    char head[512] = "";
    sg_auto_fd fd = openat(c->fd, path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    const ssize_t got = fd < 0 ? -1 : read(fd, head, sizeof head);
    for (size_t i = 0; got > 0 && i < SG_COUNT(magic); i++)
        if (magic[i].at + magic[i].n <= (size_t)got &&
            memcmp(head + magic[i].at, magic[i].bytes, magic[i].n) == 0)
            return true;
    return false;
}
