/* SPDX-License-Identifier: Apache-2.0 */
/* Secrets: what goes in is sealed, known when it is stored, and somebody else's is not there. */
#include "manager_rig.h"

#include "manager/secret.h"
#include "seal/seal.h"
#include "base/banned.h"

struct answer {
    unsigned calls;
    struct sg_err err;
    uint64_t version;
    char sealed[1024];
};

static struct sg_seal_key private, public;

static void note(void *arg, const struct sg_secret *s, const struct sg_err *err)
{
    struct answer *a = arg;
    a->calls++;
    if (err) {
        a->err = *err;
        return;
    }
    a->version = s->version;
    (void)snprintf(a->sealed, sizeof a->sealed, "%s", s->sealed);
}

static void note_end(void *arg, const struct sg_err *err)
{
    struct answer *a = arg;
    a->calls++;
    if (err)
        a->err = *err;
}

static struct sg_secret_spec spec_of(const char *name, const char *value)
{
    return (struct sg_secret_spec) { .name = name, .value = sg_str_of(value) };
}

static enum sg_kind create(struct rig *r, const char *name, const char *value)
{
    struct answer a = { 0 };
    struct sg_err err = { 0 };
    const struct sg_secret_spec spec = spec_of(name, value);
    if (sg_secret_create(r->m, &r->who, &spec, note, &a, &err) < 0)
        return err.kind;
    rig_until(r, a.calls);
    return a.err.kind;
}

static int with_key(void **state)
{
    struct sg_err err;
    assert_ok(sg_seal_make_key(&private, &err), err);
    assert_ok(sg_seal_public(&private, &public, &err), err);
    if (rig_setup(state))
        return -1;
    struct rig *r = *state;
    rig_stop_manager(r);
    r->o.seal_to = &public;
    rig_start_manager(r);
    return 0;
}

static void assert_opens(const struct sg_secret *s, const char *value)
{
    struct sg_err err;
    sg_auto_buf out;
    sg_auto_free char *context = sg_secret_context(s->org, &s->id, s->version);
    sg_buf_init(&out, 1024);
    assert_ok(sg_unseal(&private, sg_str_of(context), s->sealed, &out, &err), err);
    assert_string_equal(sg_buf_cstr(&out), value);
}

static bool has_text(void *arg, const struct sg_secret_row *r)
{
    assert_null(strstr(r->sealed, arg));
    assert_null(strstr(r->metadata, arg));
    return true;
}

static void a_value_is_sealed_in_memory_and_in_the_store(void **state)
{
    struct rig *r = *state;
    struct sg_err err;
    char value[] = "hunter2hunter2";
    assert_int_equal(create(r, "Key", value), SG_OK);
    const struct sg_secret *s = sg_secret_find(r->m, &r->who, "kEY", &err);
    assert_non_null(s);
    assert_string_equal(s->name, "key");
    assert_int_equal(s->version, 1);
    assert_opens(s, value);
    assert_ok(sg_store_each_secret(r->store, has_text, value, &err), err);
    assert_ptr_equal(sg_secret_find(r->m, &r->who, s->id.s, &err), s);
    assert_false(sg_secret_is_stale(r->m, s));
}

static void versions_follow_each_other_and_survive_a_restart(void **state)
{
    struct rig *r = *state;
    struct sg_err err;
    struct answer a[3] = { 0 };
    assert_int_equal(create(r, "k", "one"), SG_OK);
    struct sg_pair pair = { (char[]) { "team" }, (char[]) { "blue" } };
    struct sg_secret_spec two = spec_of("k", "two"), three = spec_of("k", "three");
    two.has_metadata = true, two.metadata = &pair, two.metadata_n = 1;
    assert_ok(sg_secret_update(r->m, &r->who, "k", &two, note, &a[0], &err), err);
    assert_ok(sg_secret_set(r->m, &r->who, &three, note, &a[1], &err), err); /* both under way */
    rig_until(r, a[0].calls && a[1].calls);
    assert_int_equal(a[0].version, 2);
    assert_int_equal(a[1].version, 3);
    rig_stop_manager(r);
    rig_start_manager(r);
    const struct sg_secret *s = sg_secret_find(r->m, &r->who, "k", &err);
    assert_non_null(s);
    assert_int_equal(s->version, 3);
    assert_opens(s, "three");
}

static void a_secret_that_is_removed_is_gone_at_once(void **state)
{
    struct rig *r = *state;
    struct sg_err err = { 0 };
    struct answer changed = { 0 }, gone = { 0 };
    assert_int_equal(create(r, "k", "one"), SG_OK);
    const struct sg_secret_spec two = spec_of("k", "two");
    assert_ok(sg_secret_update(r->m, &r->who, "k", &two, note, &changed, &err), err);
    assert_ok(sg_secret_remove(r->m, &r->who, "k", note_end, &gone, &err), err);
    assert_null(sg_secret_find(r->m, &r->who, "k", &err));
    assert_int_equal(err.kind, SG_NOT_FOUND);
    rig_until(r, changed.calls && gone.calls);
    assert_int_equal(changed.err.kind, SG_NOT_FOUND);
    assert_int_equal(gone.err.kind, SG_OK);
    assert_int_equal(sg_secret_remove(r->m, &r->who, "k", note_end, &gone, &err), -1);
    rig_stop_manager(r);
    rig_start_manager(r);
    assert_null(sg_secret_find(r->m, &r->who, "k", &err));
    assert_int_equal(create(r, "k", "again"), SG_OK);
}

static void names_and_sizes_have_rules(void **state)
{
    struct rig *r = *state;
    static const char *const bad[] = { "", "a{b", "a}b", "a\nb", "sec_x", "c0000000000000000000" };
    for (size_t i = 0; i < SG_COUNT(bad); i++)
        assert_int_equal(create(r, bad[i], "v"), SG_INVALID);
    assert_int_equal(create(r, "k", ""), SG_INVALID);
    sg_auto_free char *much = sg_alloc(SG_SEAL_MAX + 2);
    memset(much, 'x', SG_SEAL_MAX);
    assert_int_equal(create(r, "most", much), SG_OK);
    much[SG_SEAL_MAX] = 'x';
    assert_int_equal(create(r, "more", much), SG_INVALID);
    assert_int_equal(create(r, "MOST", "v"), SG_CONFLICT);
    r->who.scopes = SG_SCOPE_READ;
    assert_int_equal(create(r, "k", "v"), SG_DENIED);
}

static void two_creates_of_one_name_are_one(void **state)
{
    struct rig *r = *state;
    struct sg_err err = { 0 };
    struct answer a = { 0 };
    const struct sg_secret_spec spec = spec_of("k", "v");
    assert_ok(sg_secret_create(r->m, &r->who, &spec, note, &a, &err), err);
    assert_null(sg_secret_find(r->m, &r->who, "k", &err)); /* not before the disk has it */
    assert_int_equal(create(r, "K", "v"), SG_CONFLICT);
    rig_until(r, a.calls);
    assert_int_equal(a.err.kind, SG_OK);
}

static void pages_go_by_name_and_others_see_nothing(void **state)
{
    struct rig *r = *state;
    struct sg_err err = { 0 };
    static const char *const names[] = { "b", "a", "C" }, *const sorted[] = { "a", "b", "c" };
    for (size_t i = 0; i < SG_COUNT(names); i++)
        assert_int_equal(create(r, names[i], "v"), SG_OK);
    const struct sg_secret *s = NULL;
    for (size_t i = 0; i < SG_COUNT(sorted); i++) {
        s = sg_secret_after(r->m, &r->who, s ? s->name : NULL);
        assert_string_equal(s->name, sorted[i]);
    }
    assert_null(sg_secret_after(r->m, &r->who, s->name));
    struct sg_org other = { .id = sg_id_new('o') };
    struct sg_who who = { .org = &other, .scopes = SG_SCOPE_ALL };
    assert_null(sg_secret_after(r->m, &who, NULL));
    assert_null(sg_secret_find(r->m, &who, "a", &err));
    assert_null(sg_secret_find(r->m, &who, s->id.s, &err));
    assert_int_equal(sg_secret_remove(r->m, &who, "a", note_end, NULL, &err), -1);
    assert_int_equal(err.kind, SG_NOT_FOUND);
}

static void another_key_of_the_server_makes_them_stale(void **state)
{
    struct rig *r = *state;
    struct sg_err err;
    assert_int_equal(create(r, "k", "v"), SG_OK);
    rig_stop_manager(r);
    struct sg_seal_key fresh, fresh_public;
    assert_ok(sg_seal_make_key(&fresh, &err), err);
    assert_ok(sg_seal_public(&fresh, &fresh_public, &err), err);
    r->o.seal_to = &fresh_public;
    rig_start_manager(r);
    assert_true(sg_secret_is_stale(r->m, sg_secret_find(r->m, &r->who, "k", &err)));
    r->o.seal_to = &public; /* fresh_public ends with us */
    rig_stop_manager(r);
    rig_start_manager(r);
}

int main(void)
{
#define SECRET_TEST(f) cmocka_unit_test_setup_teardown(f, with_key, rig_teardown)
    const struct CMUnitTest tests[] = {
        SECRET_TEST(a_value_is_sealed_in_memory_and_in_the_store),
        SECRET_TEST(versions_follow_each_other_and_survive_a_restart),
        SECRET_TEST(a_secret_that_is_removed_is_gone_at_once),
        SECRET_TEST(names_and_sizes_have_rules),
        SECRET_TEST(two_creates_of_one_name_are_one),
        SECRET_TEST(pages_go_by_name_and_others_see_nothing),
        SECRET_TEST(another_key_of_the_server_makes_them_stale),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
