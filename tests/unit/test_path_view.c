/* SPDX-License-Identifier: Apache-2.0 */
/* Paths of a view: whatever is in it, and however a path is written, nothing leads out. */
#include "init/path.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/str.h"
#include "check.h"
#include "base/banned.h"

static char root[64], view[80], outside[80];

static void put(const char *dir, const char *name, const char *text)
{
    sg_auto_free char *path = sg_printf("%s/%s", dir, name);
    sg_auto_fd fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
}

static int set_up(void **state)
{
    (void)state;
    (void)snprintf(root, sizeof root, "/tmp/sg-view-XXXXXX");
    assert_non_null(mkdtemp(root));
    (void)snprintf(view, sizeof view, "%s/view", root);
    (void)snprintf(outside, sizeof outside, "%s/outside", root);
    assert_int_equal(mkdir(view, 0700), 0);
    assert_int_equal(mkdir(outside, 0700), 0);
    put(outside, "f", "secret");
    put(view, "f", "inside");
    sg_path_confine(view);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    sg_path_confine(NULL);
    const int pid = fork();
    if (pid == 0) {
        execl("/bin/rm", "rm", "-rf", root, (char *)NULL);
        _exit(127);
    }
    return pid < 0 ? -1 : 0;
}

static void link_to(const char *target, const char *name)
{
    sg_auto_free char *path = sg_printf("%s/%s", view, name);
    assert_int_equal(symlink(target, path), 0);
}

/* What is read there, or "" where nothing is. */
static const char *content(const char *path)
{
    static char text[16];
    struct sg_err err;
    memset(text, 0, sizeof text);
    sg_auto_fd fd = sg_path_open(sg_text_of(path), O_RDONLY, 0, &err);
    if (fd >= 0)
        assert_true(read(fd, text, sizeof text - 1) >= 0);
    return text;
}

static void the_view_is_the_root_of_every_path(void **state)
{
    (void)state;
    static const char *const rows[] = { "/f", "f", "./f", "/../f", "../../../f", "/../../f" };
    for (size_t i = 0; i < SG_COUNT(rows); i++)
        assert_string_equal(content(rows[i]), "inside");
    assert_string_equal(content("/../outside/f"), "");
    assert_string_equal(content("/etc/passwd"), "");
    assert_string_equal(content(outside), "");
}

static void no_link_leads_out(void **state)
{
    (void)state;
    sg_auto_free char *file = sg_printf("%s/f", outside);
    link_to(file, "absolute");
    link_to("../outside/f", "relative");
    link_to("../outside", "dir");
    link_to("/f", "own");
    link_to("/proc/self/root/etc/passwd", "magic");
    assert_string_equal(content("/absolute"), "");
    assert_string_equal(content("/relative"), "");
    assert_string_equal(content("/dir/f"), "");
    assert_string_equal(content("/magic"), "");
    assert_string_equal(content("/own"), "inside");
}

static void what_is_made_is_made_inside(void **state)
{
    (void)state;
    struct sg_err err = { 0 };
    struct stat st;
    link_to("../outside", "dir");
    link_to(outside, "absolute");
    assert_int_equal(sg_path_make(sg_text_of("/dir/x"), 0700, &err), -1);
    assert_int_equal(sg_path_make(sg_text_of("/absolute/x"), 0700, &err), -1);
    assert_int_equal(sg_path_make(sg_text_of("/../x"), 0700, &err), -1);
    assert_ok(sg_path_make(sg_text_of("/a/b/c"), 0700, &err), err);
    sg_auto_free char *made = sg_printf("%s/a/b/c", view), *not = sg_printf("%s/x", outside);
    assert_int_equal(stat(made, &st), 0);
    assert_int_equal(stat(not, &st), -1);
    sg_auto_fd fd = sg_path_open(sg_text_of("/dir/f"), O_WRONLY | O_CREAT, 0600, &err);
    assert_int_equal(fd, -1);
    char name[SG_PATH_NAME_MAX + 1];
    sg_auto_fd parent = sg_path_open_parent(sg_text_of("/dir/f"), name, &err);
    assert_int_equal(parent, -1);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(the_view_is_the_root_of_every_path),
        TEST(no_link_leads_out),
        TEST(what_is_made_is_made_inside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
