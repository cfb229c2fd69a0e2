/* SPDX-License-Identifier: Apache-2.0 */
/* Names of images, challenges and tokens, by example; the fuzzer has the rest. */
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "check.h"
#include "image/oci_ref.h"
#include "registry/registry.h"
#include "base/banned.h"

#define ZEROS "0000000000000000000000000000000000000000000000000000000000000000"

static void names_have_a_host_a_repository_and_a_tag_or_digest(void **state)
{
    (void)state;
    static const struct {
        const char *text, *host, *account, *repository, *tag, *hex;
    } rows[] = {
        { "alpine", "registry-1.docker.io", "docker.io", "library/alpine", "latest", "" },
        { "docker.io/me/app:1", "registry-1.docker.io", "docker.io", "me/app", "1", "" },
        { "localhost/app", "localhost", "localhost", "app", "latest", "" },
        { "[::1]:5000/a/b:x", "[::1]:5000", "[::1]:5000", "a/b", "x", "" },
        { "h.example:5000/a:1@sha256:" ZEROS, "h.example:5000", "h.example:5000", "a", "1", ZEROS },
        { "h.example/a@sha256:" ZEROS, "h.example", "h.example", "a", "", ZEROS },
    };
    for (size_t i = 0; i < SG_COUNT(rows); i++) {
        struct sg_err err;
        struct sg_oci_ref r;
        assert_int_equal(sg_oci_ref_parse(rows[i].text, &r, &err), 0);
        assert_string_equal(r.host, rows[i].host);
        assert_string_equal(r.account, rows[i].account);
        assert_string_equal(r.repository, rows[i].repository);
        assert_string_equal(r.tag, rows[i].tag);
        assert_string_equal(r.hex.s, rows[i].hex);
    }
}

static void refuses_names_that_would_be_another_url(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "",       "UPPER",       "a//b",    "a/../b",        "h.x/",      "h.x/a?b", "h.x/a:tag/x",
        "h.x/a:", "h.x/a@md5:1", "h x.y/a", "h.x/a:.hidden", "user@h.x/a"
    };
    for (size_t i = 0; i < SG_COUNT(rows); i++) {
        struct sg_err err;
        struct sg_oci_ref r;
        assert_int_equal(sg_oci_ref_parse(rows[i], &r, &err), -1);
        assert_int_equal(err.kind, SG_INVALID);
    }
}

static void only_this_machine_is_loopback(void **state)
{
    (void)state;
    static const char *const yes[] = { "localhost", "localhost:1", "127.0.0.1:5000", "[::1]",
                                       "127.9.9.9" };
    static const char *const no[] = { "localhost.example.org",
                                      "127.0.0.1.example.org",
                                      "10.0.0.1",
                                      "0.0.0.0:1",
                                      "[::2]",
                                      "127.example" };
    for (size_t i = 0; i < SG_COUNT(yes); i++)
        assert_true(sg_oci_host_is_loopback(yes[i]));
    for (size_t i = 0; i < SG_COUNT(no); i++)
        assert_false(sg_oci_host_is_loopback(no[i]));
}

static void reads_challenges(void **state)
{
    (void)state;
    struct sg_err err;
    struct sg_challenge c;
    assert_int_equal(
        sg_challenge_parse("bearer realm=\"https://a/t\", service=s,scope=\"x\\\"y\"", &c, &err),
        0);
    assert_true(c.is_bearer);
    assert_string_equal(c.realm, "https://a/t");
    assert_string_equal(c.service, "s");
    assert_string_equal(c.scope, "x\"y");
    assert_int_equal(sg_challenge_parse("Basic realm=\"x\"", &c, &err), 0);
    assert_false(c.is_bearer);
    assert_int_equal(sg_challenge_parse("Negotiate", &c, &err), -1);
    assert_int_equal(err.kind, SG_UNSUPPORTED);
    assert_int_equal(sg_challenge_parse("Bearer service=\"s\"", &c, &err), -1);
}

static void a_token_has_no_line_of_its_own(void **state)
{
    (void)state;
    struct sg_err err;
    sg_auto_free char *one = sg_token_parse(sg_str_of("{\"token\":\"abc\"}"), &err);
    sg_auto_free char *two = sg_token_parse(sg_str_of("{\"access_token\":\"d\"}"), &err);
    assert_string_equal(one, "abc");
    assert_string_equal(two, "d");
    assert_null(sg_token_parse(sg_str_of("{\"token\":\"a\\r\\nX: y\"}"), &err));
    assert_null(sg_token_parse(sg_str_of("{}"), &err));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_have_a_host_a_repository_and_a_tag_or_digest),
        cmocka_unit_test(refuses_names_that_would_be_another_url),
        cmocka_unit_test(only_this_machine_is_loopback),
        cmocka_unit_test(reads_challenges),
        cmocka_unit_test(a_token_has_no_line_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
