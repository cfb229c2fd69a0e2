/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of certificates, for who makes some. */
#pragma once

#include <openssl/x509.h>

#include "tls/make.h"

struct sg_tls_extension {
    int nid;
    const char *value;
};
/* `issuer` NULL: by itself. NULL: OpenSSL's error. */
X509 *sg_tls_cert_begin(EVP_PKEY *key, X509 *issuer, const char *common, int days);
int sg_tls_add_extensions(X509 *x, X509 *issuer, const struct sg_tls_extension *list, size_t n);
/* As PEM, owned; NULL: OpenSSL's error. */
char *sg_tls_cert_text(X509 *x);
char *sg_tls_key_text(EVP_PKEY *key);
void sg_tls_wipe(char *text); /* and frees it */
