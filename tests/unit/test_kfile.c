/* SPDX-License-Identifier: Apache-2.0 */
#include "check.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "sys/kfile.h"
#include "base/banned.h"

static char *dir;
static int dir_fd;

static int setup(void **state)
{
    (void)state;
    dir = sg_strdup("/tmp/test-file-XXXXXX");
    if (!mkdtemp(dir))
        return -1;
    dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return dir_fd < 0 ? -1 : 0;
}

static int teardown(void **state)
{
    (void)state;
    static const char *const made[] = { "f", "a/b/c", "a/b", "a" };
    for (size_t i = 0; i < SG_COUNT(made); i++)
        (void)unlinkat(dir_fd, made[i], i == 0 ? 0 : AT_REMOVEDIR);
    (void)close(dir_fd);
    (void)rmdir(dir);
    free(dir);
    return 0;
}

static void put(const char *text)
{
    sg_auto_fd fd = openat(dir_fd, "f", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
}

static void a_file_is_read_whole_or_not_at_all(void **state)
{
    (void)state;
    char text[6];
    struct sg_err err;
    put("12345");
    assert_ok(sg_file_read(dir_fd, "f", text, sizeof text, &err), err);
    assert_string_equal(text, "12345");
    assert_fails(sg_file_read(dir_fd, "f", text, sizeof text - 1, &err), err, SG_EXHAUSTED);
    assert_non_null(strstr(err.msg, "'f' is over 4 bytes"));
    assert_fails(sg_file_read(dir_fd, "none", text, sizeof text, &err), err, SG_NOT_FOUND);
    assert_non_null(strstr(err.msg, "'none'"));
}

static void a_missing_file_is_not_made_by_writing(void **state)
{
    (void)state;
    struct sg_err err;
    assert_fails(sg_file_write(dir_fd, "none", "1", &err), err, SG_NOT_FOUND);
    put("old text");
    assert_ok(sg_file_write(dir_fd, "f", "new", &err), err);
    char text[16];
    assert_ok(sg_file_read(dir_fd, "f", text, sizeof text, &err), err);
    assert_string_equal(text, "new text"); /* files of the kernel have no length to cut */
}

static void a_refused_value_is_named(void **state)
{
    (void)state;
    struct sg_err err = { 0 };
    assert_true(sg_file_write(AT_FDCWD, "/dev/full", "77", &err) < 0);
    assert_non_null(strstr(err.msg, "'77'"));
    assert_non_null(strstr(err.msg, "/dev/full"));
}

static void numbers_are_plain_or_max(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool is_good;
        uint64_t value;
    } rows[] = {
        { "0\n", true, 0 },
        { "18446744073709551615", true, UINT64_MAX },
        { "max\n", true, UINT64_MAX },
        { "maximum\n", false, 0 },
        { "18446744073709551616", false, 0 },
        { "-1\n", false, 0 },
        { "1 2\n", false, 0 },
        { "", false, 0 },
    };
    for (size_t i = 0; i < SG_COUNT(rows); i++) {
        uint64_t v = 99;
        put(rows[i].text);
        bool is_good = sg_file_read_u64(dir_fd, "f", &v, NULL) == 0;
        if (is_good != rows[i].is_good || v != (is_good ? rows[i].value : 99))
            fail_msg("'%s'", rows[i].text);
    }
}

static void a_key_is_a_whole_word_at_the_start_of_a_line(void **state)
{
    (void)state;
    uint64_t v = 0;
    struct sg_err err;
    put("oom 1\noom_kill 2\nxkey 3\nkey 4\nkey 5\nbad word\n");
    assert_ok(sg_file_read_key(dir_fd, "f", "oom_kill", &v, &err), err);
    assert_int_equal(v, 2);
    assert_ok(sg_file_read_key(dir_fd, "f", "key", &v, &err), err);
    assert_int_equal(v, 4);
    assert_fails(sg_file_read_key(dir_fd, "f", "oom_", &v, &err), err, SG_NOT_FOUND);
    assert_fails(sg_file_read_key(dir_fd, "f", "bad", &v, &err), err, SG_INVALID);
    assert_int_equal(v, 4);
}

static void directories_are_made_with_their_parents_and_may_exist(void **state)
{
    (void)state;
    struct sg_err err = { 0 };
    struct stat st;
    sg_auto_free char *path = sg_printf("%s/a/b/c", dir);
    assert_ok(sg_mkdir_all(path, 0700, &err), err);
    assert_ok(sg_mkdir_all(path, 0700, &err), err);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    put("");
    sg_auto_free char *below = sg_printf("%s/f/x", dir);
    assert_true(sg_mkdir_all(below, 0700, &err) < 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_is_read_whole_or_not_at_all),
        cmocka_unit_test(a_missing_file_is_not_made_by_writing),
        cmocka_unit_test(a_refused_value_is_named),
        cmocka_unit_test(numbers_are_plain_or_max),
        cmocka_unit_test(a_key_is_a_whole_word_at_the_start_of_a_line),
        cmocka_unit_test(directories_are_made_with_their_parents_and_may_exist),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
