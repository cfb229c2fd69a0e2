/* SPDX-License-Identifier: Apache-2.0 */
/* File contents, streamed: down by sendfile from init's descriptor, up piece by piece into a
 * temporary file that takes its place at the end. Nothing is held in memory. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/rest/rest.h"
#include "base/auto.h"
#include "manager/files.h"
#include "base/banned.h"

enum { MODE_FILE = 0644 };

static const char *query_or_empty(struct sg_call *c, const char *name)
{
    const char *value = sg_call_query(c, name);
    return value ? value : "";
}

/* ---- down ---- */

static void opened(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    struct sg_call *c = arg;
    struct sg_err own;
    if (!p) {
        sg_reply_error(c, err);
        return;
    }
    sg_auto_fd fd = sg_packet_take_fd(p, 0);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) { /* what came out is not trusted */
        (void)sg_fail(&own, SG_INVALID,
                      "the path is no regular file; /files/list and /files/tar "
                      "are for directories");
        sg_reply_error(c, &own);
        return;
    }
    sg_reply_file(c, 200, "application/octet-stream", sg_take_fd(&fd), 0, (uint64_t)st.st_size);
}

int sg_rest_file_get(struct sg_call *c, struct sg_err *err)
{
    static const char *const known[] = { "path", "user", NULL };
    struct sg_sandbox *s = sg_rest_sandbox(c, err);
    const char *path = s ? sg_rest_path(c, err) : NULL;
    if (!path || sg_call_query_only(c, known, err) < 0)
        return -1;
    struct sg_msg m = { .type = SG_MSG_OPEN };
    m.open = (struct sg_msg_open) { sg_text_of(query_or_empty(c, "user")), sg_text_of(path),
                                    O_RDONLY, 0 };
    return sg_files_ask(s, &c->who, &m, NULL, 0, opened, c, err);
}

/* ---- up ---- */

struct upload {
    struct sg_call *call;
    struct sg_file_write *write; /* NULL: appending, or not opened yet */
    int fd;                      /* of `write`, or our own */
    uint64_t bytes;
    bool owns_fd;
};

static void end_upload(struct upload *u)
{
    if (u->write)
        sg_files_abandon(u->write);
    u->write = NULL;
    if (u->owns_fd)
        sg_drop_fd(&u->fd);
}

static void committed(void *arg, const struct sg_err *err)
{
    struct upload *u = arg;
    char text[48];
    if (err) {
        sg_reply_error(u->call, err);
        return;
    }
    (void)snprintf(text, sizeof text, "{\"bytes\":%llu}", (unsigned long long)u->bytes);
    sg_reply_text(u->call, 200, "application/json", text);
}

static int write_whole(int fd, const char *p, size_t n, struct sg_err *err)
{
    while (n) {
        ssize_t done = write(fd, p, n);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return sg_fail_sys(err, "write into the sandbox");
        p += done;
        n -= (size_t)done;
    }
    return 0;
}

static void take_piece(struct sg_call *c, const void *p, size_t n, bool is_last)
{
    struct upload *u = c->state;
    struct sg_err err;
    if (write_whole(u->fd, p, n, &err) < 0) {
        end_upload(u);
        sg_reply_error(c, &err);
        return;
    }
    u->bytes += n;
    if (!is_last)
        return;
    struct sg_file_write *w = u->write;
    u->write = NULL;
    if (u->owns_fd)
        sg_drop_fd(&u->fd);
    if (w)
        sg_files_commit(w, committed, u);
    else
        committed(u, NULL);
}

static void sender_gone(struct sg_call *c)
{
    end_upload(c->state);
    sg_reply_end(c);
}

/* The file is there: the body may come. */
static void go_on(struct upload *u)
{
    struct sg_call *c = u->call;
    if (c->is_gone) {
        end_upload(u);
        sg_reply_end(c);
        return;
    }
    c->on_body = take_piece;
    c->on_gone = sender_gone;
    sg_call_pause_body(c, false);
}

static void write_opened(void *arg, struct sg_file_write *w, int fd, const struct sg_err *err)
{
    struct upload *u = arg;
    if (!w) {
        sg_reply_error(u->call, err);
        return;
    }
    u->write = w;
    u->fd = fd;
    go_on(u);
}

static void append_opened(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    struct upload *u = arg;
    if (!p) {
        sg_reply_error(u->call, err);
        return;
    }
    u->fd = sg_packet_take_fd(p, 0);
    u->owns_fd = true;
    struct stat st;
    struct sg_err own;
    if (u->fd < 0 || fstat(u->fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        sg_drop_fd(&u->fd);
        (void)sg_fail(&own, SG_INVALID, "the path is no regular file");
        sg_reply_error(u->call, &own);
        return;
    }
    go_on(u);
}

/* `*inout_mode` stays as it is where the query names none. */
static struct upload *prepare(struct sg_call *c, uint32_t *inout_mode, struct sg_err *err)
{
    static const char *const known[] = { "path", "user", "mode", NULL };
    const char *mode = sg_call_query(c, "mode");
    if (sg_call_query_only(c, known, err) < 0 || (mode && sg_rest_mode(mode, inout_mode, err) < 0))
        return NULL;
    struct upload *u = sg_arena_alloc(&c->arena, sizeof *u);
    if (!u) {
        (void)sg_fail(err, SG_EXHAUSTED, "no room for the call");
        return NULL;
    }
    *u = (struct upload) { .call = c, .fd = -1 };
    c->state = u;
    sg_call_pause_body(c, true);
    return u;
}

int sg_rest_file_put(struct sg_call *c, struct sg_err *err)
{
    uint32_t mode = SG_FILE_MODE_KEPT;
    struct sg_sandbox *s = sg_rest_sandbox(c, err);
    const char *path = s ? sg_rest_path(c, err) : NULL;
    struct upload *u = path ? prepare(c, &mode, err) : NULL;
    if (!u)
        return -1;
    return sg_files_write(s, &c->who, query_or_empty(c, "user"), path, mode, write_opened, u, err);
}

int sg_rest_file_append(struct sg_call *c, struct sg_err *err)
{
    uint32_t mode = MODE_FILE;
    struct sg_sandbox *s = sg_rest_sandbox(c, err);
    const char *path = s ? sg_rest_path(c, err) : NULL;
    struct upload *u = path ? prepare(c, &mode, err) : NULL;
    if (!u)
        return -1;
    struct sg_msg m = { .type = SG_MSG_OPEN };
    m.open = (struct sg_msg_open) { sg_text_of(query_or_empty(c, "user")), sg_text_of(path),
                                    O_WRONLY | O_APPEND | O_CREAT, mode };
    return sg_files_ask(s, &c->who, &m, NULL, 0, append_opened, u, err);
}

/* ---- a command's input ---- */

struct feeding {
    struct sg_call *call;
    struct sg_reader hold; /* reads nothing: knows when the exec goes away */
    struct sg_buf rest;    /* what it has not taken yet; nothing more comes meanwhile */
    bool is_last, closes;
};

static void feed(void *arg);

static void end_feeding(struct feeding *f)
{
    if (f->hold.exec)
        sg_exec_forget_writable(f->hold.exec, f);
    sg_reader_close(&f->hold);
    sg_buf_done(&f->rest);
}

static void feed_rest(struct feeding *f)
{
    struct sg_call *c = f->call;
    struct sg_err err = { 0 };
    struct sg_exec *x = f->hold.exec;
    int result = x ? 0 : sg_fail(&err, SG_NOT_FOUND, "the command is gone");
    while (result == 0 && f->rest.n) {
        ssize_t n = sg_exec_write(x, f->rest.p, f->rest.n, &err);
        if (n == 0 && (result = sg_exec_when_writable(x, feed, f, &err)) == 0)
            return;
        if (n < 0)
            result = -1;
        if (n > 0) {
            memmove(f->rest.p, f->rest.p + n, f->rest.n - (size_t)n);
            f->rest.n -= (size_t)n;
        }
    }
    if (result == 0 && f->is_last && f->closes)
        result = sg_exec_close_stdin(x, &err);
    if (result < 0 || f->is_last) {
        end_feeding(f);
        sg_rest_reply_done(c, result < 0 ? &err : NULL);
        return;
    }
    sg_call_pause_body(c, false);
}

static void feed(void *arg)
{
    feed_rest(arg);
}

static void take_input(struct sg_call *c, const void *p, size_t n, bool is_last)
{
    struct feeding *f = c->state;
    sg_buf_add(&f->rest, p, n);
    f->is_last = is_last;
    sg_call_pause_body(c, true);
    feed_rest(f);
}

static void ignore(struct sg_reader *r)
{
    (void)r;
}

static void feeder_gone(struct sg_call *c)
{
    end_feeding(c->state);
    sg_reply_end(c);
}

int sg_rest_exec_stdin(struct sg_call *c, struct sg_err *err)
{
    static const char *const known[] = { "close", NULL };
    bool closes = false;
    struct sg_exec *x = sg_rest_exec(c, err);
    if (!x || sg_call_query_only(c, known, err) < 0 ||
        sg_call_query_bool(c, "close", &closes, err) < 0)
        return -1;
    struct feeding *f = sg_arena_alloc(&c->arena, sizeof *f);
    if (!f)
        return sg_fail(err, SG_EXHAUSTED, "no room for the call");
    *f = (struct feeding) { .call = c, .hold.wake = ignore, .closes = closes };
    sg_buf_init(&f->rest, SG_CALL_MAX_BODY);
    sg_reader_open(&f->hold, x, UINT64_MAX);
    c->state = f;
    c->on_body = take_input;
    c->on_gone = feeder_gone;
    return 0;
}
