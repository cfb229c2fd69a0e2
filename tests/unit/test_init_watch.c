/* SPDX-License-Identifier: Apache-2.0 */
/* init: file events, and connections to what listens inside. */
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "init/remove.h"
#include "init_rig.h"
#include "base/banned.h"

struct place {
    struct rig rig;
    char dir[32];
    uint32_t watch;
};

static int start(void **state)
{
    static struct place p;
    memset(&p, 0, sizeof p);
    const char *where =
        access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp"; /* a flood is quick there */
    (void)snprintf(p.dir, sizeof p.dir, "%s/sg-watch-XXXXXX", where);
    if (!mkdtemp(p.dir) || chmod(p.dir, 0777) < 0 || chdir(p.dir) < 0)
        return -1;
    rig_start(&p.rig);
    *state = &p;
    return 0;
}

static int stop(void **state)
{
    struct place *p = *state;
    rig_stop(&p->rig);
    return chdir("/") | sg_remove_tree(AT_FDCWD, p->dir);
}

static void put_file(const char *path, const char *text)
{
    sg_auto_fd fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    assert_true(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
}

static void watch(struct place *p, uint32_t flags)
{
    struct sg_msg m = { .type = SG_MSG_WATCH,
                        .watch = { sg_text_of(""), sg_text_of(p->dir), flags } };
    p->watch = rig_do(&p->rig, m, SG_MSG_WATCHED)->watched.watch;
}

/* Waits until this has been told. */
static void expect(struct place *p, uint32_t what, const char *path)
{
    for (;;) {
        for (unsigned i = 0; i < p->rig.change_count; i++)
            if (p->rig.changes[i].what == what && strcmp(p->rig.changes[i].path, path) == 0) {
                assert_int_equal(p->rig.changes[i].watch, p->watch);
                return;
            }
        assert_int_equal(rig_take(&p->rig), SG_MSG_CHANGED);
    }
}

static bool was_told(const struct place *p, const char *path)
{
    for (unsigned i = 0; i < p->rig.change_count; i++)
        if (strcmp(p->rig.changes[i].path, path) == 0)
            return true;
    return false;
}

static void changes_in_a_directory_are_told(void **state)
{
    struct place *p = *state;
    watch(p, 0);
    put_file("f", "x");
    expect(p, SG_CHANGED_CREATE, "f");
    expect(p, SG_CHANGED_WRITE, "f");
    assert_int_equal(chmod("f", 0600), 0);
    expect(p, SG_CHANGED_CHMOD, "f");
    assert_int_equal(rename("f", "g"), 0);
    expect(p, SG_CHANGED_RENAME, "f");
    expect(p, SG_CHANGED_CREATE, "g");
    assert_int_equal(unlink("g"), 0);
    expect(p, SG_CHANGED_REMOVE, "g");
    assert_int_equal(mkdir("d", 0755), 0);
    expect(p, SG_CHANGED_CREATE | SG_CHANGED_IS_DIR, "d");
}

static void a_plain_watch_does_not_look_below(void **state)
{
    struct place *p = *state;
    assert_int_equal(mkdir("d", 0755), 0);
    watch(p, 0);
    put_file("d/f", "x");
    put_file("last", "x");
    expect(p, SG_CHANGED_CREATE, "last");
    assert_false(was_told(p, "d/f"));
}

static void a_recursive_watch_sees_old_and_new_directories(void **state)
{
    struct place *p = *state;
    assert_int_equal(mkdir("old", 0755) | mkdir("old/deep", 0755), 0);
    watch(p, SG_WATCH_RECURSIVE);
    put_file("old/deep/f", "x");
    expect(p, SG_CHANGED_CREATE, "old/deep/f");
    /* filled at once: whatever init misses as events it must find by looking */
    assert_int_equal(mkdir("new", 0755) | mkdir("new/a", 0755) | mkdir("new/a/b", 0755), 0);
    put_file("new/a/b/f", "x");
    expect(p, SG_CHANGED_CREATE, "new/a/b/f");
    put_file("new/a/b/later", "x");
    expect(p, SG_CHANGED_WRITE, "new/a/b/later");
}

static void a_moved_directory_is_followed_to_its_new_name(void **state)
{
    struct place *p = *state;
    assert_int_equal(mkdir("a", 0755) | mkdir("a/sub", 0755), 0);
    watch(p, SG_WATCH_RECURSIVE);
    assert_int_equal(rename("a", "b"), 0);
    expect(p, SG_CHANGED_CREATE | SG_CHANGED_IS_DIR, "b/sub");
    put_file("b/sub/f", "x");
    expect(p, SG_CHANGED_WRITE, "b/sub/f");
    assert_false(was_told(p, "a/sub/f"));
}

static void a_directory_that_is_moved_away_is_forgotten(void **state)
{
    struct place *p = *state;
    char path[64];
    (void)snprintf(path, sizeof path, "%s/top", p->dir);
    assert_int_equal(mkdir("top", 0755) | mkdir("top/a", 0755) | mkdir("top/a/b", 0755), 0);
    struct sg_msg m = { .type = SG_MSG_WATCH,
                        .watch = { sg_text_of(""), sg_text_of(path), SG_WATCH_RECURSIVE } };
    p->watch = rig_do(&p->rig, m, SG_MSG_WATCHED)->watched.watch;
    assert_int_equal(rename("top/a", "away"), 0);
    expect(p, SG_CHANGED_RENAME | SG_CHANGED_IS_DIR, "a");
    (void)rig_do(&p->rig, (struct sg_msg) { .type = SG_MSG_INFO }, SG_MSG_INFOED);
    put_file("away/b/f", "x");
    put_file("top/last", "x");
    expect(p, SG_CHANGED_CREATE, "last");
    assert_false(was_told(p, "a/b/f"));
}

static void a_link_to_a_directory_is_not_followed(void **state)
{
    struct place *p = *state;
    assert_int_equal(symlink("/tmp", "link"), 0);
    watch(p, SG_WATCH_RECURSIVE);
    assert_int_equal(symlink("/", "second"), 0);
    expect(p, SG_CHANGED_CREATE, "second");
    char name[] = "/tmp/sg-outside-XXXXXX";
    int fd = mkstemp(name);
    assert_true(fd >= 0);
    (void)close(fd);
    (void)unlink(name);
    put_file("last", "x");
    expect(p, SG_CHANGED_CREATE, "last");
    for (unsigned i = 0; i < p->rig.change_count; i++)
        assert_null(strchr(p->rig.changes[i].path, '/'));
}

static void the_removal_of_the_directory_itself_is_told(void **state)
{
    struct place *p = *state;
    watch(p, 0);
    assert_int_equal(chdir("/") | rmdir(p->dir), 0); /* who stands in it keeps it alive */
    expect(p, SG_CHANGED_REMOVE | SG_CHANGED_IS_DIR, "");
    assert_int_equal(mkdir(p->dir, 0777), 0);
}

static void an_ended_watch_is_silent(void **state)
{
    struct place *p = *state;
    watch(p, 0);
    struct sg_msg m = { .type = SG_MSG_UNWATCH, .unwatch = { p->watch } };
    (void)rig_do(&p->rig, m, SG_MSG_OK);
    put_file("f", "x");
    (void)rig_do(&p->rig, (struct sg_msg) { .type = SG_MSG_INFO }, SG_MSG_INFOED);
    assert_int_equal(p->rig.change_count, 0);
    rig_refuse(&p->rig, m, SG_NOT_FOUND, 0);
}

static void a_watch_needs_the_rights_of_the_user(void **state)
{
    struct place *p = *state;
    if (geteuid() != 0)
        skip();
    assert_int_equal(mkdir("private", 0700), 0);
    char path[64];
    (void)snprintf(path, sizeof path, "%s/private", p->dir);
    struct sg_msg m = { .type = SG_MSG_WATCH,
                        .watch = { sg_text_of("nobody"), sg_text_of(path), 0 } };
    rig_refuse(&p->rig, m, SG_DENIED, EACCES);
}

static void watches_are_bounded(void **state)
{
    struct place *p = *state;
    unsigned set = 0;
    struct sg_msg m = { .type = SG_MSG_WATCH, .watch = { sg_text_of(""), sg_text_of(p->dir), 0 } };
    while (set < 1000 && rig_ask(&p->rig, &m)->type == SG_MSG_WATCHED)
        set++;
    assert_in_range(set, 1, SG_INIT_MAX_WATCHES);
    assert_int_equal(p->rig.packet.msg.error.kind, SG_EXHAUSTED);
}

/* More changes than the host takes: the queue stays small, and it is told that some are missing. */
static void a_flood_of_changes_is_bounded_and_told(void **state)
{
    struct place *p = *state;
    watch(p, 0);
    for (int i = 0; i < 40000; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "f%d", i % 7);
        put_file(name, "x");
        (void)unlink(name);
    }
    for (;;) {
        assert_int_equal(rig_take(&p->rig), SG_MSG_CHANGED);
        if (p->rig.packet.msg.changed.what == SG_CHANGED_OVERFLOW)
            break;
    }
    (void)rig_do(&p->rig, (struct sg_msg) { .type = SG_MSG_INFO }, SG_MSG_INFOED);
}

/* ---- dial ---- */

static int listen_on(int family, const void *address, socklen_t bytes)
{
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && (bind(fd, address, bytes) < 0 || listen(fd, 8) < 0))
        sg_drop_fd(&fd);
    return fd;
}

static uint32_t port_of(int fd)
{
    struct sockaddr_in6 a;
    socklen_t n = sizeof a;
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &n), 0);
    return ntohs(a.sin6_port); /* at the same place in both families */
}

static struct sg_msg dial_port(uint32_t port)
{
    return (struct sg_msg) { .type = SG_MSG_DIAL,
                             .dial = { sg_text_of(""), sg_text_of(""), SG_DIAL_TCP, port } };
}

static void check_connection(struct place *p, int listener)
{
    sg_auto_fd ours = sg_packet_take_fd(&p->rig.packet, 0);
    sg_auto_fd theirs = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    assert_true(ours >= 0 && theirs >= 0);
    assert_int_equal(send(theirs, "hi", 2, MSG_NOSIGNAL), 2);
    char text[8];
    struct pollfd poll_one = { .fd = ours, .events = POLLIN };
    assert_int_equal(poll(&poll_one, 1, RIG_PATIENCE_MS), 1);
    assert_int_equal(recv(ours, text, sizeof text, MSG_DONTWAIT), 2);
}

static void a_port_is_dialled(void **state)
{
    struct place *p = *state;
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    sg_auto_fd listener = listen_on(AF_INET, &a, sizeof a);
    assert_true(listener >= 0);
    (void)rig_do(&p->rig, dial_port(port_of(listener)), SG_MSG_FD);
    check_connection(p, listener);
}

static void a_port_that_listens_on_v6_only_is_dialled_too(void **state)
{
    struct place *p = *state;
    struct sockaddr_in6 a = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT };
    sg_auto_fd listener = listen_on(AF_INET6, &a, sizeof a);
    if (listener < 0)
        skip();
    (void)rig_do(&p->rig, dial_port(port_of(listener)), SG_MSG_FD);
    check_connection(p, listener);
}

static void a_port_where_nobody_listens_is_refused(void **state)
{
    struct place *p = *state;
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    sg_auto_fd listener = listen_on(AF_INET, &a, sizeof a);
    uint32_t port = port_of(listener);
    sg_drop_fd(&listener);
    rig_refuse(&p->rig, dial_port(port), SG_UNAVAILABLE, ECONNREFUSED);
    rig_refuse(&p->rig, dial_port(0), SG_INVALID, 0);
}

static struct sg_msg dial_path(const char *user, const char *path)
{
    return (struct sg_msg) { .type = SG_MSG_DIAL,
                             .dial = { sg_text_of(user), sg_text_of(path), SG_DIAL_UNIX, 0 } };
}

static void a_unix_socket_is_dialled_even_under_a_long_path(void **state)
{
    struct place *p = *state;
    struct sockaddr_un a = { .sun_family = AF_UNIX, .sun_path = "s" };
    sg_auto_fd listener = listen_on(AF_UNIX, &a, sizeof a);
    assert_true(listener >= 0);
    char path[300];
    (void)snprintf(path, sizeof path, "%s/%0150d", p->dir, 1);
    assert_int_equal(mkdir(path, 0755), 0);
    (void)snprintf(path, sizeof path, "%s/%0150d/../s", p->dir, 1);
    (void)rig_do(&p->rig, dial_path("", path), SG_MSG_FD);
    check_connection(p, listener);
}

static void a_unix_socket_is_dialled_as_the_user(void **state)
{
    struct place *p = *state;
    if (geteuid() != 0)
        skip();
    struct sockaddr_un a = { .sun_family = AF_UNIX, .sun_path = "s" };
    sg_auto_fd listener = listen_on(AF_UNIX, &a, sizeof a);
    char path[64];
    (void)snprintf(path, sizeof path, "%s/s", p->dir);
    assert_int_equal(chmod("s", 0600), 0);
    rig_refuse(&p->rig, dial_path("nobody", path), SG_DENIED, EACCES);
    assert_int_equal(chmod("s", 0666), 0);
    (void)rig_do(&p->rig, dial_path("daemon", path), SG_MSG_FD);
    sg_auto_fd theirs = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    struct ucred who;
    socklen_t n = sizeof who;
    assert_int_equal(getsockopt(theirs, SOL_SOCKET, SO_PEERCRED, &who, &n), 0);
    assert_int_equal(who.uid, 1);
}

static void what_is_no_socket_is_not_dialled(void **state)
{
    struct place *p = *state;
    put_file("f", "");
    char path[64];
    (void)snprintf(path, sizeof path, "%s/f", p->dir);
    rig_refuse(&p->rig, dial_path("", path), SG_INVALID, 0);
    rig_refuse(&p->rig, dial_path("", "/nonexistent"), SG_NOT_FOUND, ENOENT);
}

int main(void)
{
#define WITH_RIG(f) cmocka_unit_test_setup_teardown(f, start, stop)
    const struct CMUnitTest tests[] = {
        WITH_RIG(changes_in_a_directory_are_told),
        WITH_RIG(a_plain_watch_does_not_look_below),
        WITH_RIG(a_recursive_watch_sees_old_and_new_directories),
        WITH_RIG(a_moved_directory_is_followed_to_its_new_name),
        WITH_RIG(a_directory_that_is_moved_away_is_forgotten),
        WITH_RIG(a_link_to_a_directory_is_not_followed),
        WITH_RIG(the_removal_of_the_directory_itself_is_told),
        WITH_RIG(an_ended_watch_is_silent),
        WITH_RIG(a_watch_needs_the_rights_of_the_user),
        WITH_RIG(watches_are_bounded),
        WITH_RIG(a_flood_of_changes_is_bounded_and_told),
        WITH_RIG(a_port_is_dialled),
        WITH_RIG(a_port_that_listens_on_v6_only_is_dialled_too),
        WITH_RIG(a_port_where_nobody_listens_is_refused),
        WITH_RIG(a_unix_socket_is_dialled_even_under_a_long_path),
        WITH_RIG(a_unix_socket_is_dialled_as_the_user),
        WITH_RIG(what_is_no_socket_is_not_dialled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
