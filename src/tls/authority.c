/* SPDX-License-Identifier: Apache-2.0 */
#include "tls/authority.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "tls/make_internal.h"
#include "base/banned.h"

enum { CA_DAYS = 7300, CERT_DAYS = 397, PEM_MAX = 4096, COMMON_MAX = 64 };

/* ---- the files ---- */

/* NULL without an error: it is not there. */
static char *read_text(int dir_fd, const char *name, struct sg_err *err)
{
    char text[PEM_MAX];
    sg_auto_fd fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        if (errno != ENOENT)
            (void)sg_fail_sys(err, "open %s", name);
        return NULL;
    }
    const ssize_t n = read(fd, text, sizeof text - 1);
    if (n < 0) {
        (void)sg_fail_sys(err, "read %s", name);
        return NULL;
    }
    text[n] = '\0';
    char *own = sg_strdup(text);
    explicit_bzero(text, sizeof text);
    return own;
}

static int write_text(int dir_fd, const char *name, mode_t mode, const char *text,
                      struct sg_err *err)
{
    sg_auto_free char *fresh = sg_printf("%s.new", name);
    sg_auto_fd fd =
        openat(dir_fd, fresh, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, mode);
    if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text) || fsync(fd) < 0 ||
        renameat(dir_fd, fresh, dir_fd, name) < 0 || fsync(dir_fd) < 0)
        return sg_fail_sys(err, "write %s", name);
    return 0;
}

static X509 *make_cert(EVP_PKEY *key)
{
    static const struct sg_tls_extension extensions[] = {
        { NID_basic_constraints, "critical,CA:TRUE,pathlen:0" },
        { NID_key_usage, "critical,keyCertSign,cRLSign" },
        { NID_subject_key_identifier, "hash" },
    };
    X509 *x = sg_tls_cert_begin(key, NULL, "Sandglass gate of this installation", CA_DAYS);
    if (x && sg_tls_add_extensions(x, x, extensions, SG_COUNT(extensions)) == 0 &&
        X509_sign(x, key, EVP_sha256()))
        return x;
    X509_free(x);
    return NULL;
}

static int make(int dir_fd, struct sg_authority_text *ret, struct sg_err *err)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *cert = key ? make_cert(key) : NULL;
    struct sg_authority_text t = { .cert = cert ? sg_tls_cert_text(cert) : NULL,
                                   .key = cert ? sg_tls_key_text(key) : NULL };
    X509_free(cert);
    EVP_PKEY_free(key);
    int got = t.cert && t.key ? 0 : sg_tls_fail(err, "make the gate's authority");
    /* The certificate comes last: without it the key is of no use, and both are made again. */
    if (got == 0 && (write_text(dir_fd, "ca.key", 0600, t.key, err) < 0 ||
                     write_text(dir_fd, "ca.pem", 0644, t.cert, err) < 0))
        got = -1;
    if (got < 0)
        sg_authority_text_done(&t);
    else
        *ret = t;
    return got;
}

int sg_authority_open(int dir_fd, struct sg_authority_text *ret, struct sg_err *err)
{
    struct sg_err own = { 0 };
    struct sg_authority_text t = { .cert = read_text(dir_fd, "ca.pem", &own) };
    if (!t.cert && own.kind == SG_OK)
        return make(dir_fd, ret, err);
    t.key = t.cert ? read_text(dir_fd, "ca.key", &own) : NULL;
    struct sg_authority *tried = t.key ? sg_authority_new(&t, &own) : NULL;
    sg_authority_free(tried);
    if (tried) {
        *ret = t;
        return 0;
    }
    sg_authority_text_done(&t);
    return sg_fail(err, SG_INVALID,
                   "ca.pem and ca.key do not belong together or are damaged (%s); put them back, "
                   "or remove both: sandboxes of before then trust the gate no more",
                   own.kind == SG_OK ? "no key" : own.msg);
}

void sg_authority_text_done(struct sg_authority_text *t)
{
    sg_tls_wipe(t->cert);
    sg_tls_wipe(t->key);
    *t = (struct sg_authority_text) { 0 };
}

/* ---- signing ---- */

struct sg_authority {
    X509 *cert;
    EVP_PKEY *key, *leaf_key;
    char *leaf_key_text;
};

struct sg_authority *sg_authority_new(const struct sg_authority_text *t, struct sg_err *err)
{
    struct sg_authority *a = sg_new(struct sg_authority);
    BIO *cert = BIO_new_mem_buf(t->cert, -1), *key = BIO_new_mem_buf(t->key, -1);
    a->cert = cert ? PEM_read_bio_X509(cert, NULL, NULL, NULL) : NULL;
    a->key = key ? PEM_read_bio_PrivateKey(key, NULL, NULL, NULL) : NULL;
    a->leaf_key = EVP_EC_gen("P-256");
    a->leaf_key_text = a->leaf_key ? sg_tls_key_text(a->leaf_key) : NULL;
    BIO_free(cert);
    BIO_free(key);
    if (a->cert && a->key && a->leaf_key_text && X509_check_private_key(a->cert, a->key) == 1)
        return a;
    (void)sg_tls_fail(err, "the gate's authority");
    sg_authority_free(a);
    return NULL;
}

void sg_authority_free(struct sg_authority *a)
{
    if (!a)
        return;
    X509_free(a->cert);
    EVP_PKEY_free(a->key);
    EVP_PKEY_free(a->leaf_key);
    sg_tls_wipe(a->leaf_key_text);
    free(a);
}

char *sg_authority_issue(struct sg_authority *a, const char *name, struct sg_err *err)
{
    sg_auto_free char *names = sg_printf("DNS:%s", name);
    char common[COMMON_MAX + 1];
    const struct sg_tls_extension extensions[] = {
        { NID_basic_constraints, "critical,CA:FALSE" },
        { NID_key_usage, "critical,digitalSignature" },
        { NID_ext_key_usage, "serverAuth" },
        { NID_subject_key_identifier, "hash" },
        { NID_authority_key_identifier, "keyid" },
        { NID_subject_alt_name, names },
    };
    (void)snprintf(common, sizeof common, "%.*s", COMMON_MAX, name);
    X509 *x = sg_tls_cert_begin(a->leaf_key, a->cert, common, CERT_DAYS);
    char *text = x && sg_tls_add_extensions(x, a->cert, extensions, SG_COUNT(extensions)) == 0 &&
                         X509_sign(x, a->key, EVP_sha256())
                     ? sg_tls_cert_text(x)
                     : NULL;
    X509_free(x);
    if (!text)
        (void)sg_tls_fail(err, "make a certificate");
    return text;
}

const char *sg_authority_key(const struct sg_authority *a)
{
    return a->leaf_key_text;
}
