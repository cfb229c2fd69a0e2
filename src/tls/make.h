/* SPDX-License-Identifier: Apache-2.0 */
/* A local authority and a certificate that it signs, as PEM texts.
 *
 * The authority may speak for one domain, localhost and the loopback addresses only (name
 * constraints): whoever trusts it trusts it for nothing else, even should its key get lost. */
#pragma once

#include "base/err.h"

struct sg_tls_made { /* all owned */
    char *ca_cert, *ca_key, *cert, *key;
};

/* 0 where `domain` is a name of two labels or more that a certificate can hold with "*." before it;
 * SG_INVALID tells why not. */
int sg_tls_check_domain(const char *domain, struct sg_err *err);

/* For DOMAIN, *.DOMAIN, localhost, 127.0.0.1 and ::1. */
int sg_tls_make(const char *domain, struct sg_tls_made *ret, struct sg_err *err);
void sg_tls_made_done(struct sg_tls_made *m); /* the keys are wiped */

/* Why the last call of OpenSSL failed. Returns -1. */
int sg_tls_fail(struct sg_err *err, const char *what);
