/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/dial.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/auto.h"
#include "base/str.h"
#include "base/banned.h"

void sg_dial_split(const char *authority, const char *usual_port, char host[SG_DIAL_HOST_MAX],
                   char port[SG_DIAL_PORT_MAX])
{
    const char *colon = strrchr(authority, ':');
    const char *end = colon && !strchr(colon, ']') ? colon : authority + strlen(authority);
    const bool is_six = authority[0] == '[' && end > authority && end[-1] == ']';
    (void)snprintf(port, SG_DIAL_PORT_MAX, "%s", *end ? end + 1 : usual_port);
    (void)snprintf(host, SG_DIAL_HOST_MAX, "%.*s", (int)(end - authority) - 2 * is_six,
                   authority + is_six);
}

int sg_dial_tcp(const char *host, const char *port, struct sg_err *err)
{
    const struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM };
    struct addrinfo *list = NULL;
    const int failed = getaddrinfo(host, port, &hints, &list);
    if (failed)
        return sg_fail(err, SG_UNAVAILABLE, "find %s: %s", sg_quote(host).s, gai_strerror(failed));
    int fd = -1;
    for (const struct addrinfo *a = list; a && fd < 0; a = a->ai_next) {
        fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd >= 0 && connect(fd, a->ai_addr, a->ai_addrlen) < 0)
            sg_drop_fd(&fd);
    }
    const int keep = errno;
    freeaddrinfo(list);
    errno = keep;
    if (fd < 0)
        return sg_fail_sys(err, "connect");
    const int on = 1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return fd;
}
