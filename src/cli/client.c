/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/client.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/str.h"
#include "base/banned.h"

enum { ANSWER_MS = 30000 };

void sg_client_init(struct sg_client *c, int ctl_fd)
{
    *c = (struct sg_client) { .fd = ctl_fd, .epoch = 1, .next_id = 1 };
}

int64_t sg_client_send(struct sg_client *c, struct sg_msg *m, const int *fds, unsigned fd_count,
                       struct sg_err *err)
{
    m->id = c->next_id++;
    m->epoch = c->epoch;
    if (sg_chan_send(c->fd, m, fds, fd_count, true, err) < 0)
        return -1;
    return m->id;
}

int sg_client_error(const struct sg_msg_error *m, struct sg_err *err)
{
    enum sg_kind kind = m->kind == SG_OK ? SG_INTERNAL : (enum sg_kind)m->kind;
    char text[sizeof err->msg];
    size_t n = 0;
    for (size_t i = 0; i < m->text.n && n + 1 < sizeof text; i++) {
        unsigned char ch = (unsigned char)m->text.p[i];
        text[n++] =
            ch < 0x20 || ch == 0x7f ? '?' : (char)ch; /* never a control byte on a terminal */
    }
    text[n] = '\0';
    sg_fail(err, kind, "%s", text);
    if (err)
        err->sys = (int)m->sys;
    return -1;
}

static int await_readable(int fd, uint64_t deadline_ns, struct sg_err *err)
{
    for (;;) {
        uint64_t now = sg_now_ns();
        if (now >= deadline_ns)
            return sg_fail(err, SG_TIMEOUT, "the sandbox did not answer in %d s", ANSWER_MS / 1000);
        struct pollfd p = { .fd = fd, .events = POLLIN };
        int n = poll(&p, 1, (int)((deadline_ns - now) / 1000000u) + 1);
        if (n > 0)
            return 0;
        if (n < 0 && errno != EINTR)
            return sg_fail_sys(err, "wait for the sandbox");
    }
}

int sg_client_ask(struct sg_client *c, struct sg_msg *m, enum sg_msg_type want,
                  struct sg_packet *ret, struct sg_err *err)
{
    int64_t id = sg_client_send(c, m, NULL, 0, err);
    if (id < 0)
        return -1;
    const uint64_t deadline = sg_now_ns() + (uint64_t)ANSWER_MS * 1000000u;
    for (;;) {
        if (await_readable(c->fd, deadline, err) < 0)
            return -1;
        switch (sg_chan_recv(c->fd, 1u << SG_ROLE_REPLY | 1u << SG_ROLE_EVENT, false, ret, err)) {
        case SG_RECV_ERROR:
            return sg_wrap(err, "answer of the sandbox");
        case SG_RECV_CLOSED:
            return sg_fail(err, SG_UNAVAILABLE, "the sandbox is gone");
        case SG_RECV_AGAIN:
            continue;
        case SG_RECV_MESSAGE:
            break;
        }
        if (ret->msg.id != id)
            continue;
        if (ret->msg.type == SG_MSG_ERROR)
            return sg_client_error(&ret->msg.error, err);
        if (ret->msg.type != want)
            return sg_fail(err, SG_INTERNAL, "the sandbox answered with message %s",
                           sg_msg_table[ret->msg.type].name);
        return 0;
    }
}
