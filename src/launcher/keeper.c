/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/keeper.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/log.h"
#include "launcher/launcher.h"
#include "base/banned.h"

enum { MESSAGES_A_TURN = 32 };

struct sg_question {
    uint32_t id;
    sg_keeper_answer *done; /* NULL: nobody waits */
    void *arg;
    struct sg_later late; /* it could not be asked */
    struct sg_launcher *launcher;
    struct sg_question *next;
};

/* ---- questions ---- */

static struct sg_question *take(struct sg_launcher *l, uint32_t id)
{
    for (struct sg_question **p = &l->keeper.questions; *p; p = &(*p)->next)
        if ((*p)->id == id) {
            struct sg_question *q = *p;
            *p = q->next;
            sg_later_cancel(l->loop, &q->late);
            return q;
        }
    return NULL;
}

static void answer(struct sg_launcher *l, uint32_t id, const struct sg_msg *m,
                   const struct sg_err *err)
{
    sg_auto_free struct sg_question *q = take(l, id);
    if (q && q->done)
        q->done(q->arg, m, err);
}

static void not_asked(struct sg_later *later)
{
    const struct sg_question *q = SG_OWNER(later, struct sg_question, late);
    struct sg_err err = { 0 };
    sg_fail(&err, SG_UNAVAILABLE, "%s",
            q->launcher->keeper.why[0] ? q->launcher->keeper.why : "the keeper is being started");
    answer(q->launcher, q->id, NULL, &err);
}

void sg_keeper_ask(struct sg_launcher *l, struct sg_msg *m, sg_keeper_answer *done, void *arg)
{
    sg_keeper_ask_with(l, m, -1, done, arg);
}

void sg_keeper_ask_with(struct sg_launcher *l, struct sg_msg *m, int fd, sg_keeper_answer *done,
                        void *arg)
{
    struct sg_keeper_link *k = &l->keeper;
    struct sg_question *q = sg_new(struct sg_question);
    struct sg_err err = { 0 };
    if (++k->last_id == 0)
        k->last_id = 1;
    *q = (struct sg_question) { .id = k->last_id,
                                .done = done,
                                .arg = arg,
                                .late.call = not_asked,
                                .launcher = l,
                                .next = k->questions };
    k->questions = q;
    m->id = q->id;
    if (k->io.fd < 0 || sg_chan_send(k->io.fd, m, &fd, fd >= 0, false, &err) < 0)
        sg_later_call(l->loop, &q->late);
}

void sg_keeper_forget(struct sg_launcher *l, const void *arg)
{
    for (struct sg_question *q = l->keeper.questions; q; q = q->next)
        if (q->arg == arg)
            q->done = NULL;
}

static void fail_all(struct sg_launcher *l)
{
    struct sg_err err = { 0 };
    sg_fail(&err, SG_UNAVAILABLE, "the keeper of the Docker Engine has ended");
    /* Not those that are asked meanwhile: they are told in their own time. */
    struct sg_question *q = sg_take_ptr(&l->keeper.questions);
    while (q) {
        sg_auto_free struct sg_question *gone = q;
        q = gone->next;
        sg_later_cancel(l->loop, &gone->late);
        if (gone->done)
            gone->done(gone->arg, NULL, &err);
    }
}

/* ---- what nobody has any more ---- */

static void on_removed(void *arg, const struct sg_msg *m, const struct sg_err *err)
{
    (void)arg;
    (void)m;
    if (err)
        sg_log(SG_LOG_WARN, "a container cannot be removed", SG_KV("error", err->msg));
}

static void on_list(void *arg, const struct sg_msg *m, const struct sg_err *err)
{
    struct sg_launcher *l = arg;
    if (err) {
        sg_log(SG_LOG_WARN, "containers cannot be listed", SG_KV("error", err->msg));
        return;
    }
    struct sg_texts names = m->l_listed.names;
    for (struct sg_text name; sg_text_next(&names, &name);) {
        struct sg_msg remove = { .type = SG_MSG_K_REMOVE };
        if (sg_container_has_box(l, name.p))
            continue;
        sg_log(SG_LOG_INFO, "a container that is nobody's is removed", SG_KV("container", name.p));
        remove.k_name.container = name;
        sg_keeper_ask(l, &remove, on_removed, l);
    }
}

static void on_state(struct sg_launcher *l, const struct sg_msg_k_state *s)
{
    struct sg_keeper_link *k = &l->keeper;
    struct sg_msg list = { .type = SG_MSG_K_LIST };
    k->is_up = s->is_up;
    (void)snprintf(k->why, sizeof k->why, "%s", s->why.p);
    if (k->is_up) {
        sg_keeper_ask(l, &list, on_list, l);
        sg_import_engine_is_up(l);
    }
    sg_maker_look(l); /* what could not be made can be now */
}

/* ---- its words ---- */

static void drop(struct sg_launcher *l)
{
    sg_io_drop(l->loop, &l->keeper.io);
    l->keeper.is_up = false;
    (void)snprintf(l->keeper.why, sizeof l->keeper.why, "the keeper is being started");
    fail_all(l);
}

static void on_message(struct sg_launcher *l, const struct sg_msg *m)
{
    if (m->type == SG_MSG_K_STATE) {
        on_state(l, &m->k_state);
    } else if (m->type == SG_MSG_K_FAILED) {
        struct sg_err err = { 0 };
        sg_fail(&err, m->error.kind ? (enum sg_kind)m->error.kind : SG_INTERNAL, "%s",
                m->error.text.p);
        answer(l, m->id, NULL, &err);
    } else {
        answer(l, m->id, m, NULL);
    }
}

static void on_word(struct sg_io *io, uint32_t events)
{
    struct sg_launcher *l = SG_OWNER(io, struct sg_launcher, keeper.io);
    (void)events;
    for (unsigned i = 0; i < MESSAGES_A_TURN && io->fd >= 0; i++) {
        struct sg_err err = { 0 };
        switch (sg_chan_recv(io->fd, 1u << SG_ROLE_KEEPER_ANSWER | 1u << SG_ROLE_KEEPER_NEWS, false,
                             &l->keeper.packet, &err)) {
        case SG_RECV_AGAIN:
            return;
        case SG_RECV_MESSAGE:
            on_message(l, &l->keeper.packet.msg);
            break;
        case SG_RECV_CLOSED:
        case SG_RECV_ERROR: /* the end of it, or of our trust in it */
            drop(l);
            sg_child_kill(&l->keeper.child);
            return;
        }
    }
}

/* ---- its life ---- */

static int start(struct sg_child *c, struct sg_err *err)
{
    struct sg_launcher *l = SG_OWNER(c, struct sg_launcher, keeper.child);
    l->keeper.io = (struct sg_io) { .fd = -1, .ready = on_word };
    return sg_child_spawn_joined(c, &l->keeper.io, err);
}

static bool ended(struct sg_child *c, int status)
{
    struct sg_launcher *l = SG_OWNER(c, struct sg_launcher, keeper.child);
    (void)status;
    drop(l);
    if (!c->is_ending)
        return true;
    sg_launcher_box_gone(l); /* it may be what an ending launcher waits for */
    return false;
}

static const struct sg_child_ops ops = { "sandglass-keeper", "keeper", start, ended };

int sg_keeper_start(struct sg_launcher *l, struct sg_err *err)
{
    (void)snprintf(l->keeper.why, sizeof l->keeper.why, "the keeper is being started");
    return sg_child_begin(&l->keeper.child, l->loop, &ops, l->keeper.program, l->daemon.config,
                          err);
}

void sg_keeper_stop(struct sg_launcher *l)
{
    if (l->keeper.program)
        (void)sg_child_end(&l->keeper.child);
}

void sg_keeper_done(struct sg_launcher *l)
{
    if (l->keeper.io.fd >= 0)
        sg_io_drop(l->loop, &l->keeper.io);
    while (l->keeper.questions)
        free(take(l, l->keeper.questions->id));
}
