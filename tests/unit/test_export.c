/* SPDX-License-Identifier: Apache-2.0 */
/* The exporter's parts: where it sends, what, and how it finds the way. */
#include "check.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/jsonr.h"
#include "export/post.h"
#include "net/resolv.h"
#include "wire/dns.h"
#include "base/banned.h"

static void endpoints_are_split_and_get_the_path_of_otlp(void **state)
{
    (void)state;
    static const struct {
        const char *url, *host, *path;
        unsigned port;
        bool is_tls;
    } rows[] = {
        { "http://collector:4318", "collector", "/v1/traces", 4318, false },
        { "http://collector:4318/", "collector", "/v1/traces", 4318, false },
        { "https://cloud.langfuse.com/api/public/otel", "cloud.langfuse.com",
          "/api/public/otel/v1/traces", 443, true },
        { "https://h/v1/traces", "h", "/v1/traces", 443, true },
        { "http://[2001:db8::1]:99/x/", "2001:db8::1", "/x/v1/traces", 99, false },
        { "http://[::1]", "::1", "/v1/traces", 80, false },
    };
    for (size_t i = 0; i < SG_COUNT(rows); i++) {
        struct sg_endpoint e;
        struct sg_err err = { 0 };
        assert_ok(sg_endpoint_parse(rows[i].url, &e, &err), err);
        assert_string_equal(e.host, rows[i].host);
        assert_string_equal(e.path, rows[i].path);
        assert_int_equal(e.port, rows[i].port);
        assert_int_equal(e.is_tls, rows[i].is_tls);
    }
}

static void what_is_no_endpoint_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",           "collector:4318", "ftp://h",        "http://",       "http://:80",
        "http://h:",  "http://h:0",     "http://h:70000", "http://u:p@h/", "http://h/?a=b",
        "http://h x", "http://[::1",    "http://[::1]x",  "http://h\x01/", "http://h/#f",
        "http://h_x", "http://[zz]/",
    };
    for (size_t i = 0; i < SG_COUNT(bad); i++) {
        struct sg_endpoint e;
        struct sg_err err = { 0 };
        if (sg_endpoint_parse(bad[i], &e, &err) == 0)
            fail_msg("taken: %s", bad[i]);
        assert_int_equal(err.kind, SG_INVALID);
    }
}

static void headers_are_lines_and_mistakes_have_a_number_and_no_value(void **state)
{
    (void)state;
    char good[] = "# a comment\r\n\nAuthorization: Basic eDp5\r\nX-Empty:\n";
    char *v[SG_HEADERS_MAX];
    struct sg_err err = { 0 };
    assert_int_equal(sg_headers_parse(good, "f", v, &err), 2);
    assert_string_equal(v[0], "Authorization: Basic eDp5");
    assert_string_equal(v[1], "X-Empty:");
    static const char *const bad[] = { "secret-without-colon",    ": secret",     "a b: secret",
                                       "content-LENGTH: 1secret", "Host: secret", "X: \x01secret" };
    for (size_t i = 0; i < SG_COUNT(bad); i++) {
        char text[80];
        err = (struct sg_err) { 0 };
        (void)snprintf(text, sizeof text, "\n%s\n", bad[i]);
        assert_int_equal(sg_headers_parse(text, "f", v, &err), -1);
        assert_non_null(strstr(err.msg, "f:2:"));
        assert_null(strstr(err.msg, "secret"));
    }
}

static void a_file_of_headers_is_for_its_owner(void **state)
{
    (void)state;
    char path[] = "/tmp/sg-headers-XXXXXX";
    char *v[SG_HEADERS_MAX];
    struct sg_err err = { 0 };
    sg_auto_fd fd = mkstemp(path);
    assert_true(fd >= 0 && write(fd, "A: b\n", 5) == 5);
    sg_auto_buf text;
    sg_buf_init(&text, SG_HEADERS_MAX_BYTES);
    assert_int_equal(sg_headers_read("", &text, v, &err), 0);
    assert_int_equal(fchmod(fd, 0604), 0);
    assert_int_equal(sg_headers_read(path, &text, v, &err), -1);
    assert_non_null(strstr(err.msg, "chmod 600"));
    assert_int_equal(fchmod(fd, 0640), 0);
    assert_int_equal(sg_headers_read(path, &text, v, &err), 1);
    assert_int_equal(unlink(path), 0);
    sg_buf_clear(&text);
    assert_int_equal(sg_headers_read(path, &text, v, &err), -1);
    assert_int_equal(err.kind, SG_INVALID);
}

static void whole_lines_become_one_document(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        unsigned n;
    } rows[] = { { "", 0 },
                 { "{\"a\":1}\n", 1 },
                 { "{\"a\":1}\n{\"b\":2}\n{\"to", 2 },
                 { "{\"torn\n{\"b\":2}\n\n{}\n", 1 } };
    for (size_t i = 0; i < SG_COUNT(rows); i++) {
        sg_auto_buf out;
        sg_auto_arena a;
        struct sg_err err = { 0 };
        const struct sg_jval *v;
        sg_buf_init(&out, 1 << 16);
        sg_arena_init(&a, 1 << 20);
        assert_int_equal(sg_body_format(sg_str_of(rows[i].text), "h", &out), rows[i].n);
        assert_ok(sg_json_parse((struct sg_str) { (const char *)out.p, out.n }, &a, &v, &err), err);
        const struct sg_jval *one = sg_json_get(v, "resourceSpans")->list.first;
        const struct sg_jval *scope = sg_json_get(one, "scopeSpans")->list.first;
        assert_int_equal(sg_json_get(scope, "spans")->list.n, rows[i].n);
    }
}

static void the_machines_own_files_are_read(void **state)
{
    (void)state;
    char text[] =
        "# x\nnameserver 192.0.2.1\nsearch a\nnameserver\t::1%lo ; c\nnameservers 1\nnameserver 9";
    char *servers[4];
    struct sg_addr found[4];
    assert_int_equal(sg_resolv_servers(text, servers, 4), 3);
    assert_string_equal(servers[0], "192.0.2.1");
    assert_string_equal(servers[1], "::1");
    static const char hosts[] = "127.0.0.1 localhost\n::1\tlocalhost ip6 # collector\n"
                                "192.0.2.7  Collector.example\tcollector\n#192.0.2.8 collector\n"
                                "nonsense collector\n192.0.2.9";
    assert_int_equal(sg_hosts_find(hosts, "localhost", found, 4), 2);
    assert_int_equal(sg_hosts_find(hosts, "COLLECTOR", found, 4), 1);
    assert_int_equal(sg_addr_to_v4(&found[0]), 0xc0000207);
    assert_int_equal(sg_hosts_find(hosts, "local", found, 4), 0);
}

/* A name server that answers every question with one address, after a word to nobody. */
static void *answer_all(void *arg)
{
    const int fd = *(int *)arg;
    uint8_t p[SG_DNS_MAX_UDP], out[SG_DNS_MAX_UDP];
    for (unsigned i = 0; i < 2; i++) {
        struct sockaddr_in from;
        socklen_t from_n = sizeof from;
        const ssize_t n = recvfrom(fd, p, sizeof p, 0, (struct sockaddr *)&from, &from_n);
        struct sg_dns_query q;
        if (n < 0 || sg_dns_query_parse(p, (size_t)n, &q) != 0)
            return NULL;
        static const uint8_t four[] = { 192, 0, 2, 55 };
        const struct sg_dns_reply r = { .addr = q.type == SG_DNS_A ? four : NULL, .ttl_s = 5 };
        const size_t out_n = sg_dns_reply_format(p, &q, &r, out, sizeof out);
        uint8_t stray[SG_DNS_MAX_UDP];
        memcpy(stray, out, out_n);
        stray[0] ^= 0x55; /* another question's */
        (void)sendto(fd, stray, out_n, 0, (struct sockaddr *)&from, from_n);
        (void)sendto(fd, out, out_n, 0, (struct sockaddr *)&from, from_n);
    }
    return NULL;
}

static void a_name_is_asked_for_where_no_file_has_it(void **state)
{
    (void)state;
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t n = sizeof a;
    sg_auto_fd fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0 && bind(fd, (struct sockaddr *)&a, sizeof a) == 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &n), 0);
    char server[32];
    (void)snprintf(server, sizeof server, "127.0.0.1:%u", ntohs(a.sin_port));
    struct sg_post_options o = { .servers = { server }, .server_count = 1, .hosts = "" };
    (void)snprintf(o.to.host, sizeof o.to.host, "Collector.Example");
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, answer_all, &fd), 0);
    struct sg_addr found[4];
    struct sg_err err = { 0 };
    const int got = sg_find(&o, found, 4, &err);
    (void)pthread_join(thread, NULL);
    if (got != 1)
        fail_msg("%d: %s", got, err.msg);
    assert_int_equal(sg_addr_to_v4(&found[0]), 0xc0000237);
    o.server_count = 0;
    assert_int_equal(sg_find(&o, found, 4, &err), -1);
    assert_int_equal(err.kind, SG_UNAVAILABLE);
    (void)snprintf(o.to.host, sizeof o.to.host, "192.0.2.1");
    assert_int_equal(sg_find(&o, found, 4, &err), 1);
}

static void nobody_there_is_later_and_says_why(void **state)
{
    (void)state;
    struct sg_err err = { 0 };
    struct sg_post_result r;
    struct sg_post_options o = { .to = { .host = "127.0.0.1", .port = 1, .path = "/v1/traces" },
                                 .hosts = "" };
    assert_ok(sg_post_init(&err), err);
    sg_post(&o, sg_str_of("{}"), &r);
    assert_int_equal(r.verdict, SG_POST_LATER);
    assert_int_equal(r.status, 0);
    assert_true(r.why[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(endpoints_are_split_and_get_the_path_of_otlp),
        cmocka_unit_test(what_is_no_endpoint_is_refused),
        cmocka_unit_test(headers_are_lines_and_mistakes_have_a_number_and_no_value),
        cmocka_unit_test(a_file_of_headers_is_for_its_owner),
        cmocka_unit_test(whole_lines_become_one_document),
        cmocka_unit_test(the_machines_own_files_are_read),
        cmocka_unit_test(a_name_is_asked_for_where_no_file_has_it),
        cmocka_unit_test(nobody_there_is_later_and_says_why),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
