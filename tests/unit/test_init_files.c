/* SPDX-License-Identifier: Apache-2.0 */
/* init: files inside, as a user. */
#include <errno.h>
#include <sys/stat.h>

#include "base/parse.h"
#include "ctl/entry.h"
#include "init/remove.h"
#include "init_rig.h"
#include "base/banned.h"

/* A rig with a directory of its own; everybody may write there. */
struct place {
    struct rig rig;
    char dir[32];
    char path[8][128]; /* a ring of joined paths */
    unsigned next;
};

static int start(void **state)
{
    static struct place p;
    memset(&p, 0, sizeof p);
    /* in memory where possible: ten thousand directories on a busy disk take longer than patience
     */
    const char *where = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    (void)snprintf(p.dir, sizeof p.dir, "%s/sg-files-XXXXXX", where);
    if (!mkdtemp(p.dir) || chmod(p.dir, 0777) < 0)
        return -1;
    rig_start(&p.rig);
    *state = &p;
    return 0;
}

static int stop(void **state)
{
    struct place *p = *state;
    rig_stop(&p->rig);
    return sg_remove_tree(AT_FDCWD, p->dir);
}

static const char *in_dir(struct place *p, const char *name)
{
    char *out = p->path[p->next++ % SG_COUNT(p->path)];
    (void)snprintf(out, sizeof p->path[0], "%s/%s", p->dir, name);
    return out;
}

static void put_file(const char *path, const char *text)
{
    sg_auto_fd fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    assert_true(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
}

static void need_root(void)
{
    if (geteuid() != 0)
        skip();
}

static struct sg_msg open_message(const char *user, const char *path, uint32_t flags, uint32_t mode)
{
    return (struct sg_msg) { .type = SG_MSG_OPEN,
                             .open = { sg_text_of(user), sg_text_of(path), flags, mode } };
}

/* STAT, LIST, REMOVE and WATCH are alike. */
static struct sg_msg path_message(enum sg_msg_type type, const char *user, const char *path,
                                  uint32_t flags)
{
    struct sg_msg m = { .type = type };
    struct sg_msg_path v = { sg_text_of(user), sg_text_of(path), flags };
    if (type == SG_MSG_REMOVE)
        m.remove = v;
    else if (type == SG_MSG_WATCH)
        m.watch = v;
    else
        m.stat = v;
    return m;
}

static struct sg_msg make_message(const char *user, const char *path, uint32_t flags, uint32_t mode)
{
    return (struct sg_msg) { .type = SG_MSG_MAKE,
                             .make = { sg_text_of(user), sg_text_of(path), flags, mode } };
}

/* ---- open ---- */

static void an_opened_file_arrives_as_a_descriptor(void **state)
{
    struct place *p = *state;
    put_file(in_dir(p, "f"), "content");
    struct sg_msg *m = rig_do(&p->rig, open_message("", in_dir(p, "f"), O_RDONLY, 0), SG_MSG_FD);
    assert_int_equal(m->fd.bytes, 7);
    assert_true(S_ISREG(m->fd.mode));
    sg_auto_fd fd = sg_packet_take_fd(&p->rig.packet, 0);
    char text[16];
    assert_int_equal(read(fd, text, sizeof text), 7);
    assert_memory_equal(text, "content", 7);
}

static void a_file_is_made_with_the_asked_mode_by_the_asked_user(void **state)
{
    struct place *p = *state;
    need_root();
    (void)rig_do(&p->rig, open_message("daemon", in_dir(p, "n"), O_WRONLY | O_CREAT | O_EXCL, 0666),
                 SG_MSG_FD);
    struct stat st;
    assert_int_equal(stat(in_dir(p, "n"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0666);
    assert_int_equal(st.st_uid, 1);
    assert_int_equal(st.st_gid, 1);
    rig_refuse(&p->rig, open_message("", in_dir(p, "n"), O_WRONLY | O_CREAT | O_EXCL, 0666),
               SG_CONFLICT, EEXIST);
}

static void what_the_user_may_not_open_is_denied(void **state)
{
    struct place *p = *state;
    need_root();
    put_file(in_dir(p, "secret"), "x");
    assert_int_equal(chmod(in_dir(p, "secret"), 0600), 0);
    rig_refuse(&p->rig, open_message("nobody", in_dir(p, "secret"), O_RDONLY, 0), SG_DENIED,
               EACCES);
    /* and afterwards init is itself again */
    (void)rig_do(&p->rig, open_message("", in_dir(p, "secret"), O_RDONLY, 0), SG_MSG_FD);
}

static void only_files_and_directories_are_opened(void **state)
{
    struct place *p = *state;
    assert_int_equal(mkfifo(in_dir(p, "fifo"), 0666), 0);
    rig_refuse(&p->rig, open_message("", in_dir(p, "fifo"), O_RDONLY, 0), SG_INVALID, 0);
    rig_refuse(&p->rig, open_message("", in_dir(p, "fifo"), O_WRONLY, 0), SG_INVALID, ENXIO);
    rig_refuse(&p->rig, open_message("", "/dev/null", O_RDONLY, 0), SG_INVALID, 0);
    (void)rig_do(&p->rig, open_message("", p->dir, O_RDONLY | O_DIRECTORY, 0), SG_MSG_FD);
}

static void other_open_flags_are_refused(void **state)
{
    struct place *p = *state;
    static const uint32_t flags[] = { O_ACCMODE, O_PATH, O_TMPFILE, O_DIRECT, O_SYNC, 1u << 31 };
    for (unsigned i = 0; i < SG_COUNT(flags); i++)
        rig_refuse(&p->rig, open_message("", p->dir, flags[i], 0), SG_INVALID, 0);
}

static void magic_links_lead_nowhere(void **state)
{
    struct place *p = *state;
    assert_int_equal(symlink("/proc/self/fd/0", in_dir(p, "link")), 0);
    rig_refuse(&p->rig, open_message("", in_dir(p, "link"), O_RDONLY, 0), SG_INVALID, ELOOP);
    rig_refuse(&p->rig, open_message("", "/proc/self/exe", O_RDONLY, 0), SG_INVALID, ELOOP);
    rig_refuse(&p->rig, open_message("", "/proc/self/root/etc/passwd", O_RDONLY, 0), SG_INVALID,
               ELOOP);
}

static void relative_paths_start_at_the_workspace_or_the_root(void **state)
{
    struct place *p = *state;
    struct stat st;
    bool has_workspace = stat("/workspace", &st) == 0;
    char path[64];
    (void)snprintf(path, sizeof path, "%s%s/f", has_workspace ? "../" : "", p->dir + 1);
    put_file(in_dir(p, "f"), "x");
    (void)rig_do(&p->rig, open_message("", path, O_RDONLY, 0), SG_MSG_FD);
}

/* ---- stat ---- */

static void stat_tells_what_is_there(void **state)
{
    struct place *p = *state;
    need_root();
    put_file(in_dir(p, "f"), "12345");
    assert_int_equal(chown(in_dir(p, "f"), 1, 2), 0);
    struct sg_msg *m =
        rig_do(&p->rig, path_message(SG_MSG_STAT, "nobody", in_dir(p, "f"), 0), SG_MSG_STATED);
    assert_true(S_ISREG(m->stated.mode));
    assert_int_equal(m->stated.bytes, 5);
    assert_int_equal(m->stated.nlink, 1);
    assert_string_equal(m->stated.owner.p, "daemon");
    assert_string_equal(m->stated.group.p, "bin");
    assert_in_range(m->stated.mtime_ns / 1000000000u, 1600000000u, 4000000000u);
    rig_refuse(&p->rig, path_message(SG_MSG_STAT, "", in_dir(p, "none"), 0), SG_NOT_FOUND, ENOENT);
}

static void stat_follows_links_unless_told_not_to(void **state)
{
    struct place *p = *state;
    assert_int_equal(symlink(p->dir, in_dir(p, "link")), 0);
    struct sg_msg *m =
        rig_do(&p->rig, path_message(SG_MSG_STAT, "", in_dir(p, "link"), 0), SG_MSG_STATED);
    assert_true(S_ISDIR(m->stated.mode));
    m = rig_do(&p->rig, path_message(SG_MSG_STAT, "", in_dir(p, "link"), SG_STAT_NOFOLLOW),
               SG_MSG_STATED);
    assert_true(S_ISLNK(m->stated.mode));
    assert_string_equal(m->stated.target.p, p->dir);
}

/* ---- list ---- */

static void a_directory_of_five_thousand_is_listed_in_pages(void **state)
{
    enum { FILES = 5000 };
    struct place *p = *state;
    static unsigned char seen[FILES];
    memset(seen, 0, sizeof seen);
    for (int i = 0; i < FILES; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "file-number-%d", i);
        put_file(in_dir(p, name), i % 2 ? "x" : "");
    }
    unsigned pages = 0;
    uint64_t cursor = 0;
    do {
        struct sg_msg ask = { .type = SG_MSG_LIST,
                              .list = { sg_text_of(""), sg_text_of(p->dir), cursor } };
        struct sg_msg *m = rig_do(&p->rig, ask, SG_MSG_LISTED);
        struct sg_bytes rest = m->listed.entries;
        struct sg_entry e;
        bool is_bad;
        while (sg_entry_next(&rest, &e, &is_bad)) {
            uint64_t i;
            assert_true(sg_starts_with(e.name.p, "file-number-"));
            assert_int_equal(sg_parse_u64(sg_str_of(e.name.p + 12), 0, FILES - 1, &i, NULL), 0);
            assert_int_equal(seen[i]++, 0);
            assert_int_equal(e.bytes, i % 2);
            assert_true(S_ISREG(e.mode));
        }
        assert_false(is_bad);
        cursor = m->listed.next;
        pages++;
    } while (cursor);
    assert_in_range(pages, 2, 20);
    for (int i = 0; i < FILES; i++)
        assert_int_equal(seen[i], 1);
}

static void listing_what_is_no_directory_fails(void **state)
{
    struct place *p = *state;
    put_file(in_dir(p, "f"), "");
    struct sg_msg ask = { .type = SG_MSG_LIST,
                          .list = { sg_text_of(""), sg_text_of(in_dir(p, "f")), 0 } };
    rig_refuse(&p->rig, ask, SG_NOT_FOUND, ENOTDIR);
    ask.list = (struct sg_msg_list) { sg_text_of(""), sg_text_of(p->dir), UINT64_MAX };
    rig_refuse(&p->rig, ask, SG_INVALID, 0);
}

/* ---- make, move, set attributes ---- */

static void make_needs_the_parent_unless_parents_are_asked_for(void **state)
{
    struct place *p = *state;
    struct stat st;
    rig_refuse(&p->rig, make_message("", in_dir(p, "a/b"), 0, 0700), SG_NOT_FOUND, ENOENT);
    (void)rig_do(&p->rig, make_message("", in_dir(p, "a//b/../b/c/"), SG_MAKE_PARENTS, 0777),
                 SG_MSG_OK);
    assert_int_equal(stat(in_dir(p, "a/b/c"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0777);
    assert_int_equal(stat(in_dir(p, "a"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0755);
    (void)rig_do(&p->rig, make_message("", in_dir(p, "a/b"), SG_MAKE_PARENTS, 0700), SG_MSG_OK);
    rig_refuse(&p->rig, make_message("", in_dir(p, "a/b"), 0, 0700), SG_CONFLICT, EEXIST);
    put_file(in_dir(p, "f"), "");
    rig_refuse(&p->rig, make_message("", in_dir(p, "f"), SG_MAKE_PARENTS, 0700), SG_NOT_FOUND,
               ENOTDIR);
}

static void move_replaces_unless_told_not_to(void **state)
{
    struct place *p = *state;
    struct stat st;
    put_file(in_dir(p, "a"), "a");
    put_file(in_dir(p, "b"), "bb");
    struct sg_msg m = { .type = SG_MSG_MOVE,
                        .move = { sg_text_of(""), sg_text_of(in_dir(p, "a")),
                                  sg_text_of(in_dir(p, "b")), SG_MOVE_NOREPLACE } };
    rig_refuse(&p->rig, m, SG_CONFLICT, EEXIST);
    m.move.flags = 0;
    (void)rig_do(&p->rig, m, SG_MSG_OK);
    assert_int_equal(stat(in_dir(p, "b"), &st), 0);
    assert_int_equal(st.st_size, 1);
    assert_int_equal(stat(in_dir(p, "a"), &st), -1);
}

static void attributes_are_set_and_only_the_named_ones(void **state)
{
    struct place *p = *state;
    need_root();
    put_file(in_dir(p, "f"), "");
    struct sg_msg m = { .type = SG_MSG_SETATTR,
                        .setattr = { sg_text_of(""), sg_text_of(in_dir(p, "f")),
                                     sg_text_of("daemon"),
                                     SG_SETATTR_MODE | SG_SETATTR_OWNER | SG_SETATTR_MTIME, 04711,
                                     1500000000123456789u } };
    struct stat st;
    (void)rig_do(&p->rig, m, SG_MSG_OK);
    assert_int_equal(stat(in_dir(p, "f"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 04711);
    assert_int_equal(st.st_uid, 1);
    assert_int_equal(st.st_mtim.tv_sec, 1500000000);
    assert_int_equal(st.st_mtim.tv_nsec, 123456789);
    m.setattr.what = SG_SETATTR_MODE;
    m.setattr.mode = 0640;
    m.setattr.mtime_ns = 0;
    (void)rig_do(&p->rig, m, SG_MSG_OK);
    assert_int_equal(stat(in_dir(p, "f"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0640);
    assert_int_equal(st.st_mtim.tv_sec, 1500000000);
    m.setattr.what = 0;
    rig_refuse(&p->rig, m, SG_INVALID, 0);
    m.setattr.what = SG_SETATTR_OWNER;
    m.setattr.user = sg_text_of("nobody");
    rig_refuse(&p->rig, m, SG_DENIED, EPERM);
}

/* ---- remove ---- */

static void a_tree_goes_only_when_asked_for(void **state)
{
    struct place *p = *state;
    struct stat st;
    assert_int_equal(mkdir(in_dir(p, "d"), 0755) | mkdir(in_dir(p, "d/e"), 0755), 0);
    put_file(in_dir(p, "d/e/f"), "");
    put_file(in_dir(p, "keep"), "");
    assert_int_equal(symlink("../keep", in_dir(p, "d/link")), 0);
    assert_int_equal(symlink(p->dir, in_dir(p, "d/e/loop")), 0);
    rig_refuse(&p->rig, path_message(SG_MSG_REMOVE, "", in_dir(p, "d"), 0), SG_CONFLICT, ENOTEMPTY);
    (void)rig_do(&p->rig, path_message(SG_MSG_REMOVE, "", in_dir(p, "d/"), SG_REMOVE_RECURSIVE),
                 SG_MSG_OK);
    assert_int_equal(stat(in_dir(p, "d"), &st), -1);
    assert_int_equal(stat(in_dir(p, "keep"), &st), 0); /* links are not followed */
    (void)rig_do(&p->rig, path_message(SG_MSG_REMOVE, "", in_dir(p, "keep"), 0), SG_MSG_OK);
    rig_refuse(&p->rig, path_message(SG_MSG_REMOVE, "", in_dir(p, "keep"), SG_REMOVE_RECURSIVE),
               SG_NOT_FOUND, ENOENT);
}

static void depth_does_not_matter(void **state)
{
    enum { DEPTH = 10000 };
    struct place *p = *state;
    assert_int_equal(mkdir(in_dir(p, "deep"), 0755), 0);
    int dir = open(in_dir(p, "deep"), O_PATH | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; i < DEPTH; i++) {
        assert_int_equal(mkdirat(dir, "d", 0755), 0);
        int next = openat(dir, "d", O_PATH | O_DIRECTORY | O_CLOEXEC);
        assert_true(next >= 0);
        (void)close(dir);
        dir = next;
    }
    (void)close(dir);
    (void)rig_do(&p->rig, path_message(SG_MSG_REMOVE, "", in_dir(p, "deep"), SG_REMOVE_RECURSIVE),
                 SG_MSG_OK);
    struct stat st;
    assert_int_equal(stat(in_dir(p, "deep"), &st), -1);
}

static void removal_has_the_rights_of_the_user(void **state)
{
    struct place *p = *state;
    need_root();
    struct stat st;
    assert_int_equal(mkdir(in_dir(p, "d"), 0755), 0);
    put_file(in_dir(p, "d/f"), "");
    rig_refuse(&p->rig, path_message(SG_MSG_REMOVE, "nobody", in_dir(p, "d"), SG_REMOVE_RECURSIVE),
               SG_DENIED, EACCES);
    assert_int_equal(stat(in_dir(p, "d/f"), &st), 0);
    static const char *const nothing[] = { "/", ".", "..", "", "/tmp/.." };
    for (unsigned i = 0; i < SG_COUNT(nothing); i++)
        rig_refuse(&p->rig, path_message(SG_MSG_REMOVE, "", nothing[i], SG_REMOVE_RECURSIVE),
                   SG_INVALID, 0);
}

static void a_removal_that_is_killed_is_answered(void **state)
{
    struct place *p = *state;
    need_root();
    for (int i = 0; i < 400; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "t%d", i % 20);
        (void)mkdir(in_dir(p, name), 0755);
        (void)snprintf(name, sizeof name, "t%d/%d", i % 20, i);
        put_file(in_dir(p, name), "");
    }
    struct sg_msg ask = path_message(SG_MSG_REMOVE, "", p->dir, SG_REMOVE_RECURSIVE);
    struct sg_msg shoot = { .type = SG_MSG_SIGNAL, .signal = { 0, SIGKILL, SG_SIGNAL_ALL } };
    uint32_t first = rig_send(&p->rig, &ask, NULL, 0);
    uint32_t second = rig_send(&p->rig, &shoot, NULL, 0);
    unsigned replies = 0;
    while (replies < 2) {
        enum sg_msg_type type = rig_take(&p->rig);
        uint32_t id = p->rig.packet.msg.id;
        assert_true(id == first || id == second);
        assert_true(type == SG_MSG_OK || (type == SG_MSG_ERROR && id == first));
        replies++;
    }
    (void)mkdir(p->dir, 0777);
}

int main(void)
{
#define WITH_RIG(f) cmocka_unit_test_setup_teardown(f, start, stop)
    const struct CMUnitTest tests[] = {
        WITH_RIG(an_opened_file_arrives_as_a_descriptor),
        WITH_RIG(a_file_is_made_with_the_asked_mode_by_the_asked_user),
        WITH_RIG(what_the_user_may_not_open_is_denied),
        WITH_RIG(only_files_and_directories_are_opened),
        WITH_RIG(other_open_flags_are_refused),
        WITH_RIG(magic_links_lead_nowhere),
        WITH_RIG(relative_paths_start_at_the_workspace_or_the_root),
        WITH_RIG(stat_tells_what_is_there),
        WITH_RIG(stat_follows_links_unless_told_not_to),
        WITH_RIG(a_directory_of_five_thousand_is_listed_in_pages),
        WITH_RIG(listing_what_is_no_directory_fails),
        WITH_RIG(make_needs_the_parent_unless_parents_are_asked_for),
        WITH_RIG(move_replaces_unless_told_not_to),
        WITH_RIG(attributes_are_set_and_only_the_named_ones),
        WITH_RIG(a_tree_goes_only_when_asked_for),
        WITH_RIG(depth_does_not_matter),
        WITH_RIG(removal_has_the_rights_of_the_user),
        WITH_RIG(a_removal_that_is_killed_is_answered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
