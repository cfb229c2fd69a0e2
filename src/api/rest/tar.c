/* SPDX-License-Identifier: Apache-2.0 */
/* Whole trees and searches: init does the work inside, in a process of its own, and the bytes pass
 * through a pipe. A pipe that is full, or a client that is slow, holds up that process and nobody
 * else. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "api/pour.h"
#include "api/rest/rest.h"
#include "base/auto.h"
#include "base/parse.h"
#include "manager/files.h"
#include "base/banned.h"

enum { PIECE_BYTES = 65536, FOUND_MAX = 16 << 20, FIND_DEFAULT = 1000, FIND_MAX = 100000 };
enum { FIND_MAX_MS = 600000 };

struct flow {
    struct sg_call *call;
    struct sg_loop *loop;
    struct sg_io io;     /* our end of the pipe */
    struct sg_pour pour; /* up: into it */
    struct sg_buf rest;  /* search: what was found */
    struct sg_err failure;
    bool is_answered; /* init has replied */
    bool is_at_end;   /* down: the pipe is empty for good; up: the body is */
    bool is_dead;     /* the call is over; init's answer is still to come */
    bool has_text;
};

static void drop_pipe(struct flow *f)
{
    sg_pour_close(&f->pour);
    sg_io_drop(f->loop, &f->io);
}

static void end_flow(struct flow *f)
{
    drop_pipe(f);
    sg_buf_done(&f->rest);
}

static void settled(struct sg_call *c, const struct sg_err *err)
{
    sg_rest_reply_done(c, err);
}

/* The call must not end before init has answered: the answer would find nothing. */
static void finish(struct flow *f)
{
    struct sg_call *c = f->call;
    const struct sg_err failure = f->failure;
    const bool is_dead = f->is_dead;
    end_flow(f);
    if (is_dead)
        sg_reply_end(c);
    else if (failure.kind != SG_OK && c->has_started)
        sg_reply_abort(c);
    else if (failure.kind != SG_OK)
        sg_reply_error(c, &failure);
    else if (c->has_started)
        sg_reply_end(c);
    else
        sg_rest_settle(c, settled);
}

static void client_gone(struct sg_call *c)
{
    struct flow *f = c->state;
    f->is_dead = true;
    drop_pipe(f); /* init's process finds no reader, or an end */
    if (f->is_answered)
        finish(f);
}

static struct flow *prepare(struct sg_call *c, size_t max, struct sg_err *err)
{
    struct flow *f = sg_arena_alloc(&c->arena, sizeof *f);
    if (!f) {
        (void)sg_fail(err, SG_EXHAUSTED, "no room for the call");
        return NULL;
    }
    *f = (struct flow) { .call = c, .loop = sg_manager_loop(c->manager), .io.fd = -1 };
    sg_buf_init(&f->rest, max);
    c->state = f;
    return f;
}

/* Our end is `near` (0: we read, 1: we write); the other goes to init with the question. */
static int ask(struct flow *f, struct sg_sandbox *s, struct sg_msg *m, unsigned near,
               sg_files_cb *answered, struct sg_err *err)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return sg_fail_sys(err, "make a pipe");
    sg_auto_fd far = ends[!near];
    f->io.fd = ends[near];
    if (fcntl(f->io.fd, F_SETFL, O_NONBLOCK) < 0)
        return sg_fail_sys(err, "prepare a pipe");
    return sg_files_ask(s, &f->call->who, m, &far, 1, answered, f, err);
}

static struct sg_text user_of(struct sg_call *c)
{
    const char *user = sg_call_query(c, "user");
    return sg_text_of(user ? user : "");
}

/* ---- down: a tree as an archive ---- */

static void tar_readable(struct sg_io *io, uint32_t events)
{
    (void)events;
    struct flow *f = SG_OWNER(io, struct flow, io);
    char piece[PIECE_BYTES];
    ssize_t n = read(io->fd, piece, sizeof piece);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        f->is_at_end = true;
        sg_io_drop(f->loop, io);
        if (f->is_answered)
            finish(f);
        return;
    }
    if (!f->call->has_started)
        sg_reply_start(f->call, 200, "application/x-tar");
    if (!sg_reply_add(f->call, piece, (size_t)n))
        (void)sg_io_want(f->loop, io, 0, NULL);
}

static void tar_drained(struct sg_call *c)
{
    struct flow *f = c->state;
    if (f->io.fd >= 0)
        (void)sg_io_want(f->loop, &f->io, EPOLLIN, NULL);
}

static void tar_sent(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    struct flow *f = arg;
    f->is_answered = true;
    if (!p)
        f->failure = *err;
    if (f->is_at_end || f->is_dead)
        finish(f);
}

int sg_rest_tar_get(struct sg_call *c, struct sg_err *err)
{
    static const char *const known[] = { "path", "user", NULL };
    struct sg_sandbox *s = sg_rest_sandbox(c, err);
    const char *path = s ? sg_rest_path(c, err) : NULL;
    if (!path || sg_call_query_only(c, known, err) < 0)
        return -1;
    struct flow *f = prepare(c, 0, err);
    struct sg_msg m = { .type = SG_MSG_TAR_OUT };
    m.tar = (struct sg_msg_tar) { user_of(c), sg_text_of(path), 0 };
    if (!f)
        return -1;
    f->io.ready = tar_readable;
    if (ask(f, s, &m, 0, tar_sent, err) < 0) {
        end_flow(f);
        return -1;
    }
    c->on_drain = tar_drained;
    c->on_gone = client_gone;
    if (sg_io_want(f->loop, &f->io, EPOLLIN, &f->failure) < 0)
        sg_io_drop(f->loop, &f->io); /* init's answer ends the call */
    return 0;
}

/* ---- up: an archive into a tree ---- */

static void push_on(struct flow *f)
{
    if (f->is_at_end)
        drop_pipe(f); /* the end of the archive */
    if (!f->is_at_end)
        sg_call_pause_body(f->call, false);
    else if (f->is_answered)
        finish(f);
}

static void emptied(struct sg_pour *p)
{
    push_on(SG_OWNER(p, struct flow, pour));
}

static void take_piece(struct sg_call *c, const void *p, size_t n, bool is_last)
{
    struct flow *f = c->state;
    f->is_at_end = is_last;
    sg_call_pause_body(c, true);
    if (sg_pour_add(&f->pour, p, n)) /* where init has given up, its answer says why */
        push_on(f);
}

static void tar_taken(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    struct flow *f = arg;
    f->is_answered = true;
    if (!p)
        f->failure = *err;
    if (f->is_at_end || f->is_dead || !p) /* a refusal need not wait for the rest of the body */
        finish(f);
}

int sg_rest_tar_put(struct sg_call *c, struct sg_err *err)
{
    static const char *const known[] = { "path", "user", NULL };
    struct sg_sandbox *s = sg_rest_sandbox(c, err);
    const char *path = s ? sg_rest_path(c, err) : NULL;
    if (!path || sg_call_query_only(c, known, err) < 0)
        return -1;
    struct flow *f = prepare(c, 0, err);
    struct sg_msg m = { .type = SG_MSG_TAR_IN };
    m.tar = (struct sg_msg_tar) { user_of(c), sg_text_of(path), SG_TAR_OVERWRITE };
    if (!f)
        return -1;
    if (ask(f, s, &m, 1, tar_taken, err) < 0) {
        end_flow(f);
        return -1;
    }
    sg_pour_open(&f->pour, f->loop, f->io.fd, emptied);
    c->on_body = take_piece;
    c->on_gone = client_gone;
    sg_call_pause_body(c, false); /* it may have waited for the volume */
    return 0;
}

/* ---- search ---- */

static void put_found(struct flow *f, struct sg_json *j)
{
    const char *p = (const char *)f->rest.p, *end = p + f->rest.n;
    while (p < end) {
        const char *part[3];
        unsigned i = 0;
        for (; i < 3; i++) { /* path NUL line NUL text NUL */
            const char *nul = memchr(p, 0, (size_t)(end - p));
            if (!nul)
                return;
            part[i] = p;
            p = nul + 1;
        }
        uint64_t line = 0;
        sg_json_open(j, '{');
        sg_json_key(j, "path");
        sg_json_str(j, part[0]);
        if (f->has_text && sg_parse_u64(sg_str_of(part[1]), 1, UINT64_MAX, &line, NULL) == 0) {
            sg_json_key(j, "line");
            sg_json_u64(j, line);
            sg_json_key(j, "text");
            sg_json_str(j, part[2]);
        }
        sg_json_close(j, '}');
    }
}

static void finish_search(struct flow *f)
{
    if (f->is_dead || f->failure.kind != SG_OK) {
        finish(f);
        return;
    }
    struct sg_call *c = f->call;
    sg_auto_buf out;
    sg_buf_init(&out, SG_REST_MAX_REPLY);
    struct sg_json j;
    sg_json_init(&j, &out);
    sg_json_open(&j, '{');
    sg_json_key(&j, "found");
    sg_json_open(&j, '[');
    put_found(f, &j);
    sg_json_close(&j, ']');
    sg_json_close(&j, '}');
    end_flow(f);
    sg_reply_json(c, 200, &out);
}

static void found_readable(struct sg_io *io, uint32_t events)
{
    (void)events;
    struct flow *f = SG_OWNER(io, struct flow, io);
    char piece[PIECE_BYTES];
    ssize_t n = read(io->fd, piece, sizeof piece);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n > 0)
        sg_buf_add(&f->rest, piece, (size_t)n);
    if (f->rest.has_overflowed && f->failure.kind == SG_OK)
        (void)sg_fail(&f->failure, SG_EXHAUSTED, "over %d bytes were found: narrow the search",
                      FOUND_MAX);
    if (n > 0 && !f->rest.has_overflowed)
        return;
    f->is_at_end = true;
    sg_io_drop(f->loop, io);
    if (f->is_answered)
        finish_search(f);
}

static void searched(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    struct flow *f = arg;
    f->is_answered = true;
    if (!p && f->failure.kind == SG_OK)
        f->failure = *err;
    if (f->is_at_end || f->is_dead)
        finish_search(f);
}

int sg_rest_file_search(struct sg_call *c, struct sg_err *err)
{
    static const char *const known[] = { "path", "user", "name", "text", "max", "timeoutMs", NULL };
    uint64_t max = FIND_DEFAULT, timeout_ms = 0;
    struct sg_sandbox *s = sg_rest_sandbox(c, err);
    const char *path = s ? sg_rest_path(c, err) : NULL;
    if (!path || sg_call_query_only(c, known, err) < 0 ||
        sg_call_query_u64(c, "max", 1, FIND_MAX, &max, err) < 0 ||
        sg_call_query_u64(c, "timeoutMs", 1, FIND_MAX_MS, &timeout_ms, err) < 0)
        return -1;
    const char *name = sg_call_query(c, "name"), *text = sg_call_query(c, "text");
    struct flow *f = prepare(c, FOUND_MAX, err);
    if (!f)
        return -1;
    f->has_text = text && *text;
    f->io.ready = found_readable;
    struct sg_msg m = { .type = SG_MSG_FIND };
    m.find = (struct sg_msg_find) { .user = user_of(c),
                                    .path = sg_text_of(path),
                                    .name = sg_text_of(name ? name : ""),
                                    .text = sg_text_of(text ? text : ""),
                                    .flags = f->has_text ? SG_FIND_TEXT : 0,
                                    .max = (uint32_t)max,
                                    .timeout_ms = (uint32_t)timeout_ms };
    if (ask(f, s, &m, 0, searched, err) < 0) {
        end_flow(f);
        return -1;
    }
    c->on_gone = client_gone;
    if (sg_io_want(f->loop, &f->io, EPOLLIN, &f->failure) < 0)
        sg_io_drop(f->loop, &f->io);
    return 0;
}
