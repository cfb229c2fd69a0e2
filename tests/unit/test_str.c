/* SPDX-License-Identifier: Apache-2.0 */
/* base/str: views, and outside text made safe to show. */
#include <string.h>

#include "base/auto.h"
#include "base/str.h"
#include "check.h"
#include "base/banned.h"

static void plain_text_is_quoted_as_it_is(void **state)
{
    (void)state;
    assert_string_equal(sg_quote("hello world").s, "'hello world'");
    assert_string_equal(sg_quote("").s, "''");
    assert_string_equal(sg_quote("gr\xc3\xbc\xc3\x9f dich").s, "'gr\xc3\xbc\xc3\x9f dich'");
}

static void what_could_drive_a_terminal_or_end_the_quote_is_escaped(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        { "a\nb", "'a\\x0ab'" },
        { "\x1b[2J", "'\\x1b[2J'" },
        { "it's", "'it\\x27s'" },
        { "a\\b", "'a\\x5cb'" },
        { "\x7f", "'\\x7f'" },
        { "\xc2\x9b"
          "2J",
          "'\\xc2\\x9b2J'" }, /* U+009B is ESC [ in one character */
        { "\x9b"
          "2J",
          "'\\x9b2J'" }, /* and to a terminal that is not UTF-8 one byte */
        { "\xff\xfe", "'\\xff\\xfe'" },
        { "\xc3", "'\\xc3'" },
        { "\xc3(", "'\\xc3('" },
    };
    for (size_t i = 0; i < SG_COUNT(cases); i++)
        assert_string_equal(sg_quote(cases[i][0]).s, cases[i][1]);
}

static void a_view_may_hold_nul_bytes(void **state)
{
    (void)state;
    assert_string_equal(sg_quote_str((struct sg_str) { "a\0b", 3 }).s, "'a\\x00b'");
}

static void long_text_is_cut_with_dots_and_never_inside_a_character(void **state)
{
    (void)state;
    char text[400];
    for (size_t lead = 0; lead < 4; lead++) {
        memset(text, 'a', lead);
        size_t at = lead;
        for (; at + 3 < sizeof text; at += 3)
            memcpy(text + at, "\xe2\x82\xac", 3); /* a three-byte character */
        text[at] = '\0';
        struct sg_quoted q = sg_quote(text);
        size_t n = strlen(q.s);
        assert_true(n < sizeof q.s);
        assert_true(n > sizeof q.s - 10);
        assert_string_equal(q.s + n - 4, "...'");
        assert_true(sg_utf8_valid(q.s, n));
    }
}

static void the_longest_text_that_fits_is_not_cut(void **state)
{
    (void)state;
    char text[120] = { 0 };
    struct sg_quoted q;
    size_t fits = 0;
    for (size_t n = 1; n < sizeof text - 1; n++) {
        memset(text, 'x', n);
        q = sg_quote(text);
        if (!strstr(q.s, "..."))
            fits = n;
        assert_true(strlen(q.s) < sizeof q.s);
        assert_int_equal(q.s[strlen(q.s) - 1], '\'');
    }
    assert_in_range(fits, 85, 94);
}

static void utf8_is_told_from_rubbish(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool is_valid;
    } cases[] = {
        { "", true },
        { "plain", true },
        { "\xc3\xbc", true },
        { "\xe2\x82\xac", true },
        { "\xf0\x9f\x99\x82", true },
        { "\xf4\x8f\xbf\xbf", true },  /* U+10FFFF, the last one */
        { "\xf4\x90\x80\x80", false }, /* beyond it              */
        { "\xc0\xaf", false },         /* overlong slash         */
        { "\xe0\x80\xaf", false },     /* overlong again         */
        { "\xf0\x80\x80\xaf", false },
        { "\xed\xa0\x80", false }, /* surrogate              */
        { "\xee\x80\x80", true },  /* first after them       */
        { "\x80", false },
        { "\xc3", false },
        { "\xe2\x82", false },
        { "\xc3(", false },
        { "\xff", false },
    };
    for (size_t i = 0; i < SG_COUNT(cases); i++)
        if (sg_utf8_valid(cases[i].text, strlen(cases[i].text)) != cases[i].is_valid)
            fail_msg("case %zu", i);
}

static void views_compare_by_whole_length(void **state)
{
    (void)state;
    struct sg_str s = { "memory_limit", 6 };
    assert_true(sg_str_is(s, "memory"));
    assert_false(sg_str_is(s, "memory_limit"));
    assert_false(sg_str_is(s, "mem"));
    assert_true(sg_starts_with("--name=x", "--name"));
    assert_false(sg_starts_with("--na", "--name"));
}

static void the_last_part_of_a_path_is_its_name(void **state)
{
    (void)state;
    static const struct {
        const char *path, *name;
    } cases[] = {
        { "/a/b", "b" }, { "/a/b/", "b" }, { "a/bc//", "bc" }, { "abc", "abc" },
        { "./", "." },   { "/", "" },      { "//", "" },       { "", "" },
    };
    for (size_t i = 0; i < SG_COUNT(cases); i++)
        if (!sg_str_is(sg_last_part(cases[i].path), cases[i].name))
            fail_msg("of %s", cases[i].path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_text_is_quoted_as_it_is),
        cmocka_unit_test(what_could_drive_a_terminal_or_end_the_quote_is_escaped),
        cmocka_unit_test(a_view_may_hold_nul_bytes),
        cmocka_unit_test(long_text_is_cut_with_dots_and_never_inside_a_character),
        cmocka_unit_test(the_longest_text_that_fits_is_not_cut),
        cmocka_unit_test(utf8_is_told_from_rubbish),
        cmocka_unit_test(views_compare_by_whole_length),
        cmocka_unit_test(the_last_part_of_a_path_is_its_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
