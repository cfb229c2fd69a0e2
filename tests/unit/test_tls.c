/* SPDX-License-Identifier: Apache-2.0 */
/* TLS on the same port as plain HTTP, with a certificate that is made here. */
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include "http_rig.h"
#include "link/tls.h"
#include "base/banned.h"

enum { MAX_TEXT = 64 << 20 };

static char cert_pem[4096], key_pem[4096];

static void to_text(BIO *bio, char *to, size_t cap)
{
    int n = BIO_read(bio, to, (int)cap - 1);
    assert_true(n > 0);
    to[n] = '\0';
    BIO_free(bio);
}

static int make_certificate(void **state)
{
    (void)state;
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *cert = X509_new();
    assert_true(key && cert);
    (void)ASN1_INTEGER_set(X509_get_serialNumber(cert), 1);
    (void)X509_gmtime_adj(X509_getm_notBefore(cert), 0);
    (void)X509_gmtime_adj(X509_getm_notAfter(cert), 3600);
    (void)X509_set_pubkey(cert, key);
    X509_NAME *name = X509_get_subject_name(cert);
    (void)X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)"rig", -1, -1,
                                     0);
    (void)X509_set_issuer_name(cert, name);
    assert_true(X509_sign(cert, key, EVP_sha256()) > 0);
    BIO *bio = BIO_new(BIO_s_mem());
    assert_true(PEM_write_bio_X509(bio, cert) == 1);
    to_text(bio, cert_pem, sizeof cert_pem);
    bio = BIO_new(BIO_s_mem());
    assert_true(PEM_write_bio_PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL) == 1);
    to_text(bio, key_pem, sizeof key_pem);
    X509_free(cert);
    EVP_PKEY_free(key);
    return 0;
}

static int start(void **state)
{
    (void)state;
    rig_start(
        &(struct sg_server_options) { .tls_cert = cert_pem, .tls_key = key_pem, .head_ms = 300 });
    return 0;
}

static int stop(void **state)
{
    (void)state;
    rig_stop();
    return 0;
}

struct client {
    SSL_CTX *ctx;
    SSL *ssl;
    int fd;
};

static struct client connect_tls(void)
{
    struct client c = { .ctx = SSL_CTX_new(TLS_client_method()), .fd = rig_connect() };
    (void)fcntl(c.fd, F_SETFL, O_NONBLOCK);
    c.ssl = SSL_new(c.ctx);
    (void)SSL_set_fd(c.ssl, c.fd);
    SSL_set_connect_state(c.ssl);
    return c;
}

static void hang_up(struct client *c)
{
    SSL_free(c->ssl);
    SSL_CTX_free(c->ctx);
    (void)close(c->fd);
}

static bool shake(struct client *c)
{
    for (int i = 0; i < 2000; i++) {
        int rc = SSL_do_handshake(c->ssl);
        if (rc == 1)
            return true;
        int why = SSL_get_error(c->ssl, rc);
        if (why != SSL_ERROR_WANT_READ && why != SSL_ERROR_WANT_WRITE)
            return false;
        rig_turn(1);
    }
    return false;
}

static void say(struct client *c, const void *p, size_t n)
{
    size_t sent = 0;
    while (n) {
        if (SSL_write_ex(c->ssl, p, n < 16384 ? n : 16384, &sent) == 1) {
            p = (const char *)p + sent;
            n -= sent;
        } else {
            assert_int_equal(SSL_get_error(c->ssl, 0), SSL_ERROR_WANT_WRITE);
        }
        rig_turn(0);
    }
}

static void say_text(struct client *c, const char *text)
{
    say(c, text, strlen(text));
}

/* Until `bytes` were received, the text came, or the end. */
static bool hear(struct client *c, struct sg_buf *in, const char *text, size_t bytes)
{
    static char piece[16384];
    uint64_t until = sg_now_ns() + HTTP_PATIENCE_MS * 1000000ull;
    while (sg_now_ns() < until) {
        size_t n = 0;
        if ((text && in->n && memmem(in->p, in->n, text, strlen(text))) ||
            (bytes && in->n >= bytes))
            return true;
        if (SSL_read_ex(c->ssl, piece, sizeof piece, &n) == 1) {
            sg_buf_add(in, piece, n);
            continue;
        }
        if (SSL_get_error(c->ssl, 0) != SSL_ERROR_WANT_READ)
            return !text && !bytes;
        rig_turn(1);
    }
    return false;
}

static void both_are_served_on_one_port(void **state)
{
    (void)state;
    sg_auto_buf in;
    sg_buf_init(&in, MAX_TEXT);
    struct client c = connect_tls();
    static const unsigned char both[] = "\x02h2\x08http/1.1";
    (void)SSL_set_alpn_protos(c.ssl, both, sizeof both - 1);
    assert_true(shake(&c));
    const unsigned char *chosen;
    unsigned n;
    SSL_get0_alpn_selected(c.ssl, &chosen, &n);
    assert_true(n == 8 && memcmp(chosen, "http/1.1", 8) == 0);
    for (int i = 0; i < 3; i++) {
        sg_buf_clear(&in);
        say_text(&c, "GET /open/tls HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_true(hear(&c, &in, "tls||-|7", 0));
    }
    hang_up(&c);
    sg_auto_fd plain = rig_connect();
    sg_buf_clear(&in);
    rig_say(plain, "GET /open/plain HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_true(rig_await(plain, &in, "plain||-|7"));
}

static void a_client_that_wants_another_protocol_is_refused(void **state)
{
    (void)state;
    struct client c = connect_tls();
    (void)SSL_set_alpn_protos(c.ssl, (const unsigned char *)"\x02h2", 3);
    assert_false(shake(&c));
    hang_up(&c);
}

static void an_old_version_is_refused(void **state)
{
    (void)state;
    struct client c = connect_tls();
    (void)SSL_set_max_proto_version(c.ssl, TLS1_1_VERSION);
    SSL_set_security_level(c.ssl, 0);
    assert_false(shake(&c));
    hang_up(&c);
}

static void large_things_pass_in_both_directions(void **state)
{
    (void)state;
    enum { BYTES = 8 << 20 };
    sg_auto_buf in;
    sg_buf_init(&in, MAX_TEXT);
    struct client c = connect_tls();
    assert_true(shake(&c));
    char text[100];
    (void)snprintf(text, sizeof text, "GET /file?n=%d HTTP/1.1\r\nHost: a\r\n\r\n", BYTES);
    say_text(&c, text);
    assert_true(hear(&c, &in, NULL, BYTES));
    const uint8_t *body = memmem(in.p, in.n, "\r\n\r\n", 4);
    assert_true(body && hear(&c, &in, NULL, (size_t)(body + 4 - in.p) + BYTES));
    body = (const uint8_t *)memmem(in.p, in.n, "\r\n\r\n", 4) + 4;
    assert_int_equal(in.n, (size_t)(body - in.p) + BYTES);
    for (size_t i = 0; i < BYTES; i += 991)
        assert_int_equal(body[i], 'a' + i % 26);

    sg_buf_clear(&in);
    (void)snprintf(text, sizeof text,
                   "PUT /count?pause=1 HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n", BYTES);
    say_text(&c, text);
    sg_auto_free char *data = sg_alloc(BYTES);
    say(&c, data, BYTES);
    (void)snprintf(text, sizeof text, "%d bytes", BYTES);
    assert_true(hear(&c, &in, text, 0));
    hang_up(&c);
}

static void a_stream_waits_for_a_slow_reader(void **state)
{
    (void)state;
    sg_auto_buf in;
    sg_buf_init(&in, MAX_TEXT);
    struct client c = connect_tls();
    assert_true(shake(&c));
    say_text(&c, "GET /flood?pieces=2000 HTTP/1.0\r\n\r\n");
    for (int i = 0; i < 50; i++)
        rig_turn(1);
    assert_int_equal(rig.drains, 1);
    assert_true(hear(&c, &in, NULL, 0));
    const uint8_t *body = memmem(in.p, in.n, "\r\n\r\n", 4);
    assert_true(body && in.n - (size_t)(body + 4 - in.p) == 2000 * 8192);
    hang_up(&c);
}

static void a_handshake_that_is_garbage_or_never_ends_is_closed(void **state)
{
    (void)state;
    sg_auto_buf in;
    sg_buf_init(&in, MAX_TEXT);
    sg_auto_fd garbage = rig_connect(), half = rig_connect();
    rig_send(garbage, "\x16garbage that is no handshake", 29);
    rig_send(half, "\x16\x03\x01\x02\x00\x01", 6);
    assert_true(rig_await_end(garbage, &in));
    assert_true(rig_await_end(half, &in));
    for (int i = 0; i < 3; i++)
        rig_turn(1);
    assert_int_equal(sg_server_stats(rig.server)->connections, 0);
}

static void a_client_that_vanishes_is_noticed(void **state)
{
    (void)state;
    struct client c = connect_tls();
    assert_true(shake(&c));
    say_text(&c, "GET /held?watch=1 HTTP/1.1\r\nHost: a\r\n\r\n");
    for (int i = 0; i < 100 && !rig.held; i++)
        rig_turn(5);
    assert_non_null(rig.held);
    hang_up(&c);
    for (int i = 0; i < 100 && !rig.gone; i++)
        rig_turn(5);
    assert_int_equal(rig.gone, 1);
}

static void a_certificate_that_is_none_is_refused(void **state)
{
    (void)state;
    struct sg_err err = { 0 };
    assert_null(sg_tls_new("none", key_pem, &err));
    assert_int_equal(err.kind, SG_INVALID);
    assert_null(sg_tls_new(cert_pem, "none", &err));
    assert_int_equal(err.kind, SG_INVALID);
    assert_non_null(strstr(err.msg, "TLS key"));
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, start, stop)
    const struct CMUnitTest tests[] = {
        TEST(both_are_served_on_one_port),
        TEST(a_client_that_wants_another_protocol_is_refused),
        TEST(an_old_version_is_refused),
        TEST(large_things_pass_in_both_directions),
        TEST(a_stream_waits_for_a_slow_reader),
        TEST(a_handshake_that_is_garbage_or_never_ends_is_closed),
        TEST(a_client_that_vanishes_is_noticed),
        cmocka_unit_test(a_certificate_that_is_none_is_refused),
    };
    return cmocka_run_group_tests(tests, make_certificate, NULL);
}
