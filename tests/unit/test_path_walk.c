/* SPDX-License-Identifier: Apache-2.0 */
/* A path that is walked leads to where the kernel says that it does, and is refused where it is. */
#include "init/path.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "check.h"
#include "base/banned.h"

static char root[64];

static void link_to(const char *target, const char *name)
{
    sg_auto_free char *path = sg_printf("%s/%s", root, name);
    assert_int_equal(symlink(target, path), 0);
}

static int set_up(void **state)
{
    (void)state;
    (void)snprintf(root, sizeof root, "/tmp/sg-walk-XXXXXX");
    assert_non_null(mkdtemp(root));
    assert_int_equal(chdir(root), 0);
    assert_int_equal(mkdir("a", 0755), 0);
    assert_int_equal(mkdir("a/b", 0755), 0);
    (void)close(open("a/b/f", O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
    link_to("a/b", "dir");
    link_to("a/b/f", "file");
    link_to("loop", "loop");
    link_to("nowhere", "dangling");
    link_to("../dir/f", "a/up");
    link_to("/etc", "etc");
    link_to("/proc/self/fd/0", "magic");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    static const char *const names[] = { "a/b/new", "a/b/f",    "a/up", "dir",   "file",
                                         "loop",    "dangling", "etc",  "magic", "nowhere" };
    for (size_t i = 0; i < SG_COUNT(names); i++)
        (void)unlink(names[i]);
    (void)rmdir("a/b");
    (void)rmdir("a");
    (void)chdir("/");
    return rmdir(root);
}

static void agree(const char *path, uint64_t flags, uint64_t resolve)
{
    const struct open_how how = { .flags = flags | O_CLOEXEC,
                                  .mode = flags & O_CREAT ? 0644 : 0,
                                  .resolve = resolve };
    struct stat a, b;
    const long kernel = syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how);
    const int why = kernel < 0 ? errno : 0;
    if (kernel >= 0 && flags & O_EXCL)
        (void)unlink(path);
    const int walked = sg_path_walk(AT_FDCWD, path, &how);
    const int own = walked < 0 ? errno : 0;
    if (own != why)
        fail_msg("%s (%llo): the kernel says %d, the walk %d", path, (unsigned long long)flags, why,
                 own);
    if (kernel < 0)
        return;
    assert_int_equal(fstat((int)kernel, &a), 0);
    assert_int_equal(fstat(walked, &b), 0);
    if (!(flags & O_EXCL))
        assert_true(a.st_ino == b.st_ino && a.st_dev == b.st_dev);
    (void)close((int)kernel);
    (void)close(walked);
}

static void a_walk_ends_where_the_kernel_s_does(void **state)
{
    static const char *const paths[] = {
        "a",
        "a/b/f",
        "a//b///f",
        "a/b/",
        "a/b/f/",
        "a/b/f/x",
        "none",
        "a/none/x",
        "dir",
        "dir/",
        "dir/f",
        "file",
        "file/",
        "loop",
        "loop/x",
        "dangling",
        "a/up",
        "a/../a",
        "..",
        ".",
        "a/.",
        "etc",
        "etc/passwd",
        "/etc/passwd",
        "/",
        "//tmp//",
        "a/b/../../dir/f",
        "magic",
        "/proc/self/fd/0",
        "/proc/self/exe",
        "/proc/self/root/etc",
        "/proc/self/status",
        "/proc/mounts",
        "/proc/self/cwd",
    };
    static const uint64_t flags[] = { O_PATH, O_RDONLY, O_RDONLY | O_DIRECTORY, O_PATH | O_NOFOLLOW,
                                      O_RDONLY | O_NOFOLLOW };
    (void)state;
    for (size_t i = 0; i < SG_COUNT(paths); i++)
        for (size_t k = 0; k < SG_COUNT(flags); k++)
            agree(paths[i], flags[k], RESOLVE_NO_MAGICLINKS);
}

static void beneath_means_beneath_and_through_no_link(void **state)
{
    static const char *const paths[] = { "a",    "a/b/f", "a/../a", "..", "dir", "dir/f",
                                         "file", "/etc",  "a/up",   ".",  "none" };
    (void)state;
    for (size_t i = 0; i < SG_COUNT(paths); i++) {
        const struct open_how how = { .flags = O_PATH | O_CLOEXEC,
                                      .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS };
        sg_auto_fd kernel = (int)syscall(SYS_openat2, AT_FDCWD, paths[i], &how, sizeof how);
        sg_auto_fd walked = sg_path_walk(AT_FDCWD, paths[i], &how);
        /* ".." within is refused here, where the kernel would count: init never writes it. */
        if (kernel < 0 || !strstr(paths[i], ".."))
            assert_int_equal(kernel < 0, walked < 0);
    }
}

static void files_are_made_and_found(void **state)
{
    (void)state;
    agree("a/b/new", O_WRONLY | O_CREAT | O_EXCL, RESOLVE_NO_MAGICLINKS);
    agree("a/b/f", O_WRONLY | O_CREAT | O_EXCL, RESOLVE_NO_MAGICLINKS);
    agree("dangling", O_WRONLY | O_CREAT | O_EXCL, RESOLVE_NO_MAGICLINKS);
    agree("dir/f", O_WRONLY | O_CREAT, RESOLVE_NO_MAGICLINKS);
}

static void what_is_too_long_is_refused(void **state)
{
    char name[300], path[SG_CTL_MAX_PATH + 10];
    const struct open_how how = { .flags = O_PATH, .resolve = RESOLVE_NO_MAGICLINKS };
    (void)state;
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    assert_int_equal(sg_path_walk(AT_FDCWD, name, &how), -1);
    assert_int_equal(errno, ENAMETOOLONG);
    memset(path, '/', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    assert_int_equal(sg_path_walk(AT_FDCWD, path, &how), -1);
    assert_int_equal(sg_path_walk(AT_FDCWD, "", &how), -1);
    assert_int_equal(errno, ENOENT);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_walk_ends_where_the_kernel_s_does),
        TEST(beneath_means_beneath_and_through_no_link),
        TEST(files_are_made_and_found),
        TEST(what_is_too_long_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
