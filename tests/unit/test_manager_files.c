/* SPDX-License-Identifier: Apache-2.0 */
/* Files through the manager, with the real init: rules, whole writes, watches, copies. */
#include "cell_rig.h"
#include "base/banned.h"

/* ---- questions ---- */

struct asked {
    unsigned calls;
    enum sg_msg_type type;
    struct sg_msg_stated stated; /* texts are gone */
    int fd;
    struct sg_err err;
};

static void answer(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    struct asked *a = arg;
    a->calls++;
    a->fd = -1;
    if (!p) {
        a->err = *err;
        return;
    }
    a->type = p->msg.type;
    if (a->type == SG_MSG_STATED)
        a->stated = p->msg.stated;
    if (a->type == SG_MSG_FD)
        a->fd = sg_packet_take_fd(p, 0);
}

static struct asked ask(struct rig *r, struct sg_sandbox *s, struct sg_msg m)
{
    struct asked a = { 0 };
    assert_ok(sg_files_ask(s, &r->who, &m, NULL, 0, answer, &a, &r->err), r->err);
    assert_int_equal(s->work, 1);
    rig_until(r, a.calls);
    assert_int_equal(s->work, 0);
    return a;
}

static struct sg_msg stat_of(const char *path)
{
    return (struct sg_msg) { .type = SG_MSG_STAT, .stat = { sg_text_of(""), sg_text_of(path), 0 } };
}

static void asks_init_and_tells_its_errors(void **state)
{
    struct rig *r = *state;
    struct sg_sandbox *s = rig_create(r);
    struct asked a = ask(r, s, stat_of("/proc"));
    assert_int_equal(a.type, SG_MSG_STATED);
    assert_true(S_ISDIR(a.stated.mode));
    a = ask(r, s, stat_of("/no/such/file"));
    assert_int_equal(a.err.kind, SG_NOT_FOUND);
    struct sg_msg hello = { .type = SG_MSG_HELLO };
    assert_fails(sg_files_ask(s, &r->who, &hello, NULL, 0, answer, &a, &r->err), r->err,
                 SG_INTERNAL);
}

static void a_key_that_may_only_read_changes_nothing(void **state)
{
    struct rig *r = *state;
    struct sg_sandbox *s = rig_create(r);
    struct sg_who reader = r->who;
    reader.scopes = SG_SCOPE_READ;
    struct asked a = { 0 };
    struct sg_msg m[] = {
        { .type = SG_MSG_MAKE, .make = { sg_text_of(""), sg_text_of("/x"), 0, 0755 } },
        { .type = SG_MSG_REMOVE, .remove = { sg_text_of(""), sg_text_of("/x"), 0 } },
    };
    for (unsigned i = 0; i < SG_COUNT(m); i++)
        assert_fails(sg_files_ask(s, &reader, &m[i], NULL, 0, answer, &a, &r->err), r->err,
                     SG_DENIED);
    const struct sg_file_spec f = { .path = "/x", .flags = SG_WRITE_APPEND, .mode = 0644 };
    assert_fails(sg_files_write(s, &reader, &f, NULL, NULL, &r->err), r->err, SG_DENIED);
    struct sg_msg look = stat_of("/proc");
    assert_ok(sg_files_ask(s, &reader, &look, NULL, 0, answer, &a, &r->err), r->err);
    rig_until(r, a.calls == 1);
}

/* What is written by us counts as ours. */
static void nothing_is_opened_for_writing(void **state)
{
    struct rig *r = *state;
    struct sg_sandbox *s = rig_create(r);
    static const uint32_t flags[] = { O_WRONLY, O_RDWR, O_CREAT, O_TRUNC, O_APPEND, O_PATH };
    struct asked a = { 0 };
    for (unsigned i = 0; i < SG_COUNT(flags); i++) {
        struct sg_msg m = { .type = SG_MSG_OPEN,
                            .open = { sg_text_of(""), sg_text_of("/x"), flags[i], 0644 } };
        assert_fails(sg_files_ask(s, &r->who, &m, NULL, 0, answer, &a, &r->err), r->err,
                     SG_INTERNAL);
    }
    assert_int_equal(a.calls, 0);
}

static void questions_are_answered_when_the_daemon_ends(void **state)
{
    struct rig *r = *state;
    struct sg_sandbox *s = rig_create(r);
    struct asked a = { 0 };
    struct sg_msg m = stat_of("/proc");
    assert_ok(sg_files_ask(s, &r->who, &m, NULL, 0, answer, &a, &r->err), r->err);
    rig_stop_manager(r);
    assert_int_equal(a.calls, 1);
    assert_int_equal(a.err.kind, SG_UNAVAILABLE);
}

/* ---- whole writes ---- */

struct written {
    struct told told;
    struct sg_file_write *w;
    int fd;
};

static void opened(void *arg, struct sg_file_write *w, int fd, const struct sg_err *err)
{
    struct written *x = arg;
    x->told.calls++;
    x->w = w;
    x->fd = fd;
    if (err)
        x->told.err = *err;
}

static struct written open_with(struct rig *r, struct sg_sandbox *s, const char *path,
                                uint32_t flags, uint32_t mode)
{
    struct written x = { 0 };
    const struct sg_file_spec f = { .path = path, .flags = flags, .mode = mode };
    assert_ok(sg_files_write(s, &r->who, &f, opened, &x, &r->err), r->err);
    rig_until(r, x.told.calls);
    return x;
}

static struct written open_for(struct rig *r, struct sg_sandbox *s, const char *path, uint32_t mode)
{
    return open_with(r, s, path, 0, mode);
}

static struct told commit(struct rig *r, const struct written *x)
{
    struct told t = { 0 };
    sg_files_commit(x->w, tell_done, &t);
    rig_until(r, t.calls);
    return t;
}

static unsigned entries(const char *path)
{
    unsigned n = 0;
    DIR *d = opendir(path);
    while (d && readdir(d))
        n++;
    (void)closedir(d);
    return n - 2;
}

static void expect_file(const char *path, const char *wanted, mode_t mode)
{
    char text[64] = "";
    struct stat st;
    sg_auto_fd fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0 && fstat(fd, &st) == 0);
    ssize_t n = read(fd, text, sizeof text - 1);
    assert_true(n >= 0);
    assert_string_equal(text, wanted);
    assert_int_equal(st.st_mode & 0777, mode);
}

static void a_file_is_replaced_as_a_whole(void **state)
{
    struct rig *r = *state;
    struct sg_sandbox *s = rig_create(r);
    struct told t = { 0 };
    char *path = sg_printf("%s/file", r->path);
    unsigned before = entries(r->path);

    struct written x = open_for(r, s, path, 0640);
    assert_int_equal(write(x.fd, "first", 5), 5);
    assert_int_equal(access(path, F_OK), -1);
    sg_files_commit(x.w, tell_done, &t);
    rig_until(r, t.calls == 1);
    assert_int_equal(t.err.kind, SG_OK);
    expect_file(path, "first", 0640);

    x = open_with(r, s, path, SG_WRITE_KEEP_MODE, 0600);
    assert_int_equal(write(x.fd, "second", 6), 6);
    expect_file(path, "first", 0640);
    sg_files_commit(x.w, tell_done, &t);
    rig_until(r, t.calls == 2);
    expect_file(path, "second", 0640);

    x = open_for(r, s, path, 0600);
    assert_int_equal(write(x.fd, "third", 5), 5);
    sg_files_abandon(x.w);
    rig_until(r, s->work == 0); /* init has answered */
    assert_int_equal(entries(r->path), before + 1);
    expect_file(path, "second", 0640);
    free(path);
}

static void a_write_that_cannot_be_is_told(void **state)
{
    struct rig *r = *state;
    struct sg_sandbox *s = rig_create(r);
    struct written x = open_for(r, s, "/no/such/dir/file", 0644);
    assert_null(x.w);
    assert_int_equal(x.told.err.kind, SG_NOT_FOUND);
    assert_string_equal(x.told.err.msg, "write '/no/such/dir/file': No such file or directory");
    x = open_for(r, s, r->path, 0644);
    assert_null(x.w);
    assert_int_equal(x.told.err.kind, SG_CONFLICT);
    rig_until(r, s->work == 0);
}

static void a_write_in_place_and_an_append_follow_links(void **state)
{
    struct rig *r = *state;
    struct sg_sandbox *s = rig_create(r);
    sg_auto_free char *file = sg_printf("%s/file", r->path), *link = sg_printf("%s/link", r->path);
    (void)rig_run(r, s, "printf old-and-long > file && chmod 604 file && ln -s file link", "");
    struct written x = open_with(r, s, link, SG_WRITE_IN_PLACE, 0600);
    assert_int_equal(write(x.fd, "new", 3), 3);
    assert_int_equal(commit(r, &x).err.kind, SG_OK);
    expect_file(file, "new", 0604);
    x = open_with(r, s, link, SG_WRITE_APPEND, 0600);
    assert_int_equal(write(x.fd, "er", 2), 2);
    assert_int_equal(commit(r, &x).err.kind, SG_OK);
    expect_file(file, "newer", 0604);
    sg_auto_free char *deep = sg_printf("%s/a/b/c", r->path);
    x = open_with(r, s, deep, SG_WRITE_IN_PLACE | SG_WRITE_PARENTS, 0640);
    assert_int_equal(commit(r, &x).err.kind, SG_OK);
    expect_file(deep, "", 0640);
}

/* The pipe has no room for the last word just then. */
static void a_commit_waits_for_room(void **state)
{
    struct rig *r = *state;
    struct sg_sandbox *s = rig_create(r);
    sg_auto_free char *path = sg_printf("%s/file", r->path);
    static char piece[4096];
    size_t sent = 0;
    struct written x = open_for(r, s, path, 0644);
    (void)rig_run(r, s, "kill -STOP $(pgrep -x sandglass-write)", "");
    for (ssize_t n; (n = write(x.fd, piece, sizeof piece)) > 0;)
        sent += (size_t)n;
    assert_int_equal(errno, EAGAIN);
    struct told t = { 0 };
    sg_files_commit(x.w, tell_done, &t);
    assert_int_equal(t.calls, 0);
    (void)rig_run(r, s, "kill -CONT $(pgrep -x sandglass-write)", "");
    rig_until(r, t.calls);
    assert_int_equal(t.err.kind, SG_OK);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_size, sent);
}

static void a_write_that_is_given_up_inside_is_told_at_its_end(void **state)
{
    struct rig *r = *state;
    struct sg_sandbox *s = rig_create(r);
    sg_auto_free char *path = sg_printf("%s/file", r->path);
    unsigned before = entries(r->path);
    const struct sigaction ignore = { .sa_handler = SIG_IGN };
    assert_int_equal(sigaction(SIGPIPE, &ignore, NULL), 0); /* as the daemon does */
    struct written x = open_for(r, s, path, 0644);
    (void)rig_run(r, s, "kill -KILL $(pgrep -x sandglass-write)", "");
    while (write(x.fd, "x", 1) == 1)
        rig_turn(r);
    assert_int_equal(errno, EPIPE);
    assert_int_equal(commit(r, &x).err.kind, SG_EXHAUSTED);
    assert_int_equal(entries(r->path), before);
}

static void a_write_whose_sandbox_goes_is_told_at_its_end(void **state)
{
    struct rig *r = *state;
    struct sg_sandbox *s = rig_create(r);
    char *path = sg_printf("%s/file", r->path);
    struct written x = open_for(r, s, path, 0644), y = open_for(r, s, path, 0644);
    struct told t = { 0 };
    rig_destroy(r, s);
    sg_files_commit(x.w, tell_done, &t); /* was answered, so it tells at once */
    assert_int_equal(t.calls, 1);
    assert_int_equal(t.err.kind, SG_UNAVAILABLE);
    sg_files_abandon(y.w);
    free(path);
}

/* ---- watches ---- */

struct watching {
    struct told told;
    struct sg_watch_sub *w;
    unsigned created, ended;
    char last[64];
};

static void changed(void *arg, const char *path, uint32_t what)
{
    struct watching *w = arg;
    w->ended += !path;
    w->created += path && what & SG_CHANGED_CREATE;
    if (path)
        (void)snprintf(w->last, sizeof w->last, "%s", path);
}

static void watch_set(void *arg, struct sg_watch_sub *sub, const struct sg_err *err)
{
    struct watching *w = arg;
    w->told.calls++;
    w->w = sub;
    if (err)
        w->told.err = *err;
}

static void a_watch_tells_changes_until_it_is_ended(void **state)
{
    struct rig *r = *state;
    struct sg_sandbox *s = rig_create(r);
    struct watching a = { 0 }, b = { 0 };
    assert_ok(sg_files_watch(s, &r->who, "", r->path, true, changed, watch_set, &a, &r->err),
              r->err);
    assert_ok(sg_files_watch(s, &r->who, "", r->path, true, changed, watch_set, &b, &r->err),
              r->err);
    rig_until(r, a.told.calls && b.told.calls);
    assert_int_equal(s->work, 2);
    (void)rig_run(r, s, "mkdir new", "");
    rig_until(r, a.created && b.created);
    assert_string_equal(a.last, "new");
    sg_files_unwatch(a.w);
    const unsigned seen = a.created;
    const unsigned other = b.created;
    (void)rig_run(r, s, "mkdir another", "");
    rig_until(r, b.created > other);
    assert_int_equal(a.created, seen);
    assert_int_equal(s->work, 1);
    rig_destroy(r, s);
    assert_int_equal(b.ended, 1);
    assert_int_equal(a.ended, 0);
}

static void a_watch_of_nothing_is_refused(void **state)
{
    struct rig *r = *state;
    struct sg_sandbox *s = rig_create(r);
    struct watching a = { 0 };
    assert_ok(sg_files_watch(s, &r->who, "", "/no/such", false, changed, watch_set, &a, &r->err),
              r->err);
    rig_until(r, a.told.calls);
    assert_null(a.w);
    assert_int_equal(a.told.err.kind, SG_NOT_FOUND);
    assert_int_equal(s->work, 0);
}

/* ---- copies ---- */

static void a_tree_becomes_what_it_is_called_over_there(void **state)
{
    struct rig *r = *state;
    struct sg_sandbox *from = rig_create(r), *to = rig_create(r);
    struct told t = { 0 };
    char *a = sg_printf("%s/tree", r->path), *b = sg_printf("%s/copy", r->path);
    (void)rig_run(r, from, "mkdir -p tree/sub && echo hello > tree/sub/file", "");
    const unsigned before = entries(r->path);
    assert_ok(sg_files_copy(from, a, to, b, &r->who, tell_done, &t, &r->err), r->err);
    rig_until(r, t.calls);
    if (t.err.kind != SG_OK)
        fail_msg("copy: %s", t.err.msg);
    (void)rig_run(r, to, "cat copy/sub/file", "hello\n");
    t = (struct told) { 0 };
    sg_auto_free char *file = sg_printf("%s/sub/file", a);
    sg_auto_free char *name = sg_printf("%s/copy/sub/other", r->path);
    assert_ok(sg_files_copy(from, file, to, name, &r->who, tell_done, &t, &r->err), r->err);
    rig_until(r, t.calls);
    (void)rig_run(r, to, "cat copy/sub/other", "hello\n");
    rig_until(r, entries(r->path) == before + 1);

    t = (struct told) { 0 };
    assert_ok(sg_files_copy(from, "/no/such", to, b, &r->who, tell_done, &t, &r->err), r->err);
    rig_until(r, t.calls);
    assert_int_equal(t.err.kind, SG_NOT_FOUND);
    rig_until(r, entries(r->path) == before + 1);
    t = (struct told) { 0 };
    (void)rig_run(r, from, "head -c 30000000 /dev/zero > tree/big", "");
    assert_ok(sg_files_copy(from, a, to, "/tmp/never", &r->who, tell_done, &t, &r->err), r->err);
    rig_destroy(r, to);
    rig_until(r, t.calls);
    assert_true(t.err.kind != SG_OK);
    free(a);
    free(b);
}

static void a_copy_keeps_links_that_lead_anywhere(void **state)
{
    struct rig *r = *state;
    struct sg_sandbox *from = rig_create(r), *to = rig_create(r);
    struct told t = { 0 };
    sg_auto_free char *a = sg_printf("%s/tree", r->path), *b = sg_printf("%s/copy", r->path);
    (void)rig_run(r, from, "mkdir tree && ln -s /usr/bin/env tree/env && ln -s ../.. tree/up", "");
    assert_ok(sg_files_copy(from, a, to, b, &r->who, tell_done, &t, &r->err), r->err);
    rig_until(r, t.calls);
    if (t.err.kind != SG_OK)
        fail_msg("copy: %s", t.err.msg);
    (void)rig_run(r, to, "readlink copy/env copy/up", "/usr/bin/env\n../..\n");
}

static void a_copy_that_cannot_be_names_its_place(void **state)
{
    struct rig *r = *state;
    struct sg_sandbox *from = rig_create(r), *to = rig_create(r);
    struct told t = { 0 };
    sg_auto_free char *a = sg_printf("%s/tree", r->path);
    (void)rig_run(r, from, "mkdir tree && echo hello > tree/file", "");
    assert_ok(sg_files_copy(from, a, to, "/proc/copy", &r->who, tell_done, &t, &r->err), r->err);
    rig_until(r, t.calls);
    assert_true(t.err.kind != SG_OK);
    assert_non_null(strstr(t.err.msg, "'/proc/copy'"));
    assert_null(strstr(t.err.msg, ".sandglass"));
}

int main(void)
{
    if (geteuid() != 0)
        return skip_all("needs root: inits are pid 1 of namespaces");
    if (!getenv("SANDGLASS_INIT"))
        return skip_all("needs SANDGLASS_INIT, the program");
#define T(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)
    const struct CMUnitTest tests[] = {
        T(asks_init_and_tells_its_errors),
        T(a_key_that_may_only_read_changes_nothing),
        T(nothing_is_opened_for_writing),
        T(questions_are_answered_when_the_daemon_ends),
        T(a_file_is_replaced_as_a_whole),
        T(a_write_that_cannot_be_is_told),
        T(a_write_in_place_and_an_append_follow_links),
        T(a_commit_waits_for_room),
        T(a_write_that_is_given_up_inside_is_told_at_its_end),
        T(a_write_whose_sandbox_goes_is_told_at_its_end),
        T(a_watch_tells_changes_until_it_is_ended),
        T(a_watch_of_nothing_is_refused),
        T(a_tree_becomes_what_it_is_called_over_there),
        T(a_copy_keeps_links_that_lead_anywhere),
        T(a_copy_that_cannot_be_names_its_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
