/* SPDX-License-Identifier: Apache-2.0 */
/* image/host: what of the machine is seen inside, and what is not. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/str.h"
#include "check.h"
#include "image/store.h"
#include "image/template.h"
#include "image/tree.h"
#include "base/banned.h"

static char state_dir[64];

static int before_each(void **state)
{
    (void)state;
    memcpy(state_dir, "/tmp/sandglass-state-XXXXXX", sizeof "/tmp/sandglass-state-XXXXXX");
    return mkdtemp(state_dir) ? 0 : -1;
}

static int after_each(void **state)
{
    (void)state;
    struct sg_err err;
    sg_auto_fd tmp = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return sg_tree_remove(tmp, state_dir + strlen("/tmp/"), &err);
}

static struct sg_template open_host(void)
{
    struct sg_template t;
    struct sg_err err;
    assert_ok(sg_template_open(state_dir, "host", &t, &err), err);
    return t;
}

static bool is_there(const struct sg_template *t, const char *name, struct stat *ret)
{
    sg_auto_free char *path = sg_printf("%s/%s", t->layer, name);
    return lstat(path, ret) == 0;
}

static void the_skeleton_has_a_root_that_programs_expect(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        mode_t mode;
    } wanted[] = {
        { "dev", S_IFDIR | 0755 },
        { "proc", S_IFDIR | 0555 },
        { "tmp", S_IFDIR | 01777 },
        { "var/tmp", S_IFDIR | 01777 },
        { "usr", S_IFDIR | 0755 },
        { "root", S_IFDIR | 0700 },
        { "workspace", S_IFDIR | 0755 },
        { "home/user", S_IFDIR | 0755 },
        { "etc/passwd", S_IFREG | 0644 },
        { "etc/shadow", S_IFREG | 0640 },
        { "etc/ld.so.cache", S_IFREG | 0644 },
        { "etc/os-release", S_IFLNK | 0777 },
    };
    sg_auto_template t = open_host();
    for (size_t i = 0; i < SG_COUNT(wanted); i++) {
        struct stat st;
        if (!is_there(&t, wanted[i].name, &st))
            fail_msg("no '%s'", wanted[i].name);
        assert_int_equal(st.st_mode, wanted[i].mode);
    }
    struct stat st;
    assert_true(is_there(&t, "home/user", &st));
    assert_int_equal(st.st_uid, geteuid() == 0 ? 1000 : geteuid());
    assert_true(t.is_idmapped == (geteuid() == 0));
    assert_false(t.grants_sudo);
}

static void usr_is_bound_and_usr_local_hidden(void **state)
{
    (void)state;
    sg_auto_template t = open_host();
    assert_true(t.bind_count >= 1);
    assert_string_equal(t.binds[0].source, "/usr");
    assert_string_equal(t.binds[0].target, "/usr");
    struct stat st;
    if (lstat("/bin", &st) == 0 && S_ISLNK(st.st_mode))
        assert_int_equal(t.bind_count, 1);
    if (access("/usr/local", F_OK) == 0) {
        assert_int_equal(t.hide_count, 1);
        assert_string_equal(t.hide[0], "/usr/local");
    }
}

static void nothing_private_of_the_host_is_in_it(void **state)
{
    (void)state;
    static const char *const private[] = { "etc/ssl/private", "etc/ssh",       "etc/sudoers",
                                           "etc/fstab",       "etc/gshadow",   "etc/pip.conf",
                                           "etc/npmrc",       "etc/gitconfig", "etc/apt",
                                           "etc/docker",      "root/.bashrc",  "var/lib/dpkg" };
    sg_auto_template t = open_host();
    for (size_t i = 0; i < SG_COUNT(private); i++) {
        struct stat st;
        if (is_there(&t, private[i], &st))
            fail_msg("'%s' is in the template", private[i]);
    }
    struct stat id; /* a place for each cell's own, and nothing in it */
    assert_true(is_there(&t, "etc/machine-id", &id) && id.st_size == 0);
    char text[512] = "";
    sg_auto_free char *path = sg_printf("%s/etc/shadow", t.layer);
    sg_auto_fd fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0 && read(fd, text, sizeof text - 1) > 0);
    assert_null(strchr(text, '$')); /* no hash of anybody's password */
}

static void a_second_open_finds_the_first(void **state)
{
    (void)state;
    sg_auto_template one = open_host(), two = open_host();
    assert_string_equal(one.layer, two.layer);
    struct stat st;
    sg_auto_free char *marker = sg_printf("%s/tmp/marker", one.layer);
    sg_auto_fd fd = open(marker, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    sg_auto_template three = open_host();
    assert_true(is_there(&three, "tmp/marker", &st)); /* not built again */
}

static void old_versions_go_when_nobody_uses_them(void **state)
{
    (void)state;
    struct sg_err err;
    sg_auto_template now = open_host();
    sg_auto_fd dir = sg_templates_open(state_dir, false, &err);
    assert_int_equal(mkdirat(dir, ".host-used", 0700), 0);
    assert_int_equal(mkdirat(dir, ".host-unused", 0700), 0);
    sg_auto_fd user = sg_templates_use(dir, ".host-used", &err);
    assert_true(user >= 0);
    sg_auto_free char *name = sg_strdup(strstr(now.layer, ".host-"));
    *strchr(name, '/') = '\0';
    sg_template_done(&now); /* even then the present version stays */
    sg_templates_sweep(dir, name);
    assert_int_equal(faccessat(dir, ".host-used", F_OK, 0), 0);
    assert_int_equal(faccessat(dir, ".host-unused", F_OK, 0), -1);
    assert_int_equal(faccessat(dir, name, F_OK, 0), 0);
}

static void many_processes_at_once_end_up_with_one_skeleton(void **state)
{
    (void)state;
    enum { PROCESSES = 6 };
    pid_t pids[PROCESSES];
    for (int i = 0; i < PROCESSES; i++) {
        pids[i] = fork();
        if (pids[i] == 0) {
            struct sg_template t;
            struct sg_err err;
            struct stat st;
            bool is_fine = sg_template_open(state_dir, "host", &t, &err) == 0 &&
                           is_there(&t, "etc/bash.bashrc", &st);
            _exit(is_fine ? 0 : 1);
        }
    }
    for (int i = 0; i < PROCESSES; i++) {
        int status;
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_int_equal(status, 0);
    }
    sg_auto_free char *path = sg_printf("%s/templates", state_dir);
    sg_auto_dir dir = opendir(path);
    unsigned n = 0;
    for (struct dirent *d; (d = readdir(dir));)
        n += d->d_name[0] != '.' || sg_starts_with(d->d_name, ".host-") ||
             sg_starts_with(d->d_name, ".new-");
    assert_int_equal(n, 1);
}

static void a_copy_takes_only_what_everybody_may_read(void **state)
{
    (void)state;
    struct sg_err err;
    sg_auto_fd dir = open(state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(mkdirat(dir, "to", 0755), 0);
    assert_int_equal(mkdirat(dir, "from", 0755), 0);
    assert_int_equal(mkdirat(dir, "from/closed", 0750), 0);
    assert_int_equal(symlinkat("/root/secret", dir, "from/link"), 0);
    assert_int_equal(mknodat(dir, "from/pipe", S_IFIFO | 0644, 0), 0);
    static const struct {
        const char *name;
        mode_t mode;
        size_t size;
    } files[] = { { "from/open", 06755, 10 },
                  { "from/private", 0640, 10 },
                  { "from/closed/file", 0644, 10 },
                  { "from/large", 0644, 2000 } };
    for (size_t i = 0; i < SG_COUNT(files); i++) {
        sg_auto_fd fd = openat(dir, files[i].name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        assert_int_equal(ftruncate(fd, (off_t)files[i].size), 0);
        assert_int_equal(fchmod(fd, files[i].mode), 0);
    }
    sg_auto_fd to = openat(dir, "to", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct sg_tree_budget budget = { .bytes = 1 << 20, .entries = 100, .max_file_bytes = 1000 };
    assert_int_equal(sg_tree_copy(dir, to, "from", &budget, &err), 1);
    struct stat st;
    assert_int_equal(fstatat(to, "from/open", &st, 0), 0);
    assert_int_equal(st.st_mode & 07777, 0755);
    assert_int_equal(fstatat(to, "from/link", &st, AT_SYMLINK_NOFOLLOW), 0);
    assert_true(S_ISLNK(st.st_mode));
    static const char *const left_out[] = { "from/private", "from/closed", "from/pipe",
                                            "from/large" };
    for (size_t i = 0; i < SG_COUNT(left_out); i++)
        assert_int_equal(fstatat(to, left_out[i], &st, AT_SYMLINK_NOFOLLOW), -1);
}

static void removal_follows_no_link(void **state)
{
    (void)state;
    struct sg_err err;
    sg_auto_fd dir = open(state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(mkdirat(dir, "keep", 0755), 0);
    assert_int_equal(mkdirat(dir, "keep/inside", 0755), 0);
    assert_int_equal(mkdirat(dir, "gone", 0755), 0);
    assert_int_equal(symlinkat("../keep", dir, "gone/link"), 0);
    assert_ok(sg_tree_remove(dir, "gone", &err), err);
    assert_int_equal(faccessat(dir, "keep/inside", F_OK, 0), 0);
    assert_int_equal(faccessat(dir, "gone", F_OK, 0), -1);
}

static void removal_stops_where_its_budget_does(void **state)
{
    (void)state;
    sg_auto_fd dir = open(state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const char piece[8192] = "x";
    static const struct {
        struct sg_tree_budget budget;
        bool is_enough;
    } rows[] = {
        { { .entries = 3, .bytes = 1 << 20, .max_file_bytes = 1 << 20 }, true },
        { { .entries = 2, .bytes = 1 << 20, .max_file_bytes = 1 << 20 }, false },
        { { .entries = 3, .bytes = 4096, .max_file_bytes = 1 << 20 }, false },
        { { .entries = 3, .bytes = 1 << 20, .max_file_bytes = 4096 }, false },
    };
    for (size_t i = 0; i < SG_COUNT(rows); i++) {
        struct sg_tree_budget budget = rows[i].budget;
        struct sg_err err = { 0 };
        assert_int_equal(mkdirat(dir, "tree", 0755), 0);
        assert_int_equal(symlinkat("nowhere", dir, "tree/link"), 0);
        sg_auto_fd file = openat(dir, "tree/file", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        assert_int_equal(write(file, piece, sizeof piece), sizeof piece);
        assert_int_equal(fsync(file), 0); /* or it may have no blocks yet */
        const int ret = sg_tree_remove_within(dir, "tree", &budget, &err);
        assert_int_equal(ret, rows[i].is_enough ? 0 : -1);
        assert_int_equal(err.kind, rows[i].is_enough ? SG_OK : SG_EXHAUSTED);
        assert_int_equal(faccessat(dir, "tree", F_OK, 0), rows[i].is_enough ? -1 : 0);
        assert_ok(sg_tree_remove(dir, "tree", &err), err);
    }
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, before_each, after_each)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(the_skeleton_has_a_root_that_programs_expect),
        CASE(usr_is_bound_and_usr_local_hidden),
        CASE(nothing_private_of_the_host_is_in_it),
        CASE(a_second_open_finds_the_first),
        CASE(old_versions_go_when_nobody_uses_them),
        CASE(many_processes_at_once_end_up_with_one_skeleton),
        CASE(a_copy_takes_only_what_everybody_may_read),
        CASE(removal_follows_no_link),
        CASE(removal_stops_where_its_budget_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
