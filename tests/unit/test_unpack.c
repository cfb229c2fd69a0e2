/* SPDX-License-Identifier: Apache-2.0 */
/* unpack: archives that attack, made by tests/support/make_hostile_tars.py.
 *
 * Each case runs beside a directory `outside` with a canary in it, which most attacks aim at; after
 * each case the canary and everything else beside the target must be as before. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/str.h"
#include "check.h"
#include "image/tree.h"
#include "sys/landlock.h"
#include "unpack/unpack.h"
#include "base/banned.h"

#define CANARY "the canary sings\n"

static char arena[64] = "/tmp/sandglass-unpack-XXXXXX"; /* archives/, stage/{outside,target} */
static int arena_fd = -1;

static int make_archives(void)
{
    const char *root = getenv("SANDGLASS_SOURCE");
    if (!root || !mkdtemp(arena))
        return -1;
    arena_fd = open(arena, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    sg_auto_free char *script = sg_printf("%s/tests/support/make_hostile_tars.py", root);
    sg_auto_free char *out = sg_printf("%s/archives", arena);
    if (arena_fd < 0 || mkdir(out, 0755) < 0)
        return -1;
    char *argv[] = { (char *)"/usr/bin/python3", script, out, NULL };
    pid_t pid;
    int status;
    if (posix_spawn(&pid, argv[0], NULL, NULL, argv, environ) != 0)
        return -1;
    return waitpid(pid, &status, 0) == pid && status == 0 ? 0 : -1;
}

static int before_all(void **state)
{
    (void)state;
    return make_archives();
}

static int after_all(void **state)
{
    (void)state;
    struct sg_err err;
    sg_auto_fd tmp = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return sg_tree_remove(tmp, arena + strlen("/tmp/"), &err);
}

static int before_each(void **state)
{
    (void)state;
    if (mkdirat(arena_fd, "stage", 0755) < 0 || mkdirat(arena_fd, "stage/outside", 0755) < 0 ||
        mkdirat(arena_fd, "stage/target", 0755) < 0)
        return -1;
    sg_auto_fd fd = openat(arena_fd, "stage/outside/canary", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    return fd >= 0 && write(fd, CANARY, strlen(CANARY)) > 0 ? 0 : -1;
}

static unsigned count_entries(const char *path)
{
    sg_auto_free char *full = sg_printf("%s/%s", arena, path);
    sg_auto_dir dir = opendir(full);
    assert_non_null(dir);
    unsigned n = 0;
    while (readdir(dir))
        n++;
    return n - 2;
}

static int after_each(void **state)
{
    (void)state;
    char text[64] = "";
    struct stat st;
    sg_auto_fd fd = openat(arena_fd, "stage/outside/canary", O_RDONLY | O_CLOEXEC);
    bool is_whole = fd >= 0 && read(fd, text, sizeof text - 1) > 0 && strcmp(text, CANARY) == 0 &&
                    fstat(fd, &st) == 0 && st.st_nlink == 1 && (st.st_mode & 07777) == 0644 &&
                    fstatat(arena_fd, "stage/outside", &st, 0) == 0 && (st.st_mode & 07777) == 0755;
    bool is_alone = count_entries("stage/outside") == 1 && count_entries("stage") == 2 &&
                    access("/tmp/escape", F_OK) < 0 && access("/escape", F_OK) < 0;
    struct sg_err err;
    if (sg_tree_remove(arena_fd, "stage", &err) < 0)
        return -1;
    return is_whole && is_alone ? 0 : -1;
}

/* Small limits, so that the bombs can be small. */
static struct sg_unpack_options test_options(void)
{
    struct sg_unpack_options o = sg_unpack_defaults();
    o.max_entries = 100;
    o.max_bytes = UINT64_C(1) << 30;
    o.ratio_free_bytes = 1 << 20;
    o.is_one_user = geteuid() != 0;
    return o;
}

static int unpack(const char *archive, const struct sg_unpack_options *o,
                  struct sg_unpack_result *ret, struct sg_err *err)
{
    sg_auto_free char *name = sg_printf("archives/%s", archive);
    sg_auto_fd in = openat(arena_fd, name, O_RDONLY | O_CLOEXEC);
    sg_auto_fd target = openat(arena_fd, "stage/target", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(in >= 0 && target >= 0);
    return sg_unpack(in, target, o, ret, err);
}

static struct stat stat_in_target(const char *name)
{
    sg_auto_free char *path = sg_printf("stage/target/%s", name);
    struct stat st;
    if (fstatat(arena_fd, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
        fail_msg("no '%s' in the target", name);
    return st;
}

static void assert_content(const char *name, const char *wanted)
{
    sg_auto_free char *path = sg_printf("stage/target/%s", name);
    char text[128] = "";
    sg_auto_fd fd = openat(arena_fd, path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0 && read(fd, text, sizeof text - 1) >= 0);
    assert_string_equal(text, wanted);
}

/* Refusals: the case's file, the kind of error, and words that its message must have. */
static const struct refusal {
    const char *test, *archive;
    enum sg_kind kind;
    const char *words;
} refusals[] = {
    { "refuses_dotdot", "dotdot.tar", SG_INVALID, "'../escape' has '..'" },
    { "refuses_dotdot_in_the_middle", "dotdot-inside.tar", SG_INVALID, "'a/../../escape'" },
    { "refuses_dotdot_in_a_pax_header", "dotdot-pax.tar", SG_INVALID, "'b/../../escape'" },
    { "refuses_dotdot_in_a_long_name", "dotdot-long.tar", SG_INVALID, "has '..'" },
    { "refuses_an_absolute_name", "absolute.tar", SG_INVALID, "'/escape' has an absolute" },
    { "refuses_an_absolute_name_in_a_pax_header", "absolute-pax.tar", SG_INVALID, "'/escape'" },
    { "refuses_200_levels", "deep.tar", SG_INVALID, "too deep" },
    { "refuses_a_component_of_300_bytes", "long-component.tar", SG_INVALID, "255 bytes" },
    { "refuses_a_name_of_6000_bytes", "long-name.tar", SG_INVALID, "too long" },
    { "refuses_an_entry_without_name", "no-name.tar", SG_INVALID, "no name" },
    { "refuses_a_file_below_a_symlink", "below-symlink.tar", SG_INVALID, "'link/escape' goes" },
    { "refuses_a_file_below_an_absolute_symlink", "below-absolute-symlink.tar", SG_INVALID,
      "'link/escape'" },
    { "refuses_a_file_below_a_link_to_a_link", "link-to-link.tar", SG_INVALID, "'a/escape'" },
    { "refuses_a_directory_below_a_symlink", "directory-below-symlink.tar", SG_INVALID,
      "'link/escape'" },
    { "refuses_a_symlink_below_a_symlink", "symlink-below-symlink.tar", SG_INVALID,
      "'link/escape'" },
    { "refuses_a_file_over_a_symlink", "over-symlink.tar", SG_INVALID, "'x' appears twice" },
    { "refuses_a_directory_over_a_symlink", "directory-over-symlink.tar", SG_INVALID,
      "'x' appears twice" },
    { "refuses_a_hard_link_with_dotdot", "hardlink-dotdot.tar", SG_INVALID, "'h' is a link" },
    { "refuses_a_hard_link_to_an_absolute_name", "hardlink-absolute.tar", SG_INVALID,
      "'/etc/passwd'" },
    { "refuses_a_hard_link_through_a_symlink", "hardlink-through-symlink.tar", SG_INVALID,
      "goes through a symbolic link" },
    { "refuses_a_hard_link_to_nothing", "hardlink-missing.tar", SG_INVALID, "'nothing'" },
    { "refuses_a_hard_link_to_a_directory", "hardlink-directory.tar", SG_INVALID, "'d'" },
    { "refuses_a_file_over_a_linked_symlink", "hardlink-then-file.tar", SG_INVALID,
      "'h' appears twice" },
    { "refuses_a_character_device", "char-device.tar", SG_INVALID, "'null' is a device" },
    { "refuses_a_block_device", "block-device.tar", SG_INVALID, "'disk' is a device" },
    { "refuses_a_whiteout", "whiteout.tar", SG_INVALID, "'etc/passwd' is a device" },
    { "refuses_the_same_file_twice", "twice-file.tar", SG_INVALID, "'f' appears twice" },
    { "refuses_a_file_below_a_file", "file-then-below.tar", SG_INVALID, "'f/g' is below" },
    { "refuses_a_symlink_as_root", "root-is-symlink.tar", SG_INVALID, "not a directory" },
    { "refuses_a_symlink_as_dev", "dev-symlink.tar", SG_INVALID, "'/dev'" },
    { "refuses_a_symlink_as_proc", "proc-symlink.tar", SG_INVALID, "'/proc'" },
    { "refuses_a_symlink_as_etc", "etc-symlink.tar", SG_INVALID, "'/etc'" },
    { "refuses_a_file_as_sys", "sys-file.tar", SG_INVALID, "'/sys'" },
    { "refuses_the_entry_past_the_limit", "many.tar", SG_EXHAUSTED, "more than 100 entries" },
    { "refuses_a_gzip_bomb", "bomb.tar.gz", SG_EXHAUSTED, "'zeros' unpacks to more than" },
    { "refuses_a_nested_bomb", "nested.tar.gz.gz", SG_INVALID, "more than once" },
    { "refuses_a_sparse_file_over_the_limit", "sparse.tar", SG_EXHAUSTED, "'hole' takes" },
    { "refuses_a_sparse_file_over_the_ratio", "sparse-ratio.tar", SG_EXHAUSTED, "'hole' unpacks" },
    { "refuses_a_size_near_overflow", "huge-size.tar", SG_INVALID, "overflow" },
    { "refuses_a_negative_size", "negative-size.tar", SG_INVALID, "negative" },
    { "refuses_an_empty_file", "empty.tar", SG_INVALID, "not readable" },
    { "refuses_an_archive_without_entries", "no-entries.tar", SG_INVALID, "no entries" },
    { "refuses_garbage", "garbage.tar", SG_INVALID, "not readable" },
    { "refuses_a_truncated_archive", "truncated.tar", SG_INVALID, "after entry 'f'" },
    { "refuses_a_truncated_gzip", "truncated.tar.gz", SG_INVALID, "not readable" },
    { "refuses_a_header_that_promises_more", "short-size.tar", SG_INVALID, "after entry 'f'" },
    { "refuses_a_zip_file", "zip.tar", SG_INVALID, "not readable" },
};

static void is_refused(void **state)
{
    const struct refusal *r = *state;
    struct sg_unpack_options o = test_options();
    struct sg_unpack_result result;
    struct sg_err err;
    assert_fails(unpack(r->archive, &o, &result, &err), err, r->kind);
    if (!strstr(err.msg, r->words))
        fail_msg("'%s' is not in '%s'", r->words, err.msg);
}

static void check_good(const char *archive)
{
    struct sg_unpack_options o = test_options();
    struct sg_unpack_result result;
    struct sg_err err;
    assert_ok(unpack(archive, &o, &result, &err), err);
    assert_int_equal(result.entries, 8);
    assert_content("etc/passwd", "root:x:0:0::/root:/bin/sh\n");
    struct stat tool = stat_in_target("bin/tool"), twin = stat_in_target("bin/twin");
    assert_int_equal(tool.st_mode & 07777, 0755);
    assert_int_equal(tool.st_ino, twin.st_ino);
    assert_int_equal(tool.st_mtim.tv_sec, 1700000000);
    assert_true(S_ISLNK(stat_in_target("bin/alias").st_mode));
    assert_int_equal(stat_in_target("home").st_mode & 07777, 0755); /* named by no entry */
    if (!o.is_one_user)
        assert_int_equal(stat_in_target("home/user/.profile").st_uid, 1000);
}

static void unpacks_plain_tar(void **state)
{
    (void)state;
    check_good("good.tar");
}

static void unpacks_gzip(void **state)
{
    (void)state;
    check_good("good.tar.gz");
}

static void unpacks_bzip2(void **state)
{
    (void)state;
    check_good("good.tar.bz2");
}

static void unpacks_xz(void **state)
{
    (void)state;
    check_good("good.tar.xz");
}

static struct sg_unpack_result unpack_fine(const char *archive, struct sg_unpack_options o)
{
    struct sg_unpack_result result;
    struct sg_err err;
    assert_ok(unpack(archive, &o, &result, &err), err);
    return result;
}

static void keeps_names_that_the_locale_cannot_spell(void **state)
{
    (void)state;
    (void)unpack_fine("unicode.tar", test_options());
    assert_content("gr\xc3\xbc\xc3\x9f/\xe6\x97\xa5\xe6\x9c\xac", "x");
}

static void keeps_names_that_are_not_utf8(void **state)
{
    (void)state;
    (void)unpack_fine("not-utf8.tar", test_options());
    assert_content("caf\xe9", "x");
}

static void keeps_names_that_differ_by_case(void **state)
{
    (void)state;
    (void)unpack_fine("case.tar", test_options());
    assert_content("Name", "upper");
    assert_content("name", "lower");
}

static void takes_the_last_mode_of_a_directory_named_twice(void **state)
{
    (void)state;
    (void)unpack_fine("twice-directory.tar", test_options());
    assert_int_equal(stat_in_target("d").st_mode & 07777, 0750);
}

static void drops_set_id_bits(void **state)
{
    (void)state;
    assert_int_equal(unpack_fine("setuid.tar", test_options()).setuid_dropped, 1);
    assert_int_equal(stat_in_target("su").st_mode & 07777, 0755);
}

static void keeps_set_id_bits_when_asked(void **state)
{
    (void)state;
    struct sg_unpack_options o = test_options();
    o.keeps_setuid = true;
    assert_int_equal(unpack_fine("setuid.tar", o).setuid_dropped, 0);
    assert_int_equal(stat_in_target("su").st_mode & 07777, 06755);
}

static void skips_a_fifo_and_says_so(void **state)
{
    (void)state;
    struct sg_unpack_result r = unpack_fine("fifo.tar", test_options());
    assert_int_equal(r.skipped, 1);
    assert_string_equal(r.first_skipped, "'pipe'");
    assert_int_equal(count_entries("stage/target"), 1);
}

static void leaves_out_the_devices_of_dev(void **state)
{
    (void)state;
    assert_int_equal(unpack_fine("dev-devices.tar", test_options()).skipped, 1);
    assert_int_equal(count_entries("stage/target/dev"), 0);
}

static void skips_devices_when_asked(void **state)
{
    (void)state;
    struct sg_unpack_options o = test_options();
    o.skips_devices = true;
    assert_int_equal(unpack_fine("whiteout.tar", o).skipped, 1);
    assert_int_equal(count_entries("stage/target/etc"), 0);
}

static void drops_extended_attributes(void **state)
{
    (void)state;
    (void)unpack_fine("capability.tar", test_options());
    sg_auto_free char *path = sg_printf("%s/stage/target/ping", arena);
    char list[256];
    assert_int_equal(listxattr(path, list, sizeof list), 0);
}

static void believes_the_content_and_not_the_gzip_trailer(void **state)
{
    (void)state;
    assert_int_equal(unpack_fine("lying-gzip.tar.gz", test_options()).bytes, 100000);
    assert_int_equal(stat_in_target("f").st_size, 100000);
}

static void opens_a_root_that_the_archive_closes(void **state)
{
    (void)state;
    (void)unpack_fine("private-root.tar", test_options());
    assert_int_equal(stat_in_target(".").st_mode & 07777, 0755);
}

static void refuses_an_owner_outside_of_the_range_unless_owners_are_ignored(void **state)
{
    (void)state;
    struct sg_unpack_options o = test_options();
    struct sg_unpack_result result;
    struct sg_err err;
    o.is_one_user = false;
    assert_fails(unpack("big-owner.tar", &o, &result, &err), err, SG_INVALID);
    assert_non_null(strstr(err.msg, "70000"));
    o.is_one_user = true;
    assert_ok(unpack("big-owner.tar", &o, &result, &err), err);
    assert_int_equal(stat_in_target("f").st_uid, geteuid());
}

static void counts_up_to_the_limit(void **state)
{
    (void)state;
    struct sg_unpack_options o = test_options();
    o.max_entries = 101;
    assert_int_equal(unpack_fine("many.tar", o).entries, 101);
}

/* Codes of the child below, so that a failure says which wall was open. */
enum { CONFINED, UNSUPPORTED, READ_OUTSIDE, WROTE_OUTSIDE, LINKED_OUTSIDE, NOTHING_INSIDE };

static int try_to_leave(void)
{
    struct sg_err err;
    sg_auto_fd target = openat(arena_fd, "stage/target", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (sg_landlock_keep_only(target, &err) < 0)
        return err.kind == SG_UNSUPPORTED ? UNSUPPORTED : NOTHING_INSIDE;
    if (openat(arena_fd, "stage/outside/canary", O_RDONLY | O_CLOEXEC) >= 0)
        return READ_OUTSIDE;
    if (openat(arena_fd, "stage/outside/escape", O_WRONLY | O_CREAT | O_CLOEXEC, 0600) >= 0 ||
        unlinkat(arena_fd, "stage/outside/canary", 0) == 0 ||
        mkdirat(arena_fd, "stage/outside/escape", 0700) == 0)
        return WROTE_OUTSIDE;
    if (linkat(arena_fd, "stage/outside/canary", target, "h", 0) == 0)
        return LINKED_OUTSIDE;
    sg_auto_fd inside = openat(target, "file", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    bool is_fine = inside >= 0 && mkdirat(target, "dir", 0700) == 0 &&
                   linkat(target, "file", target, "dir/twin", 0) == 0;
    return is_fine ? CONFINED : NOTHING_INSIDE;
}

static void landlock_leaves_a_decoder_only_the_target(void **state)
{
    (void)state;
    pid_t pid = fork();
    if (pid == 0)
        _exit(try_to_leave());
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == UNSUPPORTED)
        skip(); /* no Landlock on this kernel: the program then says so in its summary */
    assert_int_equal(WEXITSTATUS(status), CONFINED);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, before_each, after_each)

int main(void)
{
    const struct CMUnitTest plain[] = {
        CASE(unpacks_plain_tar),
        CASE(unpacks_gzip),
        CASE(unpacks_bzip2),
        CASE(unpacks_xz),
        CASE(keeps_names_that_the_locale_cannot_spell),
        CASE(keeps_names_that_are_not_utf8),
        CASE(keeps_names_that_differ_by_case),
        CASE(takes_the_last_mode_of_a_directory_named_twice),
        CASE(drops_set_id_bits),
        CASE(keeps_set_id_bits_when_asked),
        CASE(skips_a_fifo_and_says_so),
        CASE(leaves_out_the_devices_of_dev),
        CASE(skips_devices_when_asked),
        CASE(drops_extended_attributes),
        CASE(believes_the_content_and_not_the_gzip_trailer),
        CASE(opens_a_root_that_the_archive_closes),
        CASE(refuses_an_owner_outside_of_the_range_unless_owners_are_ignored),
        CASE(counts_up_to_the_limit),
        CASE(landlock_leaves_a_decoder_only_the_target),
    };
    enum { PLAIN = SG_COUNT(plain), ALL = PLAIN + SG_COUNT(refusals) };
    struct CMUnitTest tests[ALL];
    memcpy(tests, plain, sizeof plain);
    for (size_t i = 0; i < SG_COUNT(refusals); i++)
        tests[PLAIN + i] = (struct CMUnitTest) {
            .name = refusals[i].test,
            .test_func = is_refused,
            .setup_func = before_each,
            .teardown_func = after_each,
            .initial_state = (void *)(uintptr_t)&refusals[i],
        };
    return cmocka_run_group_tests(tests, before_all, after_all);
}
