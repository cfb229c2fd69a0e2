/* SPDX-License-Identifier: Apache-2.0 */
#include "link/sock.h"

#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/sendfile.h>
#include <sys/socket.h>

#include "base/auto.h"
#include "base/banned.h"

enum {
    PIECE_BYTES = 16 << 10, /* also one TLS record */
    PASS_BYTES = 4 << 20,   /* sent in one go, so that others have their turn */
    TLS_HANDSHAKE = 0x16,   /* the first byte of a ClientHello's record */
};

struct sg_sock_piece {
    struct sg_sock_piece *next;
    int fd; /* >= 0: a file; owned */
    uint64_t offset, left;
    size_t at, n, cap; /* in memory: bytes at..n of p are to be sent */
    uint8_t p[];
};

/* ---- the queue ---- */

static struct sg_sock_piece *new_piece(size_t cap)
{
    struct sg_sock_piece *e = malloc(sizeof *e + cap);
    if (!e)
        abort();
    *e = (struct sg_sock_piece) { .fd = -1, .cap = cap };
    return e;
}

static void push(struct sg_sock *s, struct sg_sock_piece *e)
{
    *(s->last ? &s->last->next : &s->first) = e;
    s->last = e;
}

static void pop(struct sg_sock *s)
{
    struct sg_sock_piece *e = s->first;
    s->first = e->next;
    if (!s->first)
        s->last = NULL;
    s->files -= e->fd >= 0;
    sg_drop_fd(&e->fd);
    free(e);
}

static void drop_queue(struct sg_sock *s)
{
    while (s->first)
        pop(s);
    s->queued = 0;
}

static void enqueue(struct sg_sock *s, const void *p, size_t n)
{
    struct sg_sock_piece *e = s->last;
    if (!e || e->fd >= 0 || n > e->cap - e->n) {
        e = new_piece(s->first && n < PIECE_BYTES ? PIECE_BYTES : n);
        push(s, e);
    }
    memcpy(e->p + e->n, p, n);
    e->n += n;
    s->queued += n;
}

/* ---- the loop's side ---- */

static void update_interest(struct sg_sock *s)
{
    if (s->io.fd < 0)
        return;
    uint32_t want = EPOLLHUP; /* told in any case; but 0 would take it out of the loop */
    if (s->is_reading || s->is_handshaking || s->is_sniffing)
        want |= EPOLLIN | EPOLLRDHUP;
    else if (!s->has_hung_up)
        want |= EPOLLRDHUP;
    if (s->wants_out || ((s->first || s->is_full) && !s->is_handshaking))
        want |= EPOLLOUT;
    struct sg_err err;
    if (sg_io_want(s->loop, &s->io, want, &err) < 0)
        abort(); /* the descriptor is ours and in the loop: the kernel is out of memory */
}

/* The event that comes of it makes the loop say `lost`. */
static void break_off(struct sg_sock *s)
{
    s->is_broken = true;
    s->wants_out = false;
    drop_queue(s);
    if (s->io.fd >= 0)
        (void)shutdown(s->io.fd, SHUT_RDWR);
}

/* ---- sending: > 0 bytes, 0 not now, -1 broken ---- */

static ssize_t send_plain(struct sg_sock *s, const struct iovec *v, unsigned count)
{
    const struct msghdr m = { .msg_iov = (struct iovec *)(uintptr_t)v, .msg_iovlen = count };
    for (;;) {
        ssize_t n = sendmsg(s->io.fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n >= 0)
            return n;
        if (errno != EINTR)
            return errno == EAGAIN || errno == ENOBUFS ? 0 : -1;
    }
}

static ssize_t send_tls(struct sg_sock *s, const uint8_t *p, size_t n)
{
    size_t sent = 0;
    switch (sg_session_write(s->session, p, n < PIECE_BYTES ? n : PIECE_BYTES, &sent)) {
    case SG_TLS_DONE:
        return (ssize_t)sent;
    case SG_TLS_WANTS_READ:
    case SG_TLS_WANTS_WRITE:
        return 0;
    case SG_TLS_END:
    case SG_TLS_FAILED:
        break;
    }
    return -1;
}

static ssize_t send_memory(struct sg_sock *s, struct sg_sock_piece *e)
{
    const struct iovec v = { e->p + e->at, e->n - e->at };
    ssize_t n = s->session ? send_tls(s, v.iov_base, v.iov_len) : send_plain(s, &v, 1);
    if (n > 0) {
        e->at += (size_t)n;
        s->queued -= (size_t)n;
        s->sent += (size_t)n;
    }
    return n;
}

static ssize_t send_file(struct sg_sock *s, struct sg_sock_piece *e)
{
    off_t at = (off_t)e->offset;
    size_t want = e->left < PASS_BYTES ? (size_t)e->left : PASS_BYTES;
    ssize_t n;
    do
        n = sendfile(s->io.fd, e->fd, &at, want);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return errno == EAGAIN ? 0 : -1;
    if (n == 0)
        return -1; /* the file is shorter than was promised */
    e->offset += (uint64_t)n;
    e->left -= (uint64_t)n;
    s->sent += (uint64_t)n;
    return n;
}

/* Puts the next record's worth of a file in front of it, as memory. */
static int read_ahead(struct sg_sock *s, struct sg_sock_piece *file)
{
    struct sg_sock_piece *e = new_piece(PIECE_BYTES);
    ssize_t n;
    do
        n = pread(file->fd, e->p, file->left < e->cap ? (size_t)file->left : e->cap,
                  (off_t)file->offset);
    while (n < 0 && errno == EINTR);
    if (n <= 0) {
        free(e);
        return -1;
    }
    file->offset += (uint64_t)n;
    file->left -= (uint64_t)n;
    e->n = (size_t)n;
    e->next = file;
    s->first = e;
    s->queued += (size_t)n;
    return 0;
}

static bool is_sent(const struct sg_sock_piece *e)
{
    return e->fd >= 0 ? e->left == 0 : e->at == e->n;
}

static void flush(struct sg_sock *s)
{
    for (size_t budget = PASS_BYTES; s->first && budget;) {
        struct sg_sock_piece *e = s->first;
        if (is_sent(e)) {
            pop(s);
            continue;
        }
        if (e->fd >= 0 && s->session) {
            if (read_ahead(s, e) < 0)
                return break_off(s);
            continue;
        }
        ssize_t n = e->fd >= 0 ? send_file(s, e) : send_memory(s, e);
        if (n < 0)
            return break_off(s);
        if (n == 0)
            return;
        budget -= (size_t)n < budget ? (size_t)n : budget;
    }
}

bool sg_sock_writev(struct sg_sock *s, const struct iovec *v, unsigned count)
{
    size_t sent = 0;
    if (s->is_broken || s->io.fd < 0)
        return true;
    if (!s->first && !s->session && !s->is_sniffing) {
        ssize_t n = send_plain(s, v, count);
        if (n < 0) {
            break_off(s);
            return true;
        }
        sent = (size_t)n;
        s->sent += sent;
    }
    for (unsigned i = 0; i < count; i++) {
        size_t skip = sent < v[i].iov_len ? sent : v[i].iov_len;
        sent -= skip;
        if (skip < v[i].iov_len)
            enqueue(s, (const uint8_t *)v[i].iov_base + skip, v[i].iov_len - skip);
    }
    if (s->first && s->session && !s->is_handshaking)
        flush(s);
    s->is_full = s->is_full || s->queued > SG_SOCK_HIGH;
    if (s->first || s->is_full)
        update_interest(s);
    return !s->is_full;
}

bool sg_sock_write(struct sg_sock *s, const void *p, size_t n)
{
    const struct iovec v = { (void *)(uintptr_t)p, n };
    return sg_sock_writev(s, &v, 1);
}

void sg_sock_send_file(struct sg_sock *s, int fd, uint64_t offset, uint64_t n)
{
    struct sg_sock_piece *e = new_piece(0);
    e->fd = fd;
    e->offset = offset;
    e->left = n;
    if (s->is_broken || s->io.fd < 0) {
        sg_drop_fd(&e->fd);
        free(e);
        return;
    }
    push(s, e);
    s->files++;
    if (!s->is_handshaking)
        flush(s);
    update_interest(s);
}

/* What the kernel took is not what the peer took: it buffers megabytes, and has room again only
 * when a good part of them is gone. */
uint64_t sg_sock_progress(const struct sg_sock *s)
{
    struct tcp_info info = { 0 };
    socklen_t n = sizeof info;
    (void)getsockopt(s->io.fd, IPPROTO_TCP, TCP_INFO, &info, &n); /* not for unix sockets */
    return s->sent + info.tcpi_bytes_acked;
}

void sg_sock_end_output(struct sg_sock *s)
{
    if (s->io.fd < 0 || s->is_broken)
        return;
    if (s->session)
        sg_session_say_end(s->session);
    (void)shutdown(s->io.fd, SHUT_WR);
}

/* ---- receiving ---- */

static ssize_t read_tls(struct sg_sock *s, void *p, size_t cap)
{
    size_t n = 0;
    enum sg_tls_got got = sg_session_read(s->session, p, cap, &n);
    s->wants_out = got == SG_TLS_WANTS_WRITE;
    switch (got) {
    case SG_TLS_DONE:
        return (ssize_t)n;
    case SG_TLS_END:
        return 0;
    case SG_TLS_WANTS_READ:
    case SG_TLS_WANTS_WRITE:
        break;
    case SG_TLS_FAILED:
        break_off(s);
        break;
    }
    update_interest(s);
    return -1;
}

ssize_t sg_sock_read(struct sg_sock *s, void *p, size_t cap)
{
    if (s->is_broken || s->io.fd < 0 || s->is_handshaking)
        return -1;
    if (s->session)
        return read_tls(s, p, cap);
    ssize_t n;
    do
        n = recv(s->io.fd, p, cap, MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n < 0 && errno != EAGAIN)
        break_off(s);
    return n;
}

void sg_sock_want_read(struct sg_sock *s, bool is_wanted)
{
    if (s->is_reading == is_wanted)
        return;
    s->is_reading = is_wanted;
    update_interest(s);
}

static void handshake(struct sg_sock *s)
{
    enum sg_tls_got got = sg_session_handshake(s->session);
    s->is_handshaking = got != SG_TLS_DONE;
    s->wants_out = got == SG_TLS_WANTS_WRITE;
    if (got == SG_TLS_FAILED || got == SG_TLS_END)
        return break_off(s);
    if (got == SG_TLS_DONE)
        flush(s);
    update_interest(s);
}

/* The first byte of a TLS connection is that of a handshake record, which no request begins with.
 */
static void sniff(struct sg_sock *s)
{
    uint8_t first = 0;
    ssize_t n = recv(s->io.fd, &first, 1, MSG_PEEK | MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    s->is_sniffing = false;
    if (n == 1 && first == TLS_HANDSHAKE) {
        s->session = sg_session_new(s->tls, s->io.fd, NULL);
        s->is_handshaking = true;
        if (!s->session)
            return break_off(s);
    }
    update_interest(s);
}

static void on_out(struct sg_sock *s)
{
    bool was_full = s->is_full, had_any = s->first;
    flush(s);
    if (s->is_broken || s->queued >= SG_SOCK_LOW || s->files)
        return;
    s->is_full = false;
    if (!s->first)
        update_interest(s);
    if (was_full || (had_any && !s->first))
        s->ops->drained(s, was_full);
}

static void on_ready(struct sg_io *io, uint32_t events)
{
    struct sg_sock *s = SG_OWNER(io, struct sg_sock, io);
    if (events & (EPOLLHUP | EPOLLERR)) {
        s->is_broken = true;
        drop_queue(s);
        (void)sg_io_want(s->loop, &s->io, 0, NULL); /* or it would be told again and again */
        return s->ops->lost(s);
    }
    if (s->is_sniffing)
        sniff(s);
    if (s->is_handshaking && !s->is_broken)
        handshake(s);
    if (s->is_sniffing || s->is_handshaking || s->is_broken)
        return;
    bool must_read = s->is_reading && (events & (EPOLLIN | EPOLLRDHUP) || s->wants_out);
    if (events & EPOLLOUT)
        on_out(s);
    if (s->io.fd < 0 || s->is_broken)
        return;
    if (must_read && s->is_reading)
        return s->ops->readable(s);
    if (!s->is_reading && events & EPOLLRDHUP && !s->has_hung_up) {
        s->has_hung_up = true;
        update_interest(s);
        s->ops->hung_up(s);
    }
}

int sg_sock_init(struct sg_sock *s, struct sg_loop *l, int fd, struct sg_tls *tls,
                 const struct sg_sock_ops *ops, struct sg_err *err)
{
    *s = (struct sg_sock) {
        .io = { .fd = fd, .ready = on_ready },
        .loop = l,
        .ops = ops,
        .tls = tls,
        .is_reading = true,
        .is_sniffing = tls != NULL,
    };
    if (sg_io_want(l, &s->io, EPOLLHUP | EPOLLIN | EPOLLRDHUP, err) < 0) {
        sg_drop_fd(&s->io.fd);
        return -1;
    }
    return 0;
}

void sg_sock_done(struct sg_sock *s)
{
    if (s->session && !s->is_broken && !s->is_handshaking)
        sg_session_say_end(s->session);
    sg_session_free(s->session);
    s->session = NULL;
    drop_queue(s);
    sg_io_drop(s->loop, &s->io);
}
