/* SPDX-License-Identifier: Apache-2.0 */
/* Volumes: rows before effects, nothing left by halves, quotas, and mounts as a part of a create.
 */
#include "manager_rig.h"

#include "manager/volume.h"
#include "base/banned.h"

struct answer {
    unsigned calls;
    struct sg_err err;
    struct sg_sandbox *sandbox;
};

static void note(void *arg, const struct sg_volume *v, const struct sg_err *err)
{
    struct answer *a = arg;
    a->calls++;
    assert_true(!v == !!err);
    if (err)
        a->err = *err;
}

static void note_end(void *arg, const struct sg_err *err)
{
    struct answer *a = arg;
    a->calls++;
    if (err)
        a->err = *err;
}

static void note_sandbox(void *arg, struct sg_sandbox *s, const struct sg_err *err)
{
    struct answer *a = arg;
    a->calls++;
    a->sandbox = s;
    if (err)
        a->err = *err;
}

static int with_pool(void **state)
{
    if (rig_setup(state))
        return -1;
    struct rig *r = *state;
    rig_stop_manager(r);
    r->has_pool = true;
    rig_start_manager(r);
    return 0;
}

static enum sg_kind make(struct rig *r, const char *name, uint64_t bytes)
{
    struct answer a = { 0 };
    struct sg_err err = { 0 };
    if (sg_volume_create(r->m, &r->who, name, bytes, note, &a, &err) < 0)
        return err.kind;
    rig_until(r, a.calls);
    return a.err.kind;
}

static enum sg_kind unmake(struct rig *r, const char *name, bool force)
{
    struct answer a = { 0 };
    struct sg_err err = { 0 };
    if (sg_volume_remove(r->m, &r->who, name, force, note_end, &a, &err) < 0)
        return err.kind;
    rig_until(r, a.calls);
    return a.err.kind;
}

static bool count_row(void *arg, const struct sg_volume_row *v)
{
    (void)v;
    ++*(unsigned *)arg;
    return true;
}

static unsigned rows(struct rig *r)
{
    unsigned n = 0;
    struct sg_err err;
    rig_flush(r);
    assert_ok(sg_store_each_volume(r->store, count_row, &n, &err), err);
    return n;
}

static void a_volume_is_made_found_and_removed(void **state)
{
    struct rig *r = *state;
    struct sg_err err;
    assert_int_equal(make(r, "data", 0), SG_OK);
    const struct sg_volume *v = sg_volume_find(r->m, &r->who, "data", &err);
    assert_non_null(v);
    assert_ptr_equal(sg_volume_find(r->m, &r->who, v->id.s, &err), v);
    assert_ptr_equal(sg_volume_by_token(r->m, v->token), v);
    assert_null(sg_volume_by_token(r->m, v->id.s));
    assert_int_equal(r->who.org->disk_bytes, SG_VOLUME_BYTES);
    assert_int_equal(make(r, "data", 0), SG_CONFLICT);
    rig_stop_manager(r);
    rig_start_manager(r);
    assert_non_null(sg_volume_find(r->m, &r->who, "data", &err));
    assert_int_equal(r->who.org->disk_bytes, SG_VOLUME_BYTES);
    assert_int_equal(unmake(r, "data", false), SG_OK);
    assert_int_equal(r->asked[SG_MSG_L_VOLUME_REMOVE], 1);
    assert_int_equal(r->who.org->disk_bytes, 0);
    assert_int_equal(rows(r), 0);
    assert_int_equal(unmake(r, "data", false), SG_NOT_FOUND);
}

static enum sg_kind resize(struct rig *r, const char *name, uint64_t bytes)
{
    struct answer a = { 0 };
    struct sg_err err = { 0 };
    if (sg_volume_resize(r->m, &r->who, name, bytes, note, &a, &err) < 0)
        return err.kind;
    rig_until(r, a.calls);
    return a.err.kind;
}

static void a_size_that_is_refused_leaves_what_was_counted(void **state)
{
    struct rig *r = *state;
    const uint64_t mib = UINT64_C(1) << 20;
    assert_int_equal(make(r, "data", 8 * mib), SG_OK);
    assert_int_equal(resize(r, "data", 16 * mib), SG_OK);
    assert_int_equal(r->who.org->disk_bytes, 16 * mib);
    r->fails[SG_MSG_L_VOLUME_LIMIT] = 2;
    r->fail_kind = SG_CONFLICT;
    assert_int_equal(resize(r, "data", 4 * mib), SG_CONFLICT);
    assert_int_equal(resize(r, "data", 32 * mib), SG_CONFLICT);
    assert_int_equal(r->who.org->disk_bytes, 16 * mib);
    assert_int_equal(resize(r, "data", 4 * mib), SG_OK);
    assert_int_equal(r->who.org->disk_bytes, 4 * mib);
    assert_int_equal(resize(r, "none", 4 * mib), SG_NOT_FOUND);
    assert_int_equal(resize(r, "data", 1), SG_INVALID);
    r->who.org->quota.disk_bytes = 8 * mib;
    assert_int_equal(resize(r, "data", 9 * mib), SG_EXHAUSTED);
    assert_int_equal(resize(r, "data", 8 * mib), SG_OK);
    assert_int_equal(unmake(r, "data", false), SG_OK);
    assert_int_equal(r->who.org->disk_bytes, 0);
}

static void one_that_cannot_be_made_leaves_nothing(void **state)
{
    struct rig *r = *state;
    r->fails[SG_MSG_L_VOLUME_MAKE] = 1;
    r->fail_kind = SG_EXHAUSTED;
    assert_int_equal(make(r, "data", 0), SG_EXHAUSTED);
    assert_int_equal(r->asked[SG_MSG_L_VOLUME_REMOVE], 1);
    assert_int_equal(rows(r), 0);
    assert_int_equal(r->who.org->disk_bytes, 0);
    assert_int_equal(make(r, "data", 0), SG_OK);
}

static void what_a_crash_left_by_halves_is_removed(void **state)
{
    struct rig *r = *state;
    struct sg_err err;
    assert_int_equal(make(r, "data", 0), SG_OK);
    r->fails[SG_MSG_L_VOLUME_REMOVE] = 1;
    assert_int_not_equal(unmake(r, "data", false), SG_OK);
    assert_null(sg_volume_find(r->m, &r->who, "data", &err)); /* neither here nor there */
    assert_int_equal(rows(r), 1);
    rig_stop_manager(r);
    rig_start_manager(r);
    rig_until(r, !r->m->volumes);
    assert_int_equal(rows(r), 0);
    assert_int_equal(r->who.org->disk_bytes, 0);
}

static void a_quota_counts_volumes(void **state)
{
    struct rig *r = *state;
    r->who.org->quota.disk_bytes = 3 << 20;
    assert_int_equal(make(r, "a", 2 << 20), SG_OK);
    assert_int_equal(make(r, "b", 2 << 20), SG_EXHAUSTED);
    assert_int_equal(make(r, "b", 1 << 20), SG_OK);
    r->who.org->quota.disk_bytes = 0;
    r->who.scopes = SG_SCOPE_READ;
    assert_int_equal(make(r, "c", 0), SG_DENIED);
}

static struct answer create_with(struct rig *r, const struct sg_mount_spec *mounts, size_t n)
{
    struct answer a = { 0 };
    const struct sg_create c = {
        .template = "base", .timeout_ms = UINT64_MAX, .mounts = mounts, .mounts_n = n
    };
    if (sg_manager_create(r->m, &r->who, &c, note_sandbox, &a, &a.err) == 0)
        rig_until(r, a.calls);
    return a;
}

static void mounts_are_there_before_the_row_says_running(void **state)
{
    struct rig *r = *state;
    const struct sg_mount_spec mounts[] = { { "a", "/mnt/a", false }, { "b", "/mnt/b", true } };
    assert_int_equal(make(r, "a", 0), SG_OK);
    assert_int_equal(make(r, "b", 0), SG_OK);
    r->looks_into_store = true;
    struct answer a = create_with(r, mounts, 2);
    assert_int_equal(a.err.kind, SG_OK);
    assert_int_equal(r->asked[SG_MSG_L_MOUNT], 2);
    assert_string_equal(r->row_seen[SG_MSG_L_MOUNT], "creating");
    assert_int_equal(unmake(r, "a", false), SG_CONFLICT);
    rig_stop_manager(r);
    rig_start_manager(r);
    assert_int_equal(unmake(r, "b", false), SG_CONFLICT); /* a restart knows it, too */
    assert_int_equal(unmake(r, "b", true), SG_OK);
    (void)rig_do(r, sg_manager_destroy, r->m->newest);
    assert_int_equal(unmake(r, "a", false), SG_OK);
}

static void a_mount_that_fails_is_a_create_that_fails(void **state)
{
    struct rig *r = *state;
    const struct sg_mount_spec mounts[] = { { "a", "/mnt/a", false } };
    assert_int_equal(make(r, "a", 0), SG_OK);
    r->fails[SG_MSG_L_MOUNT] = 1;
    r->fail_kind = SG_INVALID;
    assert_int_equal(create_with(r, mounts, 1).err.kind, SG_INVALID);
    assert_null(r->m->newest);
    assert_int_equal(r->cell_count, 0);
    assert_int_equal(unmake(r, "a", false), SG_OK);
}

static void places_have_rules(void **state)
{
    struct rig *r = *state;
    static const char *const bad[] = { "",      "/",      "x",   "/a/..",        "/a//b",
                                       "/proc", "/dev/x", "/a/", "/.sandglass/x" };
    assert_int_equal(make(r, "a", 0), SG_OK);
    for (size_t i = 0; i < SG_COUNT(bad); i++) {
        const struct sg_mount_spec one = { "a", bad[i], false };
        assert_int_equal(create_with(r, &one, 1).err.kind, SG_INVALID);
    }
    const struct sg_mount_spec none = { "none", "/a", false };
    assert_int_equal(create_with(r, &none, 1).err.kind, SG_INVALID);
    const struct sg_mount_spec twice[] = { { "a", "/x", false }, { "a", "/x/y", false } };
    assert_int_equal(create_with(r, twice, 2).err.kind, SG_INVALID);
    assert_null(r->m->newest);
}

static void our_own_sandbox_is_nobodys(void **state)
{
    struct rig *r = *state;
    struct sg_err err;
    struct answer a = { 0 }, b = { 0 };
    assert_int_equal(make(r, "a", 0), SG_OK);
    struct sg_volume *v = sg_volume_find(r->m, &r->who, "a", &err);
    assert_ok(sg_volume_visit(r->m, v, note_sandbox, &a, &err), err);
    assert_ok(sg_volume_visit(r->m, v, note_sandbox, &b, &err), err);
    rig_until(r, a.calls && b.calls);
    assert_non_null(a.sandbox);
    assert_ptr_equal(a.sandbox, b.sandbox);
    assert_int_equal(r->asked[SG_MSG_L_CREATE], 1);
    assert_null(sg_manager_find(r->m, &r->who, a.sandbox->id.s, &err));
    struct sg_sandbox *found[4];
    bool has_more;
    const struct sg_list_query q = { .limit = 4 };
    assert_int_equal(sg_manager_list(r->m, &r->who, &q, found, &has_more), 0);
    assert_int_equal(r->who.org->sandboxes, 0);
    assert_string_equal(rig_row(r, a.sandbox->id.s).state, "creating");
    rig_stop_manager(r); /* the next start knows that nobody was told */
    rig_start_manager(r);
    rig_until(r, r->cell_count == 0 && !r->m->newest);
    assert_int_equal(r->who.org->sandboxes, 0);
    assert_int_equal(unmake(r, "a", false), SG_OK);
}

int main(void)
{
#define VOLUME_TEST(f) cmocka_unit_test_setup_teardown(f, with_pool, rig_teardown)
    const struct CMUnitTest tests[] = {
        VOLUME_TEST(a_volume_is_made_found_and_removed),
        VOLUME_TEST(a_size_that_is_refused_leaves_what_was_counted),
        VOLUME_TEST(one_that_cannot_be_made_leaves_nothing),
        VOLUME_TEST(what_a_crash_left_by_halves_is_removed),
        VOLUME_TEST(a_quota_counts_volumes),
        VOLUME_TEST(mounts_are_there_before_the_row_says_running),
        VOLUME_TEST(a_mount_that_fails_is_a_create_that_fails),
        VOLUME_TEST(places_have_rules),
        VOLUME_TEST(our_own_sandbox_is_nobodys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
