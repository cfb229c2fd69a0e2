/* SPDX-License-Identifier: Apache-2.0 */
#include "http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/parse.h"
#include "base/str.h"
#include "base/banned.h"

enum { REPLY_BYTES = 4 << 20, PIECE_BYTES = 65536, DROP_BYTES = 1 << 20 };

int sg_http_open(struct sg_http *h, uint16_t port, const char *path, const char *key,
                 struct sg_err *err)
{
    struct sockaddr_in tcp = { .sin_family = AF_INET, .sin_port = htons(port) };
    struct sockaddr_un local = { .sun_family = AF_UNIX };
    tcp.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    *h = (struct sg_http) { .fd = -1 };
    (void)snprintf(h->key, sizeof h->key, "%s", key ? key : "");
    if (path)
        (void)snprintf(local.sun_path, sizeof local.sun_path, "%s", path);
    sg_buf_init(&h->in, REPLY_BYTES);
    h->fd = socket(port ? AF_INET : AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (h->fd < 0 || connect(h->fd, port ? (const void *)&tcp : &local,
                             port ? (socklen_t)sizeof tcp : (socklen_t)sizeof local) < 0)
        return sg_fail_sys(err, "connect to the service");
    if (port)
        (void)setsockopt(h->fd, IPPROTO_TCP, TCP_NODELAY, &(int) { 1 }, sizeof(int));
    return 0;
}

void sg_http_close(struct sg_http *h)
{
    sg_drop_fd(&h->fd);
    sg_buf_done(&h->in);
}

int sg_http_send(struct sg_http *h, const char *method, const char *path, const char *body,
                 struct sg_err *err)
{
    char text[16384];
    const int n = snprintf(text, sizeof text,
                           "%s %s HTTP/1.1\r\nHost: bench\r\n%s%s%sContent-Length: %zu\r\n\r\n%s",
                           method, path, h->key[0] ? "X-API-Key: " : "", h->key,
                           h->key[0] ? "\r\n" : "", body ? strlen(body) : 0, body ? body : "");
    if (n < 0 || (size_t)n >= sizeof text)
        return sg_fail(err, SG_INTERNAL, "the request is too long");
    if (send(h->fd, text, (size_t)n, MSG_NOSIGNAL) != n)
        return sg_fail_sys(err, "send a request");
    return 0;
}

/* ---- replies ---- */

static const char *find_header(const char *head, const char *name)
{
    const size_t n = strlen(name);
    for (const char *p = strstr(head, "\r\n"); p && p[2] != '\r'; p = strstr(p + 2, "\r\n"))
        if (strncasecmp(p + 2, name, n) == 0 && p[2 + n] == ':')
            return p + 2 + n + 1 + strspn(p + 2 + n + 1, " ");
    return NULL;
}

static int more(struct sg_http *h, struct sg_err *err)
{
    uint8_t *room = sg_buf_grow(&h->in, PIECE_BYTES);
    if (!room)
        return sg_fail(err, SG_EXHAUSTED, "the reply is over %d bytes", REPLY_BYTES);
    ssize_t n = recv(h->fd, room, PIECE_BYTES, 0);
    if (n > 0) {
        h->in.n += (size_t)n;
        return 0;
    }
    return n < 0 ? sg_fail_sys(err, "receive a reply")
                 : sg_fail(err, SG_UNAVAILABLE, "the service closed the connection");
}

/* Reads a head; the body's length, or -1 for a chunked one. */
static int read_head(struct sg_http *h, int64_t *ret_length, struct sg_err *err)
{
    const char *end;
    sg_buf_clear(&h->in);
    do {
        if (more(h, err) < 0)
            return -1;
        end = strstr(sg_buf_cstr(&h->in), "\r\n\r\n");
    } while (!end);
    const char *head = sg_buf_cstr(&h->in);
    h->body_at = (size_t)(end - head) + 4;
    if (sscanf(head, "HTTP/1.1 %d", &h->status) != 1)
        return sg_fail(err, SG_UNAVAILABLE, "the reply is no HTTP");
    const char *text = find_header(head, "content-length");
    uint64_t length = 0;
    *ret_length = h->status == 204 ? 0 : -1;
    if (text) {
        const struct sg_str digits = { text, strspn(text, "0123456789") };
        if (sg_parse_u64(digits, 0, INT64_MAX, &length, err) < 0)
            return -1;
        *ret_length = (int64_t)length;
    }
    return 0;
}

static int check(struct sg_http *h, int want, struct sg_err *err)
{
    if (h->status == want)
        return 0;
    return sg_fail(err, SG_UNAVAILABLE, "the service answered %d: %s", h->status,
                   sg_quote(sg_http_body(h)).s);
}

int sg_http_receive(struct sg_http *h, int want, struct sg_err *err)
{
    int64_t length;
    if (read_head(h, &length, err) < 0)
        return -1;
    while (length >= 0 ? h->in.n < h->body_at + (size_t)length
                       : !strstr(sg_http_body(h), "0\r\n\r\n"))
        if (more(h, err) < 0)
            return -1;
    return check(h, want, err);
}

int sg_http_ask(struct sg_http *h, const char *method, const char *path, const char *body, int want,
                struct sg_err *err)
{
    if (sg_http_send(h, method, path, body, err) < 0 || sg_http_receive(h, want, err) < 0)
        return sg_wrap(err, "%s %s", method, path);
    return 0;
}

int sg_http_put_file(struct sg_http *h, const char *path, const char *file, int want,
                     struct sg_err *err)
{
    char head[1024];
    struct stat st;
    sg_auto_fd fd = open(file, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return sg_fail_sys(err, "open %s", sg_quote(file).s);
    const int n = snprintf(head, sizeof head,
                           "PUT %s HTTP/1.1\r\nHost: bench\r\nX-API-Key: %s\r\n"
                           "Content-Length: %lld\r\n\r\n",
                           path, h->key, (long long)st.st_size);
    if (send(h->fd, head, (size_t)n, MSG_NOSIGNAL) != n)
        return sg_fail_sys(err, "send a request");
    for (off_t left = st.st_size; left > 0;) {
        const ssize_t put = sendfile(h->fd, fd, NULL, (size_t)left);
        if (put <= 0)
            return sg_fail_sys(err, "send %s", sg_quote(file).s);
        left -= put;
    }
    return sg_http_receive(h, want, err);
}

const char *sg_http_body(struct sg_http *h)
{
    return sg_buf_cstr(&h->in) + h->body_at;
}

int64_t sg_http_drop(struct sg_http *h, struct sg_err *err)
{
    int64_t length;
    if (read_head(h, &length, err) < 0 || check(h, 200, err) < 0)
        return -1;
    int64_t left = length - (int64_t)(h->in.n - h->body_at);
    while (left > 0) {
        /* MSG_TRUNC on TCP: counted, not copied; so the client weighs nothing in the balance. */
        ssize_t n = recv(h->fd, NULL, DROP_BYTES, MSG_TRUNC);
        if (n <= 0)
            return sg_fail_sys(err, "receive a file");
        left -= n;
    }
    return length;
}

int sg_http_member(struct sg_http *h, const char *name, char *ret, size_t cap, struct sg_err *err)
{
    char mark[64];
    (void)snprintf(mark, sizeof mark, "\"%s\":\"", name);
    const char *at = strstr(sg_http_body(h), mark);
    const size_t n = at ? strcspn(at + strlen(mark), "\"") : 0;
    if (!at || n >= cap)
        return sg_fail(err, SG_UNAVAILABLE, "the reply has no %s", name);
    memcpy(ret, at + strlen(mark), n);
    ret[n] = '\0';
    return 0;
}
