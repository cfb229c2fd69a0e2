/* SPDX-License-Identifier: Apache-2.0 */
/* Uploads: a form with a part for each file, or one file as the body. Files are written in place,
 * links followed, as these clients know it: who watches sees a file written, not replaced.
 * Directories that are missing are made.
 *
 * U1. The body comes in pieces. While a file is being opened or closed, or its pipe is full,
 * nothing more is taken: what is left of the piece waits in `rest`. U2. While an answer is awaited
 * nobody is told that the client went away; the answer's callback looks for itself. So the call
 * never ends under its feet. */
#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "api/e2b/e2b.h"
#include "api/e2b/gunzip.h"
#include "api/e2b/root.h"
#include "api/e2b/sign.h"
#include "api/pour.h"
#include "base/auto.h"
#include "manager/files.h"
#include "wire/multipart.h"
#include "base/banned.h"

enum {
    MAX_REST = 256 << 10,
    MAX_FILES = 10000,
    FILE_MODE = 0644,
    GZIP_PIECE = 4 << 10, /* grows by a thousand at most, and that must be held */
    LABEL_NAME_MAX = 246, /* with the prefix, the kernel's own limit */
    LABELS_MAX = 4096,
};
static const char LABEL_HEADER[] = "X-Metadata-";

struct uploaded {
    struct uploaded *next;
    const char *path;
};

struct upload {
    struct sg_call *call;
    struct sg_multipart *form;   /* NULL: the body is the file */
    struct sg_gunzip *gunzip;    /* NULL: as it comes */
    const char *target;          /* of the query; NULL: each part names its own */
    char **labels;               /* of every file: name, value, ..., NULL */
    const char *path;            /* of the file under way */
    struct sg_file_write *write; /* of that file; NULL: none is open */
    struct sg_pour pour;         /* into it */
    struct sg_buf rest;
    size_t rest_at;
    struct uploaded *first, **tail;
    unsigned count;
    bool is_last;    /* the body has ended */
    bool is_over;    /* the form has ended */
    bool is_skipped; /* this part is none of ours */
};

static void take_input(struct upload *u, struct sg_input *in);
static void sender_gone(struct sg_call *c);

/* ---- the end ---- */

static void release(struct upload *u)
{
    sg_pour_close(&u->pour);
    if (u->write)
        sg_files_abandon(u->write);
    u->write = NULL;
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

static void put_labels(struct sg_json *j, char *const *labels)
{
    sg_json_key(j, "metadata");
    sg_json_open(j, '{');
    for (; labels[0]; labels += 2)
        sg_json_put_str(j, labels[0], labels[1]);
    sg_json_close(j, '}');
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
        sg_json_put_str(&j, "path", f->path);
        sg_json_put_str(&j, "name", sg_e2b_basename(f->path));
        sg_json_put_str(&j, "type", "file");
        if (u->labels[0])
            put_labels(&j, u->labels);
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

/* Something is awaited from here on. `in` is what of the piece was not taken. */
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

static void emptied(struct sg_pour *p)
{
    go_on(SG_OWNER(p, struct upload, pour));
}

static int open_file(struct upload *u, struct sg_err *err);

static void parents_made(void *arg, const struct sg_err *err)
{
    struct upload *u = arg;
    struct sg_err own = { 0 };
    if (err)
        fail(u, err);
    else if (open_file(u, &own) < 0)
        fail(u, &own);
}

/* What the user may not write, root writes for them. */
static bool is_roots_turn(struct upload *u, const struct sg_err *err)
{
    struct sg_call *c = u->call;
    struct sg_err own = { 0 };
    if (!sg_e2b_turn_root(c, err))
        return false;
    const char *parent = sg_e2b_parent(c, u->path);
    if (!parent || sg_e2b_make_owned(c, parent, parents_made, u, &own) < 0)
        fail(u, parent ? &own : err);
    return true;
}

static void opened(void *arg, struct sg_file_write *w, int fd, const struct sg_err *err)
{
    struct upload *u = arg;
    u->write = w;
    if (!w) {
        if (!is_roots_turn(u, err))
            fail(u, err);
        return;
    }
    sg_pour_open(&u->pour, sg_manager_loop(u->call->manager), fd, emptied);
    go_on(u);
}

static int begin_file(struct upload *u, const char *path, struct sg_err *err)
{
    struct sg_call *c = u->call;
    struct sg_sandbox *s = sg_e2b_visited(c, err);
    if (!s || !(u->path = sg_e2b_path(c, path, err)))
        return -1;
    if (u->count++ == MAX_FILES)
        return sg_fail(err, SG_INVALID, "more than %d files in one upload", MAX_FILES);
    return open_file(u, err);
}

static int open_file(struct upload *u, struct sg_err *err)
{
    struct sg_call *c = u->call;
    struct sg_sandbox *s = sg_e2b_visited(c, err);
    const struct sg_file_spec f = { .user = sg_e2b_visit(c)->user,
                                    .path = u->path,
                                    .flags = SG_WRITE_IN_PLACE | SG_WRITE_PARENTS,
                                    .mode = FILE_MODE,
                                    .labels = u->labels };
    return s ? sg_files_write(s, &c->who, &f, opened, u, err) : -1;
}

static void file_done(void *arg, const struct sg_err *err)
{
    struct upload *u = arg;
    struct uploaded *f = sg_arena_alloc(&u->call->arena, sizeof *f);
    struct sg_err own;
    if (!f && !err)
        err = (sg_fail(&own, SG_EXHAUSTED, "too many files"), &own);
    if (err) {
        fail(u, err);
        return;
    }
    *f = (struct uploaded) { .path = u->path };
    *u->tail = f;
    u->tail = &f->next;
    go_on(u);
}

static void written(void *arg, const struct sg_err *err)
{
    struct upload *u = arg;
    struct sg_err own = { 0 };
    if (err || !sg_e2b_visit(u->call)->owner)
        file_done(u, err);
    else if (sg_e2b_give(u->call, u->path, file_done, u, &own) < 0)
        fail(u, &own);
}

/* All of the file is in the pipe, or the sandbox has given up, and the answer tells why. */
static int end_file(struct upload *u, struct sg_input *in)
{
    struct sg_file_write *w = u->write;
    await(u, in);
    u->write = NULL;
    sg_pour_close(&u->pour);
    sg_files_commit(w, written, u); /* may go on with the body before it returns */
    return 1;
}

/* 1: the pipe is full, or nobody reads it. */
static int settle(struct upload *u, struct sg_input *in)
{
    if (u->pour.is_broken)
        return end_file(u, in);
    if (sg_pour_is_empty(&u->pour))
        return 0;
    await(u, in);
    return 1;
}

static int put_piece(void *arg, const uint8_t *p, size_t n, struct sg_err *err)
{
    struct upload *u = arg;
    (void)err;
    (void)sg_pour_add(&u->pour, p, n);
    return 0;
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
            if (!u->is_skipped) {
                (void)sg_pour_add(&u->pour, piece.p, piece.n);
                result = settle(u, in);
            }
            break;
        case SG_MULTIPART_PART_END:
            if (!u->is_skipped)
                result = end_file(u, in);
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

/* The same. */
static int take_raw(struct upload *u, struct sg_input *in, struct sg_err *err)
{
    while (in->n) {
        size_t n = u->gunzip && in->n > GZIP_PIECE ? GZIP_PIECE : in->n;
        const uint8_t *p = in->p;
        int result = 0;
        (void)sg_input_take(in, n);
        if (u->gunzip)
            result = sg_gunzip_feed(u->gunzip, p, n, put_piece, u, err);
        else
            (void)sg_pour_add(&u->pour, p, n);
        if (result == 0)
            result = settle(u, in);
        if (result)
            return result;
    }
    if (!u->is_last || !u->write)
        return 0;
    if (u->gunzip && !sg_gunzip_is_over(u->gunzip))
        return sg_fail(err, SG_INVALID, "the compressed body is cut off");
    return end_file(u, in);
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

static bool is_printable(const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (p[i] < ' ' || p[i] > '~')
            return false;
    return true;
}

/* A name that comes again has its last value. */
static void put_label(char **labels, char *name, char *value)
{
    while (labels[0] && strcmp(labels[0], name) != 0)
        labels += 2;
    labels[0] = name;
    labels[1] = value;
}

/* "X-Metadata-NAME: value", names in lower case. Without any, a file loses those that it had. */
static int read_labels(struct upload *u, struct sg_err *err)
{
    struct sg_call *c = u->call;
    const char *value;
    struct sg_str name;
    size_t bytes = 0, count = 0;
    for (unsigned at = 0; sg_call_header_next(c, LABEL_HEADER, &at, &name);)
        count++;
    u->labels = sg_arena_alloc(&c->arena, (2 * count + 1) * sizeof(char *));
    if (!u->labels)
        return sg_fail(err, SG_EXHAUSTED, "no room for the call");
    for (unsigned at = 0; (value = sg_call_header_next(c, LABEL_HEADER, &at, &name));) {
        char *low = sg_arena_copy(&c->arena, name.p, name.n);
        char *copy = sg_arena_copy(&c->arena, value, strlen(value));
        if (!low || !copy)
            return sg_fail(err, SG_EXHAUSTED, "no room for the call");
        for (char *p = low; *p; p++)
            *p = (char)tolower((unsigned char)*p);
        bytes += strlen(SG_LABEL_PREFIX) + name.n + strlen(value);
        if (!name.n || name.n > LABEL_NAME_MAX || bytes > LABELS_MAX)
            return sg_fail(err, SG_INVALID,
                           "metadata: a key has 1 to %d bytes, and all together %d at most",
                           LABEL_NAME_MAX, LABELS_MAX);
        if (!is_printable(value, strlen(value)))
            return sg_fail(err, SG_INVALID, "metadata %s: only printable ASCII is permitted",
                           sg_quote(low).s);
        put_label(u->labels, low, copy);
    }
    return 0;
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
    *u = (struct upload) { .call = c, .target = path && path[0] ? path : NULL };
    u->tail = &u->first;
    sg_buf_init(&u->rest, MAX_REST);
    if (read_labels(u, err) < 0 || read_form(u, err) < 0) {
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
