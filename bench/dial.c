/* SPDX-License-Identifier: Apache-2.0 */
/* A client of bench/far.c, the same program inside a sandbox and outside. It is static, because it
 * is copied into sandboxes.
 *
 *     dial greet ADDRESS PORT N     N times: connect, and the server's first byte; nanoseconds each
 *     dial send ADDRESS PORT MIB    one stream until the server says that it has all; nanoseconds
 *     dial hold ADDRESS PORT N      N connections at once; how many were greeted, then it waits */
#include <arpa/inet.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/banned.h"

enum { PIECE = 256 << 10 };

static struct sockaddr_in to = { .sin_family = AF_INET };

static int open_one(void)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (const struct sockaddr *)&to, sizeof to) == 0)
        return fd;
    if (fd >= 0)
        (void)close(fd);
    return -1;
}

static bool is_greeted(int fd)
{
    char byte;
    return fd >= 0 && recv(fd, &byte, 1, 0) == 1;
}

static int greet(unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        const uint64_t start_ns = sg_now_ns();
        const int fd = open_one();
        if (!is_greeted(fd))
            return 1;
        printf("%" PRIu64 "\n", sg_now_ns() - start_ns);
        (void)close(fd);
    }
    return 0;
}

static int send_all(unsigned mib)
{
    static char piece[PIECE];
    const int fd = open_one();
    if (!is_greeted(fd))
        return 1;
    const uint64_t start_ns = sg_now_ns();
    for (uint64_t left = (uint64_t)mib << 20; left > 0;) {
        const ssize_t put = send(fd, piece, left < PIECE ? (size_t)left : PIECE, MSG_NOSIGNAL);
        if (put <= 0)
            return 1;
        left -= (uint64_t)put;
    }
    (void)shutdown(fd, SHUT_WR);
    if (!is_greeted(fd))
        return 1;
    printf("%" PRIu64 "\n", sg_now_ns() - start_ns);
    return 0;
}

static int hold(unsigned n)
{
    struct rlimit files;
    unsigned well = 0;
    int *fds = calloc(n, sizeof *fds);
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &files);
    }
    for (unsigned i = 0; fds && i < n; i++)
        fds[i] = open_one();
    for (unsigned i = 0; fds && i < n; i++)
        well += is_greeted(fds[i]);
    printf("%u\n", well);
    (void)fflush(stdout);
    (void)pause();
    return 0;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(unsigned n);
    } modes[] = { { "greet", greet }, { "send", send_all }, { "hold", hold } };
    unsigned port, n;
    if (argc != 5 || inet_pton(AF_INET, argv[2], &to.sin_addr) != 1 ||
        sscanf(argv[3], "%u", &port) != 1 || sscanf(argv[4], "%u", &n) != 1)
        return 2;
    to.sin_port = htons((uint16_t)port);
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++)
        if (strcmp(argv[1], modes[i].name) == 0)
            return modes[i].run(n);
    return 2;
}
