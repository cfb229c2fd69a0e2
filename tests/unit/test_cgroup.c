/* SPDX-License-Identifier: Apache-2.0 */
#include "check.h"

#include <string.h>

#include "base/auto.h"
#include "engine/cgroup.h"
#include "engine/cgroup_internal.h"
#include "base/banned.h"

static const struct {
    const char *what, *table, *controller, *path;
} rows[] = {
    { "v2", "0::/user.slice/a.scope\n", NULL, "/user.slice/a.scope" },
    { "v2 has no controllers", "0::/user.slice\n", "memory", "" },
    { "root needs no text", "4:memory:/\n", "memory", "" },
    { "v1", "4:memory:/a\n3:pids:/b\n", "pids", "/b" },
    { "joined controllers", "2:cpu,cpuacct:/c\n", "cpu", "/c" },
    { "second of a list", "2:cpuacct,cpu:/c\n", "cpu", "/c" },
    { "not a part of a name", "2:cpuacct:/x\n3:cpuset:/y\n", "cpu", "" },
    { "not the start of one", "2:cp:/x\n", "cpu", "" },
    { "hybrid", "1:cpu:/c\n0::/u\n", NULL, "/u" },
    { "named hierarchy is not v2", "1:name=systemd:/s\n", NULL, "" },
    { "colons in the path", "4:memory:/a:b\n", "memory", "/a:b" },
    { "no newline at the end", "4:memory:/a", "memory", "/a" },
    { "nothing", "", "memory", "" },
    { "nonsense", "memory\n::\n:\n\n4:memory\n", "memory", "" },
};

static void finds_our_own_group_in_every_kind_of_table(void **state)
{
    (void)state;
    for (size_t i = 0; i < SG_COUNT(rows); i++) {
        char path[64] = "?";
        sg_cgroup_own_path(rows[i].table, rows[i].controller, path, sizeof path);
        if (strcmp(path, rows[i].path) != 0)
            fail_msg("%s: '%s'", rows[i].what, path);
    }
}

static void path_that_does_not_fit_counts_as_unseen(void **state)
{
    (void)state;
    char path[5] = "?";
    sg_cgroup_own_path("4:memory:/abc\n", "memory", path, sizeof path);
    assert_string_equal(path, "/abc");
    sg_cgroup_own_path("4:memory:/abcd\n", "memory", path, sizeof path);
    assert_string_equal(path, "");
}

static void directories_are_named_by_their_slot_and_made_later(void **state)
{
    (void)state;
    const struct sg_ids ids = { .slot = 4095, .lock_fd = -1 };
    struct sg_cgroup g;
    sg_cgroup_init(&g, &ids);
    for (unsigned i = 0; i < g.dir_count; i++) {
        const char *name = strrchr(g.dirs[i], '/');
        assert_true(name ? strcmp(name, "/sandglass-4095") == 0 : g.missing != 0);
    }
    for (unsigned i = 0; i < SG_CTRL_COUNT; i++) {
        assert_int_equal(g.dir_fds[i], -1);
        assert_int_equal(g.join_fds[i], -1);
    }
}

static void usage_without_controllers_is_unknown_and_not_zero(void **state)
{
    (void)state;
    struct sg_cgroup g = { .dir_fds = { -1, -1, -1 }, .join_fds = { -1, -1, -1 } };
    struct sg_usage u;
    struct sg_err err = { 0 };
    for (unsigned v2 = 0; v2 < 2; v2++) {
        g.is_v2 = v2;
        assert_ok(sg_cgroup_usage(&g, &u, &err), err);
        assert_true(u.mem_peak_bytes == SG_UNKNOWN && u.pids_peak == SG_UNKNOWN);
        assert_true(u.cpu_ns == SG_UNKNOWN);
        assert_int_equal(u.oom_kills, 0);
    }
}

static void controllers_have_the_names_of_the_kernel(void **state)
{
    (void)state;
    assert_string_equal(sg_controller_name(SG_CTRL_MEMORY), "memory");
    assert_string_equal(sg_controller_name(SG_CTRL_CPU), "cpu");
    assert_string_equal(sg_controller_name(SG_CTRL_PIDS), "pids");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_our_own_group_in_every_kind_of_table),
        cmocka_unit_test(path_that_does_not_fit_counts_as_unseen),
        cmocka_unit_test(directories_are_named_by_their_slot_and_made_later),
        cmocka_unit_test(usage_without_controllers_is_unknown_and_not_zero),
        cmocka_unit_test(controllers_have_the_names_of_the_kernel),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
