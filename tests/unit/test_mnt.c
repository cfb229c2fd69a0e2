/* SPDX-License-Identifier: Apache-2.0 */
/* Mounts that are never attached: they go with their descriptors. */
#include "check.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "sys/mnt.h"
#include "base/banned.h"

static int tmpfs(uint64_t bytes, uint64_t inodes)
{
    struct sg_err err = { 0 };
    int fd = sg_mnt_tmpfs(bytes, inodes, 0, &err);
    if (fd < 0)
        fail_msg("%s", err.msg);
    return fd;
}

static int put(int dir, const char *name, const char *text)
{
    sg_auto_fd fd = openat(dir, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    return fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text) ? -errno : 0;
}

static void get(int dir, const char *name, char *ret, size_t cap)
{
    sg_auto_fd fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, ret, cap - 1);
    ret[n > 0 ? n : 0] = '\0';
}

static void a_tmpfs_is_full_at_its_size(void **state)
{
    (void)state;
    static char page[4096];
    sg_auto_fd mnt = tmpfs(64 * sizeof page, 100);
    sg_auto_fd fd = openat(mnt, "big", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    unsigned pages = 0;
    while (write(fd, page, sizeof page) == (ssize_t)sizeof page)
        pages++;
    assert_int_equal(errno, ENOSPC);
    assert_in_range(pages, 60, 64);
}

static void a_tmpfs_is_full_at_its_number_of_files(void **state)
{
    (void)state;
    sg_auto_fd mnt = tmpfs(1 << 20, 8);
    unsigned made = 0;
    int ret = 0;
    for (char name[] = "a"; ret == 0 && *name < 'z'; name[0]++) {
        ret = put(mnt, name, "");
        made += ret == 0;
    }
    assert_int_equal(ret, -ENOSPC);
    assert_in_range(made, 6, 8);
}

static void attributes_hold_for_the_mount_and_can_be_taken_back(void **state)
{
    (void)state;
    struct sg_err err = { 0 };
    sg_auto_fd mnt = tmpfs(1 << 20, 100);
    assert_ok(sg_mnt_attr(mnt, MOUNT_ATTR_RDONLY, 0, &err), err);
    assert_int_equal(put(mnt, "f", "x"), -EROFS);
    assert_ok(sg_mnt_attr(mnt, 0, MOUNT_ATTR_RDONLY, &err), err);
    assert_int_equal(put(mnt, "f", "x"), 0);
}

static void a_copy_has_attributes_of_its_own(void **state)
{
    (void)state;
    struct sg_err err = { 0 };
    char text[8];
    sg_auto_fd copy = sg_mnt_clone(AT_FDCWD, "/tmp", false, &err);
    assert_true(copy >= 0);
    assert_ok(sg_mnt_attr(copy, MOUNT_ATTR_RDONLY, 0, &err), err);
    assert_int_equal(put(copy, "sg-test-mnt", "x"), -EROFS);
    sg_auto_fd real = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(put(real, "sg-test-mnt", "x"), 0);
    get(copy, "sg-test-mnt", text, sizeof text);
    (void)unlinkat(real, "sg-test-mnt", 0);
    assert_string_equal(text, "x");
}

static void a_source_that_is_not_there_is_named(void **state)
{
    (void)state;
    struct sg_err err;
    assert_fails(sg_mnt_clone(AT_FDCWD, "/no/such/place", true, &err), err, SG_NOT_FOUND);
    assert_non_null(strstr(err.msg, "'/no/such/place'"));
}

static int open_dir(int dir, const char *name)
{
    if (mkdirat(dir, name, 0755) < 0)
        return -1;
    return openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* Two lower layers, the topmost first; a change goes to the upper one. */
static void check_overlay(int scratch, const int *lower, bool by_path)
{
    struct sg_err err = { 0 };
    struct sg_overlay o = { .fs_fd = -1 };
    char text[8];
    sg_auto_fd up = open_dir(scratch, "up"), work = open_dir(scratch, "wk");
    assert_true(up >= 0 && work >= 0);
    assert_ok(sg_overlay_begin(&o, up, work, by_path, &err), err);
    assert_true(o.by_path || !by_path);
    sg_auto_fd mnt = sg_overlay_finish(&o, lower, 2, up, work, 0, MOUNT_ATTR_NOSUID, &err);
    sg_overlay_done(&o);
    assert_int_equal(o.fs_fd, -1);
    if (mnt < 0)
        fail_msg("%s", err.msg);
    get(mnt, "both", text, sizeof text);
    assert_string_equal(text, "top");
    get(mnt, "low", text, sizeof text);
    assert_string_equal(text, "low");
    assert_int_equal(put(mnt, "low", "new"), 0);
    get(lower[1], "low", text, sizeof text);
    assert_string_equal(text, "low");
    get(up, "low", text, sizeof text);
    assert_string_equal(text, "new");
}

/* In a directory, since layers that are given by path must be attached somewhere. */
static void overlay(bool by_path)
{
    char *dir = sg_strdup("/tmp/test-mnt-XXXXXX");
    assert_non_null(mkdtemp(dir));
    sg_auto_fd base = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int lower[2] = { open_dir(base, "top"), open_dir(base, "low") };
    (void)put(lower[0], "both", "top");
    (void)put(lower[1], "both", "bottom");
    (void)put(lower[1], "low", "low");
    check_overlay(base, lower, by_path);
    static const char *const files[] = { "top/both", "low/both", "low/low", "up/low" };
    static const char *const dirs[] = { "top", "low", "up", "wk/work", "wk" };
    for (size_t i = 0; i < SG_COUNT(files); i++)
        (void)unlinkat(base, files[i], 0);
    for (size_t i = 0; i < SG_COUNT(dirs); i++)
        (void)unlinkat(base, dirs[i], AT_REMOVEDIR);
    (void)close(lower[0]);
    (void)close(lower[1]);
    (void)rmdir(dir);
    free(dir);
}

static void an_overlay_of_paths_stacks_its_layers(void **state)
{
    (void)state;
    overlay(true);
}

static void an_overlay_of_descriptors_stacks_its_layers_where_the_kernel_can(void **state)
{
    (void)state;
    overlay(false);
}

static void a_layer_that_is_no_directory_is_refused_with_the_kernels_words(void **state)
{
    (void)state;
    struct sg_err err = { 0 };
    struct sg_overlay o = { .fs_fd = -1 };
    sg_auto_fd scratch = tmpfs(1 << 20, 100);
    sg_auto_fd up = open_dir(scratch, "up"), work = open_dir(scratch, "wk");
    sg_auto_fd file = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_ok(sg_overlay_begin(&o, up, work, false, &err), err);
    const int lower[1] = { file };
    assert_int_equal(sg_overlay_finish(&o, lower, 1, up, work, 0, 0, &err), -1);
    sg_overlay_done(&o);
    assert_non_null(strstr(err.msg, "overlay"));
}

int main(void)
{
    if (geteuid() != 0)
        return skip_all("mounts need root");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tmpfs_is_full_at_its_size),
        cmocka_unit_test(a_tmpfs_is_full_at_its_number_of_files),
        cmocka_unit_test(attributes_hold_for_the_mount_and_can_be_taken_back),
        cmocka_unit_test(a_copy_has_attributes_of_its_own),
        cmocka_unit_test(a_source_that_is_not_there_is_named),
        cmocka_unit_test(an_overlay_of_paths_stacks_its_layers),
        cmocka_unit_test(an_overlay_of_descriptors_stacks_its_layers_where_the_kernel_can),
        cmocka_unit_test(a_layer_that_is_no_directory_is_refused_with_the_kernels_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
