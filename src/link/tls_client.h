/* SPDX-License-Identifier: Apache-2.0 */
/* TLS towards a server, on the sessions of link/tls.h: its certificate must lead to an authority
 * that we know and name the host that we wanted, and it speaks HTTP/1.1 or nothing by name. */
#pragma once

#include "link/tls.h"

/* `roots`: PEM texts, each of any number of certificates; NULL ones are left out. SG_INVALID: none
 * was found in one of them. */
struct sg_tls *sg_tls_client_new(const char *const *roots, size_t n, struct sg_err *err);
struct sg_session *sg_session_new_client(struct sg_tls *t, int fd, const char *name,
                                         struct sg_err *err); /* borrows fd */
/* Why a handshake failed, in words: its certificate, or what the library says. */
void sg_session_why(struct sg_session *s, struct sg_err *err);
