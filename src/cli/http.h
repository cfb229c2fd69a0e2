/* SPDX-License-Identifier: Apache-2.0 */
/* A blocking HTTP/1.1 client: one connection, one request at a time, to the service's unix socket
 * or over TCP with a key. Ours and not a library's because the program is linked with musl, and
 * starts in a millisecond. What comes back is checked as any input from outside: bounded, and
 * refused where it is not HTTP/1.1. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "wire/chunked.h"

enum { SG_HTTP_MAX_REPLY_HEAD = 64 << 10 };

/* Of a reply: what the client acts on. */
struct sg_reply_head {
    int status;
    uint64_t length;
    bool has_length, is_chunked, closes;
    bool is_upgrade; /* 101 to a WebSocket, or to bytes as they are */
};

/* `text` is a whole head, with the empty line. SG_INVALID: it is none of HTTP/1.1. */
int sg_reply_head_parse(struct sg_str text, struct sg_reply_head *ret, struct sg_err *err);

struct sg_http {
    int fd;           /* -1: not connected */
    char *url, *key;  /* owned; key "": none */
    char *authority;  /* owned: of the Host field */
    struct sg_buf in; /* received and not taken: from `at` on */
    size_t at;
    /* Called before every wait for the service, where it is set: returns 0 once `fd` can be read.
     */
    int (*wait)(void *arg, int fd, struct sg_err *err);
    void *wait_arg;
    /* How https is connected to; NULL: not at all. Returns a stream socket. */
    int (*secure)(void *arg, const char *authority, struct sg_err *err);
    void *secure_arg;
    /* of the reply in hand */
    struct sg_reply_head head;
    struct sg_chunked chunked;
    uint64_t left;
    bool is_read; /* to its end */
};

/* `url`: "http[s]://HOST[:PORT]" or "unix:PATH". Connects at the first request. */
void sg_http_init(struct sg_http *h, const char *url, const char *key);
void sg_http_done(struct sg_http *h);

/* Connects where that is needed, and sends a request. `body` NULL: none; `fields` are more lines of
 * the head, each with its CRLF, or NULL. SG_UNAVAILABLE: nobody is there. */
int sg_http_send(struct sg_http *h, const char *method, const char *target, const char *fields,
                 const struct sg_str *body, struct sg_err *err);

/* The same with a body that is streamed, up to and with sg_http_receive(). What `fd` gives: `bytes`
 * of it, or (UINT64_MAX) all until its end. */
int sg_http_send_fd(struct sg_http *h, const char *method, const char *target, int fd,
                    uint64_t bytes, struct sg_err *err);

/* What `write_body` puts. */
int sg_http_send_with(struct sg_http *h, const char *method, const char *target,
                      int (*write_body)(void *arg, struct sg_http *h, struct sg_err *err),
                      void *arg, struct sg_err *err);
int sg_http_put(struct sg_http *h, const void *p, size_t n, struct sg_err *err); /* a chunk */

/* Waits for the head of the reply; h->head says what it is. */
int sg_http_receive(struct sg_http *h, struct sg_err *err);

/* Some of the body, as it comes; 0 at its end. */
ssize_t sg_http_read(struct sg_http *h, void *p, size_t n, struct sg_err *err);
int sg_http_read_all(struct sg_http *h, struct sg_buf *out, struct sg_err *err);

#define sg_auto_http __attribute__((cleanup(sg_http_done))) struct sg_http
