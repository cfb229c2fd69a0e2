/* SPDX-License-Identifier: Apache-2.0 */
/* Packets to the host, in order.
 *
 * The queue is bounded by what can be under way: while it holds anything, serve.c takes no request
 * and watch.c no event, so it can only grow by ends of execs, dials and removals that were already
 * admitted, plus the one batch of file events in hand. */
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

/* 1 sent, 0 no room now, -1 this packet cannot be sent (or nobody is there: is_over). */
static int try_send(struct sg_init *in, const void *p, size_t n, int fd, struct sg_err *err)
{
    if (sg_chan_send_bytes(in->ctl.fd, p, n, &fd, fd >= 0, false, err) == 0)
        return 1;
    if (err->sys == EAGAIN)
        return 0;
    if (err->sys == EPIPE || err->sys == ECONNRESET || err->sys == ENOTCONN)
        in->is_over = true;
    return -1;
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
    if (was_empty) {
        (void)sg_source_want(in, &in->ctl, EPOLLOUT, NULL);
        sg_watch_pause(in, true);
    }
}

void sg_outbox_send(struct sg_init *in, struct sg_msg *m, int fd)
{
    sg_auto_fd owned = fd;
    struct sg_buf *bytes = &in->encoded;
    struct sg_err err = { 0 };
    m->epoch = in->epoch;
    sg_buf_clear(bytes);
    int sent = sg_msg_encode(m, bytes, &err);
    if (sent == 0 && sg_outbox_is_empty(in))
        sent = try_send(in, bytes->p, bytes->n, owned, &err);
    if (sent == 0)
        enqueue(in, bytes, sg_take_fd(&owned));
    else if (sent < 0 && m->type != SG_MSG_ERROR && m->id && !in->is_over)
        sg_outbox_send_error(in, m->id, &err); /* the asker must not wait for ever */
}

void sg_outbox_send_error(struct sg_init *in, uint32_t id, const struct sg_err *e)
{
    struct sg_msg m = { .type = SG_MSG_ERROR,
                        .id = id,
                        .error = { (uint32_t)e->kind, (uint32_t)e->sys, sg_text_of(e->msg) } };
    sg_outbox_send(in, &m, -1);
}

void sg_outbox_flush(struct sg_init *in)
{
    while (in->out && !in->is_over) {
        struct sg_err err;
        struct sg_queued *q = in->out;
        if (try_send(in, q->bytes, q->n, q->fd, &err) == 0)
            return;
        in->out = q->next;
        if (!in->out)
            in->out_end = &in->out;
        sg_drop_fd(&q->fd);
        free(q);
    }
    (void)sg_source_want(in, &in->ctl, EPOLLIN, NULL);
    sg_watch_pause(in, false);
}
