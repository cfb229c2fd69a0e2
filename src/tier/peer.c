/* SPDX-License-Identifier: Apache-2.0 */
/* P1. An id is a place in the table of open questions (low half) and a serial number (high half):
 * an answer finds its question without a search, and one that comes twice or late finds nothing.
 * P2. Every callback may free the peer. Whoever goes on after one asks `is_gone` first.
 * P3. A packet may have 192 KiB, and a thousand peers are mostly silent: what is received and what
 *     is encoded goes through one pair of buffers for all peers of a thread (a loop is run by one
 *     thread). Only what finds no room in its socket is copied, into a queue with a bound.
 * P4. All that expire have the same time, so the order in which they were asked is that in which
 *     they expire: a list through the table, and one timer, which is set when there is none and
 *     looks again when it fires. What is answered in time costs no timer of its own. */
#include "tier/peer.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/auto.h"
#include "base/banned.h"

#define NS_PER_MS 1000000u
enum {
    MAX_QUESTIONS = 4096,
    MAX_QUEUED = 1024,
    MAX_QUEUED_BYTES = 4 << 20,
    PACKETS_A_TURN = 16, /* then the others have their turn */
    NO_PLACE = 0xffff,
};

struct question {
    uint32_t id; /* 0: free */
    bool expires;
    uint16_t older, newer; /* of those that expire: places, or NO_PLACE */
    uint64_t asked_ns;     /* by the peer's clock */
    sg_peer_answer *answer;
    void *arg;
};

struct queued {
    struct queued *next;
    uint32_t id;
    int fds[SG_CTL_MAX_FDS];
    unsigned fd_count;
    size_t n;
    uint8_t bytes[];
};

struct sg_peer {
    struct sg_io io;
    struct sg_loop *loop; /* borrows */
    const struct sg_peer_ops *ops;
    void *arg;
    uint32_t epoch;
    uint16_t serial;
    bool is_lost;
    bool *is_gone; /* of a call under way; NULL: there is none */
    struct question *questions;
    size_t question_cap, question_count;
    uint16_t oldest, newest; /* of those that expire */
    struct sg_timer deadline;
    uint64_t held_at_ns, held_ns; /* since when it is held, 0: it is not; how long it was before */
    struct queued *first, *last;
    size_t queued_count, queued_bytes;
};

static _Thread_local struct {
    unsigned users;
    struct sg_packet in;
    struct sg_buf out;
} shared;

static void use_shared(void)
{
    if (shared.users++ == 0) {
        sg_packet_init(&shared.in);
        sg_buf_init(&shared.out, SG_CTL_MAX_BYTES);
    }
}

static void leave_shared(void)
{
    if (--shared.users == 0) {
        sg_packet_done(&shared.in);
        sg_buf_done(&shared.out);
    }
}

/* ---- questions ---- */

/* Stands still while the other side is frozen. */
static uint64_t clock_of(const struct sg_peer *p)
{
    return (p->held_at_ns ? p->held_at_ns : sg_loop_now(p->loop)) - p->held_ns;
}

static void set_deadline(struct sg_peer *p)
{
    if (p->oldest == NO_PLACE || p->held_at_ns || sg_timer_is_set(&p->deadline))
        return;
    const uint64_t asked_ns = p->questions[p->oldest].asked_ns;
    sg_timer_set(p->loop, &p->deadline, asked_ns + p->held_ns + p->ops->patience_ns);
}

static void begin_time(struct sg_peer *p, size_t i)
{
    struct question *q = &p->questions[i];
    q->expires = true;
    q->asked_ns = clock_of(p);
    q->older = p->newest;
    q->newer = NO_PLACE;
    *(p->newest == NO_PLACE ? &p->oldest : &p->questions[p->newest].newer) = (uint16_t)i;
    p->newest = (uint16_t)i;
    set_deadline(p);
}

static void end_time(struct sg_peer *p, const struct question *q)
{
    *(q->older == NO_PLACE ? &p->oldest : &p->questions[q->older].newer) = q->newer;
    *(q->newer == NO_PLACE ? &p->newest : &p->questions[q->newer].older) = q->older;
}

/* The id of a new question, or 0. */
static uint32_t open_question(struct sg_peer *p, enum sg_msg_type type, sg_peer_answer *answer,
                              void *arg)
{
    if (++p->serial == 0)
        p->serial = 1;
    if (!answer)
        return (uint32_t)p->serial << 16 | NO_PLACE;
    if (p->question_count == p->question_cap) {
        size_t cap = p->question_cap ? p->question_cap * 2 : 4;
        if (cap > MAX_QUESTIONS)
            return 0;
        struct question *q = sg_alloc(cap * sizeof *q);
        if (p->question_count)
            memcpy(q, p->questions, p->question_cap * sizeof *q);
        free(p->questions);
        p->questions = q;
        p->question_cap = cap;
    }
    size_t i = p->serial & (p->question_cap - 1); /* where one is likely free */
    while (p->questions[i].id)
        i = (i + 1) & (p->question_cap - 1);
    p->questions[i] = (struct question) { .id = (uint32_t)p->serial << 16 | (uint32_t)i,
                                          .answer = answer,
                                          .arg = arg };
    if (p->ops->is_impatient || (type < 64 && p->ops->impatient >> type & 1))
        begin_time(p, i);
    p->question_count++;
    return p->questions[i].id;
}

/* Takes the question out of the table; `answer` is NULL when there is none of this id. */
static struct question close_question(struct sg_peer *p, uint32_t id)
{
    size_t i = id & 0xffff;
    struct question q = { 0 };
    if (i < p->question_cap && id && p->questions[i].id == id) {
        q = p->questions[i];
        if (q.expires)
            end_time(p, &q);
        p->questions[i] = (struct question) { 0 };
        p->question_count--;
    }
    return q;
}

/* ---- the end ---- */

static void drop_queue(struct sg_peer *p)
{
    for (struct queued *q; (q = p->first);) {
        p->first = q->next;
        for (unsigned i = 0; i < q->fd_count; i++)
            (void)close(q->fds[i]);
        free(q);
    }
    p->queued_count = p->queued_bytes = 0;
}

/* What is asked from inside the callbacks is refused by sg_peer_ask(), so the table only shrinks.
 */
static void lose(struct sg_peer *p, const struct sg_err *err, const bool *is_gone)
{
    p->is_lost = true;
    sg_timer_stop(p->loop, &p->deadline);
    sg_io_drop(p->loop, &p->io);
    drop_queue(p);
    if (p->ops->losing)
        p->ops->losing(p->arg);
    for (size_t i = 0; i < p->question_cap; i++) {
        struct question q = close_question(p, p->questions[i].id);
        if (!q.answer)
            continue;
        q.answer(q.arg, NULL, err);
        if (*is_gone)
            return;
    }
    if (p->ops->lost)
        p->ops->lost(p->arg, err);
}

/* ---- in ---- */

static void read_error(const struct sg_msg_error *e, struct sg_err *ret)
{
    bool is_known = e->kind > SG_OK && e->kind < SG_KIND_COUNT;
    *ret = (struct sg_err) { .kind = is_known ? (enum sg_kind)e->kind : SG_INTERNAL,
                             .sys = e->sys < 4096 ? (int)e->sys : 0,
                             .where = "the other side" };
    (void)snprintf(ret->msg, sizeof ret->msg, "%s", e->text.p);
}

static void deliver(struct sg_peer *p, struct sg_packet *packet)
{
    const struct sg_msg *m = &packet->msg;
    if (sg_msg_table[m->type].role == p->ops->news_role) {
        if (p->ops->news)
            p->ops->news(p->arg, packet);
        return;
    }
    if (p->epoch && m->epoch != p->epoch)
        return;
    struct question q = close_question(p, m->id);
    if (!q.answer) {
        if (p->ops->late)
            p->ops->late(p->arg, packet);
        return;
    }
    if (m->type != SG_MSG_ERROR && m->type != SG_MSG_L_FAILED && m->type != SG_MSG_G_FAILED) {
        q.answer(q.arg, packet, NULL);
        return;
    }
    struct sg_err err;
    read_error(&m->error, &err);
    q.answer(q.arg, NULL, &err);
}

/* False when there is nothing more to take. */
static bool take_one(struct sg_peer *p, const bool *is_gone)
{
    struct sg_err err = { 0 };
    unsigned roles = 1u << p->ops->answer_role | 1u << p->ops->news_role;
    switch (sg_chan_recv(p->io.fd, roles, false, &shared.in, &err)) {
    case SG_RECV_MESSAGE:
        deliver(p, &shared.in);
        return !*is_gone && !p->is_lost;
    case SG_RECV_AGAIN:
        return false;
    case SG_RECV_CLOSED:
        (void)sg_fail(&err, SG_UNAVAILABLE, "the control connection ended");
        break;
    case SG_RECV_ERROR: /* out of descriptors ourselves: that is this question's bad luck only */
        if (err.kind == SG_EXHAUSTED && shared.in.msg.id) {
            struct question q = close_question(p, shared.in.msg.id);
            if (q.answer)
                q.answer(q.arg, NULL, &err);
            return !*is_gone && !p->is_lost;
        }
        err.kind = SG_UNAVAILABLE;
        (void)sg_wrap(&err, "the control connection broke");
        break;
    }
    lose(p, &err, is_gone);
    return false;
}

/* ---- out ---- */

static void want(struct sg_peer *p)
{
    struct sg_err err;
    if (p->io.fd >= 0)
        (void)sg_io_want(p->loop, &p->io, p->first ? EPOLLIN | EPOLLOUT : EPOLLIN, &err);
}

static int enqueue(struct sg_peer *p, uint32_t id, const int *fds, unsigned fd_count,
                   struct sg_err *err)
{
    size_t n = shared.out.n;
    if (p->queued_count >= MAX_QUEUED || n > MAX_QUEUED_BYTES - p->queued_bytes)
        return sg_fail(err, SG_EXHAUSTED, "too many messages wait for the other side");
    struct queued *q = sg_alloc(sizeof *q + n);
    q->id = id;
    q->n = n;
    memcpy(q->bytes, shared.out.p, n);
    for (; q->fd_count < fd_count; q->fd_count++) {
        q->fds[q->fd_count] = fcntl(fds[q->fd_count], F_DUPFD_CLOEXEC, 3);
        if (q->fds[q->fd_count] >= 0)
            continue;
        (void)sg_fail_sys(err, "keep a descriptor for later");
        while (q->fd_count > 0)
            (void)close(q->fds[--q->fd_count]);
        free(q);
        return -1;
    }
    *(p->first ? &p->last->next : &p->first) = q;
    p->last = q;
    p->queued_count++;
    p->queued_bytes += n;
    want(p);
    return 0;
}

/* A packet that can never be sent fails its question; the end of the connection comes by itself. */
static void flush(struct sg_peer *p, const bool *is_gone)
{
    for (struct queued *q; (q = p->first);) {
        struct sg_err err = { 0 };
        int r = sg_chan_send_bytes(p->io.fd, q->bytes, q->n, q->fds, q->fd_count, false, &err);
        if (r < 0 && err.sys == EAGAIN)
            break;
        p->first = q->next;
        p->queued_count--;
        p->queued_bytes -= q->n;
        struct question failed = { 0 };
        if (r < 0 && err.sys != EPIPE && err.sys != ECONNRESET)
            failed = close_question(p, q->id);
        for (unsigned i = 0; i < q->fd_count; i++)
            (void)close(q->fds[i]);
        free(q);
        if (failed.answer)
            failed.answer(failed.arg, NULL, &err);
        if (*is_gone || p->is_lost)
            return;
    }
    want(p);
}

static void ready(struct sg_io *io, uint32_t events)
{
    struct sg_peer *p = SG_OWNER(io, struct sg_peer, io);
    bool is_gone = false;
    p->is_gone = &is_gone;
    use_shared(); /* the last peer may go meanwhile */
    if (events & EPOLLOUT)
        flush(p, &is_gone);
    for (int i = 0; i < PACKETS_A_TURN && !is_gone && !p->is_lost; i++)
        if (!take_one(p, &is_gone))
            break;
    sg_packet_clear(&shared.in); /* descriptors that nobody took are closed now, not one day */
    leave_shared();
    if (!is_gone)
        p->is_gone = NULL;
}

/* ---- time ---- */

static bool is_due(const struct sg_peer *p)
{
    return p->oldest != NO_PLACE && !p->held_at_ns &&
           clock_of(p) - p->questions[p->oldest].asked_ns >= p->ops->patience_ns;
}

static void too_late(struct sg_timer *t, uint64_t now_ns)
{
    (void)now_ns;
    struct sg_peer *p = SG_OWNER(t, struct sg_peer, deadline);
    struct sg_err err = { 0 };
    bool is_gone = false;
    (void)sg_fail(&err, SG_TIMEOUT, "no answer came in %u ms",
                  (unsigned)(p->ops->patience_ns / NS_PER_MS));
    p->is_gone = &is_gone;
    while (is_due(p)) {
        struct question q = close_question(p, p->questions[p->oldest].id);
        assert(q.answer); /* the oldest is open */
        q.answer(q.arg, NULL, &err);
        if (is_gone)
            return;
    }
    p->is_gone = NULL;
    set_deadline(p);
}

void sg_peer_hold(struct sg_peer *p, bool is_held)
{
    if (is_held == (p->held_at_ns > 0))
        return;
    const uint64_t now_ns = sg_loop_now(p->loop);
    if (is_held) {
        p->held_at_ns = now_ns;
        sg_timer_stop(p->loop, &p->deadline);
    } else {
        p->held_ns += now_ns - p->held_at_ns;
        p->held_at_ns = 0;
        set_deadline(p);
    }
}

/* ---- the face ---- */

struct sg_peer *sg_peer_new(struct sg_loop *l, int fd, uint32_t epoch,
                            const struct sg_peer_ops *ops, void *arg, struct sg_err *err)
{
    struct sg_peer *p = sg_new(struct sg_peer);
    *p = (struct sg_peer) {
        .io = { .fd = fd, .ready = ready },
        .loop = l,
        .ops = ops,
        .arg = arg,
        .epoch = epoch,
        .oldest = NO_PLACE,
        .newest = NO_PLACE,
        .deadline = { .fire = too_late },
    };
    use_shared();
    if (sg_io_want(l, &p->io, EPOLLIN, err) < 0) {
        sg_peer_free(p);
        return NULL;
    }
    return p;
}

void sg_peer_free(struct sg_peer *p)
{
    if (!p)
        return;
    if (p->is_gone)
        *p->is_gone = true;
    sg_timer_stop(p->loop, &p->deadline);
    sg_io_drop(p->loop, &p->io);
    drop_queue(p);
    free(p->questions);
    free(p);
    leave_shared();
}

void sg_peer_end(struct sg_peer *peer, const struct sg_err *err)
{
    struct sg_peer *p = peer; /* an analyser minds a local's address in a parameter */
    bool is_gone = false;
    assert(!p->is_gone);
    if (p->is_lost)
        return;
    p->is_gone = &is_gone;
    lose(p, err, &is_gone);
    if (!is_gone)
        p->is_gone = NULL;
}

int sg_peer_ask(struct sg_peer *p, struct sg_msg *m, const int *fds, unsigned fd_count,
                sg_peer_answer *answer, void *arg, struct sg_err *err)
{
    if (p->is_lost)
        return sg_fail(err, SG_UNAVAILABLE, "the control connection ended");
    m->id = open_question(p, m->type, answer, arg);
    m->epoch = p->epoch;
    if (!m->id)
        return sg_fail(err, SG_EXHAUSTED, "%d questions are open already", MAX_QUESTIONS);
    sg_buf_clear(&shared.out);
    struct sg_err sent = { 0 };
    int r = sg_msg_encode(m, &shared.out, &sent);
    if (r == 0 && p->first)
        r = enqueue(p, m->id, fds, fd_count, &sent);
    else if (r == 0 && sg_chan_send_bytes(p->io.fd, shared.out.p, shared.out.n, fds, fd_count,
                                          false, &sent) < 0)
        r = sent.sys == EAGAIN ? enqueue(p, m->id, fds, fd_count, &sent) : -1;
    if (r == 0)
        return 0;
    (void)close_question(p, m->id);
    if (err)
        *err = sent;
    return sg_wrap(err, "message %s", sg_msg_table[m->type].name);
}

unsigned sg_peer_open_questions(const struct sg_peer *p)
{
    return (unsigned)p->question_count;
}
