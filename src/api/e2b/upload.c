/* SPDX-License-Identifier: Apache-2.0 */
/* Uploads: a form with a part for each file, or one file as the body. Files are written in place,
 * links followed, as these clients know it: who watches sees a file written, not replaced.
 * Directories that are missing are made.
 *
 * U1. The body comes in pieces. While a file is being opened nothing more is taken: what is left of
 *     the piece waits in `rest`.
 * U2. While an answer is awaited nobody is told that the client went away; the answer's callback
 *     looks for itself. So the call never ends under its feet. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/e2b/e2b.h"
#include "api/e2b/gunzip.h"
#include "api/e2b/sign.h"
#include "base/auto.h"
#include "manager/files.h"
#include "wire/multipart.h"
#include "base/banned.h"

enum { MAX_REST = 256 << 10, MAX_FILES = 10000, DIR_MODE = 0755, FILE_MODE = 0644 };

struct uploaded {
    struct uploaded *next;
    const char *path;
};

struct upload {
    struct sg_call *call;
    struct sg_multipart *form; /* NULL: the body is the file */
    struct sg_gunzip *gunzip;  /* NULL: as it comes */
    const char *target;        /* of the query; NULL: each part names its own */
    const char *path;          /* of the file under way */
    int fd;                    /* of that file; -1: none is open */
    struct sg_buf rest;
    size_t rest_at;
    struct uploaded *first, **tail;
    unsigned count;
    bool is_last;    /* the body has ended */
    bool is_over;    /* the form has ended */
    bool is_skipped; /* this part is none of ours */
    bool made_parents;
};

static void take_input(struct upload *u, struct sg_input *in);
static void sender_gone(struct sg_call *c);

/* ---- the end ---- */

static void release(struct upload *u)
{
    sg_drop_fd(&u->fd);
    sg_gunzip_free(u->gunzip);
    u->gunzip = NULL;
    sg_buf_done(&u->rest);
}

static void fail(struct upload *u, const struct sg_err *err)
{
    struct sg_call *c = u->call;
    struct sg_err own = *err;
    int status = 0;
    release(u);
    if (err->sys == ENOSPC || err->sys == EDQUOT) {
        (void)sg_fail(&own, SG_EXHAUSTED, "not enough disk space available");
        status = 507;
    } else if (err->kind == SG_CONFLICT || err->sys == EISDIR || err->sys == ENOTDIR) {
        status = 400;
    } else if (err->kind == SG_DENIED) {
        status = 500; /* a token would not help */
    }
    if (status)
        sg_e2b_error(c, status, &own);
    else
        sg_reply_error(c, &own);
}

static void succeed(struct upload *u)
{
    struct sg_call *c = u->call;
    sg_auto_buf out;
    struct sg_json j;
    sg_buf_init(&out, SG_E2B_MAX_REPLY);
    sg_json_init(&j, &out);
    sg_json_open(&j, '[');
    for (const struct uploaded *f = u->first; f; f = f->next) {
        sg_json_open(&j, '{');
        sg_e2b_put_str(&j, "path", f->path);
        sg_e2b_put_str(&j, "name", sg_e2b_basename(f->path));
        sg_e2b_put_str(&j, "type", "file");
        sg_json_close(&j, '}');
    }
    sg_json_close(&j, ']');
    release(u);
    sg_reply_json(c, 200, &out);
}

/* Nothing is awaited any more: goes on with what waits, then with the body. */
static void go_on(struct upload *u)
{
    struct sg_call *c = u->call;
    if (c->is_gone) {
        release(u);
        sg_reply_end(c);
        return;
    }
    c->on_gone = sender_gone;
    struct sg_input in = { u->rest.p + u->rest_at, u->rest.n - u->rest_at };
    take_input(u, &in);
}

static void sender_gone(struct sg_call *c)
{
    release(sg_e2b_visit(c)->own);
    sg_reply_end(c);
}

/* The file's opening is awaited from here on. `in` is what of the piece was not taken. */
static void await(struct upload *u, struct sg_input *in)
{
    bool is_own = in->n && in->p >= u->rest.p && in->p < u->rest.p + u->rest.n;
    u->call->on_gone = NULL;
    sg_call_pause_body(u->call, true);
    if (is_own) {
        u->rest_at = (size_t)(in->p - u->rest.p);
        return;
    }
    sg_buf_clear(&u->rest);
    u->rest_at = 0;
    sg_buf_add(&u->rest, in->p, in->n);
}

/* ---- one file ---- */

static int open_file(struct upload *u, struct sg_err *err);

static void parents_made(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    struct upload *u = arg;
    struct sg_err own;
    if (!p)
        fail(u, err);
    else if (open_file(u, &own) < 0)
        fail(u, &own);
}

static int make_parents(struct upload *u, struct sg_err *err)
{
    struct sg_call *c = u->call;
    struct sg_sandbox *s = sg_e2b_visited(c, err);
    const char *parent = sg_e2b_parent(c, u->path);
    struct sg_msg m = { .type = SG_MSG_MAKE };
    if (!s || !parent)
        return s ? sg_fail(err, SG_EXHAUSTED, "no room for the call") : -1;
    u->made_parents = true;
    m.make = (struct sg_msg_make) { sg_text_of(sg_e2b_visit(c)->user), sg_text_of(parent),
                                    SG_MAKE_PARENTS, DIR_MODE };
    return sg_files_ask(s, &c->who, &m, NULL, 0, parents_made, u, err);
}

static void opened(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    struct upload *u = arg;
    struct stat st;
    struct sg_err own;
    if (!p && err->sys == ENOENT && !u->made_parents) {
        if (make_parents(u, &own) < 0)
            fail(u, &own);
        return;
    }
    u->fd = p ? sg_packet_take_fd(p, 0) : -1;
    if (p && (fstat(u->fd, &st) < 0 || !S_ISREG(st.st_mode)))
        err = (sg_fail(&own, SG_INVALID, "path %s is a directory", sg_quote(u->path).s), &own);
    if (err)
        fail(u, err);
    else
        go_on(u);
}

static int open_file(struct upload *u, struct sg_err *err)
{
    struct sg_call *c = u->call;
    struct sg_sandbox *s = sg_e2b_visited(c, err);
    struct sg_msg m = { .type = SG_MSG_OPEN };
    m.open = (struct sg_msg_open) { sg_text_of(sg_e2b_visit(c)->user), sg_text_of(u->path),
                                    O_WRONLY | O_CREAT | O_TRUNC, FILE_MODE };
    return s ? sg_files_ask(s, &c->who, &m, NULL, 0, opened, u, err) : -1;
}

static int begin_file(struct upload *u, const char *path, struct sg_err *err)
{
    struct sg_call *c = u->call;
    struct sg_sandbox *s = sg_e2b_visited(c, err);
    if (!s || !(u->path = sg_e2b_path(c, path, err)))
        return -1;
    if (u->count++ == MAX_FILES)
        return sg_fail(err, SG_INVALID, "more than %d files in one upload", MAX_FILES);
    u->made_parents = false;
    return open_file(u, err);
}

static int end_file(struct upload *u, struct sg_err *err)
{
    struct uploaded *f = sg_arena_alloc(&u->call->arena, sizeof *f);
    if (!f)
        return sg_fail(err, SG_EXHAUSTED, "too many files");
    f->path = u->path;
    *u->tail = f;
    u->tail = &f->next;
    sg_drop_fd(&u->fd);
    return 0;
}

static int write_piece(struct upload *u, const uint8_t *p, size_t n, struct sg_err *err)
{
    while (n) {
        ssize_t done = write(u->fd, p, n);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return sg_fail_sys(err, "write into the sandbox");
        p += done;
        n -= (size_t)done;
    }
    return 0;
}

static int put_piece(void *arg, const uint8_t *p, size_t n, struct sg_err *err)
{
    return write_piece(arg, p, n, err);
}

/* ---- the body ---- */

/* A part of the form begins. 1: an answer is awaited; 0: go on. */
static int begin_part(struct upload *u, struct sg_input *in, struct sg_err *err)
{
    const char *path = u->target ? u->target : u->form->filename;
    u->is_skipped = !u->form->name || strcmp(u->form->name, "file") != 0;
    if (u->is_skipped)
        return 0;
    if (!path || !path[0])
        return sg_fail(err, SG_INVALID, "a file has no name, and the request no path");
    if (u->target && u->count)
        return sg_fail(err, SG_INVALID,
                       "you cannot specify a path when uploading more than one file");
    path = sg_arena_copy(&u->call->arena, path, strlen(path));
    if (!path)
        return sg_fail(err, SG_EXHAUSTED, "too many files");
    await(u, in);
    return begin_file(u, path, err) < 0 ? -1 : 1;
}

/* 1: an answer is awaited; 0: all was taken. */
static int take_form(struct upload *u, struct sg_input *in, struct sg_err *err)
{
    struct sg_input piece;
    for (;;) {
        int result = 0;
        switch (sg_multipart_next(u->form, in, &piece, err)) {
        case SG_MULTIPART_MORE:
            return 0;
        case SG_MULTIPART_PART:
            result = begin_part(u, in, err);
            break;
        case SG_MULTIPART_DATA:
            if (!u->is_skipped)
                result = write_piece(u, piece.p, piece.n, err);
            break;
        case SG_MULTIPART_PART_END:
            if (!u->is_skipped)
                result = end_file(u, err);
            break;
        case SG_MULTIPART_END:
            u->is_over = true;
            return 0;
        case SG_MULTIPART_BAD:
            return -1;
        }
        if (result)
            return result;
    }
}

static int take_raw(struct upload *u, struct sg_input *in, struct sg_err *err)
{
    int result = u->gunzip ? sg_gunzip_feed(u->gunzip, in->p, in->n, put_piece, u, err)
                           : write_piece(u, in->p, in->n, err);
    (void)sg_input_take(in, in->n);
    if (result < 0 || !u->is_last)
        return result;
    if (u->gunzip && !sg_gunzip_is_over(u->gunzip))
        return sg_fail(err, SG_INVALID, "the compressed body is cut off");
    return end_file(u, err);
}

static void take_input(struct upload *u, struct sg_input *in)
{
    struct sg_err err = { 0 };
    int result = u->form ? take_form(u, in, &err) : take_raw(u, in, &err);
    if (result > 0)
        return;
    if (result == 0 && u->is_last) {
        if (u->first && (!u->form || u->is_over)) {
            succeed(u);
            return;
        }
        result = sg_fail(&err, SG_INVALID,
                         u->is_over ? "the form has no file in it" : "the form is cut off");
    }
    if (result < 0)
        fail(u, &err);
    else
        sg_call_pause_body(u->call, false);
}

static void take_piece(struct sg_call *c, const void *p, size_t n, bool is_last)
{
    struct upload *u = sg_e2b_visit(c)->own;
    struct sg_input in = { (uint8_t *)(uintptr_t)p, n };
    u->is_last = is_last;
    take_input(u, &in);
}

/* ---- the request ---- */

static int read_form(struct upload *u, struct sg_err *err)
{
    struct sg_call *c = u->call;
    const char *type = sg_call_header(c, "Content-Type");
    const char *encoding = sg_call_header(c, "Content-Encoding");
    if (encoding && strcasecmp(encoding, "identity") != 0) {
        if (strcasecmp(encoding, "gzip") != 0)
            return sg_fail(err, SG_INVALID, "Content-Encoding %s is not supported",
                           sg_quote(encoding).s);
        if (!(u->gunzip = sg_gunzip_new(err)))
            return -1;
    }
    if (type && strncasecmp(type, "application/octet-stream", 24) == 0)
        return u->target && u->target[0] ? 0 : sg_fail(err, SG_INVALID, "path is missing");
    if (!type || strncasecmp(type, "multipart/form-data", 19) != 0)
        return sg_fail(err, SG_INVALID,
                       "Content-Type must be multipart/form-data or "
                       "application/octet-stream");
    if (u->gunzip)
        return sg_fail(err, SG_INVALID,
                       "a compressed form is not supported; send "
                       "application/octet-stream");
    u->form = sg_arena_alloc(&c->arena, sizeof *u->form);
    return u->form ? sg_multipart_init(u->form, type, err)
                   : sg_fail(err, SG_EXHAUSTED, "no room for the call");
}

int sg_envd_upload(struct sg_call *c, struct sg_sandbox *s, struct sg_err *err)
{
    (void)s;
    struct upload *u = sg_arena_alloc(&c->arena, sizeof *u);
    const char *path = sg_call_query(c, "path");
    struct sg_input nothing = { NULL, 0 };
    if (sg_e2b_check_signed(c, err) < 0) {
        sg_e2b_error(c, 401, err);
        return 0;
    }
    if (!u)
        return sg_fail(err, SG_EXHAUSTED, "no room for the call");
    *u = (struct upload) { .call = c, .fd = -1, .target = path && path[0] ? path : NULL };
    u->tail = &u->first;
    sg_buf_init(&u->rest, MAX_REST);
    if (read_form(u, err) < 0) {
        release(u);
        return -1;
    }
    sg_e2b_visit(c)->own = u;
    c->on_body = take_piece;
    if (u->form) {
        c->on_gone = sender_gone;
        sg_call_pause_body(c, false);
        return 0;
    }
    await(u, &nothing);
    if (begin_file(u, u->target, err) < 0) {
        release(u);
        return -1;
    }
    return 0;
}
