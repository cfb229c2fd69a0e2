/* SPDX-License-Identifier: Apache-2.0 */
/* A child enters the namespace, makes the sockets, sends them and is gone. The caller has one
 * thread, so the child may do what any program may. It takes about a millisecond, for which the
 * caller waits. */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "ctl/msg.h"
#include "engine/net.h"
#include "engine/netsock.h"
#include "base/banned.h"

enum { PATIENCE_S = 5 };

struct report { /* as it is: both ends are the same program */
    int ret;
    struct sg_err err;
};

union control {
    struct cmsghdr head;
    uint8_t room[CMSG_SPACE(SG_G_FD_COUNT * sizeof(int))];
};

static int enter(int pidfd)
{
    if (pidfd >= 0)
        return setns(pidfd, CLONE_NEWNET);
    const long made = sg_net_make_raw();
    errno = made < 0 ? (int)-made : 0;
    return made < 0 ? -1 : 0;
}

_Noreturn static void work(enum sg_lead how, int pidfd, int to)
{
    struct report r = { .ret = -1 };
    int fds[SG_G_FD_COUNT];
    union control c = { 0 };
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (enter(pidfd) < 0)
        (void)sg_fail_sys(&r.err, "enter the sandbox's network namespace");
    else
        r.ret = sg_netsock_make(how, fds, &r.err);
    struct iovec v = { &r, sizeof r };
    struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };
    if (r.ret == 0) {
        m.msg_control = &c;
        m.msg_controllen = sizeof c.room;
        struct cmsghdr *h = CMSG_FIRSTHDR(&m);
        h->cmsg_level = SOL_SOCKET;
        h->cmsg_type = SCM_RIGHTS;
        h->cmsg_len = CMSG_LEN(sizeof fds);
        memcpy(CMSG_DATA(h), fds, sizeof fds);
    }
    (void)!sendmsg(to, &m, MSG_NOSIGNAL);
    _exit(0);
}

static int take(int from, int *ret_fds, struct sg_err *err)
{
    struct report r;
    union control c = { 0 };
    struct iovec v = { &r, sizeof r };
    struct msghdr m = {
        .msg_iov = &v, .msg_iovlen = 1, .msg_control = &c, .msg_controllen = sizeof c.room
    };
    const struct timeval patience = { .tv_sec = PATIENCE_S };
    (void)setsockopt(from, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    const ssize_t n = recvmsg(from, &m, MSG_CMSG_CLOEXEC);
    if (n < 0)
        return sg_fail_sys(err, "wait for the sandbox's sockets");
    const struct cmsghdr *h = CMSG_FIRSTHDR(&m);
    if (n != (ssize_t)sizeof r || (r.ret == 0 && !h))
        return sg_fail(err, SG_INTERNAL, "the sandbox's sockets did not come");
    if (r.ret < 0) {
        *err = r.err;
        return -1;
    }
    memcpy(ret_fds, CMSG_DATA(h), SG_G_FD_COUNT * sizeof(int));
    return 0;
}

int sg_netsock_make_apart(enum sg_lead how, int pidfd, int *ret_fds, struct sg_err *err)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return sg_fail_sys(err, "make a pair of sockets");
    sg_auto_fd near = pair[0], far = pair[1];
    const pid_t child = fork();
    if (child < 0)
        return sg_fail_sys(err, "fork");
    if (child == 0)
        work(how, pidfd, far);
    sg_drop_fd(&far);
    const int ret = take(near, ret_fds, err);
    (void)kill(child,
               SIGKILL); /* it has nothing more to do; not waited for: the number is its own */
    while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
        ;
    return ret;
}
