/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/gate.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/log.h"
#include "ctl/chan.h"
#include "engine/netsock.h"
#include "launcher/launcher.h"
#include "base/banned.h"

enum { ATTACHED_A_TURN = 16 };
static const uint64_t RETRY_NS = 5000000;

/* ---- whether there is one ---- */

/* The first way that works, by trying it in a namespace of its own. */
static bool choose_lead(struct sg_launcher *l, enum sg_lead wanted)
{
    for (enum sg_lead how = SG_LEAD_LOOKUP; how < SG_LEAD_COUNT; how++) {
        struct sg_err err = { 0 };
        int fds[SG_G_FD_COUNT];
        if (wanted != SG_LEAD_AUTO ? how != wanted : how == SG_LEAD_LOOKUP && l->set.is_rootless)
            continue;
        if (sg_netsock_make_apart(how, -1, fds, &err) == 0) {
            for (unsigned i = 0; i < SG_G_FD_COUNT; i++)
                sg_close_p(&fds[i]);
            l->gate.how = how;
            return true;
        }
        (void)snprintf(l->gate.why, sizeof l->gate.why, "%s", err.msg);
    }
    sg_log(SG_LOG_WARN, "sandboxes have no network (see 'sandglass doctor')",
           SG_KV("why", l->gate.why));
    return false;
}

void sg_gate_find(struct sg_launcher *l, enum sg_lead wanted)
{
    sg_auto_free char *program = sg_child_program("sandglass-gate", "gate");
    if (access(program, X_OK) < 0)
        (void)snprintf(l->gate.why, sizeof l->gate.why, "the gate is not installed");
    else if (choose_lead(l, wanted))
        l->gate.program = sg_take_ptr(&program);
}

/* ---- orders ---- */

static int order(struct sg_launcher *l, struct sg_msg *m, const int *fds, unsigned count,
                 struct sg_err *err)
{
    if (l->gate.io.fd < 0)
        return sg_fail(err, SG_UNAVAILABLE, "the gate is being started");
    return sg_chan_send(l->gate.io.fd, m, fds, count, false, err);
}

static int send_sockets(struct sg_box *b, struct sg_err *err)
{
    struct sg_launcher *l = b->launcher;
    struct sg_msg m = { .type = SG_MSG_G_ATTACH };
    int fds[SG_G_FD_COUNT];
    m.l_name.sandbox = sg_text_of(b->record.sandbox);
    if (l->set.is_rootless
            ? sg_netsock_make_apart(l->gate.how, b->kept.pidfd, fds, err) < 0
            : sg_netsock_make_in(l->gate.how, l->gate.own_net_fd, b->kept.pidfd, fds, err) < 0)
        return -1;
    int ret = order(l, &m, fds, SG_G_FD_COUNT, err);
    for (unsigned i = 0; i < SG_G_FD_COUNT; i++)
        sg_close_p(&fds[i]);
    return ret;
}

/* A few at a time: between them others are served. What does not go now goes in a moment. */
static void attach_some(struct sg_timer *t, uint64_t now_ns)
{
    struct sg_launcher *l = SG_OWNER(t, struct sg_launcher, gate.retry);
    unsigned n = 0;
    bool is_more = false;
    if (l->gate.io.fd < 0)
        return;
    for (struct sg_box *b = l->boxes; b && !is_more; b = b->all_next) {
        struct sg_err err = { 0 };
        if (b->state != SG_BOX_CLAIMED || !b->wants_net || b->has_net)
            continue;
        if (n++ == ATTACHED_A_TURN) {
            is_more = true;
        } else if (send_sockets(b, &err) == 0) {
            b->has_net = true;
        } else if (err.sys == EAGAIN || err.kind == SG_UNAVAILABLE) {
            is_more = true;
        } else {
            b->wants_net = false;
            sg_log(SG_LOG_ERROR, "a sandbox's network cannot be made",
                   SG_KV("sandbox", b->record.sandbox), SG_KV("error", err.msg));
        }
    }
    if (is_more)
        sg_timer_set(l->loop, t, now_ns + (n > ATTACHED_A_TURN ? 0 : RETRY_NS));
}

int sg_gate_attach(struct sg_box *b, struct sg_err *err)
{
    struct sg_launcher *l = b->launcher;
    struct sg_err own = { 0 };
    if (!l->gate.program)
        return sg_fail(err, SG_UNSUPPORTED, "sandboxes have no network here: %s", l->gate.why);
    b->wants_net = true;
    if (b->has_net)
        return 0;
    if (send_sockets(b, &own) == 0) {
        b->has_net = true;
        return 0;
    }
    if (own.sys != EAGAIN && own.kind != SG_UNAVAILABLE) {
        b->wants_net = false;
        *err = own;
        return sg_wrap(err, "make the sandbox's network");
    }
    sg_timer_set(l->loop, &l->gate.retry, sg_loop_now(l->loop) + RETRY_NS);
    return 0;
}

void sg_gate_detach(struct sg_box *b)
{
    struct sg_msg m = { .type = SG_MSG_G_DETACH };
    struct sg_err err = { 0 };
    const bool had = b->has_net;
    b->wants_net = b->has_net = false;
    m.l_name.sandbox = sg_text_of(b->record.sandbox);
    /* One that does not take orders is replaced: what it holds goes with it. */
    if (had && order(b->launcher, &m, NULL, 0, &err) < 0 && b->launcher->gate.io.fd >= 0)
        sg_child_kill(&b->launcher->gate.child);
}

/* ---- the two together ---- */

void sg_gate_join(struct sg_launcher *l)
{
    struct sg_msg to_gate = { .type = SG_MSG_G_DAEMON }, to_daemon = { .type = SG_MSG_L_GATE };
    struct sg_err err = { 0 };
    int pair[2];
    if (l->gate.io.fd < 0 || !l->conn.has_hello)
        return;
    if (sg_chan_pair(pair, &err) < 0 || order(l, &to_gate, &pair[0], 1, &err) < 0) {
        sg_log(SG_LOG_ERROR, "gate and daemon cannot be joined", SG_KV("error", err.msg));
        sg_child_kill(&l->gate.child);
        return;
    }
    sg_conn_send(l, &to_daemon, pair[1]);
    sg_close_p(&pair[0]);
    sg_close_p(&pair[1]);
}

/* ---- its life ---- */

static void drop(struct sg_launcher *l)
{
    sg_io_drop(l->loop, &l->gate.io);
    for (struct sg_box *b = l->boxes; b; b = b->all_next)
        b->has_net = false;
}

static void on_word(struct sg_io *io, uint32_t events)
{
    (void)events; /* it has nothing to say to us: this is its end, or the end of our trust in it */
    struct sg_launcher *l = SG_OWNER(io, struct sg_launcher, gate.io);
    drop(l);
    sg_child_kill(&l->gate.child);
}

static int start(struct sg_child *c, struct sg_err *err)
{
    struct sg_launcher *l = SG_OWNER(c, struct sg_launcher, gate.child);
    l->gate.io = (struct sg_io) { .fd = -1, .ready = on_word };
    if (sg_child_spawn_joined(c, &l->gate.io, err) < 0)
        return -1;
    sg_gate_join(l);
    sg_timer_set(l->loop, &l->gate.retry, sg_loop_now(l->loop));
    return 0;
}

static bool ended(struct sg_child *c, int status)
{
    (void)status;
    struct sg_launcher *l = SG_OWNER(c, struct sg_launcher, gate.child);
    drop(l);
    if (!c->is_ending)
        return true;
    sg_launcher_box_gone(l); /* it may be what an ending launcher waits for */
    return false;
}

static const struct sg_child_ops ops = { "sandglass-gate", "gate", start, ended };

int sg_gate_start(struct sg_launcher *l, struct sg_err *err)
{
    l->gate.retry.fire = attach_some;
    l->gate.own_net_fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    if (l->gate.own_net_fd < 0)
        return sg_fail_sys(err, "open our own network namespace");
    return sg_child_begin(&l->gate.child, l->loop, &ops, l->gate.program, l->daemon.config, err);
}

void sg_gate_stop(struct sg_launcher *l)
{
    if (l->gate.program)
        (void)sg_child_end(&l->gate.child);
}
