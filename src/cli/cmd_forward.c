/* SPDX-License-Identifier: Apache-2.0 */
/* `sandglass forward ID LOCAL[:PORT]`: a port of this machine's loopback leads to one inside.
 *
 * Each connection has a process of its own and a connection to the service, which becomes the
 * connection inside after 101. When our side has said all, the other goes on until its own end: the
 * service knows no half of an end. */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/parse.h"
#include "cli/api.h"
#include "cli/out.h"
#include "base/banned.h"

enum { BACKLOG = 64, PIECE = 65536 };

/* "8080" or "8080:3000"; without the second they are the same. */
static int parse_ports(const char *text, uint16_t *ret_local, uint16_t *ret_inside,
                       struct sg_err *err)
{
    const size_t n = strcspn(text, ":");
    uint64_t local, inside;
    if (sg_parse_u64((struct sg_str) { text, n }, 1, UINT16_MAX, &local, err) < 0)
        return sg_wrap(err, "LOCAL[:PORT]");
    inside = local;
    if (text[n] && sg_parse_u64(sg_str_of(text + n + 1), 1, UINT16_MAX, &inside, err) < 0)
        return sg_wrap(err, "LOCAL[:PORT]");
    *ret_local = (uint16_t)local;
    *ret_inside = (uint16_t)inside;
    return 0;
}

static int listen_at(uint16_t port, struct sg_err *err)
{
    const struct sockaddr_in at = { .sin_family = AF_INET,
                                    .sin_port = htons(port),
                                    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    const int on = 1;
    sg_auto_fd fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) < 0 ||
        bind(fd, (const struct sockaddr *)&at, sizeof at) < 0 || listen(fd, BACKLOG) < 0)
        return sg_fail_sys(err, "listen at 127.0.0.1:%u", (unsigned)port);
    return sg_take_fd(&fd);
}

/* ---- one connection ---- */

static bool put_all(int fd, const uint8_t *p, size_t n)
{
    while (n > 0) {
        const ssize_t put = send(fd, p, n, MSG_NOSIGNAL);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return false;
        p += put;
        n -= (size_t)put;
    }
    return true;
}

static void pump(int near, int far)
{
    static uint8_t piece[PIECE];
    struct pollfd p[] = { { .fd = near, .events = POLLIN }, { .fd = far, .events = POLLIN } };
    for (;;) {
        if (poll(p, 2, -1) < 0 && errno != EINTR)
            return;
        for (int i = 0; i < 2; i++) {
            if (!p[i].revents)
                continue;
            const ssize_t n = recv(p[i].fd, piece, sizeof piece, 0);
            if (n > 0 && !put_all(p[1 - i].fd, piece, (size_t)n))
                return;
            if (n <= 0 && i == 1)
                return;
            if (n <= 0)
                p[i].fd = -1; /* poll() leaves it out */
        }
        if (p[0].fd < 0 && p[1].fd < 0)
            return;
    }
}

static int carry(const struct sg_cli *cli, uint16_t port, int near, struct sg_err *err)
{
    sg_auto_api api;
    sg_auto_buf target;
    char number[8];
    sg_buf_init(&target, SG_API_MAX_PATH);
    (void)snprintf(number, sizeof number, "%u", (unsigned)port);
    sg_api_path(&target, "sandboxes", cli->args[0], "ports", number, "connect");
    sg_api_open(&api, cli);
    struct sg_http *h = &api.http;
    if (sg_http_send(h, "GET", sg_buf_cstr(&target), "Connection: Upgrade\r\nUpgrade: tcp\r\n",
                     NULL, err) < 0 ||
        sg_http_receive(h, err) < 0 || sg_api_check(&api, err) < 0)
        return -1;
    if (!h->head.is_upgrade)
        return sg_fail(err, SG_INTERNAL, "the service offers no connection (status %d)",
                       h->head.status);
    if (put_all(near, h->in.p + h->at, h->in.n - h->at))
        pump(near, h->fd);
    return 0;
}

_Noreturn static void serve_one(const struct sg_cli *cli, uint16_t port, int near, pid_t parent)
{
    struct sg_err err = { 0 };
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) /* it went before that */
        _exit(SG_EXIT_FAILED);
    const int got = carry(cli, port, near, &err);
    if (got < 0)
        (void)sg_cli_fail(cli, &err);
    _exit(got < 0 ? SG_EXIT_FAILED : SG_EXIT_OK);
}

/* ---- the whole ---- */

static int announce(const struct sg_cli *cli, uint16_t local, uint16_t port)
{
    sg_auto_buf out;
    sg_buf_init(&out, 1024);
    if (cli->config.json)
        sg_buf_addf(&out, "{\"sandbox\":\"%s\",\"local\":%u,\"port\":%u}\n", cli->args[0],
                    (unsigned)local, (unsigned)port);
    else
        sg_buf_addf(&out, "127.0.0.1:%u leads to port %u of %s\n", (unsigned)local, (unsigned)port,
                    cli->args[0]);
    const int printed = sg_cli_print(&out);
    return fflush(stdout) == 0 ? printed : SG_EXIT_FAILED;
}

/* A sandbox that is not there is told now, not at the first connection. */
static int look(const struct sg_cli *cli, struct sg_err *err)
{
    sg_auto_api api;
    sg_auto_buf target;
    sg_buf_init(&target, SG_API_MAX_PATH);
    sg_api_path(&target, "sandboxes", cli->args[0], "ports");
    sg_api_open(&api, cli);
    return sg_api_call(&api, "GET", sg_buf_cstr(&target), NULL, NULL, err);
}

int sg_cmd_forward(struct sg_cli *cli)
{
    struct sg_err err = { 0 };
    uint16_t local, port;
    const struct sigaction none = { .sa_handler = SIG_DFL, .sa_flags = SA_NOCLDWAIT };
    if (parse_ports(cli->args[1], &local, &port, &err) < 0)
        return sg_cli_fail(cli, &err);
    sg_auto_fd listener = look(cli, &err) < 0 ? -1 : listen_at(local, &err);
    if (listener < 0 || sigaction(SIGCHLD, &none, NULL) < 0)
        return sg_cli_fail(cli, &err);
    const int told = announce(cli, local, port);
    if (told != SG_EXIT_OK)
        return told;
    const pid_t self = getpid();
    for (;;) {
        sg_auto_fd near = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (near < 0 && errno != EINTR && errno != ECONNABORTED) {
            (void)sg_fail_sys(&err, "accept");
            return sg_cli_fail(cli, &err);
        }
        if (near >= 0 && fork() == 0)
            serve_one(cli, port, near, self);
    }
}
