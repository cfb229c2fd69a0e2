/* SPDX-License-Identifier: Apache-2.0 */
/* POST /files/compose: one file out of several, one after the other, which are then removed. How a
 * client brings a large file in pieces, side by side.
 *
 * Each source is opened by init, as the user, and read here; what is read goes into the pipe of an
 * upload, whole or not at all. Sources are removed when the new file has its name, so that nothing
 * is lost on the way. While an answer is awaited nobody is told that the client went away; the
 * answer's callback looks for itself. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/e2b/e2b.h"
#include "api/e2b/entry.h"
#include "api/pour.h"
#include "base/auto.h"
#include "manager/files.h"
#include "base/banned.h"

enum { MAX_SOURCES = 10000, PIECE_BYTES = 64 << 10, FILE_MODE = 0644 };

/* In the call's arena. */
struct composing {
    struct sg_call *call;
    const char **sources; /* absolute */
    size_t n, at;
    const char *to;
    struct sg_file_write *write;
    struct sg_pour pour;
    int fd; /* of the source that is read; -1: none */
};

static void release(struct composing *m)
{
    sg_drop_fd(&m->fd);
    sg_pour_close(&m->pour);
    if (m->write)
        sg_files_abandon(m->write);
    m->write = NULL;
}

static void fail(struct composing *m, const char *path, const struct sg_err *err)
{
    struct sg_call *c = m->call;
    struct sg_err own = *err;
    int status = 0;
    release(m);
    if (err->sys == ENOENT)
        (void)sg_fail(&own, SG_NOT_FOUND, "path %s does not exist", sg_quote(path).s);
    else if (err->sys == ENOSPC || err->sys == EDQUOT)
        status = (sg_fail(&own, SG_EXHAUSTED, "not enough disk space available"), 507);
    else if (err->kind == SG_CONFLICT || err->sys == EISDIR || err->sys == ENOTDIR)
        status = 400;
    else if (err->kind == SG_DENIED)
        status = 500; /* a token would not help */
    if (status)
        sg_e2b_error(c, status, &own);
    else
        sg_reply_error(c, &own);
}

/* True: the client is gone, and all is released. */
static bool is_over(struct composing *m)
{
    if (!m->call->is_gone)
        return false;
    release(m);
    sg_reply_end(m->call);
    return true;
}

/* ---- the end: what it was made of goes, and the client is told ---- */

static void remove_next(struct composing *m);

static void looked(struct sg_call *c, void *arg, const struct sg_e2b_entry *e,
                   const struct sg_err *err)
{
    struct composing *m = arg;
    sg_auto_buf out = { 0 };
    struct sg_json j;
    if (!e) {
        fail(m, m->to, err);
        return;
    }
    sg_buf_init(&out, 64 << 10);
    sg_json_init(&j, &out);
    sg_e2b_put_entry(c, &j, e);
    sg_reply_json(c, 200, &out);
}

static void removed(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    struct composing *m = arg;
    if (!p && err->sys != ENOENT)
        fail(m, m->sources[m->at - 1], err);
    else
        remove_next(m);
}

static void remove_next(struct composing *m)
{
    struct sg_call *c = m->call;
    struct sg_err err = { 0 };
    struct sg_sandbox *s = sg_e2b_visited(c, &err);
    int result = s ? 0 : -1;
    while (m->at < m->n && strcmp(m->sources[m->at], m->to) == 0)
        m->at++; /* it has been replaced */
    if (s && m->at < m->n) {
        struct sg_msg q = { .type = SG_MSG_REMOVE };
        q.remove = (struct sg_msg_path) { sg_text_of(sg_e2b_visit(c)->user),
                                          sg_text_of(m->sources[m->at++]), 0 };
        result = sg_files_ask(s, &c->who, &q, NULL, 0, removed, m, &err);
    } else if (s) {
        result = sg_e2b_look(c, s, m->to, looked, m, &err);
    }
    if (result < 0)
        fail(m, m->to, &err);
}

static void written(void *arg, const struct sg_err *err)
{
    struct composing *m = arg;
    if (err) {
        fail(m, m->to, err);
        return;
    }
    m->at = 0;
    remove_next(m);
}

/* ---- one source after the other ---- */

static void open_next(struct composing *m);

static void commit(struct composing *m)
{
    struct sg_file_write *w = m->write;
    m->write = NULL;
    sg_pour_close(&m->pour);
    sg_files_commit(w, written, m);
}

/* Reads until the pipe is full or the source is at its end. */
static void pump(struct composing *m)
{
    char piece[PIECE_BYTES];
    struct sg_err err = { 0 };
    while (!m->pour.is_broken) {
        const ssize_t n = read(m->fd, piece, sizeof piece);
        if (n < 0) {
            (void)sg_fail_sys(&err, "read %s", sg_quote(m->sources[m->at - 1]).s);
            fail(m, m->sources[m->at - 1], &err);
            return;
        }
        if (n == 0) {
            open_next(m);
            return;
        }
        if (!sg_pour_add(&m->pour, piece, (size_t)n))
            return;
    }
    commit(m); /* which tells why nobody reads any more */
}

static void emptied(struct sg_pour *p)
{
    struct composing *m = SG_OWNER(p, struct composing, pour);
    if (!is_over(m))
        pump(m);
}

static void opened(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    struct composing *m = arg;
    const char *path = m->sources[m->at - 1];
    struct sg_err own = { 0 };
    struct stat st;
    if (is_over(m))
        return;
    if (!p) {
        fail(m, path, err);
        return;
    }
    m->fd = sg_packet_take_fd(p, 0);
    if (m->fd < 0 || fstat(m->fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        (void)sg_fail(&own, SG_INVALID, "path %s is a directory", sg_quote(path).s);
        fail(m, path, &own);
        return;
    }
    pump(m);
}

static void open_next(struct composing *m)
{
    struct sg_call *c = m->call;
    struct sg_err err = { 0 };
    sg_drop_fd(&m->fd);
    if (m->at == m->n) {
        commit(m);
        return;
    }
    const char *path = m->sources[m->at++];
    struct sg_sandbox *s = sg_e2b_visited(c, &err);
    struct sg_msg q = { .type = SG_MSG_OPEN };
    q.open =
        (struct sg_msg_open) { sg_text_of(sg_e2b_visit(c)->user), sg_text_of(path), O_RDONLY, 0 };
    if (!s || sg_files_ask(s, &c->who, &q, NULL, 0, opened, m, &err) < 0)
        fail(m, path, &err);
}

static void begun(void *arg, struct sg_file_write *w, int fd, const struct sg_err *err)
{
    struct composing *m = arg;
    m->write = w;
    if (!w) {
        fail(m, m->to, err);
        return;
    }
    sg_pour_open(&m->pour, sg_manager_loop(m->call->manager), fd, emptied);
    if (!is_over(m))
        open_next(m);
}

/* ---- the request ---- */

static int read_sources(struct composing *m, const struct sg_jval *list, struct sg_err *err)
{
    struct sg_call *c = m->call;
    if (!list || list->kind != SG_J_ARRAY || !list->list.n || list->list.n > MAX_SOURCES)
        return sg_fail(err, SG_INVALID, "source_paths must be a list of 1 to %d paths",
                       MAX_SOURCES);
    m->sources = sg_arena_alloc(&c->arena, list->list.n * sizeof(char *));
    if (!m->sources)
        return sg_fail(err, SG_EXHAUSTED, "no room for the call");
    for (const struct sg_jval *v = list->list.first; v; v = v->next) {
        if (v->kind != SG_J_STRING || !v->s.n || memchr(v->s.p, 0, v->s.n))
            return sg_fail(err, SG_INVALID, "source_paths must be paths");
        if (!(m->sources[m->n++] = sg_e2b_path(c, v->s.p, err)))
            return -1;
    }
    return 0;
}

int sg_envd_compose(struct sg_call *c, struct sg_sandbox *s, struct sg_err *err)
{
    const struct sg_jval *body = sg_e2b_visit(c)->body;
    const char *to = sg_e2b_text(body, "destination");
    struct composing *m = sg_arena_alloc(&c->arena, sizeof *m);
    if (!m)
        return sg_fail(err, SG_EXHAUSTED, "no room for the call");
    *m = (struct composing) { .call = c, .fd = -1 };
    if (!to || !*to)
        return sg_fail(err, SG_INVALID, "destination is missing");
    if (read_sources(m, sg_e2b_get(body, "sourcePaths"), err) < 0 ||
        !(m->to = sg_e2b_path(c, to, err)))
        return -1;
    const struct sg_file_spec f = { .user = sg_e2b_visit(c)->user,
                                    .path = m->to,
                                    .flags = SG_WRITE_PARENTS | SG_WRITE_KEEP_MODE,
                                    .mode = FILE_MODE };
    return sg_files_write(s, &c->who, &f, begun, m, err);
}
