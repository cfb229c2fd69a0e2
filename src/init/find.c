/* SPDX-License-Identifier: Apache-2.0 */
/* FIND: entries below a directory by name, or lines of files by text, found by a worker that is the
 * user. Records go out as they are found; who has seen enough closes the pipe, and a search that
 * takes too long ends by itself.
 *
 * Files are read whole, up to a size: larger ones are data, and so are those with a NUL in them. */
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "init/path.h"
#include "init/stream.h"
#include "init/walk.h"
#include "init/worker.h"
#include "base/banned.h"

#define NS_PER_MS UINT64_C(1000000)
enum {
    DEFAULT_MAX = 10 * 1000,
    MAX_FILE_BYTES = 16 * 1024 * 1024,
    MAX_TEXT_BYTES = 1024, /* of a line that is shown */
    TEXT_BEFORE = 256,     /* of a longer line, before what was found */
    DEFAULT_TIMEOUT_MS = 60 * 1000,
    LOOK_EVERY = 64, /* entries: whether somebody reads still */
};

struct search {
    const struct sg_msg_find *m;
    struct sg_out out;
    struct sg_buf file;
    uint32_t left, seen;
    uint64_t deadline_ns;
};

/* Returns what a visit returns: 1 when there were enough. */
static int put_record(struct search *s, const char *path, uint64_t line, const char *text, size_t n,
                      struct sg_err *err)
{
    char number[24];
    int digits = snprintf(number, sizeof number, "%llu", (unsigned long long)line);
    sg_out_add(&s->out, path, strlen(path) + 1);
    sg_out_add(&s->out, number, (size_t)digits + 1);
    sg_out_add(&s->out, text, n);
    sg_out_add(&s->out, "", 1);
    errno = s->out.sys;
    if (s->out.sys)
        return sg_fail_sys(err, "write what was found");
    return --s->left == 0;
}

static bool has_name(const struct search *s, const struct sg_walk_item *item)
{
    const char *pattern = s->m->name.p;
    if (!*pattern)
        return true;
    return fnmatch(pattern, strchr(pattern, '/') ? item->path : item->name, 0) == 0;
}

/* ---- text ---- */

/* False where it cannot be read, is too large, or is no text. */
static bool read_text(struct search *s, const struct sg_walk_item *item)
{
    sg_buf_clear(&s->file);
    if (item->st->st_size > MAX_FILE_BYTES)
        return false;
    sg_auto_fd fd =
        openat(item->dir_fd, item->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return false;
    if (sg_buf_read_fd(&s->file, fd, item->path, NULL) < 0)
        return false;
    return s->file.n && !memchr(s->file.p, 0, s->file.n);
}

static uint64_t count_lines(const char *p, const char *end)
{
    uint64_t count = 0;
    while ((p = memchr(p, '\n', (size_t)(end - p)))) {
        count++;
        p++;
    }
    return count;
}

/* The part of the line around `found` that is shown. */
static void cut(const char **line, size_t *n, const char *found)
{
    if (*n <= MAX_TEXT_BYTES)
        return;
    const char *end = *line + *n;
    if (found - *line > TEXT_BEFORE)
        *line = found - TEXT_BEFORE;
    *n = (size_t)(end - *line) < MAX_TEXT_BYTES ? (size_t)(end - *line) : MAX_TEXT_BYTES;
}

/* Each line that holds the text once, however often it does. */
static int search_text(struct search *s, const char *path, struct sg_err *err)
{
    const char *p = (const char *)s->file.p, *end = p + s->file.n;
    const char *counted = p; /* the start of line `number` */
    uint64_t number = 1;
    for (const char *found; (found = memmem(p, (size_t)(end - p), s->m->text.p, s->m->text.n));) {
        number += count_lines(counted, found);
        const char *before = memrchr(counted, '\n', (size_t)(found - counted));
        const char *line = before ? before + 1 : counted;
        counted = line;
        const char *stop = memchr(found, '\n', (size_t)(end - found));
        if (!stop)
            stop = end;
        size_t n = (size_t)(stop - line);
        cut(&line, &n, found);
        int result = put_record(s, path, number, line, n, err);
        if (result != 0 || stop == end)
            return result;
        p = stop + 1;
    }
    return 0;
}

/* Who finds nothing writes nothing, and would not learn that nobody waits. */
static int check_time(struct search *s, struct sg_err *err)
{
    struct pollfd p = { .fd = s->out.fd };
    if (sg_now_ns() > s->deadline_ns)
        return sg_fail(err, SG_TIMEOUT, "the search took too long: narrow it");
    if (s->seen++ % LOOK_EVERY == 0 && poll(&p, 1, 0) > 0 && p.revents & POLLERR)
        return sg_fail(err, SG_UNAVAILABLE, "nobody reads what is found");
    return 0;
}

static int visit(void *arg, const struct sg_walk_item *item, struct sg_err *err)
{
    struct search *s = arg;
    if (check_time(s, err) < 0)
        return -1;
    if (!has_name(s, item))
        return 0;
    if (!(s->m->flags & SG_FIND_TEXT))
        return put_record(s, item->path, 0, "", 0, err);
    return S_ISREG(item->st->st_mode) && read_text(s, item) ? search_text(s, item->path, err) : 0;
}

/* ---- the request ---- */

static int work(int fd, const void *arg, struct sg_err *err)
{
    struct search *s = sg_new(struct search);
    s->m = arg;
    s->out.fd = fd;
    s->left = s->m->max ? s->m->max : DEFAULT_MAX;
    s->deadline_ns =
        sg_now_ns() + (s->m->timeout_ms ? s->m->timeout_ms : DEFAULT_TIMEOUT_MS) * NS_PER_MS;
    sg_buf_init(&s->file, MAX_FILE_BYTES);
    sg_auto_fd root =
        sg_path_open(s->m->path, O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_NOCTTY, 0, err);
    if (root < 0 || sg_walk(root, false, visit, s, err) < 0)
        return -1;
    return sg_out_flush(&s->out) < 0 ? sg_fail_sys(err, "write what was found") : 0;
}

int sg_handle_find(struct sg_init *in, struct sg_call *c, struct sg_err *err)
{
    const struct sg_msg_find *m = &c->m->find;
    if (c->packet->fd_count != 1)
        return sg_fail(err, SG_INVALID, "a search needs a descriptor");
    if (m->flags & SG_FIND_TEXT && !m->text.n)
        return sg_fail(err, SG_INVALID, "no text to look for");
    return sg_worker_start(in, c, "sandglass-find", work, c->packet->fds[0], m, err);
}
