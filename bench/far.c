/* SPDX-License-Identifier: Apache-2.0 */
#include "far.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/banned.h"

enum { EVENTS = 64, PIECE = 256 << 10, QUERY_MAX = 512, HEAD = 12, BACKLOG = 4096 };

static int open_local(int type, uint16_t port, struct sockaddr_in *ret, struct sg_err *err)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(port) };
    socklen_t n = sizeof at;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    sg_auto_fd fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&at, n) < 0 ||
        (type == SOCK_STREAM && listen(fd, BACKLOG) < 0) ||
        getsockname(fd, (struct sockaddr *)&at, &n) < 0)
        return sg_fail_sys(err, "open a server of the benchmark's own");
    *ret = at;
    return sg_take_fd(&fd);
}

/* The question comes back with 127.0.0.1 behind it, or with nothing where that was not asked. */
static void answer_name(int fd)
{
    static const uint8_t record[] = { 0xc0, HEAD, 0, 1, 0, 1, 0, 0, 1, 44, 0, 4, 127, 0, 0, 1 };
    uint8_t q[QUERY_MAX + sizeof record];
    struct sockaddr_in from;
    socklen_t from_n = sizeof from;
    const ssize_t got = recvfrom(fd, q, QUERY_MAX, 0, (struct sockaddr *)&from, &from_n);
    size_t end = HEAD;
    while (got > 0 && end < (size_t)got && q[end])
        end += 1u + q[end];
    end += 5; /* the root, the type and the class */
    if (got <= 0 || end > (size_t)got)
        return;
    const bool is_four = q[end - 4] == 0 && q[end - 3] == 1;
    const uint8_t flags[] = { 0x81, 0x80, 0, 1, 0, is_four, 0, 0, 0, 0 };
    memcpy(q + 2, flags, sizeof flags);
    if (is_four) {
        memcpy(q + end, record, sizeof record);
        end += sizeof record;
    }
    (void)sendto(fd, q, end, 0, (struct sockaddr *)&from, from_n);
}

static void greet(int epoll, int listener)
{
    const int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    struct epoll_event e = { .events = EPOLLIN, .data.fd = fd };
    if (fd < 0)
        return;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int) { 1 }, sizeof(int));
    (void)send(fd, "+", 1, MSG_NOSIGNAL);
    (void)epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &e);
}

static void read_some(int fd)
{
    static char piece[PIECE];
    if (recv(fd, piece, sizeof piece, MSG_DONTWAIT) > 0 || errno == EAGAIN)
        return;
    (void)send(fd, "-", 1, MSG_NOSIGNAL);
    (void)close(fd);
}

_Noreturn static void serve(int listener, int names)
{
    struct epoll_event events[EVENTS], tcp = { .events = EPOLLIN, .data.fd = listener },
                                       udp = { .events = EPOLLIN, .data.fd = names };
    const int epoll = epoll_create1(EPOLL_CLOEXEC);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &tcp);
    (void)epoll_ctl(epoll, EPOLL_CTL_ADD, names, &udp);
    for (;;) {
        const int n = epoll_wait(epoll, events, EVENTS, -1);
        for (int i = 0; i < n; i++) {
            if (events[i].data.fd == listener)
                greet(epoll, listener);
            else if (events[i].data.fd == names)
                answer_name(names);
            else
                read_some(events[i].data.fd);
        }
    }
}

int sg_far_start(struct sg_far *f, uint16_t names_port, struct sg_err *err)
{
    struct sockaddr_in at, unused;
    sg_auto_fd listener = open_local(SOCK_STREAM, 0, &at, err);
    sg_auto_fd names = listener < 0 ? -1 : open_local(SOCK_DGRAM, names_port, &unused, err);
    if (names < 0)
        return -1;
    f->port = ntohs(at.sin_port);
    f->pid = fork();
    if (f->pid == 0)
        serve(listener, names);
    return f->pid < 0 ? sg_fail_sys(err, "start a server of the benchmark's own") : 0;
}

void sg_far_stop(struct sg_far *f)
{
    if (f->pid <= 0)
        return;
    (void)kill(f->pid, SIGKILL);
    (void)waitpid(f->pid, NULL, 0);
    f->pid = 0;
}
