/* SPDX-License-Identifier: Apache-2.0 */
/* D1. Nothing goes to a server whose certificate was not verified.
 * D2. The carrier waits on both sides at once and holds at most one piece each way, so that a slow
 *     reader slows the sender, and nobody else.
 * D3. It is in a session of its own and holds no descriptor of its maker but the socket: a Ctrl-C
 *     meant for the client does not cut its connection, and a pipe that waits for the client's end
 *     does not wait for ours. */
#include "tls/dial.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/str.h"
#include "sys/dial.h"
#include "tls/make.h"
#include "base/banned.h"

enum { PIECE = 64 << 10, SHAKE_S = 30 };

static int connect_to(const char *host, const char *port, struct sg_err *err)
{
    const struct timeval patience = { .tv_sec = SHAKE_S };
    int fd = sg_dial_tcp(host, port, err);
    if (fd >= 0)
        (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    return fd;
}

static int trust(SSL_CTX *ctx, const char *ca_file, struct sg_err *err)
{
    if (*ca_file && SSL_CTX_load_verify_file(ctx, ca_file) != 1) {
        ERR_clear_error();
        return sg_fail(err, SG_INVALID, "no certificate can be read from %s", sg_quote(ca_file).s);
    }
    if (!*ca_file && SSL_CTX_set_default_verify_paths(ctx) != 1)
        return sg_tls_fail(err, "read the system's certificates");
    return 0;
}

/* A name, or an address, which is no name and is sent to nobody as one. */
static bool expect(SSL *ssl, const char *host)
{
    if (X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) == 1)
        return true;
    return SSL_set1_host(ssl, host) == 1 && SSL_set_tlsext_host_name(ssl, host) == 1;
}

static int shake(SSL *ssl, int fd, const char *host, struct sg_err *err)
{
    static const unsigned char protocols[] = "\x08http/1.1";
    SSL_set_verify(ssl, SSL_VERIFY_PEER, NULL);
    if (!expect(ssl, host) || SSL_set_alpn_protos(ssl, protocols, sizeof protocols - 1) != 0 ||
        SSL_set_fd(ssl, fd) != 1)
        return sg_tls_fail(err, "prepare TLS");
    if (SSL_connect(ssl) == 1)
        return 0;
    const long why = SSL_get_verify_result(ssl);
    if (why != X509_V_OK) {
        ERR_clear_error();
        return sg_fail(err, SG_DENIED, "its certificate is not trusted: %s",
                       X509_verify_cert_error_string(why));
    }
    return sg_tls_fail(err, "TLS");
}

/* ---- carrying ---- */

struct way { /* bytes from one side that the other has not taken yet */
    uint8_t bytes[PIECE];
    size_t at, n;
    bool has_ended;
};

enum got { MOVED, WAITS_READ, WAITS_WRITE, ENDED };

static enum got after(SSL *ssl, int rc)
{
    const int why = rc > 0 ? SSL_ERROR_NONE : SSL_get_error(ssl, rc);
    ERR_clear_error();
    return why == SSL_ERROR_NONE         ? MOVED
           : why == SSL_ERROR_WANT_READ  ? WAITS_READ
           : why == SSL_ERROR_WANT_WRITE ? WAITS_WRITE
                                         : ENDED;
}

/* What the server says goes to the socket. Each returns what it waits for. */
static enum got from_server(SSL *ssl, struct way *w)
{
    const enum got got = after(ssl, SSL_read_ex(ssl, w->bytes, sizeof w->bytes, &w->n));
    w->at = 0;
    if (got != MOVED)
        w->n = 0;
    return got;
}

static enum got to_server(SSL *ssl, struct way *w)
{
    size_t n = 0;
    const enum got got = after(ssl, SSL_write_ex(ssl, w->bytes + w->at, w->n - w->at, &n));
    if (got == MOVED)
        w->at += n;
    return got;
}

static enum got from_client(int fd, struct way *w)
{
    const ssize_t n = recv(fd, w->bytes, sizeof w->bytes, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return WAITS_READ;
    w->at = 0;
    w->n = n > 0 ? (size_t)n : 0;
    return n > 0 ? MOVED : ENDED;
}

static enum got to_client(int fd, struct way *w)
{
    const ssize_t n = send(fd, w->bytes + w->at, w->n - w->at, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return WAITS_WRITE;
    if (n > 0)
        w->at += (size_t)n;
    return n > 0 ? MOVED : ENDED;
}

static short events_of(enum got got)
{
    return got == WAITS_READ ? POLLIN : got == WAITS_WRITE ? POLLOUT : 0;
}

static void carry(SSL *ssl, int server_fd, int client_fd)
{
    static struct way up, down;
    for (;;) {
        struct pollfd p[] = { { .fd = server_fd }, { .fd = client_fd } };
        const bool has_down = down.at < down.n, has_up = up.at < up.n;
        const enum got a = has_down ? to_client(client_fd, &down) : from_server(ssl, &down);
        const enum got b = has_up ? to_server(ssl, &up) : from_client(client_fd, &up);
        if (a == ENDED || b == ENDED)
            break;
        if (a == MOVED || b == MOVED)
            continue;
        p[has_down].events |= events_of(a);
        p[!has_up].events |= events_of(b);
        if (poll(p, SG_COUNT(p), -1) < 0 && errno != EINTR)
            break;
    }
    (void)SSL_shutdown(ssl);
}

static int detach(SSL *ssl, int server_fd, int client_fd, struct sg_err *err)
{
    const pid_t pid = fork();
    if (pid != 0)
        return pid < 0 ? sg_fail_sys(err, "start a process") : 0;
    sg_auto_fd null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    (void)setsid();
    (void)!chdir("/");
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        (void)dup2(null_fd, fd);
    (void)SSL_set_mode(ssl, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    (void)fcntl(server_fd, F_SETFL, O_NONBLOCK);
    carry(ssl, server_fd, client_fd);
    _exit(0);
}

int sg_tls_dial(const char *authority, const char *ca_file, int fd, struct sg_err *err)
{
    char host[256], port[8];
    sg_dial_split(authority, "443", host, port);
    sg_auto_fd client_fd = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    sg_auto_fd server_fd = client_fd >= 0 ? connect_to(host, port, err) : sg_fail_sys(err, "dup");
    if (server_fd < 0)
        return -1;
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
    SSL *ssl = NULL;
    int r = ctx ? trust(ctx, ca_file, err) : sg_tls_fail(err, "start TLS");
    if (r == 0) {
        (void)SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION);
        ssl = SSL_new(ctx);
        r = ssl ? shake(ssl, server_fd, host, err) : sg_tls_fail(err, "start TLS");
    }
    if (r == 0)
        r = detach(ssl, server_fd, client_fd, err);
    SSL_free(ssl);
    SSL_CTX_free(ctx);
    return r;
}
