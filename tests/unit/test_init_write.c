/* SPDX-License-Identifier: Apache-2.0 */
/* init: uploads, by workers: whole or not at all, as the user, without a trace of what broke off.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/xattr.h>

#include "ctl/entry.h"
#include "init_place.h"
#include "base/banned.h"

static const char SEAL[] = { SG_WRITE_SEAL };

static int start(void **state)
{
    place_start();
    shell("mkdir d && chmod 777 d");
    *state = &place.rig;
    return 0;
}

static int stop(void **state)
{
    rig_stop(*state);
    return place_remove();
}

static unsigned entries(const char *name)
{
    unsigned n = 0;
    sg_auto_free char *path = in_dir(name);
    DIR *d = opendir(path);
    while (d && readdir(d))
        n++;
    (void)closedir(d);
    return n - 2;
}

static struct sg_msg message(const char *user, const char *path, uint32_t flags, uint32_t mode)
{
    return (struct sg_msg) { .type = SG_MSG_WRITE,
                             .write = { .user = sg_text_of(user),
                                        .path = sg_text_of(path),
                                        .flags = flags,
                                        .mode = mode } };
}

/* An upload that is under way: the id of the request, and our end. */
struct upload {
    uint32_t id;
    int fd;
};

static struct upload begin_as(struct rig *r, const char *user, const char *name, uint32_t flags,
                              uint32_t mode)
{
    int fds[2];
    sg_auto_free char *path = in_dir(name);
    struct sg_msg m = message(user, path, flags, mode);
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    return (struct upload) { send_with(r, &m, fds[0]), fds[1] };
}

static struct upload begin(struct rig *r, const char *name, uint32_t flags)
{
    return begin_as(r, "", name, flags, 0644);
}

static void put(const struct upload *u, const char *p, size_t n)
{
    assert_int_equal(write(u->fd, p, n), (ssize_t)n);
}

static struct sg_msg *finish(struct rig *r, struct upload u)
{
    (void)close(u.fd);
    return rig_reply(r, u.id);
}

static void upload(struct rig *r, const char *name, uint32_t flags, const char *text)
{
    struct upload u = begin(r, name, flags);
    put(&u, text, strlen(text));
    put(&u, SEAL, 1);
    struct sg_msg *m = finish(r, u);
    if (m->type != SG_MSG_OK)
        fail_msg("%s: %s", name, m->error.text.p);
}

static void expect_error(const struct sg_msg *m, enum sg_kind kind, int sys)
{
    assert_int_equal(m->type, SG_MSG_ERROR);
    assert_int_equal(m->error.kind, kind);
    assert_int_equal(m->error.sys, sys);
}

/* ---- whole files ---- */

static void a_file_appears_when_it_is_whole(void **state)
{
    struct rig *r = *state;
    struct upload u = begin(r, "d/f", 0);
    put(&u, "half", 4);
    (void)rig_do(r, (struct sg_msg) { .type = SG_MSG_INFO }, SG_MSG_INFOED);
    assert_int_equal(entries("d"), 0);
    put(&u, "whole", 5);
    put(&u, SEAL, 1);
    assert_int_equal(finish(r, u)->type, SG_MSG_OK);
    expect_file("d/f", "halfwhole");
    assert_int_equal(mode_of("d/f"), S_IFREG | 0644);
    assert_int_equal(entries("d"), 1);
}

static void what_was_there_is_replaced_and_lends_its_mode_if_asked(void **state)
{
    struct rig *r = *state;
    upload(r, "d/f", 0, "first");
    shell("chmod 751 d/f && ln d/f d/twin && ln -s f d/link");
    upload(r, "d/f", SG_WRITE_KEEP_MODE, "");
    expect_file("d/f", "");
    expect_file("d/twin", "first");
    assert_int_equal(mode_of("d/f"), S_IFREG | 0751);
    upload(r, "d/link", SG_WRITE_KEEP_MODE, "no link any more");
    expect_file("d/link", "no link any more");
    expect_file("d/f", "");
    upload(r, "d/new", SG_WRITE_KEEP_MODE, "x");
    assert_int_equal(mode_of("d/new"), S_IFREG | 0644);
    assert_int_equal(entries("d"), 4);
}

/* The content may end in any byte; the seal is the one after it. */
static void every_byte_arrives(void **state)
{
    struct rig *r = *state;
    enum { BYTES = 3 << 20 };
    char *data = sg_alloc(BYTES);
    for (size_t i = 0; i < BYTES; i++)
        data[i] = (char)(i * 7 + i / 251);
    data[BYTES - 1] = SG_WRITE_SEAL;
    struct upload u = begin(r, "d/f", 0);
    for (size_t i = 0, n; i < BYTES; i += n) {
        n = 1 + (i * 31) % 70001 < BYTES - i ? 1 + (i * 31) % 70001 : BYTES - i;
        put(&u, data + i, n);
    }
    put(&u, SEAL, 1);
    assert_int_equal(finish(r, u)->type, SG_MSG_OK);
    sg_auto_free char *path = in_dir("d/f");
    sg_auto_fd fd = open(path, O_RDONLY | O_CLOEXEC);
    sg_auto_buf got;
    struct sg_err err = { 0 };
    sg_buf_init(&got, BYTES + 1);
    assert_ok(sg_buf_read_fd(&got, fd, path, &err), err);
    assert_int_equal(got.n, BYTES);
    assert_memory_equal(got.p, data, BYTES);
    free(data);
}

static void what_is_not_sealed_leaves_nothing(void **state)
{
    struct rig *r = *state;
    upload(r, "d/f", 0, "old");
    struct upload u = begin(r, "d/f", 0);
    expect_error(finish(r, u), SG_INVALID, 0);
    u = begin(r, "d/f", 0);
    put(&u, "new", 3);
    expect_error(finish(r, u), SG_INVALID, 0);
    expect_file("d/f", "old");
    assert_int_equal(entries("d"), 1);
}

static void a_host_that_goes_leaves_nothing(void **state)
{
    (void)state;
    struct rig r;
    rig_start_kept(&r);
    struct upload u = begin(&r, "d/f", 0);
    put(&u, "new", 3);
    (void)rig_do(&r, (struct sg_msg) { .type = SG_MSG_INFO }, SG_MSG_INFOED);
    rig_come_back(&r);
    rig_hello(&r, SG_HELLO_KEEP, 2);
    struct pollfd p = { .fd = u.fd };
    assert_int_equal(poll(&p, 1, RIG_PATIENCE_MS), 1);
    assert_true(p.revents & POLLERR); /* the worker is gone */
    (void)close(u.fd);
    assert_int_equal(entries("d"), 0);
    rig_stop(&r);
}

/* ---- into what is there ---- */

static void an_append_adds_at_the_end_and_makes_the_file(void **state)
{
    struct rig *r = *state;
    upload(r, "d/f", SG_WRITE_APPEND, "one");
    shell("ln -s f d/link && chmod 600 d/f");
    upload(r, "d/link", SG_WRITE_APPEND, " two");
    expect_file("d/f", "one two");
    assert_int_equal(mode_of("d/f"), S_IFREG | 0600);
    struct upload u = begin(r, "d/f", SG_WRITE_APPEND);
    put(&u, "!?", 2);
    expect_error(finish(r, u), SG_INVALID, 0);
    expect_file("d/f", "one two!");
}

static void in_place_the_file_stays_itself(void **state)
{
    struct rig *r = *state;
    upload(r, "d/f", 0, "a longer text");
    shell("ln d/f d/twin && ln -s f d/link");
    upload(r, "d/link", SG_WRITE_IN_PLACE, "short");
    expect_file("d/twin", "short");
    assert_int_equal(mode_of("d/link") & S_IFMT, S_IFLNK);
}

static void parents_are_made_where_asked(void **state)
{
    struct rig *r = *state;
    struct upload u = begin(r, "a/b/f", 0);
    expect_error(finish(r, u), SG_NOT_FOUND, ENOENT);
    upload(r, "a/b/f", SG_WRITE_PARENTS, "deep");
    expect_file("a/b/f", "deep");
    assert_int_equal(mode_of("a/b"), S_IFDIR | 0755);
    upload(r, "a/b/g", SG_WRITE_PARENTS | SG_WRITE_IN_PLACE, "too");
    expect_file("a/b/g", "too");
}

/* ---- refusals ---- */

static void what_cannot_be_opened_is_told_at_once(void **state)
{
    struct rig *r = *state;
    shell("mkfifo d/fifo && mkdir d/sub && echo x > d/f");
    static const struct {
        const char *name;
        uint32_t flags;
        enum sg_kind kind;
        int sys;
    } rows[] = {
        { "d/sub", 0, SG_CONFLICT, 0 },
        { "d/sub", SG_WRITE_APPEND, SG_INVALID, EISDIR },
        { "d/fifo", SG_WRITE_IN_PLACE, SG_INVALID, ENXIO },
        { "d/f/below", 0, SG_NOT_FOUND, ENOTDIR },
        { "no/f", SG_WRITE_APPEND, SG_NOT_FOUND, ENOENT },
        { "d/..", 0, SG_INVALID, 0 },
    };
    for (unsigned i = 0; i < SG_COUNT(rows); i++) {
        struct upload u = begin(r, rows[i].name, rows[i].flags);
        struct sg_msg *m = rig_reply(r, u.id); /* though the pipe is open */
        if (m->type != SG_MSG_ERROR || m->error.kind != rows[i].kind ||
            m->error.sys != (uint32_t)rows[i].sys)
            fail_msg("%s: %u %u %s", rows[i].name, (unsigned)m->error.kind, (unsigned)m->error.sys,
                     m->error.text.p);
        (void)close(u.fd);
    }
    struct sg_msg m = message("", "/tmp/x", 0, 0644);
    expect_error(rig_reply(r, rig_send(r, &m, NULL, 0)), SG_INVALID, 0);
}

static void files_belong_to_the_user_and_need_his_rights(void **state)
{
    if (geteuid() != 0)
        skip();
    struct rig *r = *state;
    struct upload u = begin_as(r, "daemon", "f", 0, 0644); /* the directory is root's */
    expect_error(finish(r, u), SG_DENIED, EACCES);
    u = begin_as(r, "daemon", "d/f", 0, 0400);
    put(&u, SEAL, 1);
    assert_int_equal(finish(r, u)->type, SG_MSG_OK);
    struct stat st;
    sg_auto_free char *path = in_dir("d/f");
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_uid, 1);
    assert_int_equal(st.st_mode, S_IFREG | 0400);
    u = begin_as(r, "daemon", "d/f", 0, 0400); /* replacing needs no right to the file */
    put(&u, SEAL, 1);
    assert_int_equal(finish(r, u)->type, SG_MSG_OK);
    u = begin_as(r, "daemon", "d/f", SG_WRITE_APPEND, 0400);
    expect_error(finish(r, u), SG_DENIED, EACCES);
}

static void a_full_disk_is_told_and_leaves_nothing(void **state)
{
    if (geteuid() != 0)
        skip();
    struct rig *r = *state;
    sg_auto_free char *dir = in_dir("d");
    if (mount("none", dir, "tmpfs", 0, "size=64k") < 0)
        skip();
    struct upload u = begin(r, "d/f", 0);
    static const char block[4096];
    const struct sigaction ignore = { .sa_handler = SIG_IGN };
    assert_int_equal(sigaction(SIGPIPE, &ignore, NULL), 0);
    while (write(u.fd, block, sizeof block) > 0)
        ;
    assert_int_equal(errno, EPIPE);
    expect_error(finish(r, u), SG_EXHAUSTED, ENOSPC);
    assert_int_equal(entries("d"), 0);
    upload(r, "d/small", 0, "fits");
    assert_int_equal(umount(dir), 0);
}

/* ---- labels ---- */

static void upload_labelled(struct rig *r, const char *name, uint32_t flags, char *const *labels)
{
    int fds[2];
    sg_auto_free char *path = in_dir(name);
    sg_auto_buf store;
    struct sg_msg m = message("", path, flags | SG_WRITE_LABELS, 0644);
    sg_buf_init(&store, 64 << 10);
    assert_int_equal(sg_texts_pack(labels, &store, &m.write.labels, NULL), 0);
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    struct upload u = { send_with(r, &m, fds[0]), fds[1] };
    put(&u, SEAL, 1);
    struct sg_msg *reply = finish(r, u);
    if (reply->type != SG_MSG_OK)
        fail_msg("%s: %s", name, reply->error.text.p);
}

/* "a=1 b=2" */
static void expect_labels(struct rig *r, const char *name, const char *expected)
{
    sg_auto_free char *path = in_dir(name);
    const struct sg_msg q = { .type = SG_MSG_STAT,
                              .stat = { sg_text_of(""), sg_text_of(path), SG_STAT_LABELS } };
    struct sg_texts labels = rig_do(r, q, SG_MSG_STATED)->stated.labels;
    struct sg_text key, value;
    sg_auto_buf found;
    sg_buf_init(&found, 64 << 10);
    while (sg_text_next(&labels, &key) && sg_text_next(&labels, &value))
        sg_buf_addf(&found, "%s%s=%s", found.n ? " " : "", key.p, value.p);
    assert_string_equal(sg_buf_cstr(&found), expected);
}

static void labels_are_replaced_as_a_whole(void **state)
{
    struct rig *r = *state;
    char a[] = "a", b[] = "b", one[] = "1", two[] = "x y", *both[] = { a, one, b, two, NULL },
         *second[] = { b, one, NULL }, *none[] = { NULL };
    upload(r, "d/f", 0, "");
    expect_labels(r, "d/f", "");
    upload_labelled(r, "d/f", SG_WRITE_IN_PLACE, both);
    expect_labels(r, "d/f", "a=1 b=x y");
    upload(r, "d/f", SG_WRITE_IN_PLACE, ""); /* who does not speak of them leaves them */
    expect_labels(r, "d/f", "a=1 b=x y");
    upload_labelled(r, "d/f", SG_WRITE_IN_PLACE, second);
    expect_labels(r, "d/f", "b=1");
    upload_labelled(r, "d/f", SG_WRITE_IN_PLACE, none);
    expect_labels(r, "d/f", "");
    upload_labelled(r, "d/whole", 0, both);
    expect_labels(r, "d/whole", "a=1 b=x y");
}

/* Attributes are the sandbox's to set: what is no text, or too much, is passed over. */
static void labels_of_strangers_are_bounded(void **state)
{
    struct rig *r = *state;
    sg_auto_free char *path = in_dir("d/f"), *much = sg_alloc(3001);
    memset(much, 'x', 3000);
    upload(r, "d/f", 0, "");
    assert_int_equal(setxattr(path, "user.e2b.good", "yes", 3, 0), 0);
    assert_int_equal(setxattr(path, "user.e2b.nul", "a\0b", 3, 0), 0);
    assert_int_equal(setxattr(path, "user.e2b.bytes", "\xff\xfe", 2, 0), 0);
    assert_int_equal(setxattr(path, "user.e2b.", "no name", 7, 0), 0);
    assert_int_equal(setxattr(path, "user.other", "none of ours", 12, 0), 0);
    expect_labels(r, "d/f", "good=yes");
    for (unsigned i = 0; i < 300; i++) { /* as many as the file system has room for */
        char name[32];
        (void)snprintf(name, sizeof name, "user.e2b.l%u", i);
        if (setxattr(path, name, "v", 1, 0) < 0)
            break;
    }
    (void)setxattr(path, "user.e2b.z", much, 3000, 0); /* where the file system has the room */
    const struct sg_msg q = { .type = SG_MSG_STAT,
                              .stat = { sg_text_of(""), sg_text_of(path), SG_STAT_LABELS } };
    struct sg_texts labels = rig_do(r, q, SG_MSG_STATED)->stated.labels;
    assert_true(labels.n < 16384 && labels.count >= 2 && labels.count % 2 == 0);
}

static void a_list_says_who_has_labels(void **state)
{
    struct rig *r = *state;
    char a[] = "a", one[] = "1", *labels[] = { a, one, NULL };
    upload(r, "d/plain", 0, "");
    upload_labelled(r, "d/with", 0, labels);
    shell("ln -s with d/link");
    sg_auto_free char *path = in_dir("d");
    const struct sg_msg q = { .type = SG_MSG_LIST,
                              .list = { sg_text_of(""), sg_text_of(path), 0 } };
    struct sg_bytes entries_ = rig_do(r, q, SG_MSG_LISTED)->listed.entries;
    struct sg_entry e;
    bool is_bad;
    unsigned seen = 0;
    for (; sg_entry_next(&entries_, &e, &is_bad); seen++)
        assert_int_equal(e.flags, strcmp(e.name.p, "with") == 0 ? SG_ENTRY_LABELLED : 0);
    assert_int_equal(seen, 3);
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, start, stop)
    const struct CMUnitTest tests[] = {
        CASE(a_file_appears_when_it_is_whole),
        CASE(what_was_there_is_replaced_and_lends_its_mode_if_asked),
        CASE(every_byte_arrives),
        CASE(what_is_not_sealed_leaves_nothing),
        CASE(a_host_that_goes_leaves_nothing),
        CASE(an_append_adds_at_the_end_and_makes_the_file),
        CASE(in_place_the_file_stays_itself),
        CASE(parents_are_made_where_asked),
        CASE(what_cannot_be_opened_is_told_at_once),
        CASE(files_belong_to_the_user_and_need_his_rights),
        CASE(a_full_disk_is_told_and_leaves_nothing),
        CASE(labels_are_replaced_as_a_whole),
        CASE(labels_of_strangers_are_bounded),
        CASE(a_list_says_who_has_labels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
