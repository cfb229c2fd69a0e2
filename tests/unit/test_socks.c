/* SPDX-License-Identifier: Apache-2.0 */
#include "check.h"

#include <string.h>

#include "base/auto.h"
#include "wire/socks.h"
#include "base/banned.h"

static const uint8_t four[] = { 93, 184, 216, 34 };
static const struct sg_socks_ask to_addr = { .addr = four, .addr_n = 4, .port = 443 };
static const struct sg_socks_ask with_login = {
    .user = "me", .password = "secret", .name = "example.com", .port = 0x1f90
};

/* Everything that the proxy says, in pieces of `step`; what we said is in `out`. */
static enum sg_socks_got talk(struct sg_socks *s, const struct sg_socks_ask *ask, const void *said,
                              size_t n, size_t step, struct sg_buf *out, size_t *ret_used)
{
    enum sg_socks_got got = SG_SOCKS_ON;
    size_t at = 0;
    sg_socks_begin(s, ask, out);
    while (got == SG_SOCKS_ON && at < n) {
        size_t piece = sg_socks_wants(s);
        assert_true(piece > 0);
        piece = piece < step ? piece : step;
        piece = piece < n - at ? piece : n - at;
        got = sg_socks_feed(s, (const uint8_t *)said + at, piece, out);
        at += piece;
    }
    *ret_used = at;
    return got;
}

static void the_bytes_are_those_of_the_rfc(void **state)
{
    (void)state;
    static const char said[] = "\5\2\1\0\5\0\0\1\12\0\0\1\4\322behind",
                      want[] = "\5\2\0\2"
                               "\1\2me\6secret"
                               "\5\1\0\3\13example.com\37\220";
    for (size_t step = 1; step < sizeof said; step++) {
        sg_auto_buf out;
        struct sg_socks s;
        size_t used;
        sg_buf_init(&out, 2048);
        assert_int_equal(talk(&s, &with_login, said, sizeof said - 1, step, &out, &used),
                         SG_SOCKS_DONE);
        assert_int_equal(used, sizeof said - 1 - strlen("behind")); /* that is the far end's */
        assert_int_equal(out.n, sizeof want - 1);
        assert_memory_equal(out.p, want, out.n);
        assert_int_equal(sg_socks_wants(&s), 0);
    }
}

static void without_a_login_none_is_offered_and_none_is_given(void **state)
{
    (void)state;
    static const char said[] = "\5\0\5\0\0\4................\0\1", want[] =
                                                                       "\5\1\0"
                                                                       "\5\1\0\1]\270\330\"\1\273";
    sg_auto_buf out;
    struct sg_socks s;
    size_t used;
    sg_buf_init(&out, 2048);
    assert_int_equal(talk(&s, &to_addr, said, sizeof said - 1, 9, &out, &used), SG_SOCKS_DONE);
    assert_int_equal(out.n, sizeof want - 1);
    assert_memory_equal(out.p, want, out.n);
}

static void what_is_not_understood_is_refused_with_its_reason(void **state)
{
    (void)state;
    static const struct {
        const struct sg_socks_ask *ask;
        const char *said;
        size_t n;
        const char *reason;
        bool is_far;
    } rows[] = {
        { &to_addr, "HT", 2, "it does not speak SOCKS 5", false },
        { &to_addr, "\5\377", 2, "it wants a user name and password", false },
        { &to_addr, "\5\2", 2, "it chose a method that was not offered", false },
        { &with_login, "\5\1", 2, "it chose a method that was not offered", false },
        { &with_login, "\5\377", 2, "it takes no user name and password", false },
        { &with_login, "\5\2\1\1", 4, "it did not accept the user name and password", false },
        { &with_login, "\5\2\5\0", 4, "its answer to the password cannot be read", false },
        { &to_addr, "\5\0\5\2", 4, "its own rules do not allow the connection", false },
        { &to_addr, "\5\0\5\5", 4, "connection refused", true },
        { &to_addr, "\5\0\5\4", 4, "host unreachable", true },
        { &to_addr, "\5\0\5\143", 4, "it failed, for no known reason", false },
        { &to_addr, "\5\0\4\0", 4, "its answer cannot be read", false },
        { &to_addr, "\5\0\5\0\0\2x", 7, "its answer cannot be read", false },
        { &to_addr, "\5\0\5\0\1\1x", 7, "its answer cannot be read", false },
    };
    for (size_t i = 0; i < SG_COUNT(rows); i++) {
        sg_auto_buf out;
        struct sg_socks s;
        size_t used;
        sg_buf_init(&out, 2048);
        const enum sg_socks_got got =
            talk(&s, rows[i].ask, rows[i].said, rows[i].n, 300, &out, &used);
        if (got != SG_SOCKS_BAD || used != rows[i].n || s.is_far != rows[i].is_far ||
            strcmp(s.reason, rows[i].reason) != 0)
            fail_msg("row %zu: %d after %zu, '%s'", i, got, used, s.reason ? s.reason : "");
        assert_int_equal(sg_socks_wants(&s), 0);
    }
}

static void a_password_is_not_said_before_it_is_asked_for(void **state)
{
    (void)state;
    sg_auto_buf out;
    struct sg_socks s;
    size_t used;
    sg_buf_init(&out, 2048);
    assert_int_equal(talk(&s, &with_login, "\5\0", 2, 2, &out, &used), SG_SOCKS_ON);
    assert_null(memmem(out.p, out.n, "secret", 6));
    assert_null(memmem(out.p, out.n, "me", 2));
}

static void the_longest_texts_fit(void **state)
{
    (void)state;
    char text[SG_SOCKS_TEXT + 1];
    memset(text, 'x', SG_SOCKS_TEXT);
    text[SG_SOCKS_TEXT] = '\0';
    const struct sg_socks_ask ask = { .user = text, .password = text, .name = text, .port = 1 };
    sg_auto_buf out;
    struct sg_socks s;
    sg_buf_init(&out, SG_SOCKS_OUT);
    sg_socks_begin(&s, &ask, &out);
    sg_buf_clear(&out);
    assert_int_equal(sg_socks_feed(&s, (const uint8_t *)"\5\2", 2, &out), SG_SOCKS_ON);
    assert_int_equal(out.n, SG_SOCKS_OUT);
    sg_buf_clear(&out);
    assert_int_equal(sg_socks_feed(&s, (const uint8_t *)"\1\0", 2, &out), SG_SOCKS_ON);
    assert_false(out.has_overflowed);
    assert_int_equal(out.n, 4 + 1 + SG_SOCKS_TEXT + 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_bytes_are_those_of_the_rfc),
        cmocka_unit_test(without_a_login_none_is_offered_and_none_is_given),
        cmocka_unit_test(what_is_not_understood_is_refused_with_its_reason),
        cmocka_unit_test(a_password_is_not_said_before_it_is_asked_for),
        cmocka_unit_test(the_longest_texts_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
