/* SPDX-License-Identifier: Apache-2.0 */
#include "api/e2b/root.h"

#include <errno.h>
#include <string.h>

#include "base/auto.h"
#include "manager/files.h"
#include "base/banned.h"

enum { DIR_MODE = 0755 };
static const char ROOT[] = "root";

bool sg_e2b_turn_root(struct sg_call *c, const struct sg_err *err)
{
    struct sg_e2b_visit *v = sg_e2b_visit(c);
    struct sg_err ignored;
    const struct sg_sandbox *s = sg_e2b_visited(c, &ignored);
    const char *user = v->user[0] || !s || !s->user ? v->user : s->user;
    if (v->owner || !s || strcmp(user, ROOT) == 0 || (err->sys != EACCES && err->sys != EPERM))
        return false;
    v->owner = sg_arena_copy(&c->arena, user, strlen(user));
    v->user = ROOT;
    return v->owner != NULL;
}

bool sg_e2b_again_as_root(struct sg_call *c, const struct sg_err *err)
{
    struct sg_err own = { 0 };
    struct sg_sandbox *s = sg_e2b_turn_root(c, err) ? sg_e2b_visited(c, &own) : NULL;
    if (!s)
        return false;
    if (sg_e2b_visit(c)->route->handle(c, s, &own) < 0)
        sg_reply_error(c, &own);
    return true;
}

/* ---- making and giving: one directory after the other, from the top ---- */

struct owning {
    struct sg_call *call;
    const char *whole; /* path that is to be there at the end */
    const char *path;  /* the part of it that is under way */
    size_t done_n;     /* so much of it is there */
    bool is_single;    /* nothing is made, only given */
    sg_e2b_done_cb *done;
    void *arg;
};

static int ask(struct owning *o, struct sg_msg *m, sg_files_cb *cb, struct sg_err *err)
{
    struct sg_sandbox *s = sg_e2b_visited(o->call, err);
    return s ? sg_files_ask(s, &o->call->who, m, NULL, 0, cb, o, err) : -1;
}

static int make_next(struct owning *o, struct sg_err *err);

static void go_on(struct owning *o)
{
    struct sg_err err = { 0 };
    if (o->is_single || !o->whole[o->done_n])
        o->done(o->arg, NULL);
    else if (make_next(o, &err) < 0)
        o->done(o->arg, &err);
}

static void given(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    struct owning *o = arg;
    if (p)
        go_on(o);
    else
        o->done(o->arg, err);
}

static int give(struct owning *o, struct sg_err *err)
{
    struct sg_msg m = { .type = SG_MSG_SETATTR };
    m.setattr = (struct sg_msg_setattr) { .user = sg_text_of(ROOT),
                                          .path = sg_text_of(o->path),
                                          .owner = sg_text_of(sg_e2b_visit(o->call)->owner),
                                          .what = SG_SETATTR_OWNER };
    return ask(o, &m, given, err);
}

static void made(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    struct owning *o = arg;
    struct sg_err own = { 0 };
    if (!p && err->sys == EEXIST)
        go_on(o);
    else if (!p)
        o->done(o->arg, err);
    else if (give(o, &own) < 0)
        o->done(o->arg, &own);
}

static int make_next(struct owning *o, struct sg_err *err)
{
    struct sg_msg m = { .type = SG_MSG_MAKE };
    o->done_n += 1 + strcspn(o->whole + o->done_n + 1, "/"); /* it starts with a slash */
    o->path = sg_arena_copy(&o->call->arena, o->whole, o->done_n);
    if (!o->path)
        return sg_fail(err, SG_EXHAUSTED, "no room for the call");
    m.make = (struct sg_msg_make) { sg_text_of(ROOT), sg_text_of(o->path), 0, DIR_MODE };
    return ask(o, &m, made, err);
}

static struct owning *new_owning(struct sg_call *c, const char *path, sg_e2b_done_cb *done,
                                 void *arg, struct sg_err *err)
{
    struct owning *o = sg_arena_alloc(&c->arena, sizeof *o);
    if (!o)
        (void)sg_fail(err, SG_EXHAUSTED, "no room for the call");
    else
        *o = (struct owning) { .call = c, .whole = path, .path = path, .done = done, .arg = arg };
    return o;
}

int sg_e2b_make_owned(struct sg_call *c, const char *path, sg_e2b_done_cb *done, void *arg,
                      struct sg_err *err)
{
    struct owning *o = new_owning(c, path, done, arg, err);
    return o ? make_next(o, err) : -1;
}

int sg_e2b_give(struct sg_call *c, const char *path, sg_e2b_done_cb *done, void *arg,
                struct sg_err *err)
{
    struct owning *o = new_owning(c, path, done, arg, err);
    if (!o)
        return -1;
    o->is_single = true;
    return give(o, err);
}
