/* SPDX-License-Identifier: Apache-2.0 */
#include "api/body_file.h"

#include "manager/manager.h"
#include "base/banned.h"

static void committed(void *arg, const struct sg_err *err)
{
    struct sg_body_file *f = arg;
    f->done(f, err);
}

/* All is in the pipe, or the sandbox has given up: the answer tells. Who sent everything may close
 * his side. */
static void commit(struct sg_body_file *f)
{
    struct sg_file_write *w = f->write;
    f->call->on_gone = NULL;
    f->write = NULL;
    sg_pour_close(&f->pour);
    sg_files_commit(w, committed, f);
}

static void emptied(struct sg_pour *p)
{
    struct sg_body_file *f = SG_OWNER(p, struct sg_body_file, pour);
    if (f->is_last || p->is_broken)
        commit(f);
    else
        sg_call_pause_body(f->call, false);
}

static void take_piece(struct sg_call *c, const void *p, size_t n, bool is_last)
{
    struct sg_body_file *f = c->state;
    f->bytes += n;
    f->is_last = is_last;
    if (f->moved)
        f->moved(f);
    if (!sg_pour_add(&f->pour, p, n)) {
        sg_call_pause_body(c, true);
    } else if (is_last || f->pour.is_broken) {
        sg_call_pause_body(c, true);
        commit(f);
    }
}

static void sender_gone(struct sg_call *c)
{
    struct sg_body_file *f = c->state;
    sg_pour_close(&f->pour);
    sg_files_abandon(f->write);
    sg_reply_end(c);
}

/* The file is there: the body may come. */
static void opened(void *arg, struct sg_file_write *w, int fd, const struct sg_err *err)
{
    struct sg_body_file *f = arg;
    struct sg_call *c = f->call;
    if (!w) {
        f->done(f, err);
        return;
    }
    f->write = w;
    sg_pour_open(&f->pour, sg_manager_loop(c->manager), fd, emptied);
    if (c->is_gone) {
        sender_gone(c);
        return;
    }
    c->on_body = take_piece;
    c->on_gone = sender_gone;
    sg_call_pause_body(c, false);
}

int sg_body_file_begin(struct sg_body_file *f, struct sg_sandbox *s,
                       const struct sg_file_spec *spec, struct sg_err *err)
{
    f->call->state = f;
    sg_call_pause_body(f->call, true);
    return sg_files_write(s, &f->call->who, spec, opened, f, err);
}
