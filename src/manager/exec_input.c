/* SPDX-License-Identifier: Apache-2.0 */
/* Input: into the pipe as far as there is room. Init holds a duplicate of the writing end, so an
 * end of file takes two: ours and init's. */
#include <errno.h>
#include <sys/epoll.h>

#include "base/auto.h"
#include "manager/exec_internal.h"
#include "manager/nowait.h"
#include "tier/peer.h"
#include "base/banned.h"

static int demand_input(const struct sg_exec *x, struct sg_err *err)
{
    if (!x->has_stdin)
        return sg_fail(err, SG_CONFLICT, "exec %s was started without input", x->id.s);
    if (sg_exec_is_live(x) && sg_exec_impl(x)->awaits_kept)
        return sg_fail(err, SG_UNAVAILABLE,
                       "the sandbox has not answered since the service was started; try again");
    if (!sg_exec_is_live(x) || sg_exec_impl(x)->in.fd < 0)
        return sg_fail(err, SG_CONFLICT, "the input of exec %s is closed", x->id.s);
    return 0;
}

ssize_t sg_exec_write(struct sg_exec *x, const void *p, size_t n, struct sg_err *err)
{
    if (demand_input(x, err) < 0)
        return -1;
    if (!n)
        return 0;
    ssize_t put = sg_nowait_write(sg_exec_impl(x)->in.fd, p, n);
    if (put < 0 && errno == EAGAIN)
        return 0;
    if (put < 0 && errno == EPIPE)
        return sg_fail(err, SG_CONFLICT, "nobody reads the input of exec %s any more", x->id.s);
    if (put < 0)
        return sg_fail_sys(err, "write the input of exec %s", x->id.s);
    sg_sandbox_touch(x->sandbox);
    return put;
}

static void call_writable(struct sg_exec_impl *i)
{
    void (*writable)(void *arg) = sg_take_ptr(&i->writable);
    if (writable)
        writable(i->writable_arg);
}

static void in_ready(struct sg_io *io, uint32_t events)
{
    struct sg_exec_impl *i = SG_OWNER(io, struct sg_exec_impl, in);
    (void)events; /* room, or nobody reads any more: the next write tells */
    (void)sg_io_want(i->x->sandbox->manager->loop, io, 0, NULL);
    call_writable(i);
}

int sg_exec_when_writable(struct sg_exec *x, void (*writable)(void *arg), void *arg,
                          struct sg_err *err)
{
    struct sg_exec_impl *i = x->impl;
    if (demand_input(x, err) < 0)
        return -1;
    if (i->writable)
        return sg_fail(err, SG_CONFLICT, "somebody else writes the input of exec %s", x->id.s);
    i->in.ready = in_ready;
    if (sg_io_want(x->sandbox->manager->loop, &i->in, EPOLLOUT, err) < 0)
        return -1;
    i->writable = writable;
    i->writable_arg = arg;
    return 0;
}

void sg_exec_forget_writable(struct sg_exec *x, void *arg)
{
    struct sg_exec_impl *i = x->impl;
    if (!i->writable || i->writable_arg != arg)
        return;
    i->writable = NULL;
    if (i->in.fd >= 0 && x->sandbox)
        (void)sg_io_want(x->sandbox->manager->loop, &i->in, 0, NULL);
}

void sg_exec_close_input(struct sg_exec *x)
{
    struct sg_exec_impl *i = x->impl;
    if (i->in.fd < 0)
        return;
    sg_io_drop(x->sandbox->manager->loop, &i->in);
    call_writable(i);
}

int sg_exec_close_stdin(struct sg_exec *x, struct sg_err *err)
{
    if (demand_input(x, err) < 0)
        return -1;
    struct sg_msg m = { .type = SG_MSG_CLOSE_STDIN, .close_stdin = { x->pid } };
    if (sg_sandbox_demand_running(x->sandbox, err) < 0 ||
        sg_peer_ask(x->sandbox->peer, &m, NULL, 0, NULL, NULL, err) < 0)
        return -1;
    sg_exec_close_input(x);
    return 0;
}
