/* SPDX-License-Identifier: Apache-2.0 */
/* Files into a task's sandbox before its command, and out of it afterwards, one at a time. What
 * comes out is hostile: regular files only, so many bytes and no more. */
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/str.h"
#include "ctl/entry.h"
#include "manager/life.h"
#include "manager/task_internal.h"

#include "base/banned.h"

enum { MODE_FILE = 0644 };

static enum sg_task_ending ending_of(const struct sg_err *err)
{
    return err->kind == SG_UNAVAILABLE ? SG_TASK_LOST : SG_TASK_FILE_ERROR;
}

/* Relative to where commands start. Returns owned. */
static char *absolute(const struct sg_sandbox *s, const struct sg_task_spec *spec, const char *path)
{
    const char *dir = spec->cwd ? spec->cwd : s->workdir;

    return path[0] == '/' ? sg_strdup(path) : sg_printf("%s/%s", dir ? dir : "/", path);
}

/* ---- in ---- */

static void next_in(struct sg_task *t);

static void stored(void *arg, const struct sg_err *err)
{
    struct sg_task *t = arg;
    struct sg_err own;

    if (err) {
        own = *err;
        (void)sg_wrap(&own, "put %s", t->spec ? sg_quote(t->spec->files[t->at].path).s : "a file");
        sg_task_end(t, ending_of(err), &own);
        return;
    }
    t->at++;
    next_in(t);
}

static void commit(struct sg_task *t)
{
    struct sg_file_write *w = sg_take_ptr(&t->write);

    (void)sg_io_want(t->m->loop, &t->pipe, 0, NULL);
    t->pipe.fd = -1;
    sg_files_commit(w, stored, t);
}

static void pour(struct sg_io *io, uint32_t events)
{
    struct sg_task *t = SG_OWNER(io, struct sg_task, pipe);

    (void)events;
    while (t->spec && t->written < t->spec->files[t->at].bytes.n) {
        const struct sg_str bytes = t->spec->files[t->at].bytes;
        ssize_t n = write(io->fd, bytes.p + t->written, bytes.n - t->written);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN && sg_io_want(t->m->loop, io, EPOLLOUT, NULL) == 0)
            return;
        if (n < 0)
            break; /* the answer to the commit tells why */
        t->written += (size_t)n;
    }
    commit(t);
}

static void opened_in(void *arg, struct sg_file_write *w, int fd, const struct sg_err *err)
{
    struct sg_task *t = arg;

    if (!w) {
        stored(t, err);
        return;
    }
    t->write = w;
    t->written = 0;
    t->pipe = (struct sg_io) { .fd = fd, .ready = pour };
    pour(&t->pipe, 0);
}

static void next_in(struct sg_task *t)
{
    struct sg_sandbox *s = sg_task_sandbox(t);
    struct sg_err err = { 0 };

    if (!s)
        return;
    if (t->at == t->spec->file_count) {
        t->r.times.upload += sg_task_lap(t);
        sg_task_exec(t);
        return;
    }
    sg_auto_free char *path = absolute(s, t->spec, t->spec->files[t->at].path);
    const struct sg_file_spec f = {
        .user = t->spec->user, .path = path, .flags = SG_WRITE_PARENTS, .mode = MODE_FILE
    };
    if (sg_files_write(s, &t->who, &f, opened_in, t, &err) < 0)
        stored(t, &err);
}

void sg_task_upload(struct sg_task *t)
{
    t->at = 0;
    next_in(t);
}

/* ---- out ---- */

static void next_pattern(struct sg_task *t);
static void next_out(struct sg_task *t);

static void collected(struct sg_task *t)
{
    t->r.times.collect += sg_task_lap(t);
    sg_task_end(t, t->r.ending, NULL);
}

static void out_failed(struct sg_task *t, const struct sg_err *err)
{
    struct sg_err own = *err;

    (void)sg_wrap(&own, "collect");
    sg_task_end(t, ending_of(err), &own);
}

static int read_out(struct sg_task *t, int fd, struct sg_task_out *o, struct sg_err *err)
{
    struct stat st;
    size_t cap = SG_TASK_FILE_BYTES;

    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return sg_fail(err, SG_INVALID, "%s is no regular file", sg_quote(o->path).s);
    if (cap > SG_TASK_ALL_BYTES - t->out_bytes)
        cap = SG_TASK_ALL_BYTES - t->out_bytes;
    o->size = (uint64_t)st.st_size;
    sg_buf_init(&o->bytes, cap ? cap : 1);
    while (o->bytes.n < cap) {
        uint8_t piece[16384];
        const size_t want = cap - o->bytes.n < sizeof piece ? cap - o->bytes.n : sizeof piece;
        ssize_t n = pread(fd, piece, want, (off_t)o->bytes.n);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return sg_fail_sys(err, "read %s", sg_quote(o->path).s);
        if (n == 0)
            break;
        sg_buf_add(&o->bytes, piece, (size_t)n);
    }
    if (o->size < o->bytes.n)
        o->size = o->bytes.n;
    t->out_bytes += o->bytes.n;
    return 0;
}

static void opened_out(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    struct sg_task *t = arg;
    struct sg_err own = { 0 };

    if (!err) {
        sg_auto_fd fd = sg_packet_take_fd(p, 0);
        if (read_out(t, fd, &t->r.files[t->at], &own) < 0)
            err = &own;
    }
    if (err) {
        out_failed(t, err);
        return;
    }
    t->at++;
    next_out(t);
}

static void next_out(struct sg_task *t)
{
    struct sg_sandbox *s = sg_task_sandbox(t);
    struct sg_err err = { 0 };

    if (!s)
        return;
    if (t->at == t->r.file_count) {
        next_pattern(t);
        return;
    }
    struct sg_msg m = { .type = SG_MSG_OPEN };
    m.open = (struct sg_msg_open) { sg_text_of(t->spec->user ? t->spec->user : ""),
                                    sg_text_of(t->r.files[t->at].path), O_RDONLY, 0 };
    if (sg_files_ask(s, &t->who, &m, NULL, 0, opened_out, t, &err) < 0)
        out_failed(t, &err);
}

static int add_out(struct sg_task *t, char *path, struct sg_err *err)
{
    if (t->r.file_count == SG_TASK_FILES_MAX) {
        free(path);
        return sg_fail(err, SG_EXHAUSTED, "over %d files are to come out", SG_TASK_FILES_MAX);
    }
    t->r.files[t->r.file_count++] = (struct sg_task_out) { .path = path };
    return 0;
}

static int take_page(struct sg_task *t, const char *pattern, struct sg_bytes list,
                     struct sg_err *err)
{
    const char *name = strrchr(pattern, '/') + 1;
    const int dir = (int)(name - pattern);
    struct sg_entry e;
    bool is_bad = false;

    while (sg_entry_next(&list, &e, &is_bad))
        if (S_ISREG(e.mode) && fnmatch(name, e.name.p, FNM_PERIOD) == 0 &&
            add_out(t, sg_printf("%.*s%s", dir, pattern, e.name.p), err) < 0)
            return -1;
    return is_bad ? sg_fail(err, SG_UNAVAILABLE, "the sandbox gave a list that makes no sense") : 0;
}

static int ask_page(struct sg_task *t, uint64_t cursor, struct sg_err *err);

static void listed(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    struct sg_task *t = arg;
    struct sg_err own = { 0 };
    struct sg_sandbox *s;

    if (err && err->kind == SG_NOT_FOUND) { /* nothing matches in a directory that is not there */
        next_out(t);
        return;
    }
    if (err) {
        out_failed(t, err);
        return;
    }
    s = sg_task_sandbox(t);
    if (!s)
        return;
    sg_auto_free char *pattern = absolute(s, t->spec, t->spec->collect[t->pattern - 1]);
    const uint64_t next = p->msg.listed.next;
    if (take_page(t, pattern, p->msg.listed.entries, &own) < 0 ||
        (next && ask_page(t, next, &own) < 0))
        out_failed(t, &own);
    else if (!next)
        next_out(t);
}

static int ask_page(struct sg_task *t, uint64_t cursor, struct sg_err *err)
{
    struct sg_sandbox *s = sg_map_find(&t->m->sandboxes, t->r.sandbox);

    if (!s)
        return sg_fail(err, SG_UNAVAILABLE, "the sandbox went away");
    char *dir = absolute(s, t->spec, t->spec->collect[t->pattern - 1]);
    char *slash = strrchr(dir, '/');
    slash[slash == dir] = '\0';
    struct sg_msg m = { .type = SG_MSG_LIST };
    m.list = (struct sg_msg_list) { sg_text_of(t->spec->user ? t->spec->user : ""), sg_text_of(dir),
                                    cursor };
    const int got = sg_files_ask(s, &t->who, &m, NULL, 0, listed, t, err);
    free(dir);
    return got;
}

/* A path as it is, or the entries of its directory that match. */
static void next_pattern(struct sg_task *t)
{
    const char *const *collect = t->spec->collect;
    struct sg_sandbox *s = sg_task_sandbox(t);
    struct sg_err err = { 0 };

    if (!s)
        return;
    if (!collect || !collect[t->pattern]) {
        collected(t);
        return;
    }
    const char *pattern = collect[t->pattern++];
    if (strpbrk(pattern, "*?[")) {
        if (ask_page(t, 0, &err) < 0)
            out_failed(t, &err);
    } else if (add_out(t, absolute(s, t->spec, pattern), &err) < 0) {
        out_failed(t, &err);
    } else {
        next_out(t);
    }
}

void sg_task_collect(struct sg_task *t)
{
    t->at = t->pattern = 0;
    if (!sg_task_sandbox(t))
        return;
    next_pattern(t);
}
