/* SPDX-License-Identifier: Apache-2.0 */
/* init/user: the sandbox's own passwd and group files, which nobody vouches for. */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "check.h"
#include "init/user.h"
#include "base/banned.h"

static struct sg_users users;
static char dir[] = "/tmp/sg-users-XXXXXX";
static char *passwd, *group;

static void put_file(const char *path, const char *text)
{
    (void)unlink(path); /* another inode each time, as editors do */
    sg_auto_fd fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    assert_true(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
}

static int start(void **state)
{
    (void)state;
    memcpy(dir + sizeof dir - 7, "XXXXXX", 6);
    if (!mkdtemp(dir))
        return -1;
    passwd = sg_printf("%s/passwd", dir);
    group = sg_printf("%s/group", dir);
    sg_users_init(&users);
    users.passwd.path = passwd;
    users.group.path = group;
    put_file(passwd, "root:x:0:0:root:/root:/bin/bash\n"
                     "user:x:1000:1000::/home/user:/bin/zsh\n"
                     "plain:x:7:8:::\n");
    put_file(group, "root:x:0:\nuser:x:1000:\nsudo:x:27:other,user\nall:x:99:user\nno:x:5:userx\n");
    return 0;
}

static int stop(void **state)
{
    (void)state;
    sg_users_done(&users);
    (void)unlink(passwd);
    (void)unlink(group);
    free(passwd);
    free(group);
    return rmdir(dir);
}

static struct sg_user find(const char *who)
{
    struct sg_user u;
    struct sg_err err = { 0 };
    assert_ok(sg_users_find(&users, who, false, &u, &err), err);
    return u;
}

static void a_name_has_ids_groups_home_and_shell(void **state)
{
    (void)state;
    struct sg_user u = find("user");
    assert_int_equal(u.uid, 1000);
    assert_int_equal(u.gid, 1000);
    assert_int_equal(u.group_count, 3);
    assert_int_equal(u.groups[0], 1000);
    assert_int_equal(u.groups[1], 27);
    assert_int_equal(u.groups[2], 99);
    assert_string_equal(u.home, "/home/user");
    assert_string_equal(u.shell, "/bin/zsh");
    assert_false(u.is_own);
}

static void empty_fields_have_safe_values(void **state)
{
    (void)state;
    struct sg_user u = find("plain");
    assert_int_equal(u.gid, 8);
    assert_string_equal(u.home, "/");
    assert_string_equal(u.shell, "/bin/sh");
}

static void numbers_need_no_file(void **state)
{
    (void)state;
    struct sg_user u = find("4000");
    assert_int_equal(u.uid, 4000);
    assert_int_equal(u.gid, 4000);
    assert_string_equal(u.name, "4000");
    u = find("4000:17");
    assert_int_equal(u.gid, 17);
    assert_int_equal(u.group_count, 1);
    assert_int_equal(u.groups[0], 17);
    u = find("1000");
    assert_string_equal(u.name, "user");
    assert_int_equal(u.group_count, 3);
    assert_int_equal(unlink(passwd) | unlink(group), 0);
    assert_int_equal(find("12:13").uid, 12);
    put_file(passwd, "");
    put_file(group, "");
}

static void nothing_named_is_init_itself(void **state)
{
    (void)state;
    struct sg_user u = find("");
    assert_true(u.is_own);
    assert_int_equal(u.uid, geteuid());
}

static void what_is_neither_name_nor_number_is_not_found(void **state)
{
    (void)state;
    static const char *const bad[] = { "nobody-here", "use",        "userx",
                                       "1000:",       "1:2:3",      ":5",
                                       "-1",          "4294967295", "99999999999999999999",
                                       "root:x" };
    for (unsigned i = 0; i < SG_COUNT(bad); i++) {
        struct sg_user u;
        struct sg_err err;
        assert_fails(sg_users_find(&users, bad[i], false, &u, &err), err, SG_NOT_FOUND);
    }
}

static void a_changed_file_is_read_again_and_an_unchanged_one_is_not(void **state)
{
    (void)state;
    assert_int_equal(find("user").uid, 1000);
    users.passwd.bytes.p[0] = 'R'; /* a mark that only survives where the file is not read */
    (void)find("user");
    assert_int_equal(users.passwd.bytes.p[0], 'R');
    put_file(passwd, "user:x:55:55::/:/bin/sh\n");
    assert_int_equal(find("user").uid, 55);
}

static void a_file_that_is_none_is_empty(void **state)
{
    (void)state;
    struct sg_user u;
    struct sg_err err;
    assert_int_equal(unlink(passwd) | mkfifo(passwd, 0644), 0); /* must not hang */
    assert_fails(sg_users_find(&users, "user", false, &u, &err), err, SG_NOT_FOUND);
    assert_int_equal(unlink(passwd) | symlink("/dev/zero", passwd), 0);
    assert_fails(sg_users_find(&users, "user", false, &u, &err), err, SG_NOT_FOUND);
    put_file(passwd, "user:x:1:1::/:/bin/sh\n");
    assert_int_equal(truncate(passwd, SG_USER_FILE_MAX + 1), 0);
    assert_fails(sg_users_find(&users, "user", false, &u, &err), err, SG_NOT_FOUND);
    assert_int_equal(truncate(passwd, SG_USER_FILE_MAX), 0);
    assert_int_equal(find("user").uid, 1);
}

static void hostile_lines_are_skipped(void **state)
{
    (void)state;
    put_file(passwd, "\n:::\n::0:0:::\nuser\nuser:x:0\nuser:x:-1:0:::\nuser:x:4294967295:0:::\n"
                     "user:x:0:0:a:b:c:d\nuser:x: 0:0:::\nuser:x:66:66::/h:/s");
    assert_int_equal(find("user").uid, 66);
    sg_auto_buf many;
    sg_buf_init(&many, SG_USER_FILE_MAX);
    for (int i = 0; i < 1000; i++)
        sg_buf_addf(&many, "g%d:x:%d:user,user\n", i, i);
    put_file(group, sg_buf_cstr(&many));
    assert_int_equal(find("user").group_count, SG_USER_GROUPS_MAX);
}

static void ids_have_names(void **state)
{
    (void)state;
    char name[SG_USER_NAME_MAX + 1];
    sg_users_name(&users, 1000, name);
    assert_string_equal(name, "user");
    sg_users_group_name(&users, 27, name);
    assert_string_equal(name, "sudo");
    sg_users_name(&users, 4, name);
    assert_string_equal(name, "");
    sg_users_group_name(&users, 4, name);
    assert_string_equal(name, "");
}

int main(void)
{
#define WITH_FILES(f) cmocka_unit_test_setup_teardown(f, start, stop)
    const struct CMUnitTest tests[] = {
        WITH_FILES(a_name_has_ids_groups_home_and_shell),
        WITH_FILES(empty_fields_have_safe_values),
        WITH_FILES(numbers_need_no_file),
        WITH_FILES(nothing_named_is_init_itself),
        WITH_FILES(what_is_neither_name_nor_number_is_not_found),
        WITH_FILES(a_changed_file_is_read_again_and_an_unchanged_one_is_not),
        WITH_FILES(a_file_that_is_none_is_empty),
        WITH_FILES(hostile_lines_are_skipped),
        WITH_FILES(ids_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
