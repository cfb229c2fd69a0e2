/* SPDX-License-Identifier: Apache-2.0 */
#include "link/tls.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <string.h>

#include "base/auto.h"
#include "base/banned.h"

static SSL_CTX *ctx_of(struct sg_tls *t)
{
    return (SSL_CTX *)t;
}

static SSL *ssl_of(struct sg_session *s)
{
    return (SSL *)s;
}

static int fail_tls(struct sg_err *err, enum sg_kind kind, const char *what)
{
    char text[120] = "unknown";
    unsigned long code = ERR_get_error();
    if (code)
        ERR_error_string_n(code, text, sizeof text);
    ERR_clear_error();
    return sg_fail(err, kind, "%s: %s", what, text);
}

static int select_protocol(SSL *ssl, const unsigned char **out, unsigned char *out_n,
                           const unsigned char *in, unsigned in_n, void *arg)
{
    (void)ssl;
    (void)arg;
    static const unsigned char ours[] = "\x08http/1.1";
    unsigned char *chosen = NULL;
    if (SSL_select_next_proto(&chosen, out_n, ours, sizeof ours - 1, in, in_n) !=
        OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    *out = chosen;
    return SSL_TLSEXT_ERR_OK;
}

static int use_chain(SSL_CTX *ctx, const char *pem, struct sg_err *err)
{
    BIO *bio = BIO_new_mem_buf(pem, -1);
    X509 *cert = bio ? PEM_read_bio_X509_AUX(bio, NULL, NULL, NULL) : NULL;
    int rc = cert && SSL_CTX_use_certificate(ctx, cert) == 1
                 ? 0
                 : fail_tls(err, SG_INVALID, "TLS certificate");
    X509_free(cert);
    while (rc == 0 && (cert = PEM_read_bio_X509(bio, NULL, NULL, NULL)))
        if (SSL_CTX_add0_chain_cert(ctx, cert) != 1) {
            X509_free(cert);
            rc = fail_tls(err, SG_INVALID, "TLS certificate chain");
        }
    ERR_clear_error(); /* the end of the PEM text is an error to OpenSSL */
    BIO_free(bio);
    return rc;
}

static int use_key(SSL_CTX *ctx, const char *pem, struct sg_err *err)
{
    BIO *bio = BIO_new_mem_buf(pem, -1);
    EVP_PKEY *key = bio ? PEM_read_bio_PrivateKey(bio, NULL, NULL, NULL) : NULL;
    int rc = key && SSL_CTX_use_PrivateKey(ctx, key) == 1 && SSL_CTX_check_private_key(ctx) == 1
                 ? 0
                 : fail_tls(err, SG_INVALID, "TLS key");
    EVP_PKEY_free(key);
    BIO_free(bio);
    return rc;
}

struct sg_tls *sg_tls_new(const char *cert_pem, const char *key_pem, struct sg_err *err)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
    if (!ctx) {
        fail_tls(err, SG_UNAVAILABLE, "make a TLS context");
        return NULL;
    }
    (void)SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION);
    (void)SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                       SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA |
                                       SSL_OP_IGNORE_UNEXPECTED_EOF);
    (void)SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                                    SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    (void)SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_alpn_select_cb(ctx, select_protocol, NULL);
    if (use_chain(ctx, cert_pem, err) < 0 || use_key(ctx, key_pem, err) < 0) {
        SSL_CTX_free(ctx);
        return NULL;
    }
    return (struct sg_tls *)ctx;
}

void sg_tls_free(struct sg_tls *t)
{
    SSL_CTX_free(ctx_of(t));
}

/* Of one name; NULL: it is no wildcard, or cannot be a text. */
static char *behind_star(const GENERAL_NAME *name)
{
    const ASN1_IA5STRING *dns = name->type == GEN_DNS ? name->d.dNSName : NULL;
    const char *p = dns ? (const char *)ASN1_STRING_get0_data(dns) : "";
    const size_t n = dns ? (size_t)ASN1_STRING_length(dns) : 0;
    return n > 2 && memcmp(p, "*.", 2) == 0 && !memchr(p, 0, n)
               ? sg_printf("%.*s", (int)n - 2, p + 2)
               : NULL;
}

char *sg_tls_wildcard(const char *cert_pem)
{
    BIO *bio = BIO_new_mem_buf(cert_pem, -1);
    X509 *cert = bio ? PEM_read_bio_X509_AUX(bio, NULL, NULL, NULL) : NULL;
    GENERAL_NAMES *names = cert ? X509_get_ext_d2i(cert, NID_subject_alt_name, NULL, NULL) : NULL;
    char *found = NULL;
    for (int i = 0; names && !found && i < sk_GENERAL_NAME_num(names); i++)
        found = behind_star(sk_GENERAL_NAME_value(names, i));
    GENERAL_NAMES_free(names);
    X509_free(cert);
    BIO_free(bio);
    ERR_clear_error();
    return found;
}

struct sg_session *sg_session_new(struct sg_tls *t, int fd, struct sg_err *err)
{
    SSL *ssl = SSL_new(ctx_of(t));
    if (!ssl || SSL_set_fd(ssl, fd) != 1) {
        SSL_free(ssl);
        fail_tls(err, SG_UNAVAILABLE, "make a TLS session");
        return NULL;
    }
    SSL_set_accept_state(ssl);
    return (struct sg_session *)ssl;
}

void sg_session_free(struct sg_session *s)
{
    SSL_free(ssl_of(s));
}

static enum sg_tls_got got(struct sg_session *s, int rc)
{
    if (rc > 0)
        return SG_TLS_DONE;
    int why = SSL_get_error(ssl_of(s), rc);
    ERR_clear_error();
    if (why == SSL_ERROR_WANT_READ)
        return SG_TLS_WANTS_READ;
    if (why == SSL_ERROR_WANT_WRITE)
        return SG_TLS_WANTS_WRITE;
    return why == SSL_ERROR_ZERO_RETURN ? SG_TLS_END : SG_TLS_FAILED;
}

enum sg_tls_got sg_session_handshake(struct sg_session *s)
{
    ERR_clear_error();
    return got(s, SSL_do_handshake(ssl_of(s)));
}

enum sg_tls_got sg_session_read(struct sg_session *s, void *p, size_t cap, size_t *ret_n)
{
    ERR_clear_error();
    return got(s, SSL_read_ex(ssl_of(s), p, cap, ret_n));
}

enum sg_tls_got sg_session_write(struct sg_session *s, const void *p, size_t n, size_t *ret_n)
{
    ERR_clear_error();
    return got(s, SSL_write_ex(ssl_of(s), p, n, ret_n));
}

void sg_session_say_end(struct sg_session *s)
{
    ERR_clear_error();
    if (SSL_is_init_finished(ssl_of(s)))
        (void)SSL_shutdown(ssl_of(s));
    ERR_clear_error();
}
