/* SPDX-License-Identifier: Apache-2.0 */
#include "link/tls_client.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "base/auto.h"
#include "base/str.h"
#include "base/banned.h"

/* How many came in; what is no certificate ends the text. */
static unsigned add_roots(X509_STORE *store, const char *pem)
{
    BIO *bio = BIO_new_mem_buf(pem, -1);
    unsigned n = 0;
    for (X509 *x; bio && (x = PEM_read_bio_X509(bio, NULL, NULL, NULL)); X509_free(x))
        n += X509_STORE_add_cert(store, x) == 1;
    BIO_free(bio);
    ERR_clear_error(); /* the end of the text is an error to OpenSSL */
    return n;
}

struct sg_tls *sg_tls_client_new(const char *const *roots, size_t n, struct sg_err *err)
{
    static const unsigned char ours[] = "\x08http/1.1";
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
    if (!ctx || SSL_CTX_set_alpn_protos(ctx, ours, sizeof ours - 1) != 0) {
        SSL_CTX_free(ctx);
        ERR_clear_error();
        (void)sg_fail(err, SG_UNAVAILABLE, "make a TLS context");
        return NULL;
    }
    (void)SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION);
    (void)SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                       SSL_OP_IGNORE_UNEXPECTED_EOF);
    (void)SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                                    SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    (void)SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
    for (size_t i = 0; i < n; i++)
        if (roots[i] && !add_roots(SSL_CTX_get_cert_store(ctx), roots[i])) {
            SSL_CTX_free(ctx);
            (void)sg_fail(err, SG_INVALID, "there is no certificate in the file of authorities");
            return NULL;
        }
    return (struct sg_tls *)ctx;
}

struct sg_session *sg_session_new_client(struct sg_tls *t, int fd, const char *name,
                                         struct sg_err *err)
{
    SSL *ssl = SSL_new((SSL_CTX *)t);
    if (!ssl || SSL_set_fd(ssl, fd) != 1 || SSL_set_tlsext_host_name(ssl, name) != 1 ||
        SSL_set1_host(ssl, name) != 1) {
        SSL_free(ssl);
        ERR_clear_error();
        (void)sg_fail(err, SG_UNAVAILABLE, "make a TLS session");
        return NULL;
    }
    SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    SSL_set_connect_state(ssl);
    return (struct sg_session *)ssl;
}

void sg_session_why(struct sg_session *s, struct sg_err *err)
{
    const long code = SSL_get_verify_result((SSL *)s);
    if (code != X509_V_OK)
        (void)sg_fail(err, SG_DENIED, "its certificate is not accepted: %s",
                      X509_verify_cert_error_string(code));
    else
        (void)sg_fail(err, SG_UNAVAILABLE, "the TLS handshake failed");
}
