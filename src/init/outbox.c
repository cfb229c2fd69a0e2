/* SPDX-License-Identifier: Apache-2.0 */
/* Packets to the host, in order.
 *
 * The queue is bounded by what can be under way: while it holds anything, serve.c takes no request
 * and watch.c no event, so it can only grow by ends of execs, dials and workers that were already
 * admitted, plus the one batch of file events in hand. The execs that RECLAIM tells of never
 * enter it: their descriptors are sent when there is room for them. */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/auto.h"
#include "init/init.h"
#include "base/banned.h"

struct sg_queued {
    struct sg_queued *next;
    int fd;
    size_t n;
    uint8_t bytes[];
};

/* 1 sent, 0 no room now, -1 this packet cannot be sent (or nobody is there: has_hung_up). */
static int try_send(struct sg_init *in, const void *p, size_t n, const int *fds, unsigned fd_count,
                    struct sg_err *err)
{
    if (sg_chan_send_bytes(in->ctl.fd, p, n, fds, fd_count, false, err) == 0)
        return 1;
    if (err->sys == EAGAIN)
        return 0;
    if (err->sys == EPIPE || err->sys == ECONNRESET || err->sys == ENOTCONN)
        in->has_hung_up = true;
    return -1;
}

static bool is_wanted(const struct sg_init *in, const struct sg_msg *m)
{
    if (in->ctl.fd < 0 || in->has_hung_up)
        return false;
    return in->has_hello || m->id || m->type == SG_MSG_READY || m->type == SG_MSG_ERROR;
}

/* From now on the connection is watched for room, and nothing more is taken in (I3). */
static void wait_for_room(struct sg_init *in)
{
    (void)sg_source_want(in, &in->ctl, EPOLLOUT, NULL);
    sg_watch_pause(in, true);
}

static void enqueue(struct sg_init *in, const struct sg_buf *bytes, int fd)
{
    struct sg_queued *q = sg_alloc(sizeof *q + bytes->n);
    q->fd = fd;
    q->n = bytes->n;
    memcpy(q->bytes, bytes->p, bytes->n);
    bool was_empty = sg_outbox_is_empty(in);
    *in->out_end = q;
    in->out_end = &q->next;
    if (was_empty)
        wait_for_room(in);
}

void sg_outbox_send(struct sg_init *in, struct sg_msg *m, int fd)
{
    sg_auto_fd owned = fd;
    if (!is_wanted(in, m))
        return;
    struct sg_buf *bytes = &in->encoded;
    struct sg_err err = { 0 };
    m->epoch = in->epoch;
    sg_buf_clear(bytes);
    int sent = sg_msg_encode(m, bytes, &err);
    if (sent == 0 && sg_outbox_is_empty(in))
        sent = try_send(in, bytes->p, bytes->n, &owned, owned >= 0, &err);
    if (sent == 0)
        enqueue(in, bytes, sg_take_fd(&owned));
    else if (sent < 0 && m->type != SG_MSG_ERROR && m->id)
        sg_outbox_send_error(in, m->id, &err); /* the asker must not wait for ever */
}

void sg_outbox_send_error(struct sg_init *in, uint32_t id, const struct sg_err *e)
{
    struct sg_msg m = { .type = SG_MSG_ERROR,
                        .id = id,
                        .error = { (uint32_t)e->kind, (uint32_t)e->sys, sg_text_of(e->msg) } };
    sg_outbox_send(in, &m, -1);
}

bool sg_outbox_try(struct sg_init *in, struct sg_msg *m, const int *fds, unsigned fd_count)
{
    struct sg_buf *bytes = &in->encoded;
    struct sg_err err = { 0 };
    m->epoch = in->epoch;
    sg_buf_clear(bytes);
    if (!is_wanted(in, m) || sg_msg_encode(m, bytes, &err) < 0 ||
        try_send(in, bytes->p, bytes->n, fds, fd_count, &err) != 0)
        return true;
    wait_for_room(in);
    return false;
}

static void drop_first(struct sg_init *in)
{
    struct sg_queued *q = in->out;
    in->out = q->next;
    if (!in->out)
        in->out_end = &in->out;
    sg_drop_fd(&q->fd);
    free(q);
}

void sg_outbox_clear(struct sg_init *in)
{
    while (in->out)
        drop_first(in);
}

void sg_outbox_flush(struct sg_init *in)
{
    while (in->out && !in->has_hung_up) {
        struct sg_err err;
        struct sg_queued *q = in->out;
        if (try_send(in, q->bytes, q->n, &q->fd, q->fd >= 0, &err) == 0)
            return;
        drop_first(in);
    }
    if (in->is_reclaiming && !sg_exec_go_on_telling(in))
        return;
    if (in->has_hung_up || in->out)
        return;
    (void)sg_source_want(in, &in->ctl, EPOLLIN, NULL);
    sg_watch_pause(in, false);
}
