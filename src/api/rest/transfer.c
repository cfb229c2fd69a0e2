/* SPDX-License-Identifier: Apache-2.0 */
/* File contents, streamed: down by sendfile from init's descriptor, up piece by piece into a pipe
 * that a process of the sandbox empties. Nothing is held in memory. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/body_file.h"
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

static void settled(struct sg_call *c, const struct sg_err *err)
{
    const struct sg_body_file *f = c->state;
    char text[48];
    if (err) {
        sg_reply_error(c, err);
        return;
    }
    (void)snprintf(text, sizeof text, "{\"bytes\":%llu}", (unsigned long long)f->bytes);
    sg_reply_text(c, 200, "application/json", text);
}

static void written(struct sg_body_file *f, const struct sg_err *err)
{
    if (err)
        sg_reply_error(f->call, err);
    else
        sg_rest_settle(f->call, settled);
}

static int upload(struct sg_call *c, uint32_t flags, uint32_t flags_without_mode,
                  struct sg_err *err)
{
    static const char *const known[] = { "path", "user", "mode", NULL };
    struct sg_file_spec f = { .user = query_or_empty(c, "user"),
                              .flags = flags,
                              .mode = MODE_FILE };
    struct sg_sandbox *s = sg_rest_sandbox(c, err);
    const char *mode = sg_call_query(c, "mode");
    f.path = s ? sg_rest_path(c, err) : NULL;
    if (!f.path || sg_call_query_only(c, known, err) < 0 ||
        (mode && sg_rest_mode(mode, &f.mode, err) < 0))
        return -1;
    if (!mode)
        f.flags |= flags_without_mode;
    struct sg_body_file *u = sg_arena_alloc(&c->arena, sizeof *u);
    if (!u)
        return sg_fail(err, SG_EXHAUSTED, "no room for the call");
    *u = (struct sg_body_file) { .call = c, .done = written };
    return sg_body_file_begin(u, s, &f, err);
}

int sg_rest_file_put(struct sg_call *c, struct sg_err *err)
{
    return upload(c, 0, SG_WRITE_KEEP_MODE, err);
}

int sg_rest_file_append(struct sg_call *c, struct sg_err *err)
{
    return upload(c, SG_WRITE_APPEND, 0, err);
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
