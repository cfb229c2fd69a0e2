/* SPDX-License-Identifier: Apache-2.0 */
/* filesystem.Filesystem, the small calls. Each is one question to init, and another where the first
 * answer leaves open what the client is to be told. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "api/e2b/e2b.h"
#include "api/e2b/entry.h"
#include "api/e2b/root.h"
#include "base/auto.h"
#include "manager/files.h"
#include "base/banned.h"

enum { DIR_MODE = 0755 };

static const char *body_path(struct sg_call *c, const char *key, struct sg_err *err)
{
    return sg_e2b_path(c, sg_e2b_text(sg_e2b_visit(c)->body, key), err);
}

static void fail(struct sg_call *c, const char *path, const struct sg_err *err)
{
    struct sg_err own = *err;
    if (sg_e2b_again_as_root(c, err))
        return;
    if (err->sys == ENOENT)
        (void)sg_fail(&own, SG_NOT_FOUND, "path %s does not exist", sg_quote(path).s);
    else if (err->sys == ELOOP)
        own.kind = SG_CONFLICT; /* failed_precondition */
    sg_reply_error(c, &own);
}

/* {"entry":{...}} */
static void reply_entry(struct sg_call *c, void *arg, const struct sg_e2b_entry *e,
                        const struct sg_err *err)
{
    sg_auto_buf out = { 0 };
    struct sg_json j;
    if (!e) {
        fail(c, arg, err);
        return;
    }
    sg_buf_init(&out, 64 << 10);
    sg_json_init(&j, &out);
    sg_json_open(&j, '{');
    sg_json_key(&j, "entry");
    sg_e2b_put_entry(c, &j, e);
    sg_json_close(&j, '}');
    sg_reply_json(c, 200, &out);
}

static void look_and_reply(struct sg_call *c, const char *path)
{
    struct sg_err err = { 0 };
    struct sg_sandbox *s = sg_e2b_visited(c, &err);
    if (!s || sg_e2b_look(c, s, path, reply_entry, (void *)(uintptr_t)path, &err) < 0)
        sg_reply_error(c, &err);
}

int sg_envd_stat(struct sg_call *c, struct sg_sandbox *s, struct sg_err *err)
{
    const char *path = body_path(c, "path", err);
    return path ? sg_e2b_look(c, s, path, reply_entry, (void *)(uintptr_t)path, err) : -1;
}

/* ---- MakeDir: what is there already is told apart from what could not be made ---- */

struct making {
    struct sg_call *call;
    const char *path;
    bool has_tried_parents;
};

static int make(struct making *m, struct sg_sandbox *s, uint32_t flags, struct sg_err *err);

static void tell_existing(struct sg_call *c, void *arg, const struct sg_e2b_entry *e,
                          const struct sg_err *err)
{
    struct sg_err own = { 0 };
    if (!e) {
        fail(c, arg, err);
        return;
    }
    const bool is_dir = S_ISDIR(S_ISLNK(e->mode) ? e->target_mode : e->mode);
    (void)sg_fail(&own, SG_INVALID, "path %s %s", sg_quote(arg).s,
                  is_dir ? "already exists" : "already exists but it is not a directory");
    if (is_dir)
        own.sys = EEXIST;
    sg_reply_error(c, &own);
}

static void made(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    struct making *m = arg;
    struct sg_call *c = m->call;
    struct sg_err own = { 0 };
    struct sg_sandbox *s = sg_e2b_visited(c, &own);
    int result = s ? 0 : -1;
    if (p) {
        look_and_reply(c, m->path);
        return;
    }
    if (s && err->sys == EEXIST) {
        result = sg_e2b_look(c, s, m->path, tell_existing, (void *)(uintptr_t)m->path, &own);
    } else if (s && err->sys == ENOENT && !m->has_tried_parents) {
        m->has_tried_parents = true;
        result = make(m, s, SG_MAKE_PARENTS, &own);
    } else if (s) {
        fail(c, m->path, err);
        return;
    }
    if (result < 0)
        sg_reply_error(c, &own);
}

static int make(struct making *m, struct sg_sandbox *s, uint32_t flags, struct sg_err *err)
{
    struct sg_call *c = m->call;
    struct sg_msg q = { .type = SG_MSG_MAKE };
    q.make = (struct sg_msg_make) { sg_text_of(sg_e2b_visit(c)->user), sg_text_of(m->path), flags,
                                    DIR_MODE };
    return sg_files_ask(s, &c->who, &q, NULL, 0, made, m, err);
}

static void owned(void *arg, const struct sg_err *err)
{
    struct making *m = arg;
    if (err)
        fail(m->call, m->path, err);
    else
        look_and_reply(m->call, m->path);
}

int sg_envd_make_dir(struct sg_call *c, struct sg_sandbox *s, struct sg_err *err)
{
    struct making *m = sg_arena_alloc(&c->arena, sizeof *m);
    const char *path = body_path(c, "path", err);
    if (!path)
        return -1;
    if (!m)
        return sg_fail(err, SG_EXHAUSTED, "no room for the call");
    *m = (struct making) { .call = c, .path = path };
    return sg_e2b_visit(c)->owner ? sg_e2b_make_owned(c, path, owned, m, err) : make(m, s, 0, err);
}

/* ---- Move: directories above the new place are made where they are missing ---- */

struct moving {
    struct sg_call *call;
    const char *from, *to;
    bool has_made_parents;
};

static int move(struct moving *m, struct sg_sandbox *s, struct sg_err *err);

static void parents_made(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    struct moving *m = arg;
    struct sg_err own = { 0 };
    struct sg_sandbox *s = sg_e2b_visited(m->call, &own);
    if (!p)
        fail(m->call, m->to, err);
    else if (!s || move(m, s, &own) < 0)
        sg_reply_error(m->call, &own);
}

/* The source is there, so it is the place that is not. */
static void source_seen(struct sg_call *c, void *arg, const struct sg_e2b_entry *e,
                        const struct sg_err *err)
{
    struct moving *m = arg;
    struct sg_err own = { 0 };
    struct sg_sandbox *s = sg_e2b_visited(c, &own);
    const char *parent = sg_e2b_parent(c, m->to);
    if (!e) {
        fail(c, m->from, err);
        return;
    }
    struct sg_msg q = { .type = SG_MSG_MAKE };
    q.make = (struct sg_msg_make) { sg_text_of(sg_e2b_visit(c)->user),
                                    sg_text_of(parent ? parent : "/"), SG_MAKE_PARENTS, DIR_MODE };
    m->has_made_parents = true;
    if (!s || sg_files_ask(s, &c->who, &q, NULL, 0, parents_made, m, &own) < 0)
        sg_reply_error(c, &own);
}

static void moved(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    struct moving *m = arg;
    struct sg_call *c = m->call;
    struct sg_err own = { 0 };
    if (p) {
        look_and_reply(c, m->to);
        return;
    }
    if (err->sys != ENOENT || m->has_made_parents) {
        fail(c, m->from, err);
        return;
    }
    struct sg_sandbox *s = sg_e2b_visited(c, &own);
    if (!s || sg_e2b_look(c, s, m->from, source_seen, m, &own) < 0)
        sg_reply_error(c, &own);
}

static int move(struct moving *m, struct sg_sandbox *s, struct sg_err *err)
{
    struct sg_call *c = m->call;
    struct sg_msg q = { .type = SG_MSG_MOVE };
    q.move = (struct sg_msg_move) { sg_text_of(sg_e2b_visit(c)->user), sg_text_of(m->from),
                                    sg_text_of(m->to), 0 };
    return sg_files_ask(s, &c->who, &q, NULL, 0, moved, m, err);
}

int sg_envd_move(struct sg_call *c, struct sg_sandbox *s, struct sg_err *err)
{
    struct moving *m = sg_arena_alloc(&c->arena, sizeof *m);
    if (!m)
        return sg_fail(err, SG_EXHAUSTED, "no room for the call");
    *m = (struct moving) { .call = c };
    if (!(m->from = body_path(c, "source", err)) || !(m->to = body_path(c, "destination", err)))
        return -1;
    return move(m, s, err);
}

/* ---- Remove: what is not there is gone ---- */

static void removed(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    if (p || err->sys == ENOENT)
        sg_envd_reply_nothing(arg);
    else if (!sg_e2b_again_as_root(arg, err))
        sg_reply_error(arg, err);
}

int sg_envd_remove(struct sg_call *c, struct sg_sandbox *s, struct sg_err *err)
{
    const char *path = body_path(c, "path", err);
    struct sg_msg m = { .type = SG_MSG_REMOVE };
    if (!path)
        return -1;
    m.remove = (struct sg_msg_path) { sg_text_of(sg_e2b_visit(c)->user), sg_text_of(path),
                                      SG_REMOVE_RECURSIVE };
    return sg_files_ask(s, &c->who, &m, NULL, 0, removed, c, err);
}
