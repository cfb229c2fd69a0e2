/* SPDX-License-Identifier: Apache-2.0 */
#include "seal/seal.h"

#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "check.h"
#include "base/banned.h"

struct pair {
    struct sg_seal_key private, public;
};

static struct pair make_pair(void)
{
    struct pair p;
    struct sg_err err;
    assert_ok(sg_seal_make_key(&p.private, &err), err);
    assert_ok(sg_seal_public(&p.private, &p.public, &err), err);
    return p;
}

static char *seal(const struct pair *p, const char *context, const char *value)
{
    struct sg_err err;
    char *sealed = sg_seal(&p->public, sg_str_of(context), sg_str_of(value), &err);
    assert_non_null(sealed);
    return sealed;
}

static enum sg_kind open_kind(const struct pair *p, const char *context, const char *sealed)
{
    struct sg_err err = { 0 };
    sg_auto_buf out;
    sg_buf_init(&out, SG_SEAL_MAX);
    if (sg_unseal(&p->private, sg_str_of(context), sealed, &out, &err) == 0)
        return SG_OK;
    assert_int_equal(out.n, 0);
    return err.kind;
}

static void what_was_sealed_is_opened_by_the_private_key(void **state)
{
    (void)state;
    static const size_t sizes[] = { 0, 1, 2, 3, 100, SG_SEAL_MAX };
    struct pair p = make_pair();
    struct sg_err err;
    for (size_t i = 0; i < SG_COUNT(sizes); i++) {
        sg_auto_free char *value = sg_alloc(sizes[i] + 1);
        memset(value, 'v', sizes[i]);
        sg_auto_free char *sealed = seal(&p, "c", value);
        sg_auto_buf out;
        sg_buf_init(&out, SG_SEAL_MAX);
        assert_ok(sg_unseal(&p.private, sg_str_of("c"), sealed, &out, &err), err);
        assert_int_equal(out.n, sizes[i]);
        assert_memory_equal(sizes[i] ? (const char *)out.p : "", value, sizes[i]);
        assert_true(sg_seal_is_for(sealed, &p.public));
    }
}

static void nobody_else_opens_it(void **state)
{
    (void)state;
    struct pair p = make_pair(), other = make_pair();
    sg_auto_free char *sealed = seal(&p, "org/id/1", "the value");
    assert_null(strstr(sealed, "value"));
    assert_int_equal(open_kind(&other, "org/id/1", sealed), SG_DENIED);
    assert_false(sg_seal_is_for(sealed, &other.public));
    /* The public key is no private one. */
    struct pair confused = { .private = p.public };
    assert_int_equal(open_kind(&confused, "org/id/1", sealed), SG_DENIED);
}

static void a_box_in_another_place_stays_shut(void **state)
{
    (void)state;
    struct pair p = make_pair();
    sg_auto_free char *sealed = seal(&p, "org/id/1", "the value");
    assert_int_equal(open_kind(&p, "org/id/1", sealed), SG_OK);
    assert_int_equal(open_kind(&p, "org/id/2", sealed), SG_INVALID);
    assert_int_equal(open_kind(&p, "", sealed), SG_INVALID);
}

static void the_same_value_is_never_the_same_box(void **state)
{
    (void)state;
    struct pair p = make_pair();
    sg_auto_free char *a = seal(&p, "c", "v"), *b = seal(&p, "c", "v");
    assert_string_not_equal(a, b);
}

/* Every character but the last four, whose spare bits base64 does not look at. */
static void a_box_with_any_character_changed_stays_shut(void **state)
{
    (void)state;
    struct pair p = make_pair();
    sg_auto_free char *sealed = seal(&p, "c", "the value");
    for (size_t i = 0; i + 4 < strlen(sealed); i++) {
        const char was = sealed[i];
        sealed[i] = was == 'A' ? 'B' : 'A';
        assert_int_not_equal(open_kind(&p, "c", sealed), SG_OK);
        sealed[i] = was;
    }
    assert_int_equal(open_kind(&p, "c", sealed), SG_OK);
    sealed[strlen(sealed) - 4] = '\0';
    assert_int_not_equal(open_kind(&p, "c", sealed), SG_OK);
}

static void what_is_no_box_is_refused(void **state)
{
    (void)state;
    static const char *const rows[] = { "", "=", "====", "AQ==", "not base64 at all!!!", "AAAA" };
    struct pair p = make_pair();
    for (size_t i = 0; i < SG_COUNT(rows); i++)
        assert_int_equal(open_kind(&p, "c", rows[i]), SG_INVALID);
}

static void sealing_refuses_too_much_and_a_key_that_leads_nowhere(void **state)
{
    (void)state;
    struct pair p = make_pair();
    struct sg_err err = { 0 };
    sg_auto_free char *much = sg_alloc(SG_SEAL_MAX + 1);
    assert_null(
        sg_seal(&p.public, sg_str_of("c"), (struct sg_str) { much, SG_SEAL_MAX + 1 }, &err));
    assert_int_equal(err.kind, SG_EXHAUSTED);
    const struct sg_seal_key zero = { { 0 } };
    assert_null(sg_seal(&zero, sg_str_of("c"), sg_str_of("v"), &err));
    assert_int_equal(err.kind, SG_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_sealed_is_opened_by_the_private_key),
        cmocka_unit_test(nobody_else_opens_it),
        cmocka_unit_test(a_box_in_another_place_stays_shut),
        cmocka_unit_test(the_same_value_is_never_the_same_box),
        cmocka_unit_test(a_box_with_any_character_changed_stays_shut),
        cmocka_unit_test(what_is_no_box_is_refused),
        cmocka_unit_test(sealing_refuses_too_much_and_a_key_that_leads_nowhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
