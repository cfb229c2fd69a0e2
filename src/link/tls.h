/* SPDX-License-Identifier: Apache-2.0 */
/* TLS for servers, on OpenSSL: one context a server, one session a connection. TLS 1.2 and 1.3,
 * ALPN "http/1.1" only, no renegotiation, buffers given back while idle. OpenSSL and not our own:
 * nobody writes a TLS in forty lines. */
#pragma once

#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"

struct sg_tls;     /* SSL_CTX */
struct sg_session; /* SSL */

/* PEM texts; the certificate may be followed by its chain. SG_INVALID names what is wrong. */
struct sg_tls *sg_tls_new(const char *cert_pem, const char *key_pem, struct sg_err *err);
void sg_tls_free(struct sg_tls *t);
/* The name behind the first "*." that the certificate is for, owned; NULL: it has none. */
char *sg_tls_wildcard(const char *cert_pem);

/* What a session's call came to. */
enum sg_tls_got {
    SG_TLS_DONE,
    SG_TLS_WANTS_READ,
    SG_TLS_WANTS_WRITE,
    SG_TLS_END, /* the peer said that no more comes */
    SG_TLS_FAILED,
};

struct sg_session *sg_session_new(struct sg_tls *t, int fd, struct sg_err *err); /* borrows fd */
void sg_session_free(struct sg_session *s);
enum sg_tls_got sg_session_handshake(struct sg_session *s);
/* `cap` of 16 KiB or more leaves nothing behind that epoll would not tell of. */
enum sg_tls_got sg_session_read(struct sg_session *s, void *p, size_t cap, size_t *ret_n);
/* After WANTS_*: to be called again with the same bytes, perhaps more. */
enum sg_tls_got sg_session_write(struct sg_session *s, const void *p, size_t n, size_t *ret_n);
void sg_session_say_end(struct sg_session *s); /* as well as it goes at once */
