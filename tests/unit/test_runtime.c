/* SPDX-License-Identifier: Apache-2.0 */
/* engine/runtime: what an OCI runtime is told. That it runs is shown by tests/integration. */
#include <string.h>

#include "base/auto.h"
#include "check.h"
#include "engine/runtime.h"
#include "base/banned.h"

static void names_the_platform_and_the_network_before_the_command(void **state)
{
    (void)state;
    char own[] = "--debug";
    char *const arguments[] = { own };
    const struct sg_runtime r = { .path = "/usr/bin/runsc",
                                  .platform = "systrap",
                                  .arguments = arguments,
                                  .argument_count = 1,
                                  .has_gate = true };
    sg_auto_free char *command = sg_runtime_command(&r);
    assert_string_equal(
        command,
        "/runtime\n--ignore-cgroups\n--root=/run/runtime\n--overlay2=none\n--network=host\n"
        "--platform=systrap\n--debug\nrun\n--bundle=/bundle\nsandbox\n");
}

static void tells_others_nothing_of_gvisor(void **state)
{
    (void)state;
    const struct sg_runtime r = { .path = "/usr/bin/crun", .platform = "kvm" };
    sg_auto_free char *command = sg_runtime_command(&r);
    assert_null(strstr(command, "platform"));
    assert_null(strstr(command, "--network"));
    assert_false(sg_runtime_is_gvisor(r.path));
}

static void gives_the_device_to_its_platform_alone(void **state)
{
    (void)state;
    const struct sg_cell_spec spec = { .hostname = "sandbox" };
    for (unsigned i = 0; i < SG_PLATFORM_COUNT; i++) {
        const struct sg_runtime r = { .path = "/usr/bin/runsc", .platform = sg_platforms[i] };
        struct sg_nested nested;
        struct sg_err err;
        sg_auto_buf text;
        sg_buf_init(&text, 64 << 10);
        assert_int_equal(sg_runtime_fill(&r, "", -1, &spec, &text, &nested, &err), 0);
        assert_int_equal(nested.has_kvm, strcmp(sg_platforms[i], "kvm") == 0);
    }
}

static void finds_programs_by_name_and_by_path(void **state)
{
    (void)state;
    sg_auto_free char *by_name = sg_runtime_find("env");
    sg_auto_free char *by_path = sg_runtime_find("/bin/sh");
    assert_string_equal(by_name, "/usr/bin/env");
    assert_string_equal(by_path, "/bin/sh");
    assert_null(sg_runtime_find("no-such-program"));
    assert_null(sg_runtime_find("/no/such/program"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_the_platform_and_the_network_before_the_command),
        cmocka_unit_test(tells_others_nothing_of_gvisor),
        cmocka_unit_test(gives_the_device_to_its_platform_alone),
        cmocka_unit_test(finds_programs_by_name_and_by_path),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
