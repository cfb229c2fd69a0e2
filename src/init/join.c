/* SPDX-License-Identifier: Apache-2.0 */
/* Whoever is first at the socket gets the sandbox: nothing but us runs inside until we have it, and
 * its owner takes one connection and removes it. After that this is an init like any other. */
#include "init/join.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/auto.h"
#include "ctl/chan.h"
#include "base/banned.h"

enum { CONNECTION, LISTENER, LOCK, FD_COUNT };

static int come_to(const char *path, struct sg_err *err)
{
    struct sockaddr_un a = { .sun_family = AF_UNIX };
    if (strlen(path) >= sizeof a.sun_path)
        return sg_fail(err, SG_INVALID, "the path of the host's socket is too long");
    (void)snprintf(a.sun_path, sizeof a.sun_path, "%s", path);
    sg_auto_fd fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof a) < 0)
        return sg_fail_sys(err, "come to the host");
    sg_chan_make_room(fd);
    return sg_take_fd(&fd);
}

/* First out of the way of each other, then where they belong. */
static int put_in_order(int *fds, int first_fd, struct sg_err *err)
{
    for (unsigned i = 0; i < FD_COUNT; i++) {
        int high = fcntl(fds[i], F_DUPFD_CLOEXEC, first_fd + FD_COUNT);
        if (high < 0)
            return sg_fail_sys(err, "move a descriptor");
        fds[i] = high;
    }
    for (unsigned i = 0; i < FD_COUNT; i++)
        if (dup2(fds[i], first_fd + (int)i) < 0)
            return sg_fail_sys(err, "move a descriptor");
    sg_auto_fd null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int i = 0; i < 3; i++)
        if (null < 0 || dup2(null, i) < 0)
            return sg_fail_sys(err, "leave the streams that we were started with");
    if (syscall(SYS_close_range, (unsigned)first_fd + FD_COUNT, ~0u, 0) < 0)
        return sg_fail_sys(err, "close what we were started with");
    null = -1;
    return 0;
}

static int install(struct sg_bytes filter, struct sg_err *err)
{
    struct sock_filter program[BPF_MAXINSNS];
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return sg_fail_sys(err, "set no_new_privs");
    if (!filter.n)
        return 0;
    if (filter.n % sizeof program[0] || filter.n > sizeof program)
        return sg_fail(err, SG_INVALID, "the filter has %zu bytes", filter.n);
    memcpy(program, filter.p, filter.n);
    const struct sock_fprog p = { .len = (unsigned short)(filter.n / sizeof program[0]),
                                  .filter = program };
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &p) < 0)
        return sg_fail_sys(err, "install the system call filter");
    return 0;
}

int sg_join(const char *path, int first_fd, struct sg_err *err)
{
    sg_auto_packet p;
    sg_packet_init(&p);
    int fds[FD_COUNT] = { come_to(path, err), -1, -1 };
    if (fds[CONNECTION] < 0)
        return -1;
    if (sg_chan_recv(fds[CONNECTION], 1u << SG_ROLE_JOIN, true, &p, err) != SG_RECV_MESSAGE)
        return sg_wrap(err, "wait for the host's first word");
    if (p.fd_count != SG_JOIN_FD_COUNT)
        return sg_fail(err, SG_INVALID, "%u descriptors came along", p.fd_count);
    fds[LISTENER] = sg_packet_take_fd(&p, SG_JOIN_LISTENER);
    fds[LOCK] = sg_packet_take_fd(&p, SG_JOIN_LOCK);
    if (put_in_order(fds, first_fd, err) < 0)
        return -1;
    return install(p.msg.join.filter, err);
}
