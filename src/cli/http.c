/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/http.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/auto.h"
#include "sys/dial.h"
#include "base/banned.h"

enum { CHUNK_BYTES = 64 << 10, MAX_REQUEST_HEAD = 64 << 10 };

static const char unix_prefix[] = "unix:", http_prefix[] = "http://", https_prefix[] = "https://";

void sg_http_init(struct sg_http *h, const char *url, const char *key)
{
    *h = (struct sg_http) { .fd = -1, .url = sg_strdup(url), .key = sg_strdup(key) };
    const char *host = sg_starts_with(url, http_prefix)    ? url + strlen(http_prefix)
                       : sg_starts_with(url, https_prefix) ? url + strlen(https_prefix)
                                                           : "localhost";
    h->authority = sg_printf("%.*s", (int)strcspn(host, "/"), host);
    sg_buf_init(&h->in, SG_HTTP_MAX_REPLY_HEAD + CHUNK_BYTES);
}

void sg_http_done(struct sg_http *h)
{
    sg_drop_fd(&h->fd);
    free(h->url);
    free(h->key);
    free(h->authority);
    sg_buf_done(&h->in);
    *h = (struct sg_http) { .fd = -1 };
}

/* ---- connecting ---- */

static int connect_unix(const char *path, struct sg_err *err)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    if (strlen(path) >= sizeof address.sun_path)
        return sg_fail(err, SG_INVALID, "the path %s is too long for a socket", sg_quote(path).s);
    memcpy(address.sun_path, path, strlen(path));
    sg_auto_fd fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (const struct sockaddr *)&address, sizeof address) < 0)
        return sg_fail_sys(err, "connect");
    return sg_take_fd(&fd);
}

static int connect_tcp(const char *authority, struct sg_err *err)
{
    char host[SG_DIAL_HOST_MAX], port[SG_DIAL_PORT_MAX];
    sg_dial_split(authority, "80", host, port);
    return sg_dial_tcp(host, port, err);
}

static int connect_it(struct sg_http *h, struct sg_err *err)
{
    h->at = 0;
    sg_buf_clear(&h->in);
    if (sg_starts_with(h->url, unix_prefix))
        h->fd = connect_unix(h->url + strlen(unix_prefix), err);
    else if (!sg_starts_with(h->url, https_prefix))
        h->fd = connect_tcp(h->authority, err);
    else if (h->secure)
        h->fd = h->secure(h->secure_arg, h->authority, err);
    else
        return sg_fail(err, SG_UNSUPPORTED, "%s: no TLS here", sg_quote(h->url).s);
    if (h->fd >= 0)
        return 0;
    if (err && (err->sys == ENOENT || err->sys == ECONNREFUSED))
        return sg_fail(err, SG_UNAVAILABLE,
                       "the service does not answer at %s ('sandglass up' starts it)",
                       sg_quote(h->url).s);
    return sg_wrap(err, "%s", h->url);
}

/* ---- sending ---- */

static int send_all(struct sg_http *h, const void *p, size_t n, struct sg_err *err)
{
    const char *at = p;
    while (n) {
        ssize_t sent = send(h->fd, at, n, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0)
            return sg_fail_sys(err, "send to %s", h->url);
        at += sent;
        n -= (size_t)sent;
    }
    return 0;
}

/* `framing` is the line about the body. Text and body go in one piece: one packet. */
static int send_head(struct sg_http *h, const char *method, const char *target, const char *fields,
                     const char *framing, const struct sg_str *body, struct sg_err *err)
{
    if (h->fd >= 0 && !h->is_read) /* what is left of the last reply is of no interest */
        sg_drop_fd(&h->fd);
    if (h->fd < 0 && connect_it(h, err) < 0)
        return -1;
    sg_auto_buf head;
    sg_buf_init(&head, MAX_REQUEST_HEAD + (body ? body->n : 0));
    sg_buf_addf(&head, "%s %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: sandglass\r\n", method, target,
                h->authority);
    if (*h->key)
        sg_buf_addf(&head, "Authorization: Bearer %s\r\n", h->key);
    sg_buf_addf(&head, "%s%s\r\n", fields ? fields : "", framing);
    if (body)
        sg_buf_add(&head, body->p, body->n);
    if (sg_buf_check(&head, "the request", err) < 0)
        return -1;
    h->is_read = false;
    if (send_all(h, head.p, head.n, err) == 0)
        return 0;
    sg_drop_fd(&h->fd);
    return -1;
}

int sg_http_send(struct sg_http *h, const char *method, const char *target, const char *fields,
                 const struct sg_str *body, struct sg_err *err)
{
    char framing[96] = "";
    if (body)
        (void)snprintf(framing, sizeof framing,
                       "Content-Type: application/json\r\nContent-Length: %zu\r\n", body->n);
    return send_head(h, method, target, fields, framing, body, err);
}

/* A service that refuses says so and stops reading: its answer counts, not our broken pipe. */
static int body_failed(struct sg_http *h, struct sg_err *err)
{
    struct sg_err broken = *err;
    if ((broken.sys == EPIPE || broken.sys == ECONNRESET) && sg_http_receive(h, err) == 0)
        return 0;
    *err = broken;
    return -1;
}

int sg_http_put(struct sg_http *h, const void *p, size_t n, struct sg_err *err)
{
    char line[SG_CHUNK_HEAD];
    if (n == 0)
        return 0;
    size_t head = sg_chunk_head(line, n);
    if (send_all(h, line, head, err) < 0 || send_all(h, p, n, err) < 0)
        return -1;
    return send_all(h, SG_CHUNK_TAIL, strlen(SG_CHUNK_TAIL), err);
}

int sg_http_send_with(struct sg_http *h, const char *method, const char *target,
                      int (*write_body)(void *arg, struct sg_http *h, struct sg_err *err),
                      void *arg, struct sg_err *err)
{
    struct sg_err why = { 0 };
    if (send_head(h, method, target, NULL, "Transfer-Encoding: chunked\r\n", NULL, err) < 0)
        return -1;
    if (write_body(arg, h, &why) == 0 &&
        send_all(h, SG_CHUNK_LAST, strlen(SG_CHUNK_LAST), &why) == 0)
        return sg_http_receive(h, err);
    if (body_failed(h, &why) == 0)
        return 0;
    sg_drop_fd(&h->fd); /* a body without its end must not look whole */
    if (err)
        *err = why;
    return -1;
}

struct source {
    int fd;
    uint64_t bytes; /* UINT64_MAX: until the end, in chunks */
};

static int copy_from(void *arg, struct sg_http *h, struct sg_err *err)
{
    struct source *s = arg;
    const bool is_chunked = s->bytes == UINT64_MAX;
    char piece[CHUNK_BYTES];
    while (s->bytes > 0) {
        size_t want = s->bytes < sizeof piece ? (size_t)s->bytes : sizeof piece;
        ssize_t n = read(s->fd, piece, want);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return sg_fail_sys(err, "read what is to be sent");
        if (n == 0 && is_chunked)
            return 0;
        if (n == 0)
            return sg_fail(err, SG_CONFLICT, "the file became shorter while it was read");
        if ((is_chunked ? sg_http_put(h, piece, (size_t)n, err)
                        : send_all(h, piece, (size_t)n, err)) < 0)
            return -1;
        if (!is_chunked)
            s->bytes -= (uint64_t)n;
    }
    return 0;
}

int sg_http_send_fd(struct sg_http *h, const char *method, const char *target, int fd,
                    uint64_t bytes, struct sg_err *err)
{
    struct source s = { fd, bytes };
    if (bytes == UINT64_MAX)
        return sg_http_send_with(h, method, target, copy_from, &s, err);
    char framing[64];
    struct sg_err why = { 0 };
    (void)snprintf(framing, sizeof framing, "Content-Length: %llu\r\n", (unsigned long long)bytes);
    if (send_head(h, method, target, NULL, framing, NULL, err) < 0)
        return -1;
    if (copy_from(&s, h, &why) == 0)
        return sg_http_receive(h, err);
    if (body_failed(h, &why) == 0)
        return 0;
    sg_drop_fd(&h->fd);
    if (err)
        *err = why;
    return -1;
}

/* ---- receiving ---- */

/* More bytes behind those that are there; 0 at the end of the connection. */
static ssize_t fill(struct sg_http *h, struct sg_err *err)
{
    if (h->at == h->in.n)
        h->at = h->in.n = 0;
    uint8_t *room = sg_buf_grow(&h->in, CHUNK_BYTES / 2);
    if (!room)
        return sg_fail(err, SG_INVALID, "the head of the reply is over %d bytes",
                       SG_HTTP_MAX_REPLY_HEAD);
    for (;;) {
        if (h->wait && h->wait(h->wait_arg, h->fd, err) < 0)
            return -1;
        ssize_t n = recv(h->fd, room, CHUNK_BYTES / 2, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return sg_fail_sys(err, "receive from %s", h->url);
        h->in.n += (size_t)n;
        return n;
    }
}

static int receive_head(struct sg_http *h, struct sg_err *err)
{
    for (;;) {
        struct sg_str have = { h->in.p ? (const char *)h->in.p + h->at : "", h->in.n - h->at };
        const char *end = memmem(have.p, have.n, "\r\n\r\n", 4);
        if (end) {
            have.n = (size_t)(end - have.p) + 4;
            h->at += have.n;
            return sg_reply_head_parse(have, &h->head, err);
        }
        if (have.n > SG_HTTP_MAX_REPLY_HEAD)
            return sg_fail(err, SG_INVALID, "the head of the reply is over %d bytes",
                           SG_HTTP_MAX_REPLY_HEAD);
        ssize_t n = fill(h, err);
        if (n < 0)
            return -1;
        if (n == 0)
            return sg_fail(err, SG_UNAVAILABLE, "%s ended the connection before it answered",
                           h->url);
    }
}

int sg_http_receive(struct sg_http *h, struct sg_err *err)
{
    do { /* 100-continue and its kind are no answers */
        if (receive_head(h, err) < 0) {
            sg_drop_fd(&h->fd);
            return -1;
        }
    } while (h->head.status < 200 && h->head.status != 101);
    sg_chunked_init(&h->chunked);
    h->left = h->head.has_length ? h->head.length : UINT64_MAX;
    if (h->head.status == 204 || h->head.status == 304)
        h->left = 0;
    h->is_read = !h->head.is_chunked && h->left == 0;
    return 0;
}

/* Takes from the bytes that are there; 0: there are none of the body among them. */
static ssize_t take(struct sg_http *h, void *p, size_t n, struct sg_err *err)
{
    struct sg_input in = { h->in.p + h->at, h->in.n - h->at }, piece = { 0 };
    if (!h->head.is_chunked) {
        size_t most = in.n < n ? in.n : n;
        piece.n = h->left < most ? (size_t)h->left : most;
        piece.p = in.p;
        h->at += piece.n;
        if (h->head.has_length)
            h->left -= piece.n;
        h->is_read = h->left == 0;
    } else {
        if (in.n > n) /* no more than fits: the decoder's pieces end with the input */
            in.n = n;
        uint8_t *start = in.p;
        enum sg_chunked_got got = sg_chunked_next(&h->chunked, &in, &piece, err);
        if (got == SG_CHUNKED_BAD)
            return -1;
        h->at += (size_t)(in.p - start);
        h->is_read = got == SG_CHUNKED_END;
    }
    if (piece.n)
        memcpy(p, piece.p, piece.n);
    return (ssize_t)piece.n;
}

ssize_t sg_http_read(struct sg_http *h, void *p, size_t n, struct sg_err *err)
{
    while (!h->is_read) {
        ssize_t took = take(h, p, n, err);
        if (took != 0)
            return took;
        if (h->is_read)
            break;
        if (h->at < h->in.n) /* a line of the framing was taken, there is more behind it */
            continue;
        ssize_t got = fill(h, err);
        if (got < 0)
            return -1;
        if (got == 0 && !h->head.is_chunked && !h->head.has_length)
            h->is_read = true;
        else if (got == 0)
            return sg_fail(err, SG_UNAVAILABLE, "%s ended the connection within the answer",
                           h->url);
    }
    if (h->head.closes || (!h->head.is_chunked && !h->head.has_length && h->left))
        sg_drop_fd(&h->fd);
    return 0;
}

int sg_http_read_all(struct sg_http *h, struct sg_buf *out, struct sg_err *err)
{
    char piece[16 << 10];
    for (;;) {
        ssize_t n = sg_http_read(h, piece, sizeof piece, err);
        if (n <= 0)
            return (int)n;
        sg_buf_add(out, piece, (size_t)n);
        if (sg_buf_check(out, "the reply", err) < 0)
            return -1;
    }
}
