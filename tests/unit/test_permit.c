/* SPDX-License-Identifier: Apache-2.0 */
#include "check.h"

#include <string.h>

#include "base/auto.h"
#include "launcher/permit.h"
#include "base/banned.h"

#define MIB      (1ull << 20)
#define ID       "sabcdefghij012345678"
#define VOLUME   "vabcdefghij012345678"
#define SNAPSHOT "tabcdefghij012345678"

static const struct sg_permit permit = { .least = { 4 * MIB, 10, 2, MIB, 0, false },
                                         .most = { 512 * MIB, 2000, 100, 256 * MIB, 0, false } };

static struct sg_msg create(const char *sandbox, const char *template)
{
    struct sg_msg m = { .type = SG_MSG_L_CREATE };
    m.l_create.sandbox = sg_text_of(sandbox);
    m.l_create.template = sg_text_of(template);
    return m;
}

static enum sg_kind judge(const struct sg_msg *m)
{
    struct sg_err err = { 0 };
    return sg_permit_check(&permit, true, m, &err) < 0 ? err.kind : SG_OK;
}

static void before_hello_nothing_is_permitted_but_hello(void **state)
{
    (void)state;
    for (unsigned type = 1; type < SG_MSG_TYPE_COUNT; type++) {
        struct sg_msg m = create(ID, "base");
        m.type = (enum sg_msg_type)type;
        if (type == SG_MSG_L_HELLO)
            m.l_hello = (struct sg_msg_l_hello) { .version = SG_CTL_VERSION };
        struct sg_err err = { 0 };
        const int got = sg_permit_check(&permit, false, &m, &err);
        if ((got == 0) != (type == SG_MSG_L_HELLO) || (got < 0 && err.kind != SG_DENIED))
            fail_msg("%s: %d", sg_msg_table[type].name, got);
    }
}

static enum sg_kind judge_volumes(enum sg_l_tier tier, const char *const *words)
{
    struct sg_msg m = create(ID, "base");
    struct sg_err err;
    sg_auto_buf store;
    char *list[64] = { NULL };
    for (size_t i = 0; words[i]; i++)
        list[i] = (char *)(uintptr_t)words[i];
    sg_buf_init(&store, 64 << 10);
    m.l_create.tier = tier;
    assert_int_equal(sg_texts_pack(list, &store, &m.l_create.mounts, &err), 0);
    return judge(&m);
}

static void volumes_of_a_create_are_whole_plain_and_of_that_tier_alone(void **state)
{
    (void)state;
    static const struct {
        enum sg_l_tier tier;
        enum sg_kind kind;
        const char *words[8];
    } rows[] = {
        { SG_L_TIER_GVISOR, SG_OK, { NULL } },
        { SG_L_TIER_GVISOR, SG_OK, { VOLUME, "/data", "rw", VOLUME, "/a/b", "ro" } },
        { SG_L_TIER_CELL, SG_INVALID, { VOLUME, "/data", "rw" } },
        { SG_L_TIER_DOCKER, SG_INVALID, { VOLUME, "/data", "rw" } },
        { SG_L_TIER_GVISOR, SG_INVALID, { VOLUME, "/data" } },
        { SG_L_TIER_GVISOR, SG_INVALID, { VOLUME, "/data", "wr" } },
        { SG_L_TIER_GVISOR, SG_INVALID, { VOLUME, "/a/../b", "rw" } },
        { SG_L_TIER_GVISOR, SG_INVALID, { VOLUME, "data", "rw" } },
        { SG_L_TIER_GVISOR, SG_INVALID, { "../x", "/data", "rw" } },
    };
    for (size_t i = 0; i < SG_COUNT(rows); i++)
        if (judge_volumes(rows[i].tier, rows[i].words) != rows[i].kind)
            fail_msg("row %zu", i);
}

static void every_question_of_the_table_has_a_row_and_nothing_else_has(void **state)
{
    (void)state;
    for (unsigned type = 1; type < SG_MSG_TYPE_COUNT; type++) {
        struct sg_msg m = create(ID, "base"); /* names are where all of them have theirs */
        m.type = (enum sg_msg_type)type;
        if (type == SG_MSG_L_HELLO)
            m.l_hello = (struct sg_msg_l_hello) { .version = SG_CTL_VERSION };
        if (type == SG_MSG_L_SNAPSHOT)
            m.l_snapshot = (struct sg_msg_l_snapshot) { sg_text_of(ID), sg_text_of(SNAPSHOT), 0 };
        if ((type >= SG_MSG_L_VOLUME_MAKE && type <= SG_MSG_L_VOLUME_USE) ||
            type == SG_MSG_L_VOLUME_LIMIT)
            m.l_volume = (struct sg_msg_l_volume) { sg_text_of(VOLUME), permit.least.disk_bytes };
        if (type == SG_MSG_L_MOUNT)
            m.l_mount = (struct sg_msg_l_mount) { sg_text_of(ID), sg_text_of(VOLUME),
                                                  sg_text_of("/mnt/v"), 0 };
        if (type == SG_MSG_L_FORGET)
            m.l_forget.snapshot = sg_text_of(SNAPSHOT);
        const bool is_asked = sg_msg_table[type].role == SG_ROLE_ASK;
        if (judge(&m) != (is_asked ? SG_OK : SG_DENIED))
            fail_msg("%s is judged as %s", sg_msg_table[type].name, sg_kind_name(judge(&m)));
    }
}

static void another_version_is_refused(void **state)
{
    (void)state;
    struct sg_msg m = { .type = SG_MSG_L_HELLO };
    m.l_hello.version = SG_CTL_VERSION + 1;
    assert_int_equal(judge(&m), SG_UNSUPPORTED);
}

static void names_are_ids_and_templates_never_paths(void **state)
{
    (void)state;
    static const char *const bad_ids[] = { "",
                                           "s",
                                           "../../etc",
                                           "sABCDEFGHIJ012345678",
                                           "xabcdefghij012345678",
                                           ID "9",
                                           "sabcdefghij01234567" };
    static const char *const bad_templates[] = { "",          "/",       "/etc", "a/b", "..",
                                                 ".new-1234", ".host-1", "Base", "a b", "base\n" };
    struct sg_msg m;
    for (size_t i = 0; i < SG_COUNT(bad_ids); i++) {
        m = create(bad_ids[i], "base");
        assert_int_equal(judge(&m), SG_INVALID);
        m = (struct sg_msg) { .type = SG_MSG_L_DESTROY };
        m.l_name.sandbox = sg_text_of(bad_ids[i]);
        assert_int_equal(judge(&m), SG_INVALID);
        m = (struct sg_msg) { .type = SG_MSG_L_SNAPSHOT };
        m.l_snapshot =
            (struct sg_msg_l_snapshot) { sg_text_of(bad_ids[i]), sg_text_of(SNAPSHOT), 0 };
        assert_int_equal(judge(&m), SG_INVALID);
        m.l_snapshot = (struct sg_msg_l_snapshot) { sg_text_of(ID), sg_text_of(bad_ids[i]), 0 };
        assert_int_equal(judge(&m), SG_INVALID);
        m = (struct sg_msg) { .type = SG_MSG_L_FORGET };
        m.l_forget.snapshot = sg_text_of(bad_ids[i]);
        assert_int_equal(judge(&m), SG_INVALID);
    }
    for (size_t i = 0; i < SG_COUNT(bad_templates); i++) {
        m = create(ID, bad_templates[i]);
        if (judge(&m) != SG_INVALID)
            fail_msg("template '%s' was taken", bad_templates[i]);
    }
    m = create(ID, "host");
    assert_int_equal(judge(&m), SG_OK);
    m = create(ID, "my-template_1.2");
    assert_int_equal(judge(&m), SG_OK);
}

static void limits_hold_at_both_ends_and_zero_is_the_usual(void **state)
{
    (void)state;
    static const struct {
        size_t offset;
        uint64_t least, most;
    } rows[] = {
        { offsetof(struct sg_msg, l_create.mem_bytes), 4 * MIB, 512 * MIB },
        { offsetof(struct sg_msg, l_create.cpu_milli), 10, 2000 },
        { offsetof(struct sg_msg, l_create.pids), 2, 100 },
        { offsetof(struct sg_msg, l_create.disk_bytes), MIB, 256 * MIB },
    };
    static const enum sg_msg_type types[] = { SG_MSG_L_CREATE, SG_MSG_L_LIMIT };
    for (size_t t = 0; t < SG_COUNT(types); t++)
        for (size_t i = 0; i < SG_COUNT(rows); i++) {
            struct sg_msg m = create(ID, "base");
            m.type = types[t];
            uint64_t *at = (uint64_t *)(void *)((char *)&m + rows[i].offset);
            const struct {
                uint64_t value;
                enum sg_kind kind;
            } tries[] = { { 0, SG_OK },
                          { 1, SG_INVALID },
                          { rows[i].least - 1, SG_INVALID },
                          { rows[i].least, SG_OK },
                          { rows[i].most, SG_OK },
                          { rows[i].most + 1, SG_EXHAUSTED },
                          { UINT64_MAX, SG_EXHAUSTED } };
            for (size_t k = 0; k < SG_COUNT(tries); k++) {
                *at = tries[k].value;
                assert_int_equal(judge(&m), tries[k].kind);
            }
        }
}

static void volumes_have_ids_sizes_and_plain_places(void **state)
{
    (void)state;
    static const char *const bad[] = { "",        "/",   "mnt",  "/mnt/", "//mnt", "/a//b",
                                       "/a/../b", "/..", "/a/.", "/./a",  "/a/..", "." };
    static const char *const good[] = { "/a", "/a/b", "/a/..b", "/.a/b.", "/..." };
    struct sg_msg m = { .type = SG_MSG_L_MOUNT };
    for (size_t i = 0; i < SG_COUNT(bad) + SG_COUNT(good); i++) {
        const bool is_good = i >= SG_COUNT(bad);
        const char *path = is_good ? good[i - SG_COUNT(bad)] : bad[i];
        m.l_mount =
            (struct sg_msg_l_mount) { sg_text_of(ID), sg_text_of(VOLUME), sg_text_of(path), 0 };
        if (judge(&m) != (is_good ? SG_OK : SG_INVALID))
            fail_msg("%s is judged as %s", path, sg_kind_name(judge(&m)));
    }
    m.l_mount.path = sg_text_of("/a");
    m.l_mount.volume = sg_text_of("../../etc");
    assert_int_equal(judge(&m), SG_INVALID);
    m = (struct sg_msg) { .type = SG_MSG_L_VOLUME_MAKE };
    m.l_volume = (struct sg_msg_l_volume) { sg_text_of(VOLUME), permit.least.disk_bytes - 1 };
    assert_int_equal(judge(&m), SG_INVALID);
    m.l_volume.bytes = permit.most.disk_bytes + 1;
    assert_int_equal(judge(&m), SG_INVALID);
    m = (struct sg_msg) { .type = SG_MSG_L_VOLUME_REMOVE };
    m.l_volume.volume = sg_text_of(ID);
    assert_int_equal(judge(&m), SG_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(before_hello_nothing_is_permitted_but_hello),
        cmocka_unit_test(volumes_of_a_create_are_whole_plain_and_of_that_tier_alone),
        cmocka_unit_test(every_question_of_the_table_has_a_row_and_nothing_else_has),
        cmocka_unit_test(another_version_is_refused),
        cmocka_unit_test(names_are_ids_and_templates_never_paths),
        cmocka_unit_test(limits_hold_at_both_ends_and_zero_is_the_usual),
        cmocka_unit_test(volumes_have_ids_sizes_and_plain_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
