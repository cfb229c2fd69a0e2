/* SPDX-License-Identifier: Apache-2.0 */
/* A client that costs little: one connection that stays, blocking, one request at a time. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

struct sg_http {
    int fd;
    char key[64];     /* "": none */
    struct sg_buf in; /* head and body of the last reply */
    size_t body_at;   /* in `in` */
    int status;
};

/* One of the two: a port on loopback, or (port 0) a unix socket's path. */
int sg_http_open(struct sg_http *h, uint16_t port, const char *path, const char *key,
                 struct sg_err *err);
void sg_http_close(struct sg_http *h);

/* `body` NULL: none. */
int sg_http_send(struct sg_http *h, const char *method, const char *path, const char *body,
                 struct sg_err *err);
/* A status other than `want` is an error with the reply's text. */
int sg_http_receive(struct sg_http *h, int want, struct sg_err *err);
int sg_http_ask(struct sg_http *h, const char *method, const char *path, const char *body, int want,
                struct sg_err *err);
/* PUT of a file's bytes. */
int sg_http_put_file(struct sg_http *h, const char *path, const char *file, int want,
                     struct sg_err *err);
const char *sg_http_body(struct sg_http *h);

/* Reads a reply of `Content-Length` bytes without keeping them; returns how many. */
int64_t sg_http_drop(struct sg_http *h, struct sg_err *err);

/* The text of a member "name":"..." in the last reply: ids and keys hold no escapes. */
int sg_http_member(struct sg_http *h, const char *name, char *ret, size_t cap, struct sg_err *err);
