/* SPDX-License-Identifier: Apache-2.0 */
#include "api/e2b/sign.h"

#include <string.h>

#include "base/auto.h"
#include "check.h"
#include "base/banned.h"

/* As the clients make them. */
static void signatures_are_those_of_the_clients(void **state)
{
    static const char TOKEN[] = "0tQG31xiMp0IOQfaz9dcwi72L1CPo8e0";
    static const struct {
        const char *path, *operation, *user, *expiration, *signature;
    } rows[] = {
        { "hello.txt", "read", "user", NULL, "v1_gUtH/s9YCJWgCizjfUxuWfhFE4QSydOWEIIvfLwDr6E" },
        { "hello.txt", "read", "", NULL, "v1_SnvZASdG5vD8p9rpaldX3434NfwgRVsYsvzCBL6oZbc" },
        { "/home/user/a b.txt", "write", "root", "1900000000",
          "v1_bjL3KH6f3eifrZeZ6k3R96cLD1KZgFmSwNwOYvVGgBE" },
    };
    (void)state;
    for (size_t i = 0; i < SG_COUNT(rows); i++) {
        char made[SG_E2B_SIGNATURE_LEN + 1];
        sg_e2b_sign(rows[i].path, rows[i].operation, rows[i].user, TOKEN, rows[i].expiration, made);
        assert_string_equal(made, rows[i].signature);
    }
}

static void secrets_are_hexadecimal_and_never_the_same(void **state)
{
    char a[SG_E2B_TOKEN_LEN + 1], b[SG_E2B_TOKEN_LEN + 1];
    (void)state;
    sg_e2b_secret(a);
    sg_e2b_secret(b);
    assert_int_equal(strlen(a), SG_E2B_TOKEN_LEN);
    assert_int_equal(strspn(a, "0123456789abcdef"), SG_E2B_TOKEN_LEN);
    assert_string_not_equal(a, b);
    assert_true(sg_e2b_is_same(a, a));
    assert_false(sg_e2b_is_same(a, b));
    assert_false(sg_e2b_is_same(a, ""));
}

static void what_is_kept_with_a_sandbox_is_found_again(void **state)
{
    char secret[SG_E2B_TOKEN_LEN + 1];
    sg_auto_arena arena;
    struct sg_e2b_record r = { .token = secret, .traffic = "t", .mask = "m:${PORT}" }, again;
    (void)state;
    sg_arena_init(&arena, 1 << 20);
    sg_e2b_secret(secret);
    assert_int_equal(
        sg_json_parse(sg_str_of("{\"denyOut\":[\"0.0.0.0/0\"]}"), &arena, &r.network, NULL), 0);
    r.resumes = r.has_internet_flag = r.denies_internet = true;
    struct sg_sandbox s = { .id = sg_id_new('s') };
    assert_false(sg_e2b_record(&s, &arena, &again));
    s.door = sg_e2b_record_text(&arena, &r);
    for (int round = 0; round < 2; round++) { /* written again it stays the same */
        assert_true(sg_e2b_record(&s, &arena, &again));
        assert_int_equal(strlen(again.token), SG_E2B_TOKEN_LEN);
        assert_memory_equal(again.token, s.id.s, SG_ID_LEN);
        assert_string_equal(again.token + SG_ID_LEN, secret + SG_ID_LEN);
        assert_string_equal(again.traffic, "t");
        assert_string_equal(again.mask, "m:${PORT}");
        assert_true(again.resumes && again.denies_internet && again.has_internet_flag);
        assert_non_null(sg_e2b_get(again.network, "denyOut"));
        s.door = sg_e2b_record_text(&arena, &again);
    }
}

static void members_are_found_in_both_spellings(void **state)
{
    sg_auto_arena arena;
    const struct sg_jval *v;
    (void)state;
    sg_arena_init(&arena, 1 << 20);
    assert_int_equal(sg_json_parse(sg_str_of("{\"allow_internet_access\":false,\"watcherId\":\"w\","
                                             "\"none\":null,\"size\":\"12\",\"allow_\":1}"),
                                   &arena, &v, NULL),
                     0);
    assert_false(sg_e2b_bool(v, "allowInternetAccess", true));
    assert_string_equal(sg_e2b_text(v, "watcherId"), "w");
    assert_null(sg_e2b_get(v, "none"));
    assert_int_equal(sg_e2b_u64(v, "size", 0), 12);
    assert_null(sg_e2b_get(v, "allow"));
    assert_null(sg_e2b_text(v, "size2"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(signatures_are_those_of_the_clients),
        cmocka_unit_test(secrets_are_hexadecimal_and_never_the_same),
        cmocka_unit_test(what_is_kept_with_a_sandbox_is_found_again),
        cmocka_unit_test(members_are_found_in_both_spellings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
