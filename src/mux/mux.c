/* SPDX-License-Identifier: Apache-2.0 */
/* The channel: bytes in, frames out of them, and the other way round. */
#include "mux/mux.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/auto.h"
#include "mux/internal.h"
#include "base/banned.h"

enum { EVENTS_A_TURN = 64, IN_MAX = 512 * 1024, READ_AT_ONCE = 64 * 1024 };

void sg_mux_want(struct sg_mux *m, struct sg_mux_io *io, bool is_in, uint32_t events)
{
    struct epoll_event ev = { .events = events, .data.ptr = io };
    if (io->fd < 0 || (is_in == io->is_in && events == io->events))
        return;
    if (is_in || io->is_in)
        (void)epoll_ctl(m->epoll_fd,
                        !is_in      ? EPOLL_CTL_DEL
                        : io->is_in ? EPOLL_CTL_MOD
                                    : EPOLL_CTL_ADD,
                        io->fd, &ev);
    io->is_in = is_in;
    io->events = is_in ? events : 0;
}

void sg_mux_drop(struct sg_mux *m, struct sg_mux_io *io)
{
    sg_mux_want(m, io, false, 0);
    sg_drop_fd(&io->fd);
}

struct sg_mux *sg_mux_new(int channel_fd, enum sg_mux_side side, const struct sg_mux_ops *ops,
                          void *arg, struct sg_err *err)
{
    struct sg_mux *m = sg_new(struct sg_mux);
    *m = (struct sg_mux) {
        .ops = ops,
        .arg = arg,
        .side = side,
        .epoll_fd = epoll_create1(EPOLL_CLOEXEC),
        .channel = { .source = SG_MUX_CHANNEL, .fd = channel_fd },
        .local = { .source = SG_MUX_LOCAL, .fd = -1 },
        .message_credit = SG_MUX_MESSAGES,
        .message_window = SG_MUX_MESSAGES,
    };
    m->held_end = &m->held;
    m->queued_end = &m->queued;
    sg_buf_init(&m->in, IN_MAX);
    sg_buf_init(&m->out, SG_MUX_OUT_MAX);
    sg_packet_init(&m->packet);
    const int flags = fcntl(channel_fd, F_GETFL);
    if (m->epoll_fd < 0 || flags < 0 || fcntl(channel_fd, F_SETFL, flags | O_NONBLOCK) < 0) {
        (void)sg_fail_sys(err, "open the channel");
        sg_mux_free(m);
        return NULL;
    }
    sg_buf_add(&m->out, SG_FRAME_GREETING, SG_FRAME_GREETING_BYTES);
    sg_mux_want(m, &m->channel, true, EPOLLIN | EPOLLOUT);
    return m;
}

void sg_mux_free(struct sg_mux *m)
{
    if (!m)
        return;
    while (m->streams)
        sg_stream_free(m, m->streams);
    sg_local_done(m);
    sg_mux_drop(m, &m->channel);
    sg_packet_done(&m->packet);
    sg_buf_done(&m->in);
    sg_buf_done(&m->out);
    sg_drop_fd(&m->epoll_fd);
    free(m);
}

int sg_mux_fd(const struct sg_mux *m)
{
    return m->epoll_fd;
}

/* ---- in ---- */

static int take_frame(struct sg_mux *m, const struct sg_frame *f, struct sg_err *err)
{
    if (f->type == SG_FRAME_MESSAGE)
        return sg_local_message(m, f, err);
    if (f->type == SG_FRAME_OPEN) {
        sg_local_open(m, f->id);
        return 0;
    }
    if (f->type == SG_FRAME_HANGUP) {
        sg_local_hangup(m, f->id);
        return 0;
    }
    if (f->type == SG_FRAME_CREDIT && !f->id) {
        m->message_credit += sg_frame_u32(f);
        sg_local_watch(m);
        return m->message_credit > SG_MUX_MESSAGES
                   ? sg_fail(err, SG_INVALID, "the window of messages is too large")
                   : 0;
    }
    struct sg_stream *s = sg_stream_find(m, f->id);
    return s ? sg_stream_take(m, s, f, err) : 0;
}

/* F1. How many bytes are of no more interest. */
static size_t skip_noise(struct sg_mux *m, struct sg_err *err)
{
    const uint8_t *p = memmem(m->in.p, m->in.n, SG_FRAME_GREETING, SG_FRAME_GREETING_BYTES);
    if (p) {
        m->has_greeting = true;
        return (size_t)(p - m->in.p) + SG_FRAME_GREETING_BYTES;
    }
    const size_t rest = SG_FRAME_GREETING_BYTES - 1;
    const size_t n = m->in.n > rest ? m->in.n - rest : 0;
    m->noise += n;
    if (m->noise > SG_FRAME_MAX_NOISE)
        (void)sg_fail(err, SG_INVALID, "nobody answers at the other end of the channel");
    return n;
}

static int take_all(struct sg_mux *m, struct sg_err *err)
{
    size_t at = 0;
    err->kind = SG_OK;
    if (!m->has_greeting)
        at = skip_noise(m, err);
    if (err->kind != SG_OK)
        return -1;
    while (m->has_greeting) {
        struct sg_frame f;
        const int n = sg_frame_parse(m->in.p + at, m->in.n - at, &f, err);
        if (n < 0 || (n > 0 && take_frame(m, &f, err) < 0))
            return -1;
        if (n == 0)
            break;
        at += (size_t)n;
    }
    if (at) {
        memmove(m->in.p, m->in.p + at, m->in.n - at);
        m->in.n -= at;
    }
    return 0;
}

static int read_channel(struct sg_mux *m, struct sg_err *err)
{
    uint8_t *room = sg_buf_grow(&m->in, READ_AT_ONCE);
    if (!room)
        return sg_fail(err, SG_EXHAUSTED, "no room for what comes over the channel");
    const ssize_t n = read(m->channel.fd, room, READ_AT_ONCE);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (n < 0)
        return sg_fail_sys(err, "read from the channel");
    if (n == 0)
        return sg_fail(err, SG_UNAVAILABLE, "the channel has ended");
    m->in.n += (size_t)n;
    return take_all(m, err);
}

/* ---- out ---- */

/* Where there is room again, whoever waited for it goes on. */
static void wake_senders(struct sg_mux *m)
{
    if (!m->was_full || !sg_mux_has_room(m))
        return;
    m->was_full = false;
    for (struct sg_stream *s = m->streams; s; s = s->next) {
        if (s->is_dead)
            continue;
        if (s->is_file)
            sg_stream_pump(m, s);
        sg_stream_watch(m, s);
    }
    sg_local_watch(m);
}

static int write_channel(struct sg_mux *m, struct sg_err *err)
{
    while (m->out_at < m->out.n) {
        const ssize_t n = write(m->channel.fd, m->out.p + m->out_at, m->out.n - m->out_at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            break;
        if (n < 0)
            return sg_fail_sys(err, "write to the channel");
        m->out_at += (size_t)n;
    }
    if (m->out_at == m->out.n) {
        sg_buf_clear(&m->out);
        m->out_at = 0;
    } else if (m->out_at > SG_MUX_OUT_HIGH) {
        memmove(m->out.p, m->out.p + m->out_at, m->out.n - m->out_at);
        m->out.n -= m->out_at;
        m->out_at = 0;
    }
    if (m->out.has_overflowed)
        return sg_fail(err, SG_EXHAUSTED, "the other side takes nothing any more");
    return 0;
}

int sg_mux_turn(struct sg_mux *m, struct sg_err *err)
{
    struct epoll_event ready[EVENTS_A_TURN];
    const int n = epoll_wait(m->epoll_fd, ready, EVENTS_A_TURN, 0);
    for (int i = 0; i < n; i++) {
        struct sg_mux_io *io = ready[i].data.ptr;
        if (io->source == SG_MUX_STREAM)
            sg_stream_ready(m, (struct sg_stream *)io, ready[i].events);
        else if (io->source == SG_MUX_LOCAL && io->fd >= 0)
            sg_local_ready(m, ready[i].events);
        else if (io->source == SG_MUX_CHANNEL && ready[i].events & ~(uint32_t)EPOLLOUT &&
                 read_channel(m, err) < 0)
            return -1;
    }
    m->was_full |= !sg_mux_has_room(m); /* somebody may have given up for that */
    if (write_channel(m, err) < 0)
        return -1;
    wake_senders(m);
    sg_stream_bury(m);
    sg_mux_want(m, &m->channel, true, EPOLLIN | (sg_mux_out_bytes(m) ? EPOLLOUT : 0u));
    return 0;
}
