/* SPDX-License-Identifier: Apache-2.0 */
/* A root as a hostile image could have prepared it:
 *
 *     out/secret          what must not be reached
 *     root/file           root/dir/inner
 *     root/up -> ..       root/rel -> dir     root/abs -> /dir
 *       root/away -> <out>    root/loop -> loop */
#include "check.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "sys/path.h"
#include "base/banned.h"

static char *top;
static int top_fd, root_fd;

static void make_file(const char *path, const char *text)
{
    sg_auto_fd fd = openat(top_fd, path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0 || write(fd, text, strlen(text)) < 0)
        abort();
}

static int setup(void **state)
{
    (void)state;
    top = sg_strdup("/tmp/test-path-XXXXXX");
    if (!mkdtemp(top))
        return -1;
    top_fd = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    sg_auto_free char *out = sg_printf("%s/out", top);
    int ret = mkdirat(top_fd, "root", 0755) | mkdirat(top_fd, "root/dir", 0755) |
              mkdirat(top_fd, "out", 0755) | symlinkat("..", top_fd, "root/up") |
              symlinkat("/dir", top_fd, "root/abs") | symlinkat("dir", top_fd, "root/rel") |
              symlinkat(out, top_fd, "root/away") | symlinkat("loop", top_fd, "root/loop");
    make_file("out/secret", "secret");
    make_file("root/file", "file");
    make_file("root/dir/inner", "inner");
    root_fd = openat(top_fd, "root", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return ret < 0 || root_fd < 0 ? -1 : 0;
}

static int teardown(void **state)
{
    (void)state;
    static const char *const files[] = { "out/secret", "root/dir/inner", "root/file",
                                         "root/up",    "root/abs",       "root/away",
                                         "root/loop",  "root/n/f",       "root/rel" };
    static const char *const dirs[] = { "root/dir/x", "root/dir", "root/n/m", "root/n",
                                        "root/tmp",   "root",     "out" };
    for (size_t i = 0; i < SG_COUNT(files); i++)
        (void)unlinkat(top_fd, files[i], 0);
    for (size_t i = 0; i < SG_COUNT(dirs); i++)
        (void)unlinkat(top_fd, dirs[i], AT_REMOVEDIR);
    (void)close(root_fd);
    (void)close(top_fd);
    int ret = rmdir(top);
    free(top);
    return ret;
}

static void links_and_dots_resolve_inside(void **state)
{
    (void)state;
    static const char *const same[] = { "dir/inner", "/dir/inner",         "../dir/inner",
                                        "abs/inner", "up/../../dir/inner", "up/dir/inner" };
    for (size_t i = 0; i < SG_COUNT(same); i++) {
        struct sg_err err = { 0 };
        char text[8] = "";
        sg_auto_fd fd = sg_open_in(root_fd, same[i], O_RDONLY, 0, &err);
        if (fd < 0)
            fail_msg("%s: %s", same[i], err.msg);
        assert_int_equal(read(fd, text, sizeof text), 5);
        assert_string_equal(text, "inner");
        assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
    }
}

static void nothing_leads_outside(void **state)
{
    (void)state;
    static const char *const paths[] = { "../out/secret", "up/out/secret", "away/secret",
                                         "/proc/self/root/etc/passwd" };
    for (size_t i = 0; i < SG_COUNT(paths); i++) {
        struct sg_err err;
        assert_fails(sg_open_in(root_fd, paths[i], O_RDONLY, 0, &err), err, SG_NOT_FOUND);
    }
}

static void magic_links_are_refused(void **state)
{
    (void)state;
    struct sg_err err;
    sg_auto_fd slash = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    assert_true(sg_open_in(slash, "/proc/self/root", O_RDONLY, 0, &err) < 0);
    assert_true(sg_open_in(slash, "/proc/self/cwd", O_RDONLY, 0, &err) < 0);
}

static void beneath_refuses_every_link_and_every_way_up(void **state)
{
    (void)state;
    static const char *const paths[] = { "abs/inner", "rel/inner", "up",       "loop",
                                         "../out",    "/dir",      "dir/../.." };
    struct sg_err err = { 0 };
    for (size_t i = 0; i < SG_COUNT(paths); i++)
        if (sg_open_beneath(root_fd, paths[i], O_RDONLY, 0, &err) >= 0)
            fail_msg("%s was opened", paths[i]);
    sg_auto_fd fd = sg_open_beneath(root_fd, "dir/inner", O_RDONLY, 0, &err);
    assert_true(fd >= 0);
}

static void missing_directories_are_made_for_their_owner(void **state)
{
    (void)state;
    struct sg_err err = { 0 };
    struct stat st;
    sg_auto_fd fd = sg_make_dir_in(root_fd, "/n/m", getuid(), &err);
    if (fd < 0)
        fail_msg("%s", err.msg);
    assert_int_equal(fstatat(root_fd, "n/m", &st, AT_SYMLINK_NOFOLLOW), 0);
    assert_int_equal(st.st_mode, S_IFDIR | 0755);
    assert_int_equal(st.st_uid, getuid());
    sg_auto_fd again = sg_make_dir_in(root_fd, "n//m/", getuid(), &err);
    assert_true(again >= 0);
}

static void a_link_or_a_file_is_no_place_to_mount_on(void **state)
{
    (void)state;
    static const char *const dirs[] = {
        "abs", "abs/x", "up/x", "away/x", "loop", "file/x", "file"
    };
    struct sg_err err;
    for (size_t i = 0; i < SG_COUNT(dirs); i++) {
        assert_fails(sg_make_dir_in(root_fd, dirs[i], getuid(), &err), err, SG_INVALID);
        assert_non_null(strstr(err.msg, "not a real directory"));
    }
    static const char *const files[] = { "abs", "up", "away", "loop", "dir", "abs/inner" };
    for (size_t i = 0; i < SG_COUNT(files); i++)
        assert_fails(sg_make_file_in(root_fd, files[i], getuid(), &err), err, SG_INVALID);
    struct stat st;
    assert_int_equal(fstatat(top_fd, "out/x", &st, 0), -1);
    assert_int_equal(fstatat(top_fd, "root/dir/x", &st, 0), -1);
}

static void dots_and_nothing_are_not_plain_paths(void **state)
{
    (void)state;
    char long_name[300];
    memset(long_name, 'x', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = '\0';
    const char *const paths[] = { "", "/", "..", "../x", "n/../..", "n/./m", ".", long_name };
    for (size_t i = 0; i < SG_COUNT(paths); i++) {
        struct sg_err err;
        assert_fails(sg_make_dir_in(root_fd, paths[i], getuid(), &err), err, SG_INVALID);
        assert_fails(sg_make_file_in(root_fd, paths[i], getuid(), &err), err, SG_INVALID);
    }
}

static void a_file_to_mount_on_is_made_empty_or_left_as_it_is(void **state)
{
    (void)state;
    struct sg_err err = { 0 };
    struct stat st;
    sg_auto_fd made = sg_make_file_in(root_fd, "n/f", getuid(), &err);
    if (made < 0)
        fail_msg("%s", err.msg);
    assert_int_equal(fstat(made, &st), 0);
    assert_true(S_ISREG(st.st_mode) && st.st_size == 0);
    sg_auto_fd old = sg_make_file_in(root_fd, "dir/inner", getuid(), &err);
    assert_int_equal(fstat(old, &st), 0);
    assert_int_equal(st.st_size, 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(links_and_dots_resolve_inside),
        cmocka_unit_test(nothing_leads_outside),
        cmocka_unit_test(magic_links_are_refused),
        cmocka_unit_test(beneath_refuses_every_link_and_every_way_up),
        cmocka_unit_test(missing_directories_are_made_for_their_owner),
        cmocka_unit_test(a_link_or_a_file_is_no_place_to_mount_on),
        cmocka_unit_test(dots_and_nothing_are_not_plain_paths),
        cmocka_unit_test(a_file_to_mount_on_is_made_empty_or_left_as_it_is),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
