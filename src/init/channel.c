/* SPDX-License-Identifier: Apache-2.0 */
/* Where no descriptor crosses the wall: one byte channel to the host, which carries connections one
 * after the other. Each comes out here as a control socket, of which we have both ends. */
#include <sys/epoll.h>

#include "init/init.h"
#include "mux/mux.h"
#include "base/banned.h"

static void opened(void *arg, int fd)
{
    sg_conn_take(arg, fd);
}

static void ready(struct sg_init *in, struct sg_source *s, uint32_t events)
{
    struct sg_err ignored; /* there is nobody to tell */
    (void)s, (void)events;
    if (sg_mux_turn(in->mux, &ignored) < 0)
        in->is_over = true;
}

int sg_channel_open(struct sg_init *in, int fd, struct sg_err *err)
{
    static const struct sg_mux_ops ops = {
        .roles = 1u << SG_ROLE_REPLY | 1u << SG_ROLE_EVENT,
        .opened = opened,
    };
    in->mux = sg_mux_new(fd, SG_MUX_GUEST, &ops, in, err);
    if (!in->mux)
        return -1;
    in->channel = (struct sg_source) { .fd = sg_mux_fd(in->mux), .ready = ready };
    return sg_source_want(in, &in->channel, EPOLLIN, err);
}
