/* SPDX-License-Identifier: Apache-2.0 */
/* init: archives in and out, by workers.
 *
 * The hostile archives are those of tests/support/make_hostile_tars.py. Each is unpacked beside a
 * directory `outside` with a canary in it, which must be as before afterwards. */
#include <errno.h>

#include "init_place.h"
#include "base/banned.h"

#define CANARY "the canary sings\n"

static char archives[64]; /* made once */

static int make_archives(void **state)
{
    (void)state;
    const char *source = getenv("SANDGLASS_SOURCE");
    (void)snprintf(archives, sizeof archives, "/tmp/sandglass-tars-XXXXXX");
    if (!source || !mkdtemp(archives))
        return -1;
    sg_auto_free char *script = sg_printf("%s/tests/support/make_hostile_tars.py", source);
    return run(ARGV("/usr/bin/python3", script, archives));
}

static int remove_archives(void **state)
{
    (void)state;
    return sg_remove_tree(AT_FDCWD, archives);
}

static int start(void **state)
{
    place_start();
    shell("mkdir outside target && chmod 777 target");
    put_file("outside/canary", CANARY, strlen(CANARY));
    *state = &place.rig;
    return 0;
}

static void expect_absent(const char *name)
{
    struct stat st;
    sg_auto_free char *path = in_dir(name);
    assert_int_equal(lstat(path, &st), -1);
}

static int stop(void **state)
{
    rig_stop(*state);
    struct stat st;
    sg_auto_free char *canary = in_dir("outside/canary"), *escape = in_dir("escape");
    expect_file("outside/canary", CANARY);
    bool is_whole = stat(canary, &st) == 0 && st.st_nlink == 1 && (st.st_mode & 07777) == 0644 &&
                    mode_of("outside") == (S_IFDIR | 0755) && access(escape, F_OK) < 0 &&
                    access("/tmp/escape", F_OK) < 0 && access("/escape", F_OK) < 0;
    return place_remove() < 0 || !is_whole ? -1 : 0;
}

/* ---- asking ---- */

static struct sg_msg tar_message(enum sg_msg_type type, const char *path, uint32_t flags)
{
    return (struct sg_msg) { .type = type, .tar = { .path = sg_text_of(path), .flags = flags } };
}

static struct sg_msg *unpack(struct rig *r, const char *archive, uint32_t flags)
{
    sg_auto_free char *path = sg_printf("%s/%s", archives, archive);
    sg_auto_free char *target = in_dir("target");
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        fail_msg("no archive '%s'", archive);
    struct sg_msg m = tar_message(SG_MSG_TAR_IN, target, flags);
    return rig_reply(r, send_with(r, &m, fd));
}

static void unpack_well(struct rig *r, const char *archive, uint32_t flags)
{
    struct sg_msg *m = unpack(r, archive, flags);
    if (m->type != SG_MSG_OK)
        fail_msg("%s: %s", archive, m->error.text.p);
}

/* Packs `name` and leaves the archive in the buffer; the reply. */
static struct sg_msg *pack(struct rig *r, const char *name, struct sg_buf *out)
{
    int fds[2];
    sg_auto_free char *path = in_dir(name);
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    struct sg_msg m = tar_message(SG_MSG_TAR_OUT, path, 0);
    uint32_t id = send_with(r, &m, fds[1]);
    rig_read_all(fds[0], out);
    (void)close(fds[0]);
    return rig_reply(r, id);
}

/* ---- in ---- */

static void a_good_archive_is_unpacked(void **state)
{
    struct rig *r = *state;
    unpack_well(r, "good.tar", 0);
    expect_file("target/etc/passwd", "root:x:0:0::/root:/bin/sh\n");
    expect_file("target/bin/twin", "#!/bin/sh\n");
    assert_int_equal(mode_of("target/bin/tool"), S_IFREG | 0755);
    assert_int_equal(mode_of("target/bin/alias") & S_IFMT, S_IFLNK);
    struct stat st, twin;
    sg_auto_free char *tool = in_dir("target/bin/tool"), *other = in_dir("target/bin/twin");
    assert_int_equal(stat(tool, &st) | stat(other, &twin), 0);
    assert_int_equal(st.st_ino, twin.st_ino);
    assert_int_equal(st.st_mtim.tv_sec, 1700000000);
    sg_auto_free char *dir = in_dir("target/bin");
    assert_int_equal(stat(dir, &st), 0);
    assert_int_equal(st.st_mtim.tv_sec, 1700000000);
}

static void odd_and_harmless_archives_are_unpacked(void **state)
{
    struct rig *r = *state;
    static const char *const names[] = { "unicode.tar", "not-utf8.tar",  "case.tar",
                                         "deep.tar",    "big-owner.tar", "no-entries.tar",
                                         "many.tar",    "capability.tar" };
    for (unsigned i = 0; i < SG_COUNT(names); i++)
        unpack_well(r, names[i], SG_TAR_OVERWRITE);
    expect_file("target/Name", "upper");
    expect_file("target/name", "lower");
}

static void set_id_bits_are_dropped(void **state)
{
    unpack_well(*state, "setuid.tar", 0);
    assert_int_equal(mode_of("target/su"), S_IFREG | 0755);
    assert_int_equal(mode_of("target/shared"), S_IFDIR | 0775);
}

static void a_directory_that_was_there_keeps_its_mode(void **state)
{
    unpack_well(*state, "private-root.tar", 0);
    assert_int_equal(mode_of("target"), S_IFDIR | 0777);
    unpack_well(*state, "twice-directory.tar", SG_TAR_OVERWRITE);
    assert_int_equal(mode_of("target/d"), S_IFDIR | 0700);
}

static const struct refusal {
    const char *archive;
    uint32_t flags;
    enum sg_kind kind;
    const char *words;
} refusals[] = {
    { "dotdot.tar", 0, SG_INVALID, "'../escape' has '..'" },
    { "dotdot-inside.tar", 0, SG_INVALID, "has '..'" },
    { "dotdot-pax.tar", 0, SG_INVALID, "'b/../../escape' has '..'" },
    { "dotdot-long.tar", 0, SG_INVALID, "has '..'" },
    { "absolute.tar", 0, SG_INVALID, "'/escape' has an absolute name" },
    { "absolute-pax.tar", 0, SG_INVALID, "absolute name" },
    { "long-component.tar", 0, SG_INVALID, "too long" },
    { "long-name.tar", 0, SG_INVALID, "over 4095 bytes" },
    { "no-name.tar", 0, SG_INVALID, "without a name" },
    { "below-symlink.tar", 0, SG_INVALID, "'../outside', which leads out" },
    { "below-symlink.tar", SG_TAR_ANY_LINK, SG_INVALID, "goes through a symbolic link" },
    { "below-absolute-symlink.tar", 0, SG_INVALID, "leads out" },
    { "below-absolute-symlink.tar", SG_TAR_ANY_LINK, SG_INVALID, "goes through" },
    { "link-to-link.tar", 0, SG_INVALID, "leads out" },
    { "link-to-link.tar", SG_TAR_ANY_LINK, SG_INVALID, "goes through" },
    { "directory-below-symlink.tar", SG_TAR_ANY_LINK, SG_INVALID, "goes through" },
    { "symlink-below-symlink.tar", SG_TAR_ANY_LINK, SG_INVALID, "goes through" },
    { "over-symlink.tar", SG_TAR_ANY_LINK, SG_CONFLICT, "is there already" },
    { "directory-over-symlink.tar", SG_TAR_ANY_LINK | SG_TAR_OVERWRITE, SG_CONFLICT,
      "not a directory" },
    { "root-is-symlink.tar", SG_TAR_ANY_LINK, SG_INVALID, "the directory itself" },
    { "hardlink-dotdot.tar", SG_TAR_ANY_LINK, SG_INVALID, "leads out" },
    { "hardlink-absolute.tar", SG_TAR_ANY_LINK, SG_INVALID, "leads out" },
    { "hardlink-through-symlink.tar", SG_TAR_ANY_LINK, SG_INVALID, "is no file in here" },
    { "hardlink-missing.tar", 0, SG_INVALID, "is no file in here" },
    { "hardlink-then-file.tar", SG_TAR_ANY_LINK, SG_CONFLICT, "is there already" },
    { "hardlink-directory.tar", 0, SG_INVALID, "is no file in here" },
    { "char-device.tar", 0, SG_INVALID, "'null' is a device" },
    { "block-device.tar", 0, SG_INVALID, "is a device" },
    { "whiteout.tar", 0, SG_INVALID, "is a device" },
    { "fifo.tar", 0, SG_INVALID, "'pipe' is a FIFO" },
    { "twice-file.tar", 0, SG_CONFLICT, "'f' is there already" },
    { "file-then-below.tar", 0, SG_INVALID, "not a directory" },
    { "file-then-below.tar", SG_TAR_OVERWRITE, SG_INVALID, "not a directory" },
    { "sparse.tar", 0, SG_UNSUPPORTED, "sparse" },
    { "huge-size.tar", 0, SG_INVALID, "ends early" },
    { "negative-size.tar", 0, SG_INVALID, "broken size" },
    { "empty.tar", 0, SG_INVALID, "ends early" },
    { "garbage.tar", 0, SG_INVALID, "checksum" },
    { "truncated.tar", 0, SG_INVALID, "'f': the archive ends early" },
    { "short-size.tar", 0, SG_INVALID, "ends early" },
    { "zip.tar", 0, SG_INVALID, "checksum" },
    { "good.tar.gz", 0, SG_INVALID, "" },
};

static void hostile_archives_are_refused_by_name_of_the_entry(void **state)
{
    struct rig *r = *state;
    sg_auto_free char *target = in_dir("target");
    for (unsigned i = 0; i < SG_COUNT(refusals); i++) {
        const struct refusal *c = &refusals[i];
        struct sg_msg *m = unpack(r, c->archive, c->flags);
        if (m->type != SG_MSG_ERROR || m->error.kind != (uint32_t)c->kind ||
            !strstr(m->error.text.p, c->words))
            fail_msg("%s: %s", c->archive, m->type == SG_MSG_ERROR ? m->error.text.p : "accepted");
        assert_int_equal(sg_remove_tree(AT_FDCWD, target), 0);
        assert_int_equal(mkdir(target, 0777), 0);
    }
}

static void replacing_never_writes_through_a_link(void **state)
{
    struct rig *r = *state;
    unpack_well(r, "over-symlink.tar", SG_TAR_ANY_LINK | SG_TAR_OVERWRITE);
    assert_int_equal(mode_of("target/x") & S_IFMT, S_IFREG);
    unpack_well(r, "hardlink-then-file.tar", SG_TAR_ANY_LINK | SG_TAR_OVERWRITE);
    unpack_well(r, "twice-file.tar", SG_TAR_OVERWRITE);
    expect_file("target/f", "2");
    shell("ln outside/canary target/Name");
    unpack_well(r, "case.tar", SG_TAR_OVERWRITE);
    expect_file("target/Name", "upper");
}

static void half_a_file_does_not_stay(void **state)
{
    struct rig *r = *state;
    assert_int_equal(unpack(r, "truncated.tar", 0)->type, SG_MSG_ERROR);
    expect_absent("target/f");
}

static void a_missing_directory_is_made(void **state)
{
    struct rig *r = *state;
    sg_auto_free char *path = sg_printf("%s/case.tar", archives);
    sg_auto_free char *target = in_dir("target/new/place");
    struct sg_msg m = tar_message(SG_MSG_TAR_IN, target, 0);
    assert_int_equal(rig_reply(r, send_with(r, &m, open(path, O_RDONLY | O_CLOEXEC)))->type,
                     SG_MSG_OK);
    expect_file("target/new/place/Name", "upper");
}

static void files_belong_to_the_user_and_need_his_rights(void **state)
{
    if (geteuid() != 0)
        skip();
    struct rig *r = *state;
    sg_auto_free char *path = sg_printf("%s/case.tar", archives);
    sg_auto_free char *target = in_dir("target"), *file = in_dir("target/name");
    struct sg_msg m = tar_message(SG_MSG_TAR_IN, target, 0);
    m.tar.user = sg_text_of("1234:1234");
    assert_int_equal(rig_reply(r, send_with(r, &m, open(path, O_RDONLY | O_CLOEXEC)))->type,
                     SG_MSG_OK);
    struct stat st;
    assert_int_equal(stat(file, &st), 0);
    assert_int_equal(st.st_uid, 1234);
    m.tar.path = sg_text_of(place.dir);
    struct sg_msg *reply = rig_reply(r, send_with(r, &m, open(path, O_RDONLY | O_CLOEXEC)));
    assert_int_equal(reply->type, SG_MSG_ERROR);
    assert_int_equal(reply->error.kind, SG_DENIED);
}

static void requests_without_a_descriptor_are_refused(void **state)
{
    struct rig *r = *state;
    rig_refuse(r, tar_message(SG_MSG_TAR_IN, "/tmp", 0), SG_INVALID, 0);
    rig_refuse(r, tar_message(SG_MSG_TAR_OUT, "/tmp", 0), SG_INVALID, 0);
    struct sg_msg find = { .type = SG_MSG_FIND, .find = { .path = sg_text_of("/tmp") } };
    rig_refuse(r, find, SG_INVALID, 0);
}

/* ---- out ---- */

static void every_format_of_tar_is_read(void **state)
{
    struct rig *r = *state;
    static const char *const formats[] = { "gnu", "pax", "ustar", "v7", "oldgnu" };
    sg_auto_free char *target = in_dir("target/copy"), *archive = in_dir("a.tar");
    shell("mkdir -p source/dir && cd source && echo one >dir/one && ln dir/one dir/two && "
          "ln -s one dir/link && chmod 500 dir && head -c 100000 /dev/urandom >big");
    for (unsigned i = 0; i < SG_COUNT(formats); i++) {
        sg_auto_free char *make = sg_printf("tar --format=%s -cf a.tar -C source .", formats[i]);
        shell(make);
        struct sg_msg m = tar_message(SG_MSG_TAR_IN, target, 0);
        struct sg_msg *reply = rig_reply(r, send_with(r, &m, open(archive, O_RDONLY | O_CLOEXEC)));
        if (reply->type != SG_MSG_OK)
            fail_msg("%s: %s", formats[i], reply->error.text.p);
        shell(
            "diff -r --no-dereference source target/copy && test -d target/copy/dir && "
            "test $(stat -c %a target/copy/dir) = 500 && chmod -R u+w target && rm -r target/copy");
    }
}

static void long_names_come_back(void **state)
{
    struct rig *r = *state;
    sg_auto_free char *target = in_dir("target"), *archive = in_dir("a.tar");
    shell("mkdir source && cd source && d=$(printf 'x%.0s' $(seq 200)) && mkdir -p $d/$d && "
          "echo deep >$d/$d/$d && ln -s $d/$d/$d link");
    static const char *const formats[] = { "gnu", "pax" };
    for (unsigned i = 0; i < SG_COUNT(formats); i++) {
        sg_auto_free char *make = sg_printf("tar --format=%s -cf a.tar -C source .", formats[i]);
        shell(make);
        struct sg_msg m = tar_message(SG_MSG_TAR_IN, target, SG_TAR_OVERWRITE);
        (void)rig_reply(r, send_with(r, &m, open(archive, O_RDONLY | O_CLOEXEC)));
        shell("diff -r --no-dereference source target");
    }
    sg_auto_buf out;
    sg_buf_init(&out, 1 << 20);
    assert_int_equal(pack(r, "source", &out)->type, SG_MSG_OK);
    put_file("b.tar", (const char *)out.p, out.n);
    shell("mkdir again && tar -xf b.tar -C again && diff -r --no-dereference source again");
}

static void a_tree_comes_back_through_another_tar(void **state)
{
    struct rig *r = *state;
    shell("mkdir -p source/d/e source/empty && cd source && echo a >a && : >zero && "
          "head -c 70000 /dev/urandom >d/big && head -c 512 /dev/zero >d/block && "
          "ln -s ../a d/up && ln -s /etc/passwd abs && chmod 640 a && touch -d @1234567890 a d && "
          "mkfifo pipe");
    sg_auto_buf out;
    sg_buf_init(&out, 1 << 20);
    assert_int_equal(pack(r, "source", &out)->type, SG_MSG_OK);
    assert_int_equal(out.n % 512, 0);
    put_file("b.tar", (const char *)out.p, out.n);
    shell("mkdir again && tar -xpf b.tar -C again && rm source/pipe && "
          "diff -r --no-dereference source again && test $(stat -c %a again/a) = 640 && "
          "test $(stat -c %Y again/a) = 1234567890 && test $(stat -c %Y again/d) = 1234567890");
    shell("python3 -c 'import tarfile; tarfile.open(\"b.tar\").extractall(\"py\")' && "
          "diff -r --no-dereference source py");
}

static void what_goes_out_goes_in_again(void **state)
{
    struct rig *r = *state;
    shell("mkdir -p source/d && cd source && echo a >a && ln -s /usr/bin/env d/env");
    sg_auto_free char *target = in_dir("target"), *source = in_dir("source");
    int fds[2];
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    struct sg_msg in = tar_message(SG_MSG_TAR_IN, target, SG_TAR_ANY_LINK);
    struct sg_msg out = tar_message(SG_MSG_TAR_OUT, source, 0);
    uint32_t first = send_with(r, &in, fds[0]), second = send_with(r, &out, fds[1]);
    for (unsigned i = 0; i < 2; i++) { /* in either order */
        while (sg_msg_table[rig_take(r)].role != SG_ROLE_REPLY)
            ;
        assert_int_equal(r->packet.msg.type, SG_MSG_OK);
        assert_true(r->packet.msg.id == first || r->packet.msg.id == second);
    }
    shell("diff -r --no-dereference source target");
}

static void a_single_file_goes_under_its_own_name(void **state)
{
    struct rig *r = *state;
    sg_auto_buf out;
    sg_buf_init(&out, 1 << 20);
    assert_int_equal(pack(r, "outside/canary", &out)->type, SG_MSG_OK);
    assert_int_equal(out.n, 512 + 512 + 1024);
    assert_string_equal((const char *)out.p, "canary");
}

static void what_is_missing_or_special_cannot_be_packed(void **state)
{
    struct rig *r = *state;
    sg_auto_buf out;
    sg_buf_init(&out, 1 << 20);
    struct sg_msg *m = pack(r, "nothing", &out);
    assert_int_equal(m->type, SG_MSG_ERROR);
    assert_int_equal(m->error.kind, SG_NOT_FOUND);
    shell("mkfifo pipe");
    m = pack(r, "pipe", &out);
    assert_int_equal(m->error.kind, SG_INVALID);
}

static void an_unreadable_file_is_not_left_out_in_silence(void **state)
{
    if (geteuid() != 0)
        skip();
    struct rig *r = *state;
    shell("mkdir source && echo secret >source/mine && chmod 600 source/mine");
    sg_auto_free char *source = in_dir("source");
    struct sg_msg m = tar_message(SG_MSG_TAR_OUT, source, 0);
    m.tar.user = sg_text_of("1234");
    struct sg_msg *reply = rig_reply(r, send_with(r, &m, open("/dev/null", O_WRONLY | O_CLOEXEC)));
    assert_int_equal(reply->type, SG_MSG_ERROR);
    assert_int_equal(reply->error.kind, SG_DENIED);
    assert_non_null(strstr(reply->error.text.p, "'mine'"));
}

static void a_reader_that_leaves_ends_the_packing(void **state)
{
    struct rig *r = *state;
    shell("mkdir source && head -c 1000000 /dev/zero >source/big");
    sg_auto_free char *source = in_dir("source");
    int fds[2];
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    struct sg_msg m = tar_message(SG_MSG_TAR_OUT, source, 0);
    uint32_t id = send_with(r, &m, fds[1]);
    (void)close(fds[0]);
    struct sg_msg *reply = rig_reply(r, id);
    assert_int_equal(reply->type, SG_MSG_ERROR);
    assert_int_equal(reply->error.sys, EPIPE);
}

/* ---- workers ---- */

static void workers_are_bounded_and_end_with_their_connection(void **state)
{
    (void)state;
    struct rig r;
    rig_start_kept(&r);
    sg_auto_free char *target = in_dir("target");
    struct sg_msg m = tar_message(SG_MSG_TAR_IN, target, 0);
    int ends[SG_INIT_MAX_WORKERS + 1];
    uint32_t id = 0;
    for (unsigned i = 0; i <= SG_INIT_MAX_WORKERS; i++) {
        int fds[2];
        assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
        id = send_with(&r, &m, fds[0]);
        ends[i] = fds[1];
    }
    assert_int_equal(rig_reply(&r, id)->error.kind, SG_EXHAUSTED);
    rig_come_back(&r);
    rig_hello(&r, SG_HELLO_KEEP, 2);
    for (unsigned i = 0; i <= SG_INIT_MAX_WORKERS; i++) {
        struct pollfd p = { .fd = ends[i] };
        assert_int_equal(poll(&p, 1, RIG_PATIENCE_MS), 1);
        assert_true(p.revents & POLLERR); /* nobody reads any more */
        (void)close(ends[i]);
    }
    (void)rig_do(&r, (struct sg_msg) { .type = SG_MSG_INFO }, SG_MSG_INFOED);
    rig_stop(&r);
}

static void a_worker_that_is_killed_is_answered_for(void **state)
{
    if (geteuid() != 0)
        skip();
    struct rig *r = *state;
    sg_auto_free char *target = in_dir("target");
    struct sg_msg m = tar_message(SG_MSG_TAR_IN, target, 0);
    int fds[2];
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    uint32_t id = send_with(r, &m, fds[0]);
    struct sg_msg all = { .type = SG_MSG_SIGNAL, .signal = { 0, SIGKILL, SG_SIGNAL_ALL } };
    uint32_t kill_id = rig_send(r, &all, NULL, 0);
    assert_int_equal(rig_reply(r, kill_id)->type, SG_MSG_OK);
    struct sg_msg *reply = rig_reply(r, id);
    assert_int_equal(reply->type, SG_MSG_ERROR);
    assert_int_equal(reply->error.kind, SG_EXHAUSTED); /* most likely */
    (void)close(fds[1]);
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, start, stop)
    const struct CMUnitTest tests[] = {
        CASE(a_good_archive_is_unpacked),
        CASE(odd_and_harmless_archives_are_unpacked),
        CASE(set_id_bits_are_dropped),
        CASE(a_directory_that_was_there_keeps_its_mode),
        CASE(hostile_archives_are_refused_by_name_of_the_entry),
        CASE(replacing_never_writes_through_a_link),
        CASE(half_a_file_does_not_stay),
        CASE(a_missing_directory_is_made),
        CASE(files_belong_to_the_user_and_need_his_rights),
        CASE(requests_without_a_descriptor_are_refused),
        CASE(every_format_of_tar_is_read),
        CASE(long_names_come_back),
        CASE(a_tree_comes_back_through_another_tar),
        CASE(what_goes_out_goes_in_again),
        CASE(a_single_file_goes_under_its_own_name),
        CASE(what_is_missing_or_special_cannot_be_packed),
        CASE(an_unreadable_file_is_not_left_out_in_silence),
        CASE(a_reader_that_leaves_ends_the_packing),
        CASE(workers_are_bounded_and_end_with_their_connection),
        CASE(a_worker_that_is_killed_is_answered_for),
    };
    return cmocka_run_group_tests(tests, make_archives, remove_archives);
}
