/* SPDX-License-Identifier: Apache-2.0 */
/* cli/tar: trees as archives, both ways; cli/table: short texts. tests/integration/test_client.py
 * has archives that another program wrote. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "check.h"
#include "cli/table.h"
#include "cli/tar.h"
#include "base/banned.h"

struct rig {
    char from[32], to[32];
    struct sg_buf archive;
    size_t at;
};

static int start(void **state)
{
    struct rig *r = sg_new(struct rig);
    *r = (struct rig) { .from = "/tmp/sg-tar-from-XXXXXX", .to = "/tmp/sg-tar-to-XXXXXX" };
    sg_buf_init(&r->archive, 64 << 20);
    *state = r;
    return mkdtemp(r->from) && mkdtemp(r->to) ? 0 : -1;
}

static void remove_tree(const char *dir, const char *const *names, size_t count)
{
    for (size_t i = count; i-- > 0;) {
        sg_auto_free char *path = sg_printf("%s/%s", dir, names[i]);
        if (unlink(path) < 0)
            (void)rmdir(path);
    }
    (void)rmdir(dir);
}

static char long_path[400];
static const char *const names[] = { "empty",   "d",   "d/file", "d/link", "d/pipe",
                                     long_path, "d/z", "e",      "e/f" };

static int stop(void **state)
{
    struct rig *r = *state;
    remove_tree(r->from, names, SG_COUNT(names));
    remove_tree(r->to, names, SG_COUNT(names));
    sg_buf_done(&r->archive);
    free(r);
    return 0;
}

static void make_file(const char *dir, const char *name, const char *text, mode_t mode)
{
    sg_auto_free char *path = sg_printf("%s/%s", dir, name);
    sg_auto_fd fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    assert_int_equal(fchmod(fd, mode), 0);
}

static int put(void *arg, const void *p, size_t n, struct sg_err *err)
{
    struct rig *r = arg;
    sg_buf_add(&r->archive, p, n);
    return sg_buf_check(&r->archive, "the archive", err);
}

/* In odd pieces. */
static ssize_t pull(void *arg, void *p, size_t n)
{
    struct rig *r = arg;
    size_t left = r->archive.n - r->at;
    size_t step = left < 777 ? left : 777;
    step = step < n ? step : n;
    memcpy(p, r->archive.p + r->at, step);
    r->at += step;
    return (ssize_t)step;
}

static int open_dir(const char *path)
{
    return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static void a_tree_comes_back_as_it_was(void **state)
{
    struct rig *r = *state;
    struct sg_err err = { 0 };
    struct sg_tar_count in = { 0 }, out = { 0 };
    sg_auto_free char *dir = sg_printf("%s/d", r->from), *link = sg_printf("%s/d/link", r->from),
                      *pipe = sg_printf("%s/d/pipe", r->from);
    memcpy(long_path, "d/", 2);
    memset(long_path + 2, 'n', 200);
    assert_int_equal(mkdir(dir, 0750), 0);
    make_file(r->from, "empty", "", 0644);
    make_file(r->from, "d/file", "text", 04755);
    make_file(r->from, long_path, "deep", 0600);
    assert_int_equal(symlink("/etc/passwd", link), 0);
    assert_int_equal(mkfifo(pipe, 0600), 0);
    assert_ok(sg_tar_pack(open_dir(r->from), put, r, &in, &err), err);
    assert_true(in.files == 3 && in.bytes == 8 && in.skipped == 1);
    sg_auto_fd to = open_dir(r->to);
    assert_ok(sg_tar_extract(to, pull, r, &out, &err), err);
    assert_true(out.files == 3 && out.bytes == 8 && out.skipped == 1); /* the link this time */
    struct stat st;
    assert_int_equal(fstatat(to, "d/file", &st, AT_SYMLINK_NOFOLLOW), 0);
    assert_int_equal(st.st_mode, S_IFREG | 0755); /* no set-id bit */
    assert_int_equal(st.st_size, 4);
    assert_int_equal(fstatat(to, "d", &st, 0), 0);
    assert_int_equal(st.st_mode, S_IFDIR | 0750);
    assert_int_equal(fstatat(to, long_path, &st, 0), 0);
    assert_true(fstatat(to, "d/link", &st, AT_SYMLINK_NOFOLLOW) < 0);
}

/* A header of one file of one byte, by hand. */
static void put_entry(struct rig *r, const char *name)
{
    char b[1024] = "";
    memcpy(b, name, strlen(name));
    memcpy(b + 100, "0000644", 7);
    memcpy(b + 124, "00000000001", 11);
    memcpy(b + 136, "00000000000", 11);
    b[156] = '0';
    memcpy(b + 257, "ustar", 5);
    memcpy(b + 263, "00", 2);
    memset(b + 148, ' ', 8);
    unsigned sum = 0;
    for (size_t i = 0; i < 512; i++)
        sum += (unsigned char)b[i];
    (void)snprintf(b + 148, 8, "%06o", sum);
    b[512] = 'x';
    sg_buf_add(&r->archive, b, sizeof b);
}

static void a_name_that_leads_out_is_refused(void **state)
{
    struct rig *r = *state;
    static const char *const bad[] = { "../x", "/x", "e/../../x", "./../x", "e/..", "e/./f" };
    for (size_t i = 0; i < SG_COUNT(bad); i++) {
        struct sg_err err;
        struct sg_tar_count count = { 0 };
        sg_auto_fd to = open_dir(r->to);
        sg_buf_clear(&r->archive);
        r->at = 0;
        put_entry(r, bad[i]);
        sg_buf_add(&r->archive, (char[1024]) { 0 }, 1024);
        assert_fails(sg_tar_extract(to, pull, r, &count, &err), err, SG_DENIED);
        assert_int_equal(count.files, 0);
    }
}

static void parents_that_the_archive_does_not_name_are_made(void **state)
{
    struct rig *r = *state;
    struct sg_err err = { 0 };
    struct sg_tar_count count = { 0 };
    sg_auto_fd to = open_dir(r->to);
    struct stat st;
    put_entry(r, ".//e//f");
    sg_buf_add(&r->archive, (char[1024]) { 0 }, 1024);
    assert_ok(sg_tar_extract(to, pull, r, &count, &err), err);
    assert_int_equal(fstatat(to, "e/f", &st, 0), 0);
}

static void an_archive_without_its_end_is_told(void **state)
{
    struct rig *r = *state;
    struct sg_err err;
    struct sg_tar_count count = { 0 };
    sg_auto_fd to = open_dir(r->to);
    put_entry(r, "e/f");
    r->archive.n -= 512; /* the data is missing */
    assert_fails(sg_tar_extract(to, pull, r, &count, &err), err, SG_INVALID);
}

static void numbers_are_short(void **state)
{
    (void)state;
    assert_string_equal(sg_short_bytes(0).s, "0");
    assert_string_equal(sg_short_bytes(1023).s, "1023");
    assert_string_equal(sg_short_bytes(1024).s, "1.0k");
    assert_string_equal(sg_short_bytes(1536).s, "1.5k");
    assert_string_equal(sg_short_bytes(512ull << 20).s, "512m");
    assert_string_equal(sg_short_bytes(UINT64_MAX).s, "16383p");
    assert_string_equal(sg_short_since("").s, "-");
    assert_string_equal(sg_short_since("not a time at all...").s, "-");
    assert_string_equal(sg_short_since("2999-01-01T00:00:00Z").s, "0s");
    assert_string_equal(sg_short_until("2001-01-01T00:00:00Z").s, "0s");
}

static void columns_are_as_wide_as_their_cells(void **state)
{
    (void)state;
    sg_auto_table t;
    sg_auto_buf out;
    sg_buf_init(&out, 1000);
    sg_table_init(&t, "A", "LONG", "C");
    sg_table_add(&t, "\xc3\xbc");
    sg_table_addf(&t, "%d", 1);
    sg_table_add(&t, "");
    sg_table_add(&t, "abc");
    sg_table_add(&t, "x\x1b[0m\xc2\x9b");
    sg_table_add(&t, "end");
    sg_table_print(&t, &out);
    assert_string_equal(sg_buf_cstr(&out), "A    LONG              C\n"
                                           "\xc3\xbc    1                 -\n"
                                           "abc  x\\x1b[0m\\xc2\\x9b  end\n");
}

#define EACH(test) cmocka_unit_test_setup_teardown(test, start, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        EACH(a_tree_comes_back_as_it_was),
        EACH(a_name_that_leads_out_is_refused),
        EACH(parents_that_the_archive_does_not_name_are_made),
        EACH(an_archive_without_its_end_is_told),
        cmocka_unit_test(numbers_are_short),
        cmocka_unit_test(columns_are_as_wide_as_their_cells),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
