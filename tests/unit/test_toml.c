/* SPDX-License-Identifier: Apache-2.0 */
/* config/toml: positions, bounds and the tree. What is TOML and what is not is compared with an
 * independent reader in tests/property. */
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "config/toml.h"
#include "check.h"
#include "base/banned.h"

static struct sg_toml_doc *parse(const char *text)
{
    struct sg_err err = { 0 };
    struct sg_toml_doc *doc = sg_toml_parse(sg_str_of(text), &err);
    if (!doc)
        fail_msg("%s", err.msg);
    return doc;
}

static void values_come_out_decoded_with_their_place(void **state)
{
    (void)state;
    sg_auto_toml doc = parse("# first\n[run]\nmemory = 0x1_00\n  name = \"a\\u00e9\\n\" # c\n"
                             "when = 2020-02-29 10:00:00Z\nlist = [1,\n [true], 'x']\n");
    const struct sg_toml *run = sg_toml_find(sg_toml_root(doc), "run");
    assert_int_equal(run->type, SG_TOML_TABLE);
    const struct sg_toml *memory = sg_toml_find(run, "memory");
    assert_int_equal(memory->integer, 256);
    assert_string_equal(memory->text.p, "0x100");
    assert_int_equal(memory->line, 3);
    assert_int_equal(memory->column, 10);
    const struct sg_toml *name = sg_toml_find(run, "name");
    assert_string_equal(name->text.p, "a\xc3\xa9\n");
    assert_int_equal(name->text.n, 4);
    assert_string_equal(sg_toml_find(run, "when")->text.p, "2020-02-29 10:00:00Z");
    const struct sg_toml *list = sg_toml_find(run, "list");
    assert_int_equal(list->first->integer, 1);
    assert_string_equal(list->first->next->first->text.p, "true");
    assert_int_equal(list->first->next->line, 7);
    assert_string_equal(list->last->text.p, "x");
    assert_null(sg_toml_find(run, "nothing"));
}

static void a_mistake_is_named_with_line_and_column(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        { "a = 1\nb = ?", "2:5: expected a value" },
        { "a = yes",
          "1:5: not a value: neither number, date, true nor false; a text needs quotes" },
        { "a = 1\na = 2", "2:1: the key is there already" },
        { "\n\n  x", "3:4: expected '=' after the key" },
        { "a = \"x\ny\"", "1:7: the string is not closed on its line" },
        { "a = \"\"\"x\ny", "2:2: the string is not closed" },
        { "a = \"\xc3\xa9\xc3\xa9\\q\"", "1:8: unknown escape in a string" },
        { "a = 1 b", "1:7: expected the end of the line" },
        { "a = [1\n\n 2]", "3:2: expected ',' or ']' in an array" },
        { "a = {b = 1 c = 2}", "1:12: expected ',' or '}' in an inline table" },
        { "[a]\n[a]", "2:1: the table is defined already" },
        { "[a", "1:3: expected ']' after the name of a table" },
        { "a = 9223372036854775808", "1:5: the integer does not fit in 64 bits" },
        { "x = 1\n\xc3\xa9y\xff", "2:3: not UTF-8" },
        { "# a\001", "1:4: control character in a comment" },
    };
    for (size_t i = 0; i < SG_COUNT(cases); i++) {
        struct sg_err err = { 0 };
        assert_null(sg_toml_parse(sg_str_of(cases[i][0]), &err));
        assert_string_equal(err.msg, cases[i][1]);
        assert_int_equal(err.kind, SG_INVALID);
    }
}

static void the_ends_of_the_integers_are_read(void **state)
{
    (void)state;
    sg_auto_toml doc = parse("a = 9223372036854775807\nb = -9223372036854775808");
    assert_true(sg_toml_find(sg_toml_root(doc), "a")->integer == INT64_MAX);
    assert_true(sg_toml_find(sg_toml_root(doc), "b")->integer == INT64_MIN);
}

/* "a = " and then `one` n times, `other` n times. */
static enum sg_kind kind_of_repeated(const char *one, const char *other, size_t n)
{
    sg_auto_buf text;
    sg_buf_init(&text, SG_TOML_MAX_BYTES + 64);
    sg_buf_add_str(&text, "a = ");
    for (size_t i = 0; i < n; i++)
        sg_buf_add_str(&text, one);
    for (size_t i = 0; i < n; i++)
        sg_buf_add_str(&text, other);
    struct sg_err err = { .kind = SG_OK };
    sg_auto_toml doc = sg_toml_parse((struct sg_str) { (char *)text.p, text.n }, &err);
    assert_true((doc == NULL) == (err.kind != SG_OK));
    return err.kind;
}

static void nesting_is_bounded(void **state)
{
    (void)state;
    assert_int_equal(kind_of_repeated("[", "]", SG_TOML_MAX_DEPTH), SG_OK);
    assert_int_equal(kind_of_repeated("[", "]", SG_TOML_MAX_DEPTH + 1), SG_EXHAUSTED);
    assert_int_equal(kind_of_repeated("[", "]", 400000), SG_EXHAUSTED);
    assert_int_equal(kind_of_repeated("{a = ", "}", 100000), SG_EXHAUSTED);
}

static enum sg_kind kind_of_lines(const char *line, size_t n)
{
    sg_auto_buf text;
    sg_buf_init(&text, SG_TOML_MAX_BYTES + 64);
    for (size_t i = 0; i < n; i++)
        sg_buf_addf(&text, "%s%zu = 1\n", line, i);
    struct sg_err err = { .kind = SG_OK };
    sg_auto_toml doc = sg_toml_parse((struct sg_str) { (char *)text.p, text.n }, &err);
    assert_true((doc == NULL) == (err.kind != SG_OK));
    return err.kind;
}

static void the_number_of_values_is_bounded(void **state)
{
    (void)state;
    assert_int_equal(kind_of_lines("k", SG_TOML_MAX_NODES - 1), SG_OK); /* the root is one */
    assert_int_equal(kind_of_lines("k", SG_TOML_MAX_NODES), SG_EXHAUSTED);
}

static void a_key_of_too_many_parts_is_refused(void **state)
{
    (void)state;
    assert_int_equal(kind_of_lines("a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a."
                                   "a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.k",
                                   1),
                     SG_OK);
    assert_int_equal(kind_of_lines("a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a."
                                   "a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.k",
                                   1),
                     SG_EXHAUSTED);
}

static void the_size_is_bounded(void **state)
{
    (void)state;
    sg_auto_free char *text = sg_alloc(SG_TOML_MAX_BYTES + 1);
    memset(text, '\n', SG_TOML_MAX_BYTES + 1);
    struct sg_err err = { 0 };
    sg_auto_toml fits = sg_toml_parse((struct sg_str) { text, SG_TOML_MAX_BYTES }, &err);
    assert_non_null(fits);
    assert_null(sg_toml_parse((struct sg_str) { text, SG_TOML_MAX_BYTES + 1 }, &err));
    assert_int_equal(err.kind, SG_EXHAUSTED);
}

static void an_empty_document_is_an_empty_table(void **state)
{
    (void)state;
    struct sg_err err;
    sg_auto_toml doc = sg_toml_parse((struct sg_str) { NULL, 0 }, &err);
    assert_non_null(doc);
    assert_null(sg_toml_root(doc)->first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_come_out_decoded_with_their_place),
        cmocka_unit_test(a_mistake_is_named_with_line_and_column),
        cmocka_unit_test(the_ends_of_the_integers_are_read),
        cmocka_unit_test(nesting_is_bounded),
        cmocka_unit_test(the_number_of_values_is_bounded),
        cmocka_unit_test(a_key_of_too_many_parts_is_refused),
        cmocka_unit_test(the_size_is_bounded),
        cmocka_unit_test(an_empty_document_is_an_empty_table),
    };
    return cmocka_run_group_tests_name("toml", tests, NULL, NULL);
}
