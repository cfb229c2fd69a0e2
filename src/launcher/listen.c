/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/parse.h"
#include "base/str.h"
#include "base/banned.h"

enum { BACKLOG = 4096 };

union address {
    struct sockaddr any;
    struct sockaddr_in four;
    struct sockaddr_in6 six;
};

static int parse(const char *text, union address *ret, socklen_t *ret_n, struct sg_err *err)
{
    const char *colon = strrchr(text, ':');
    uint64_t port;
    char host[64] = "";
    const bool is_six = colon && text[0] == '[' && colon > text + 1 && colon[-1] == ']';
    if (!colon || (size_t)(colon - text) >= sizeof host ||
        sg_parse_u64(sg_str_of(colon + 1), 0, 65535, &port, NULL) < 0)
        return sg_fail(err, SG_INVALID, "%s is not an address and a port", sg_quote(text).s);
    memcpy(host, text + is_six, (size_t)(colon - text) - (is_six ? 2 : 0));
    memset(ret, 0, sizeof *ret);
    ret->any.sa_family = is_six ? AF_INET6 : AF_INET;
    void *at = is_six ? (void *)&ret->six.sin6_addr : (void *)&ret->four.sin_addr;
    if (inet_pton(ret->any.sa_family, host, at) != 1)
        return sg_fail(err, SG_INVALID, "%s is not an address and a port", sg_quote(text).s);
    if (is_six)
        ret->six.sin6_port = htons((uint16_t)port);
    else
        ret->four.sin_port = htons((uint16_t)port);
    *ret_n = is_six ? sizeof ret->six : sizeof ret->four;
    return 0;
}

int sg_listen_tcp(const char *address, struct sg_err *err)
{
    union address a;
    socklen_t n;
    if (parse(address, &a, &n, err) < 0)
        return -1;
    sg_auto_fd fd = socket(a.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const int on = 1;
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) < 0)
        return sg_fail_sys(err, "make a socket");
    if (bind(fd, &a.any, n) < 0 || listen(fd, BACKLOG) < 0) {
        if (errno != EADDRINUSE)
            return sg_fail_sys(err, "listen on %s", address);
        return sg_fail(err, SG_UNAVAILABLE,
                       "%s is taken by another program; name another one in serve.listen (or "
                       "--listen)",
                       address);
    }
    return sg_take_fd(&fd);
}

/* By way of the directory, whose path may be longer than an address can be. */
static int open_dir(const char *run_dir, struct sockaddr_un *ret)
{
    int fd = open(run_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    *ret = (struct sockaddr_un) { .sun_family = AF_UNIX };
    (void)snprintf(ret->sun_path, sizeof ret->sun_path, "/proc/self/fd/%d/api.sock", fd);
    return fd;
}

int sg_listen_unix(const char *run_dir, struct sg_err *err)
{
    struct sockaddr_un a;
    sg_auto_fd dir = open_dir(run_dir, &a);
    sg_auto_fd fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (dir < 0 || fd < 0)
        return sg_fail_sys(err, "make a socket");
    (void)unlink(a.sun_path); /* we hold the lock of the directory: it is a leftover */
    const mode_t mask = umask(0177);
    int ret = bind(fd, (struct sockaddr *)&a, sizeof a);
    umask(mask);
    if (ret < 0 || listen(fd, BACKLOG) < 0)
        return sg_fail_sys(err, "listen on '%s/api.sock'", run_dir);
    return sg_take_fd(&fd);
}

void sg_unlisten_unix(const char *run_dir)
{
    sg_auto_free char *path = sg_printf("%s/api.sock", run_dir);
    (void)unlink(path);
}
