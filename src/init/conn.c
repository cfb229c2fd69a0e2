/* SPDX-License-Identifier: Apache-2.0 */
/* Connections: one at a time, and after KEEP one after the other.
 *
 * A host that comes back is a stranger to what its predecessor had asked for: half-done replies,
 * watches, dials and workers end with the connection they belong to. Execs and their records stay.
 * The newest connection always wins, because a host that lost its end (it was killed, or a message
 * was on its way with the descriptor) has no other way to make us let go of the old one. */
#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "init/init.h"
#include "base/banned.h"

void sg_conn_begin(struct sg_init *in)
{
    struct sg_msg ready = { .type = SG_MSG_READY, .ready = { SG_CTL_VERSION, (uint32_t)getpid() } };
    sg_outbox_send(in, &ready, -1);
    sg_users_read_ahead(&in->users); /* while nobody waits */
}

static void drop(struct sg_init *in)
{
    sg_source_drop(in, &in->ctl);
    sg_outbox_clear(in);
    sg_watch_end_all(in);
    sg_dial_end_all(in);
    sg_worker_end_all(in);
    in->is_reclaiming = false;
    in->has_hello = false;
    in->has_hung_up = false;
    in->epoch = 0;
}

void sg_conn_end(struct sg_init *in)
{
    if (in->keeps && (in->listener.fd >= 0 || in->mux))
        drop(in);
    else
        in->is_over = true;
}

void sg_conn_accept(struct sg_init *in, struct sg_source *s, uint32_t events)
{
    (void)events;
    int fd = accept4(s->fd, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0 && (errno == EMFILE || errno == ENFILE)) {
        drop(in); /* its watches and dials have descriptors enough */
        fd = accept4(s->fd, NULL, NULL, SOCK_CLOEXEC);
    }
    if (fd < 0)
        return;
    sg_conn_take(in, fd);
}

void sg_conn_take(struct sg_init *in, int fd)
{
    drop(in);
    sg_chan_make_room(fd);
    in->ctl.fd = fd;
    if (sg_source_want(in, &in->ctl, EPOLLIN, NULL) < 0)
        in->has_hung_up = true;
    sg_conn_begin(in);
}
