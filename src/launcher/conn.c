/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/conn.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/auto.h"
#include "base/log.h"
#include "launcher/launcher.h"
#include "launcher/serve.h"
#include "base/banned.h"

enum { MESSAGES_A_TURN = 8, MAX_QUEUED = 16384 };

struct sg_sent {
    struct sg_sent *next;
    int fds[SG_CTL_MAX_FDS]; /* duplicates */
    unsigned fd_count;
    size_t n;
    uint8_t bytes[];
};

static void close_later(struct sg_later *later)
{
    struct sg_launcher *l = SG_OWNER(later, struct sg_launcher, conn.closing);
    sg_conn_close(l);
    sg_daemon_kill(l);
}

void sg_conn_init(struct sg_conn *c)
{
    c->io = (struct sg_io) { .fd = -1 };
    sg_packet_init(&c->packet);
    sg_buf_init(&c->out, SG_CTL_MAX_BYTES);
    c->closing.call = close_later;
    c->queue_end = &c->queue;
}

void sg_conn_done(struct sg_conn *c)
{
    sg_packet_done(&c->packet);
    sg_buf_done(&c->out);
}

static void drop_first(struct sg_conn *c)
{
    struct sg_sent *s = c->queue;
    c->queue = s->next;
    if (!c->queue)
        c->queue_end = &c->queue;
    c->queued--;
    for (unsigned i = 0; i < s->fd_count; i++)
        sg_close_p(&s->fds[i]);
    free(s);
}

void sg_conn_close(struct sg_launcher *l)
{
    struct sg_conn *c = &l->conn;
    if (c->io.fd < 0)
        return;
    sg_later_cancel(l->loop, &c->closing);
    sg_io_drop(l->loop, &c->io);
    sg_packet_clear(&c->packet);
    while (c->queue)
        drop_first(c);
    c->has_hello = c->is_lost = false;
    sg_serve_daemon_lost(l);
}

/* ---- out ---- */

static void lose(struct sg_launcher *l, const char *why)
{
    if (l->conn.is_lost)
        return;
    if (!l->stopping)
        sg_log(SG_LOG_ERROR, "the daemon's connection is over", SG_KV("why", why));
    l->conn.is_lost = true;
    sg_later_call(l->loop, &l->conn.closing);
}

/* 1: sent. 0: no room. */
static int try_send(struct sg_conn *c, const void *p, size_t n, const int *fds, unsigned fd_count)
{
    struct sg_err err = { 0 };
    if (sg_chan_send_bytes(c->io.fd, p, n, fds, fd_count, false, &err) == 0)
        return 1;
    return err.sys == EAGAIN || err.sys == ENOBUFS ? 0 : -1;
}

static void enqueue(struct sg_conn *c, const int *fds, unsigned fd_count)
{
    struct sg_sent *s = sg_alloc(sizeof *s + c->out.n);
    for (s->fd_count = 0; s->fd_count < fd_count; s->fd_count++) {
        s->fds[s->fd_count] = fcntl(fds[s->fd_count], F_DUPFD_CLOEXEC, 3);
        if (s->fds[s->fd_count] < 0)
            break; /* they notice that it is missing */
    }
    s->n = c->out.n;
    memcpy(s->bytes, c->out.p, c->out.n);
    *c->queue_end = s;
    c->queue_end = &s->next;
    c->queued++;
}

static void flush(struct sg_launcher *l)
{
    struct sg_conn *c = &l->conn;
    while (c->queue) {
        int got = try_send(c, c->queue->bytes, c->queue->n, c->queue->fds, c->queue->fd_count);
        if (got < 0) /* its end is read from the socket, in its own time */
            return;
        if (got == 0)
            break;
        drop_first(c);
    }
    (void)sg_io_want(l->loop, &c->io, c->queue ? EPOLLOUT : EPOLLIN, NULL);
}

void sg_conn_send_all(struct sg_launcher *l, struct sg_msg *m, const int *fds, unsigned n)
{
    struct sg_conn *c = &l->conn;
    struct sg_err err = { 0 };
    if (c->io.fd < 0 || c->is_lost)
        return;
    m->epoch = c->epoch;
    sg_buf_clear(&c->out);
    if (sg_msg_encode(m, &c->out, &err) < 0) {
        sg_log(SG_LOG_ERROR, "an answer cannot be written", SG_KV("error", err.msg));
        if (m->type != SG_MSG_L_FAILED && m->id)
            sg_conn_fail(l, m->id, &err);
        return;
    }
    if (!c->queue && try_send(c, c->out.p, c->out.n, fds, n) != 0)
        return;
    enqueue(c, fds, n);
    if (c->queued > MAX_QUEUED)
        lose(l, "it does not read");
    else
        (void)sg_io_want(l->loop, &c->io, EPOLLOUT, NULL); /* what is not read must not wake us */
}

void sg_conn_send(struct sg_launcher *l, struct sg_msg *m, int fd)
{
    sg_conn_send_all(l, m, &fd, fd >= 0);
}

void sg_conn_ok(struct sg_launcher *l, uint32_t id)
{
    struct sg_msg m = { .type = SG_MSG_L_DONE, .id = id };
    sg_conn_send(l, &m, -1);
}

void sg_conn_fail(struct sg_launcher *l, uint32_t id, const struct sg_err *err)
{
    struct sg_msg m = { .type = SG_MSG_L_FAILED, .id = id };
    m.error = (struct sg_msg_error) { .kind = err->kind,
                                      .sys = (uint32_t)err->sys,
                                      .text = sg_text_of(err->msg) };
    sg_conn_send(l, &m, -1);
}

/* ---- in ---- */

static void ready(struct sg_io *io, uint32_t events)
{
    struct sg_launcher *l = SG_OWNER(io, struct sg_launcher, conn.io);
    struct sg_conn *c = &l->conn;
    if (events & EPOLLOUT)
        flush(l);
    /* One that does not take answers gets to ask no more. */
    for (unsigned i = 0; i < MESSAGES_A_TURN && !c->is_lost && !c->queue; i++) {
        struct sg_err err = { 0 };
        switch (sg_chan_recv(c->io.fd, 1u << SG_ROLE_ASK, false, &c->packet, &err)) {
        case SG_RECV_MESSAGE:
            sg_serve(l, &c->packet.msg);
            break;
        case SG_RECV_AGAIN:
            return;
        case SG_RECV_ERROR: /* it encodes by the same table: this is no mistake of wording */
            lose(l, err.msg);
            return;
        case SG_RECV_CLOSED:
            lose(l, "closed");
            return;
        }
    }
    if (events & (EPOLLHUP | EPOLLERR) && c->queue)
        lose(l, "closed");
}

int sg_conn_open(struct sg_launcher *l, int fd, struct sg_err *err)
{
    l->conn.io = (struct sg_io) { .fd = fd, .ready = ready };
    return sg_io_want(l->loop, &l->conn.io, EPOLLIN, err);
}
