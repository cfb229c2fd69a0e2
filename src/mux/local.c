/* SPDX-License-Identifier: Apache-2.0 */
/* The control socket of our own side: its packets go over as messages, messages come out as
 * packets. Some are kept back for a while: X1 and X3 in mux.h. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/str.h"
#include "mux/internal.h"
#include "base/banned.h"

enum { PAY_FROM = SG_MUX_MESSAGES / 4, PACKETS_A_TURN = 16 };

static void pay(struct sg_mux *m, uint32_t bytes)
{
    m->message_window += bytes;
    m->message_unpaid += bytes;
    if (m->message_unpaid < PAY_FROM)
        return;
    sg_frame_put_u32(&m->out, SG_FRAME_CREDIT, 0, (uint32_t)m->message_unpaid);
    m->message_unpaid = 0;
}

static void free_held(struct sg_mux *m, struct sg_held *h)
{
    for (unsigned i = 0; i < h->fd_count; i++)
        sg_drop_fd(&h->fds[i]);
    pay(m, h->charge);
    free(h);
}

/* Takes the descriptors. */
static struct sg_held *new_held(const void *p, size_t n, int *fds, unsigned fd_count)
{
    struct sg_held *h = sg_alloc(sizeof *h + n);
    h->n = n;
    if (n)
        memcpy(h->bytes, p, n);
    for (h->fd_count = 0; h->fd_count < fd_count; h->fd_count++)
        h->fds[h->fd_count] = sg_take_fd(&fds[h->fd_count]);
    return h;
}

static void hang_up(struct sg_mux *m)
{
    if (m->local.fd < 0)
        return;
    sg_mux_drop(m, &m->local);
    sg_frame_put(&m->out, SG_FRAME_HANGUP, m->connection, NULL, 0);
}

/* What was for the connection before is for nobody. */
static void drop_all(struct sg_mux *m)
{
    for (struct sg_held *h; (h = m->queued);) {
        m->queued = h->next;
        free_held(m, h);
    }
    m->queued_end = &m->queued;
    for (struct sg_held *h; (h = m->held);) {
        m->held = h->next;
        free_held(m, h);
    }
    m->held_end = &m->held;
}

void sg_local_done(struct sg_mux *m)
{
    drop_all(m);
    sg_mux_drop(m, &m->local);
}

/* ---- to the local socket ---- */

/* 1: gone, in whatever way; 0: no room now. */
static int try_send(struct sg_mux *m, const struct sg_held *h)
{
    struct sg_err err = { 0 };
    if (m->local.fd < 0 ||
        sg_chan_send_bytes(m->local.fd, h->bytes, h->n, h->fds, h->fd_count, false, &err) == 0)
        return 1;
    if (err.sys == EAGAIN)
        return 0;
    hang_up(m);
    return 1;
}

static void deliver(struct sg_mux *m, struct sg_held *h)
{
    h->next = NULL;
    if (!m->queued && try_send(m, h)) {
        free_held(m, h);
        return;
    }
    *m->queued_end = h;
    m->queued_end = &h->next;
    sg_local_watch(m);
}

static void flush(struct sg_mux *m)
{
    for (struct sg_held *h; (h = m->queued) && try_send(m, h);) {
        m->queued = h->next;
        if (!m->queued)
            m->queued_end = &m->queued;
        free_held(m, h);
    }
}

static void send_over(struct sg_mux *m, const struct sg_held *h)
{
    if (m->local.fd >= 0)
        sg_frame_put_message(&m->out, m->connection, NULL, 0, h->bytes, h->n);
}

static struct sg_held *encode(const struct sg_msg *msg)
{
    sg_auto_buf bytes;
    sg_buf_init(&bytes, SG_CTL_MAX_BYTES);
    if (sg_msg_encode(msg, &bytes, NULL) < 0)
        return NULL;
    return new_held(bytes.p, bytes.n, NULL, 0);
}

/* In place of what would have come with the file. */
static struct sg_held *refusal_of(struct sg_held *h)
{
    struct sg_msg m, e = { .type = SG_MSG_ERROR };
    struct sg_held *ret = NULL;
    e.error = (struct sg_msg_error) {
        .kind = SG_EXHAUSTED,
        .text = sg_text_of("the file is too large to come out of this tier in one piece (64 MiB); "
                           "take it as an archive")
    };
    if (sg_msg_decode(h->bytes, h->n, SG_ROLE_NONE, &m, NULL) == 0) {
        e.id = m.id;
        e.epoch = m.epoch;
        ret = encode(&e);
    }
    return ret;
}

/* Is the file whole, or will it never be? Then `*h` may be another one. */
static bool has_file(struct sg_mux *m, struct sg_held **h)
{
    struct sg_stream *s = sg_stream_find(m, (*h)->spool_id);
    if (s && s->writes)
        return false;
    const int seals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
    if (s && !s->is_broken && lseek(s->io.fd, 0, SEEK_SET) == 0 &&
        fcntl(s->io.fd, F_ADD_SEALS, seals) == 0) {
        (*h)->fds[(*h)->fd_count++] = sg_take_fd(&s->io.fd);
        return true;
    }
    struct sg_held *other = refusal_of(*h);
    if (other) {
        other->charge = (*h)->charge;
        (*h)->charge = 0;
        free_held(m, *h);
        *h = other;
    }
    return true;
}

void sg_local_look_at_held(struct sg_mux *m)
{
    for (struct sg_held **at = &m->held; *at;) {
        struct sg_held *h = *at, *next = h->next;
        if (h->spool_id ? !has_file(m, &h) : sg_stream_has_due(m, h->tag, false)) {
            at = &h->next;
            continue;
        }
        *at = next;
        if (!next)
            m->held_end = at;
        if (h->goes_over) {
            send_over(m, h);
            free_held(m, h);
        } else {
            deliver(m, h);
        }
        at = &m->held; /* anything may be different now */
    }
}

static void hold(struct sg_mux *m, struct sg_held *h)
{
    h->next = NULL;
    *m->held_end = h;
    m->held_end = &h->next;
    sg_local_look_at_held(m);
}

/* ---- from the other side ---- */

/* The streams of an exec's output are known by its tag at both ends. */
static void name_streams(const struct sg_msg *msg, struct sg_stream *const *streams, unsigned count)
{
    for (unsigned i = 0; msg->type == SG_MSG_SPAWN && i < count; i++)
        if (streams[i])
            memcpy(streams[i]->tag, msg->spawn.tag.p, msg->spawn.tag.n + 1);
}

static int accept_streams(struct sg_mux *m, const struct sg_frame_fd *fds, unsigned count,
                          struct sg_packet *p, uint32_t *ret_spool, struct sg_err *err)
{
    struct sg_stream *streams[SG_CTL_MAX_FDS] = { NULL };
    for (unsigned i = 0; i < count; i++) {
        if (fds[i].kind == SG_KIND_NONE)
            continue;
        int fd = -1;
        streams[i] = sg_stream_accept(m, &fds[i], &fd, err);
        if (!streams[i])
            return -1;
        if (fd >= 0)
            p->fds[p->fd_count++] = fd;
        if (streams[i]->is_spool)
            *ret_spool = fds[i].id;
    }
    name_streams(&p->msg, streams, count);
    for (unsigned i = 0; i < count; i++)
        if (streams[i])
            sg_stream_watch(m, streams[i]);
    return 0;
}

int sg_local_message(struct sg_mux *m, const struct sg_frame *f, struct sg_err *err)
{
    struct sg_frame_fd fds[SG_CTL_MAX_FDS];
    struct sg_bytes packet;
    struct sg_packet *p = &m->packet;
    unsigned count;
    uint32_t spool = 0;
    const uint32_t charge = (uint32_t)f->n;
    if (charge > m->message_window)
        return sg_fail(err, SG_INVALID, "more messages came than may");
    m->message_window -= charge;
    sg_packet_clear(p);
    if (sg_frame_split(f, fds, &count, &packet, err) < 0)
        return -1;
    sg_buf_add(&p->bytes, packet.p, packet.n);
    if (sg_msg_decode(p->bytes.p, p->bytes.n, SG_ROLE_NONE, &p->msg, err) < 0)
        return -1;
    const enum sg_msg_role role = sg_msg_table[p->msg.type].role;
    const bool is_request = role == SG_ROLE_REQUEST;
    if (is_request != (m->side == SG_MUX_GUEST) ||
        (!is_request && role != SG_ROLE_REPLY && role != SG_ROLE_EVENT))
        return sg_fail(err, SG_INVALID, "message %s comes from the wrong side",
                       sg_msg_table[p->msg.type].name);
    if (accept_streams(m, fds, count, p, &spool, err) < 0)
        return -1;
    const bool is_wanted = f->id == m->connection && m->local.fd >= 0;
    if (!is_wanted || (m->ops->incoming && !m->ops->incoming(m->arg, p))) {
        pay(m, charge);
        sg_packet_clear(p);
        return 0;
    }
    struct sg_held *h = new_held(p->bytes.p, p->bytes.n, p->fds, p->fd_count);
    h->charge = charge;
    h->spool_id = spool;
    p->fd_count = 0;
    if (p->msg.type == SG_MSG_EXITED) {
        (void)snprintf(h->tag, sizeof h->tag, "%s", p->msg.exited.tag.p);
        (void)sg_stream_has_due(m, h->tag, true);
    }
    hold(m, h);
    return 0;
}

void sg_local_open(struct sg_mux *m, uint32_t connection)
{
    int pair[2];
    if (m->side != SG_MUX_GUEST)
        return;
    drop_all(m);
    sg_mux_drop(m, &m->local);
    m->connection = connection;
    if (sg_chan_pair(pair, NULL) < 0) {
        sg_frame_put(&m->out, SG_FRAME_HANGUP, connection, NULL, 0);
        return;
    }
    m->local.fd = pair[0];
    sg_local_watch(m);
    m->ops->opened(m->arg, pair[1]);
}

void sg_local_hangup(struct sg_mux *m, uint32_t connection)
{
    if (connection != m->connection)
        return;
    drop_all(m);
    sg_mux_drop(m, &m->local);
}

/* ---- to the other side ---- */

static void send_packet(struct sg_mux *m, struct sg_packet *p)
{
    struct sg_frame_fd fds[SG_CTL_MAX_FDS];
    struct sg_stream *streams[SG_CTL_MAX_FDS] = { NULL };
    const unsigned count = p->fd_count;
    for (unsigned i = 0; i < count; i++) {
        enum sg_frame_kind kind = sg_stream_kind(p->fds[i]);
        if (kind != SG_KIND_NONE)
            streams[i] = sg_stream_open(m, sg_packet_take_fd(p, i), kind);
        fds[i] = (struct sg_frame_fd) { streams[i] ? streams[i]->id : 0,
                                        streams[i] ? kind : SG_KIND_NONE };
    }
    name_streams(&p->msg, streams, count);
    sg_frame_put_message(&m->out, m->connection, fds, count, p->bytes.p, p->bytes.n);
    m->message_credit -= p->bytes.n + 1 + (size_t)count * SG_FRAME_FD_BYTES;
    for (unsigned i = 0; i < count; i++)
        if (streams[i])
            sg_stream_pump(m, streams[i]);
}

static void take_packet(struct sg_mux *m, struct sg_packet *p)
{
    if (m->ops->outgoing && !m->ops->outgoing(m->arg, p))
        return;
    if (p->msg.type != SG_MSG_EXITED || !sg_stream_has_due(m, p->msg.exited.tag.p, true)) {
        send_packet(m, p);
        return;
    }
    struct sg_held *h = new_held(p->bytes.p, p->bytes.n, NULL, 0);
    h->goes_over = true;
    (void)snprintf(h->tag, sizeof h->tag, "%s", p->msg.exited.tag.p);
    m->message_credit -= p->bytes.n + 1;
    for (struct sg_stream *s = m->streams; s; s = s->next)
        if (!s->is_dead && s->due && strcmp(s->tag, h->tag) == 0)
            sg_stream_pump(m, s);
    hold(m, h);
}

static bool may_take(const struct sg_mux *m)
{
    return sg_mux_has_room(m) && m->message_credit >= SG_CTL_MAX_BYTES + 64;
}

void sg_local_watch(struct sg_mux *m)
{
    if (m->local.fd >= 0)
        sg_mux_want(m, &m->local, may_take(m) || m->queued,
                    (may_take(m) ? EPOLLIN : 0u) | (m->queued ? EPOLLOUT : 0u));
}

void sg_local_ready(struct sg_mux *m, uint32_t events)
{
    if (events & EPOLLOUT)
        flush(m);
    for (int i = 0; i < PACKETS_A_TURN && m->local.fd >= 0 && may_take(m); i++) {
        struct sg_err err = { 0 };
        enum sg_recv got = sg_chan_recv(m->local.fd, m->ops->roles, false, &m->packet, &err);
        if (got == SG_RECV_AGAIN)
            break;
        if (got == SG_RECV_MESSAGE)
            take_packet(m, &m->packet);
        else if (got == SG_RECV_CLOSED || err.sys)
            hang_up(m);
        sg_packet_clear(&m->packet);
    }
    sg_local_watch(m);
}

/* ---- of our own ---- */

void sg_mux_attach(struct sg_mux *m, int fd)
{
    hang_up(m);
    drop_all(m);
    m->connection++;
    m->local.fd = fd;
    sg_chan_make_room(fd);
    sg_frame_put(&m->out, SG_FRAME_OPEN, m->connection, NULL, 0);
    sg_mux_want(m, &m->channel, true, EPOLLIN | EPOLLOUT);
    sg_local_watch(m);
}

void sg_mux_say(struct sg_mux *m, const struct sg_msg *msg)
{
    struct sg_held *h = encode(msg);
    if (h)
        deliver(m, h);
}

bool sg_mux_is_busy(const struct sg_mux *m, const char *tag)
{
    for (const struct sg_stream *s = m->streams; s; s = s->next)
        if (!s->is_dead && strcmp(s->tag, tag) == 0 && (s->writes || s->due))
            return true;
    return false;
}

void sg_mux_say_after(struct sg_mux *m, const char *tag, const struct sg_msg *msg)
{
    struct sg_held *h = encode(msg);
    if (!h)
        return;
    (void)snprintf(h->tag, sizeof h->tag, "%s", tag);
    (void)sg_stream_has_due(m, tag, true);
    hold(m, h);
}
