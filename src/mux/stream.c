/* SPDX-License-Identifier: Apache-2.0 */
/* Streams: bytes of one descriptor, in one direction or both.
 *
 * S1. Every direction ends with exactly one FIN of its sender. A stream is freed when all of its
 *     directions have ended here; an id has a serial number in it, so that what comes late for a
 *     freed one finds nobody.
 * S2. Who cannot get rid of bytes (nobody reads) says STOP and throws away what comes until FIN.
 * S3. A pipe whose writer is gone is readable for ever: a stream that may not send is not watched.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "mux/internal.h"
#include "base/banned.h"

enum { SLOT_BITS = 12, PAY_FROM = SG_MUX_WINDOW / 4 };
_Static_assert(SG_MUX_STREAMS == 1 << SLOT_BITS, "an id has its slot in it");

/* ---- ids ---- */

static unsigned side_of(uint32_t id)
{
    return id & 1;
}

static unsigned slot_of(uint32_t id)
{
    return id >> 1 & (SG_MUX_STREAMS - 1);
}

struct sg_stream *sg_stream_find(const struct sg_mux *m, uint32_t id)
{
    struct sg_stream *s = m->by_slot[side_of(id)][slot_of(id)];
    return s && s->id == id && !s->is_dead ? s : NULL;
}

static uint32_t new_id(struct sg_mux *m)
{
    for (unsigned i = 0; i < SG_MUX_STREAMS; i++) {
        m->last_slot = (m->last_slot + 1) & (SG_MUX_STREAMS - 1);
        if (m->by_slot[m->side][m->last_slot])
            continue;
        m->serial++;
        return (m->serial << (SLOT_BITS + 1) & 0x7fffffffu) | 0x80000000u | m->last_slot << 1 |
               (uint32_t)m->side;
    }
    return 0;
}

/* ---- life ---- */

static struct sg_stream *add(struct sg_mux *m, int fd, uint32_t id, bool reads, bool writes)
{
    struct sg_stream *s = sg_new(struct sg_stream);
    s->io = (struct sg_mux_io) { .source = SG_MUX_STREAM, .fd = fd };
    s->id = id;
    s->reads = reads;
    s->writes = writes;
    s->credit = s->window = SG_MUX_WINDOW;
    sg_buf_init(&s->pending, 2 * SG_MUX_WINDOW); /* what is taken goes now and then */
    s->next = m->streams;
    s->link = &m->streams;
    if (s->next)
        s->next->link = &s->next;
    m->streams = s;
    m->by_slot[side_of(id)][slot_of(id)] = s;
    return s;
}

void sg_stream_free(struct sg_mux *m, struct sg_stream *s)
{
    sg_mux_drop(m, &s->io);
    sg_buf_done(&s->pending);
    m->by_slot[side_of(s->id)][slot_of(s->id)] = NULL;
    *s->link = s->next;
    if (s->next)
        s->next->link = s->link;
    free(s);
}

void sg_stream_bury(struct sg_mux *m)
{
    for (struct sg_stream *s = m->streams, *next; s; s = next) {
        next = s->next;
        if (s->is_dead)
            sg_stream_free(m, s);
    }
}

static void end_if_over(struct sg_mux *m, struct sg_stream *s)
{
    if (s->reads || s->writes)
        return;
    sg_mux_drop(m, &s->io);
    s->is_dead = true;
}

enum sg_frame_kind sg_stream_kind(int fd)
{
    struct stat st;
    const int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fstat(fd, &st) < 0)
        return SG_KIND_NONE;
    if (S_ISSOCK(st.st_mode))
        return SG_KIND_BOTH;
    if (S_ISREG(st.st_mode) && (flags & O_ACCMODE) == O_RDONLY)
        return SG_KIND_FILE;
    if (!S_ISFIFO(st.st_mode))
        return SG_KIND_NONE;
    return (flags & O_ACCMODE) == O_RDONLY ? SG_KIND_READ : SG_KIND_WRITE;
}

static void unblock(int fd)
{
    const int flags = fcntl(fd, F_GETFL);
    if (flags >= 0)
        (void)fcntl(fd, F_SETFL, flags | O_NONBLOCK);
}

struct sg_stream *sg_stream_open(struct sg_mux *m, int fd, enum sg_frame_kind kind)
{
    const uint32_t id = new_id(m);
    if (!id) {
        (void)close(fd);
        return NULL;
    }
    unblock(fd);
    struct sg_stream *s =
        add(m, fd, id, kind != SG_KIND_WRITE, kind == SG_KIND_WRITE || kind == SG_KIND_BOTH);
    s->is_file = kind == SG_KIND_FILE;
    return s;
}

/* Ours first. */
static int make_ends(enum sg_frame_kind kind, int fds[2], struct sg_err *err)
{
    int ret = 0;
    if (kind == SG_KIND_BOTH)
        ret = socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds);
    else if (kind == SG_KIND_FILE)
        fds[0] = ret = memfd_create("sandglass-file", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    else
        ret = pipe2(fds, O_CLOEXEC);
    if (ret < 0)
        return sg_fail_sys(err, "make the local end of a stream");
    if (kind == SG_KIND_READ) { /* they read: we have the end for writing */
        const int reader = fds[0];
        fds[0] = fds[1];
        fds[1] = reader;
    }
    return 0;
}

struct sg_stream *sg_stream_accept(struct sg_mux *m, const struct sg_frame_fd *f, int *ret_fd,
                                   struct sg_err *err)
{
    const unsigned side = side_of(f->id), slot = slot_of(f->id);
    int fds[2] = { -1, -1 };
    if (!(f->id & 0x80000000u) || side == (unsigned)m->side || f->kind == SG_KIND_NONE) {
        (void)sg_fail(err, SG_INVALID, "stream %x cannot be opened", (unsigned)f->id);
        return NULL;
    }
    struct sg_stream *old = m->by_slot[side][slot];
    if (old && old->is_dead) {
        sg_stream_free(m, old);
    } else if (old) {
        (void)sg_fail(err, SG_INVALID, "stream %x is open", (unsigned)f->id);
        return NULL;
    }
    if (make_ends(f->kind, fds, err) < 0)
        return NULL;
    unblock(fds[0]);
    struct sg_stream *s = add(m, fds[0], f->id, f->kind == SG_KIND_WRITE || f->kind == SG_KIND_BOTH,
                              f->kind != SG_KIND_WRITE);
    s->is_spool = f->kind == SG_KIND_FILE;
    *ret_fd = fds[1];
    return s;
}

/* ---- from the descriptor to the channel ---- */

static void send_fin(struct sg_mux *m, struct sg_stream *s)
{
    if (!s->reads)
        return;
    s->reads = false;
    s->due = s->writes ? s->due : 0;
    sg_frame_put(&m->out, SG_FRAME_FIN, s->id, NULL, 0);
    if (!s->writes)
        sg_mux_drop(m, &s->io);
    end_if_over(m, s);
}

static void pay_due(struct sg_mux *m, struct sg_stream *s, size_t n)
{
    if (!s->due)
        return;
    s->due -= n < s->due ? n : s->due;
    if (!s->due)
        sg_local_look_at_held(m);
}

static bool may_send(const struct sg_mux *m, const struct sg_stream *s)
{
    return s->reads && s->io.fd >= 0 && s->credit && sg_mux_has_room(m);
}

void sg_stream_pump(struct sg_mux *m, struct sg_stream *s)
{
    static uint8_t room[SG_FRAME_PIECE]; /* one thread */
    while (may_send(m, s)) {
        const size_t most = s->credit < sizeof room ? (size_t)s->credit : sizeof room;
        const ssize_t n = read(s->io.fd, room, most);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            break;
        if (n <= 0) {
            const bool had_due = s->due;
            send_fin(m, s);
            if (had_due)
                sg_local_look_at_held(m);
            break;
        }
        s->credit -= (size_t)n;
        sg_frame_put(&m->out, SG_FRAME_DATA, s->id, room, (size_t)n);
        pay_due(m, s, (size_t)n);
    }
    sg_stream_watch(m, s);
}

/* ---- from the channel to the descriptor ---- */

static void pay(struct sg_mux *m, struct sg_stream *s, size_t n)
{
    s->unpaid += n;
    s->window += n;
    if (s->unpaid < PAY_FROM || s->has_fin)
        return;
    sg_frame_put_u32(&m->out, SG_FRAME_CREDIT, s->id, (uint32_t)s->unpaid);
    s->unpaid = 0;
}

static void throw_away(struct sg_mux *m, struct sg_stream *s)
{
    const size_t n = s->pending.n - s->at;
    sg_buf_clear(&s->pending);
    s->at = 0;
    pay_due(m, s, n);
    pay(m, s, n);
}

/* Nobody reads: S2. */
static void give_up(struct sg_mux *m, struct sg_stream *s)
{
    s->is_broken = true;
    if (!s->has_fin)
        sg_frame_put(&m->out, SG_FRAME_STOP, s->id, NULL, 0);
    throw_away(m, s);
    if (!s->reads)
        sg_mux_drop(m, &s->io);
}

static void finish_writing(struct sg_mux *m, struct sg_stream *s)
{
    if (!s->writes || !s->has_fin || s->at < s->pending.n)
        return;
    s->writes = false;
    if (s->is_spool) {
        sg_local_look_at_held(m); /* takes the file */
    } else if (s->reads && s->io.fd >= 0) {
        (void)shutdown(s->io.fd, SHUT_WR);
        return;
    }
    end_if_over(m, s);
}

static void flush(struct sg_mux *m, struct sg_stream *s)
{
    while (s->at < s->pending.n && !s->is_broken) {
        const ssize_t n = write(s->io.fd, s->pending.p + s->at, s->pending.n - s->at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            break;
        if (n < 0) {
            give_up(m, s);
            break;
        }
        s->at += (size_t)n;
        pay(m, s, (size_t)n);
        pay_due(m, s, (size_t)n);
    }
    if (s->at == s->pending.n) {
        sg_buf_clear(&s->pending);
        s->at = 0;
    }
    finish_writing(m, s);
}

static int take_data(struct sg_mux *m, struct sg_stream *s, const struct sg_frame *f,
                     struct sg_err *err)
{
    if (!s->writes || s->has_fin || f->n > s->window)
        return sg_fail(err, SG_INVALID, "more bytes of a stream came than may");
    s->window -= f->n;
    s->spooled += f->n;
    if (s->is_spool && s->spooled > SG_MUX_FILE_MAX && !s->is_broken)
        give_up(m, s);
    if (s->is_broken) {
        pay(m, s, f->n);
        return 0;
    }
    if (s->at && s->at == s->pending.n)
        s->at = s->pending.n = 0;
    if (s->at > SG_MUX_WINDOW / 2) {
        memmove(s->pending.p, s->pending.p + s->at, s->pending.n - s->at);
        s->pending.n -= s->at;
        s->at = 0;
    }
    sg_buf_add(&s->pending, f->p, f->n);
    flush(m, s);
    return 0;
}

static void stop(struct sg_mux *m, struct sg_stream *s)
{
    send_fin(m, s);
    if (s->io.fd >= 0)
        (void)shutdown(s->io.fd, SHUT_RD); /* a socket; of a pipe the end is closed by now */
    sg_local_look_at_held(m);
}

int sg_stream_take(struct sg_mux *m, struct sg_stream *s, const struct sg_frame *f,
                   struct sg_err *err)
{
    switch (f->type) {
    case SG_FRAME_DATA:
        if (take_data(m, s, f, err) < 0)
            return -1;
        break;
    case SG_FRAME_FIN:
        if (!s->writes || s->has_fin)
            return sg_fail(err, SG_INVALID, "a stream has ended twice");
        s->has_fin = true;
        finish_writing(m, s);
        break;
    case SG_FRAME_STOP:
        stop(m, s);
        break;
    case SG_FRAME_CREDIT:
        s->credit += sg_frame_u32(f);
        if (s->credit > SG_MUX_WINDOW)
            return sg_fail(err, SG_INVALID, "a stream's window is too large");
        sg_stream_pump(m, s);
        break;
    case SG_FRAME_MESSAGE:
    case SG_FRAME_OPEN:
    case SG_FRAME_HANGUP:
    case SG_FRAME_TYPE_COUNT:
        break;
    }
    sg_stream_watch(m, s);
    return 0;
}

/* ---- events ---- */

void sg_stream_watch(struct sg_mux *m, struct sg_stream *s)
{
    if (s->io.fd < 0 || s->is_dead || s->is_file || s->is_spool)
        return;
    const bool sends = may_send(m, s), has_more = s->at < s->pending.n;
    const uint32_t events = (sends ? EPOLLIN : 0u) | (has_more ? EPOLLOUT : 0u);
    /* For its end alone (nobody reads it): only what we do not read ourselves. */
    sg_mux_want(m, &s->io, events || !s->reads, events);
}

void sg_stream_ready(struct sg_mux *m, struct sg_stream *s, uint32_t events)
{
    if (s->is_dead || s->io.fd < 0)
        return;
    if (s->at < s->pending.n)
        flush(m, s);
    if (s->reads)
        sg_stream_pump(m, s);
    else if (s->writes && events & (EPOLLERR | EPOLLHUP) && !s->is_broken)
        give_up(m, s);
    sg_stream_watch(m, s);
}

bool sg_stream_has_due(struct sg_mux *m, const char *tag, bool counts_anew)
{
    bool has_any = false;
    for (struct sg_stream *s = m->streams; s; s = s->next) {
        int waiting = 0;
        if (s->is_dead || strcmp(s->tag, tag) != 0)
            continue;
        if (counts_anew && s->writes)
            s->due = s->pending.n - s->at;
        else if (counts_anew && s->reads && ioctl(s->io.fd, FIONREAD, &waiting) == 0)
            s->due = waiting > 0 ? (uint64_t)waiting : 0;
        has_any |= s->due > 0;
    }
    return has_any;
}
