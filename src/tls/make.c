/* SPDX-License-Identifier: Apache-2.0 */
#include "tls/make_internal.h"

#include <openssl/bn.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/str.h"
#include "base/banned.h"

enum {
    DAY_S = 24 * 3600,
    CA_DAYS = 3650,
    CERT_DAYS = 825,   /* what browsers accept at most */
    BACK_S = DAY_S,    /* clocks differ */
    SERIAL_BITS = 127, /* positive, and nobody's guess */
    MAX_DOMAIN = 200,
    MAX_LABEL = 63,
    MAX_VALUE = 1024,
};

int sg_tls_fail(struct sg_err *err, const char *what)
{
    char text[120] = "unknown";
    const unsigned long code = ERR_get_error();
    if (code)
        ERR_error_string_n(code, text, sizeof text);
    ERR_clear_error();
    return sg_fail(err, SG_INTERNAL, "%s: %s", what, text);
}

int sg_tls_check_domain(const char *domain, struct sg_err *err)
{
    static const char some[] = "abcdefghijklmnopqrstuvwxyz0123456789-";
    const char *p = domain;
    unsigned labels = 0;
    for (;; labels++) {
        const size_t n = strspn(p, some);
        if (!n || n > MAX_LABEL || p[0] == '-' || p[n - 1] == '-')
            return sg_fail(err, SG_INVALID, "%s is no domain name (a-z, 0-9, - and .)",
                           sg_quote(domain).s);
        p += n;
        if (!*p)
            break;
        if (*p++ != '.')
            return sg_fail(err, SG_INVALID, "%s is no domain name (a-z, 0-9, - and .)",
                           sg_quote(domain).s);
    }
    if (!labels) /* OpenSSL, and so most clients, match no "*.name" */
        return sg_fail(err, SG_INVALID, "%s has no dot: clients accept no wildcard of one label",
                       sg_quote(domain).s);
    if (p - domain > MAX_DOMAIN)
        return sg_fail(err, SG_INVALID, "the domain is over %d bytes", MAX_DOMAIN);
    return 0;
}

/* ---- parts of a certificate ---- */

static int set_serial(X509 *x)
{
    BIGNUM *n = BN_new();
    const int ok = n && BN_rand(n, SERIAL_BITS, BN_RAND_TOP_ONE, BN_RAND_BOTTOM_ANY) &&
                   BN_to_ASN1_INTEGER(n, X509_get_serialNumber(x));
    BN_free(n);
    return ok ? 0 : -1;
}

static int set_subject(X509 *x, const char *common)
{
    X509_NAME *name = X509_get_subject_name(x);
    return name &&
                   X509_NAME_add_entry_by_txt(name, "O", MBSTRING_ASC,
                                              (const unsigned char *)"Sandglass", -1, -1, 0) &&
                   X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                                              (const unsigned char *)common, -1, -1, 0)
               ? 0
               : -1;
}

int sg_tls_add_extensions(X509 *x, X509 *issuer, const struct sg_tls_extension *list, size_t n)
{
    X509V3_CTX ctx;
    X509V3_set_ctx(&ctx, issuer, x, NULL, NULL, 0);
    for (size_t i = 0; i < n; i++) {
        X509_EXTENSION *e = X509V3_EXT_conf_nid(NULL, &ctx, list[i].nid, list[i].value);
        const int ok = e && X509_add_ext(x, e, -1);
        X509_EXTENSION_free(e);
        if (!ok)
            return -1;
    }
    return 0;
}

X509 *sg_tls_cert_begin(EVP_PKEY *key, X509 *issuer, const char *common, int days)
{
    X509 *x = X509_new();
    if (x && X509_set_version(x, X509_VERSION_3) && set_serial(x) == 0 &&
        X509_gmtime_adj(X509_getm_notBefore(x), -BACK_S) &&
        X509_time_adj_ex(X509_getm_notAfter(x), days, 0, NULL) && set_subject(x, common) == 0 &&
        X509_set_issuer_name(x, X509_get_subject_name(issuer ? issuer : x)) &&
        X509_set_pubkey(x, key))
        return x;
    X509_free(x);
    return NULL;
}

static X509 *make_ca(EVP_PKEY *key, const char *domain)
{
    char limits[MAX_VALUE], common[MAX_DOMAIN + 64];
    (void)snprintf(limits, sizeof limits,
                   "critical,permitted;DNS:%s,permitted;DNS:localhost,"
                   "permitted;IP:127.0.0.1/255.255.255.255,"
                   "permitted;IP:::1/ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
                   domain);
    const struct sg_tls_extension extensions[] = {
        { NID_basic_constraints, "critical,CA:TRUE,pathlen:0" },
        { NID_key_usage, "critical,keyCertSign,cRLSign" },
        { NID_subject_key_identifier, "hash" },
        { NID_name_constraints, limits },
    };
    /* A common name has 64 bytes at most. */
    (void)snprintf(common, sizeof common, "Sandglass CA of %.40s", domain);
    X509 *x = sg_tls_cert_begin(key, NULL, common, CA_DAYS);
    if (x && sg_tls_add_extensions(x, x, extensions, SG_COUNT(extensions)) == 0 &&
        X509_sign(x, key, EVP_sha256()))
        return x;
    X509_free(x);
    return NULL;
}

static X509 *make_cert(EVP_PKEY *key, const char *domain, X509 *ca, EVP_PKEY *ca_key)
{
    char names[MAX_VALUE], common[65];
    (void)snprintf(names, sizeof names, "DNS:%s,DNS:*.%s,DNS:localhost,IP:127.0.0.1,IP:::1", domain,
                   domain);
    const struct sg_tls_extension extensions[] = {
        { NID_basic_constraints, "critical,CA:FALSE" },
        { NID_key_usage, "critical,digitalSignature" },
        { NID_ext_key_usage, "serverAuth" },
        { NID_subject_key_identifier, "hash" },
        { NID_authority_key_identifier, "keyid" },
        { NID_subject_alt_name, names },
    };
    (void)snprintf(common, sizeof common, "%.64s", domain);
    X509 *x = sg_tls_cert_begin(key, ca, common, CERT_DAYS);
    if (x && sg_tls_add_extensions(x, ca, extensions, SG_COUNT(extensions)) == 0 &&
        X509_sign(x, ca_key, EVP_sha256()))
        return x;
    X509_free(x);
    return NULL;
}

/* ---- as text ---- */

/* What is in `bio`, owned; the BIO goes. */
static char *text_of(BIO *bio, int ok)
{
    char *p = NULL;
    const long n = bio && ok ? BIO_get_mem_data(bio, &p) : 0;
    char *text = n > 0 ? sg_printf("%.*s", (int)n, p) : NULL;
    if (n > 0)
        OPENSSL_cleanse(p, (size_t)n);
    BIO_free(bio);
    return text;
}

char *sg_tls_cert_text(X509 *x)
{
    BIO *bio = BIO_new(BIO_s_mem());
    return text_of(bio, bio && PEM_write_bio_X509(bio, x));
}

char *sg_tls_key_text(EVP_PKEY *key)
{
    BIO *bio = BIO_new(BIO_s_mem());
    return text_of(bio, bio && PEM_write_bio_PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL));
}

static int write_out(X509 *ca, EVP_PKEY *ca_key, X509 *cert, EVP_PKEY *key, struct sg_tls_made *m)
{
    m->ca_cert = sg_tls_cert_text(ca);
    m->ca_key = sg_tls_key_text(ca_key);
    m->cert = sg_tls_cert_text(cert);
    m->key = sg_tls_key_text(key);
    return m->ca_cert && m->ca_key && m->cert && m->key ? 0 : -1;
}

int sg_tls_make(const char *domain, struct sg_tls_made *ret, struct sg_err *err)
{
    struct sg_tls_made m = { 0 };
    if (sg_tls_check_domain(domain, err) < 0)
        return -1;
    EVP_PKEY *ca_key = EVP_EC_gen("P-256"), *key = EVP_EC_gen("P-256");
    X509 *ca = ca_key && key ? make_ca(ca_key, domain) : NULL;
    X509 *cert = ca ? make_cert(key, domain, ca, ca_key) : NULL;
    const int r = cert && write_out(ca, ca_key, cert, key, &m) == 0
                      ? 0
                      : sg_tls_fail(err, "make keys and certificates");
    X509_free(cert);
    X509_free(ca);
    EVP_PKEY_free(key);
    EVP_PKEY_free(ca_key);
    if (r < 0)
        sg_tls_made_done(&m);
    else
        *ret = m;
    return r;
}

void sg_tls_wipe(char *text)
{
    if (text)
        OPENSSL_cleanse(text, strlen(text));
    free(text);
}

void sg_tls_made_done(struct sg_tls_made *m)
{
    sg_tls_wipe(m->ca_key);
    sg_tls_wipe(m->key);
    free(m->ca_cert);
    free(m->cert);
    *m = (struct sg_tls_made) { 0 };
}
