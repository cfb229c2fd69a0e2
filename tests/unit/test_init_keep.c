/* SPDX-License-Identifier: Apache-2.0 */
/* init under KEEP: what outlives a connection, what ends with it, and how a host comes back. */
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "init_kept.h"
#include "base/banned.h"

static struct rig_kept *reclaim_one(struct rig *r)
{
    rig_drop_kept(r);
    (void)rig_do(r, (struct sg_msg) { .type = SG_MSG_RECLAIM }, SG_MSG_OK);
    assert_int_equal(r->kept_count, 1);
    return &r->kept[0];
}

static unsigned reclaim_count(struct rig *r)
{
    rig_drop_kept(r);
    (void)rig_do(r, (struct sg_msg) { .type = SG_MSG_RECLAIM }, SG_MSG_OK);
    return r->kept_count;
}

/* Asks until the exec `tag`, the only one, is kept as ended. */
static struct rig_kept *reclaim_ended(struct rig *r)
{
    for (unsigned i = 0; i < RIG_PATIENCE_MS; i++) {
        struct rig_kept *k = reclaim_one(r);
        if (k->row.flags & SG_KEPT_EXITED)
            return k;
        (void)poll(NULL, 0, 1);
    }
    fail_msg("the program does not end");
    return NULL;
}

static void come_back(struct rig *r)
{
    rig_come_back(r);
    rig_hello(r, SG_HELLO_KEEP, RIG_EPOCH + 1);
}

/* ---- connections ---- */

static void without_keep_a_listener_does_not_keep_init_alive(void **state)
{
    (void)state;
    struct rig r = { .has_proc = false };
    rig_listen(&r);
    rig_start_as_told(&r);
    rig_hello(&r, 0, 1);
    sg_drop_fd(&r.fd);
    assert_int_equal(rig_wait(&r), 0);
    rig_stop(&r);
}

static void init_outlives_its_connection_and_wants_a_hello_of_the_next(void **state)
{
    struct rig *r = *state;
    rig_come_back(r);
    rig_refuse(r, (struct sg_msg) { .type = SG_MSG_INFO }, SG_CONFLICT, 0);
    rig_hello(r, SG_HELLO_KEEP, 4711);
    assert_int_equal(rig_do(r, (struct sg_msg) { .type = SG_MSG_INFO }, SG_MSG_INFOED)->epoch,
                     4711);
}

static void a_host_that_never_says_hello_does_not_end_init(void **state)
{
    struct rig *r = *state;
    rig_come_back(r);
    rig_come_back(r);
    rig_hello(r, SG_HELLO_KEEP, 3);
}

static void a_new_connection_replaces_the_old_one(void **state)
{
    struct rig *r = *state;
    struct kept_program k = start_kept(r, "x", SHELL("exec cat"));
    sg_auto_fd old = r->fd;
    r->fd = rig_dial_in(r);
    assert_int_equal(rig_take(r), SG_MSG_READY);
    struct pollfd p = { .fd = old, .events = POLLIN };
    char byte;
    assert_int_equal(poll(&p, 1, RIG_PATIENCE_MS), 1);
    assert_int_equal(recv(old, &byte, 1, MSG_DONTWAIT), 0);
    rig_hello(r, SG_HELLO_KEEP, 9);
    assert_int_equal(reclaim_one(r)->row.pid, k.pid);
    drop_ends(&k);
}

static void the_last_of_several_connections_wins(void **state)
{
    struct rig *r = *state;
    int old = r->fd, second = rig_dial_in(r);
    r->fd = rig_dial_in(r);
    assert_int_equal(rig_take(r), SG_MSG_READY);
    rig_hello(r, SG_HELLO_KEEP, 9);
    (void)rig_do(r, (struct sg_msg) { .type = SG_MSG_INFO }, SG_MSG_INFOED);
    (void)close(old);
    (void)close(second);
}

/* One whose answer is large. */
static struct sg_msg big_question(void)
{
    return (struct sg_msg) { .type = SG_MSG_LIST, .list = { .path = sg_text_of("/usr/bin") } };
}

static void replies_that_waited_for_the_old_host_do_not_reach_the_new_one(void **state)
{
    struct rig *r = *state;
    struct sg_msg list = big_question();
    struct pollfd room = { .fd = r->fd, .events = POLLOUT };
    while (poll(&room, 1, 100) == 1) { /* until init takes in no more: it has no room itself */
        struct sg_err err = { 0 };
        list.id = 1000000;
        (void)sg_chan_send(r->fd, &list, NULL, 0, false, &err);
    }
    int old = r->fd;
    r->fd = rig_dial_in(r);
    assert_int_equal(rig_take(r), SG_MSG_READY);
    rig_hello(r, SG_HELLO_KEEP, 12); /* demands the id of its reply */
    (void)close(old);
}

static void watches_end_with_their_connection(void **state)
{
    struct rig *r = *state;
    char dir[] = "/tmp/sandglass-keep-XXXXXX";
    assert_non_null(mkdtemp(dir));
    struct sg_msg watch = { .type = SG_MSG_WATCH, .watch = { .path = sg_text_of(dir) } };
    for (unsigned i = 0; i < SG_INIT_MAX_WATCHES; i++)
        (void)rig_do(r, watch, SG_MSG_WATCHED);
    rig_refuse(r, watch, SG_EXHAUSTED, 0);
    come_back(r);
    (void)rig_do(r, watch, SG_MSG_WATCHED);
    struct sg_msg make = { .type = SG_MSG_MAKE, .make = { .mode = 0700 } };
    sg_auto_free char *below = sg_printf("%s/d", dir);
    make.make.path = sg_text_of(below);
    (void)rig_do(r, make, SG_MSG_OK);
    (void)rig_do(r, (struct sg_msg) { .type = SG_MSG_INFO }, SG_MSG_INFOED);
    while (!r->change_count)
        (void)rig_take(r);
    assert_int_equal(r->change_count, 1);
    (void)rmdir(below);
    (void)rmdir(dir);
}

/* ---- execs ---- */

static void the_end_carries_the_tag(void **state)
{
    struct rig *r = *state;
    struct kept_program k = start_kept(r, "my-exec", SHELL("exit 3"));
    assert_int_equal(rig_exit_of(r, k.pid).code, 3);
    assert_string_equal(r->exit_tag, "my-exec");
    drop_ends(&k);
}

static void a_running_program_is_reclaimed_with_what_waits_in_its_pipes(void **state)
{
    struct rig *r = *state;
    struct kept_program k =
        start_kept(r, "x", SHELL("echo before; echo loud >&2; read line; echo got $line"));
    struct pollfd p = { .fd = k.out, .events = POLLIN }, e = { .fd = k.err, .events = POLLIN };
    assert_int_equal(poll(&p, 1, RIG_PATIENCE_MS) + poll(&e, 1, RIG_PATIENCE_MS), 2);
    drop_ends(&k);
    come_back(r);
    struct rig_kept *kept = reclaim_one(r);
    assert_string_equal(kept->tag, "x");
    assert_int_equal(kept->row.pid, k.pid);
    assert_int_equal(kept->row.flags, SG_SPAWN_STDIN | SG_SPAWN_STDOUT | SG_SPAWN_STDERR);
    assert_int_equal(write(kept->fds[0], "this\n", 5), 5);
    (void)rig_exit_of(r, k.pid);
    expect_text(kept->fds[1], "before\ngot this\n");
    expect_text(kept->fds[2], "loud\n");
}

static void an_end_that_nobody_saw_is_remembered_until_release(void **state)
{
    struct rig *r = *state;
    struct kept_program k = start_kept(r, "x", SHELL("read go; printf hello; exit 7"));
    assert_int_equal(write(k.in, "go\n", 3), 3);
    drop_ends(&k);
    rig_come_back(r);
    rig_hello(r, SG_HELLO_KEEP, 5);
    struct rig_kept *kept = reclaim_ended(r);
    assert_int_equal(kept->row.code, 7);
    assert_int_equal(kept->row.signal, 0);
    assert_true(kept->row.max_rss_bytes > 0);
    expect_text(kept->fds[1], "hello");
    come_back(r);
    assert_int_equal(reclaim_one(r)->row.code, 7);
    release(r, "x");
    assert_int_equal(reclaim_count(r), 0);
    struct sg_msg again = { .type = SG_MSG_RELEASE, .release = { sg_text_of("x") } };
    rig_refuse(r, again, SG_NOT_FOUND, 0);
}

static void a_signal_that_ended_a_program_is_remembered(void **state)
{
    struct rig *r = *state;
    struct kept_program k = start_kept(r, "x", SHELL("kill -9 $$"));
    assert_int_equal(rig_exit_of(r, k.pid).signal, SIGKILL);
    struct rig_kept *kept = reclaim_one(r);
    assert_true(kept->row.flags & SG_KEPT_EXITED);
    assert_int_equal(kept->row.signal, SIGKILL);
    drop_ends(&k);
}

static void release_of_a_running_program_drops_the_kept_ends_only(void **state)
{
    struct rig *r = *state;
    struct kept_program k = start_kept(r, "x", SHELL("cat; echo end of input >&2"));
    sg_drop_fd(&k.in);
    release(r, "x"); /* now the last writing end of its input is gone */
    (void)rig_exit_of(r, k.pid);
    expect_text(k.err, "end of input\n");
    struct rig_kept *kept = reclaim_one(r);
    assert_int_equal(kept->row.flags, SG_KEPT_EXITED);
    release(r, "x");
    assert_int_equal(reclaim_count(r), 0);
    drop_ends(&k);
}

static void close_stdin_drops_the_kept_writing_end(void **state)
{
    struct rig *r = *state;
    struct kept_program k = start_kept(r, "x", ARGV("/bin/cat"));
    assert_int_equal(write(k.in, "abc", 3), 3);
    sg_drop_fd(&k.in);
    struct sg_msg m = { .type = SG_MSG_CLOSE_STDIN, .close_stdin = { k.pid } };
    (void)rig_do(r, m, SG_MSG_OK);
    assert_int_equal(rig_exit_of(r, k.pid).code, 0);
    expect_text(k.out, "abc");
    assert_int_equal(reclaim_one(r)->row.flags, SG_SPAWN_STDOUT | SG_SPAWN_STDERR | SG_KEPT_EXITED);
    drop_ends(&k);
}

static void only_named_streams_are_kept(void **state)
{
    struct rig *r = *state;
    int out[2];
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    struct rig_program p = { .argv = SHELL("printf x"),
                             .tag = "x",
                             .flags = SG_SPAWN_STDOUT | SG_SPAWN_KEEP,
                             .fds = { out[1], out[0] },
                             .fd_count = 2 };
    uint32_t pid = rig_start_program(r, &p);
    (void)close(out[0]);
    (void)close(out[1]);
    (void)rig_exit_of(r, pid);
    struct rig_kept *kept = reclaim_one(r);
    assert_int_equal(kept->row.flags, SG_SPAWN_STDOUT | SG_KEPT_EXITED);
    expect_text(kept->fds[1], "x");
}

static void programs_do_not_inherit_what_is_kept(void **state)
{
    struct rig *r = *state;
    struct kept_program k = start_kept(r, "x", ARGV("/bin/cat"));
    struct rig_program p = { .tag = "y" };
    (void)rig_shell(r, p, "ls /proc/self/fd | tr '\\n' ' '", "0 1 2 3 "); /* 3: the listing */
    drop_ends(&k);
}

static void a_terminal_goes_on_with_the_next_host(void **state)
{
    struct rig *r = *state;
    int in[2], out[2];
    assert_int_equal(pipe2(in, O_CLOEXEC) | pipe2(out, O_CLOEXEC), 0);
    struct rig_program p = { .argv = SHELL("stty -echo; echo ready; read a; echo got $a; exit 4"),
                             .tag = "tty",
                             .flags =
                                 SG_SPAWN_STDIN | SG_SPAWN_STDOUT | SG_SPAWN_PTY | SG_SPAWN_KEEP,
                             .fds = { in[0], out[1], in[1], out[0] },
                             .fd_count = 4 };
    uint32_t pid = rig_start_program(r, &p);
    struct pollfd ready = { .fd = out[0], .events = POLLIN };
    assert_int_equal(poll(&ready, 1, RIG_PATIENCE_MS), 1);
    for (unsigned i = 0; i < 2; i++) {
        (void)close(in[i]);
        (void)close(out[i]);
    }
    come_back(r);
    struct rig_kept *kept = reclaim_one(r);
    assert_int_equal(kept->row.flags, SG_SPAWN_STDIN | SG_SPAWN_STDOUT | SG_KEPT_PTY);
    struct sg_msg resize = { .type = SG_MSG_RESIZE, .resize = { pid, 30, 90 } };
    (void)rig_do(r, resize, SG_MSG_OK);
    assert_int_equal(write(kept->fds[0], "you\n", 4), 4);
    assert_int_equal(rig_exit_of(r, pid).code, 4);
    expect_text(kept->fds[1], "ready\r\ngot you\r\n");
    assert_int_equal(reclaim_one(r)->row.flags,
                     SG_SPAWN_STDIN | SG_SPAWN_STDOUT | SG_KEPT_PTY | SG_KEPT_EXITED);
}

/* ---- refusals, limits ---- */

static void a_tag_is_needed_and_names_one_exec_only(void **state)
{
    struct rig *r = *state;
    struct rig_program p = { .argv = ARGV("/bin/true") };
    assert_int_equal(rig_try_program(r, &p)->error.kind, SG_INVALID);
    p.tag = "twice";
    uint32_t pid = rig_start_program(r, &p);
    (void)rig_exit_of(r, pid);
    assert_int_equal(rig_try_program(r, &p)->error.kind, SG_CONFLICT);
    release(r, "twice");
    (void)rig_exit_of(r, rig_start_program(r, &p));
}

static void keeping_is_refused_where_nobody_said_keep(void **state)
{
    (void)state;
    struct rig r;
    rig_start(&r);
    int out[2];
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    struct rig_program p = { .argv = ARGV("/bin/true"),
                             .flags = SG_SPAWN_STDOUT | SG_SPAWN_KEEP,
                             .fds = { out[1], out[0] },
                             .fd_count = 2 };
    assert_int_equal(rig_try_program(&r, &p)->error.kind, SG_CONFLICT);
    rig_refuse(&r, (struct sg_msg) { .type = SG_MSG_RECLAIM }, SG_CONFLICT, 0);
    struct sg_msg m = { .type = SG_MSG_RELEASE, .release = { sg_text_of("x") } };
    rig_refuse(&r, m, SG_CONFLICT, 0);
    (void)close(out[0]);
    (void)close(out[1]);
    rig_stop(&r);
}

static void near_ends_must_come_for_every_stream(void **state)
{
    struct rig *r = *state;
    int out[2];
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    struct rig_program p = { .argv = ARGV("/bin/true"),
                             .tag = "x",
                             .flags = SG_SPAWN_STDOUT | SG_SPAWN_STDERR | SG_SPAWN_KEEP,
                             .fds = { out[1], out[1], out[0] },
                             .fd_count = 3 };
    assert_int_equal(rig_try_program(r, &p)->error.kind, SG_INVALID);
    (void)close(out[0]);
    (void)close(out[1]);
}

static void ends_that_nobody_releases_count_and_are_all_told(void **state)
{
    struct rig *r = *state;
    char tag[SG_CTL_MAX_TAG + 1];
    struct kept_program first = start_kept(r, "first", ARGV("/bin/true"));
    (void)rig_exit_of(r, first.pid);
    drop_ends(&first);
    struct rig_program p = { .argv = ARGV("/bin/true"), .tag = tag };
    for (unsigned i = 1; i < SG_INIT_MAX_EXECS; i++) {
        (void)snprintf(tag, sizeof tag, "exec-%027u", i);
        (void)rig_exit_of(r, rig_start_program(r, &p));
    }
    p.tag = "one-more";
    assert_int_equal(rig_try_program(r, &p)->error.kind, SG_EXHAUSTED);
    come_back(r);
    enum { BEFORE = 5 }; /* leave little room, and then read slowly: init must not lose any */
    struct sg_msg list = big_question();
    uint32_t first_id = rig_send(r, &list, NULL, 0);
    for (unsigned i = 1; i < BEFORE; i++)
        (void)rig_send(r, &list, NULL, 0);
    uint32_t id = rig_send(r, &(struct sg_msg) { .type = SG_MSG_RECLAIM }, NULL, 0);
    (void)poll(NULL, 0, 50);
    for (unsigned i = 0; i < BEFORE; i++)
        assert_int_equal(rig_reply(r, first_id + i)->type, SG_MSG_LISTED);
    assert_int_equal(rig_reply(r, id)->type, SG_MSG_OK);
    assert_int_equal(r->kept_count, SG_INIT_MAX_EXECS);
    for (unsigned i = 0; i < r->kept_count; i++)
        assert_true(r->kept[i].row.flags & SG_KEPT_EXITED);
    release(r, "first");
    (void)rig_exit_of(r, rig_start_program(r, &p));
}

/* A port that is listened to and answers nobody any more. */
struct full_port {
    int fds[8];
    uint16_t port;
};

static struct full_port open_full_port(void)
{
    struct full_port f;
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t n = sizeof at;
    f.fds[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(f.fds[0], (void *)&at, sizeof at) | listen(f.fds[0], 0), 0);
    assert_int_equal(getsockname(f.fds[0], (void *)&at, &n), 0);
    for (unsigned i = 1; i < SG_COUNT(f.fds); i++) {
        f.fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        (void)connect(f.fds[i], (void *)&at, sizeof at);
    }
    f.port = ntohs(at.sin_port);
    return f;
}

static void close_full_port(struct full_port *f)
{
    for (unsigned i = 0; i < SG_COUNT(f->fds); i++)
        (void)close(f->fds[i]);
}

/* A dial holds on to one descriptor for as long as it waits. */
static void take_last_descriptors(struct rig *r, struct full_port full)
{
    struct sg_msg dial = { .type = SG_MSG_DIAL, .dial = { .port = full.port } };
    for (unsigned i = 0; i < 8; i++)
        (void)rig_send(r, &dial, NULL, 0);
    for (enum sg_msg_type type = SG_MSG_NONE; type != SG_MSG_ERROR;) /* the first without one */
        type = rig_take(r);
    assert_int_equal(r->packet.msg.error.sys, EMFILE);
}

static void a_host_can_come_back_to_an_init_without_descriptors(void **state)
{
    (void)state;
    struct rig r = { .open_files = 128 };
    struct full_port full = open_full_port();
    rig_listen(&r);
    rig_start_as_told(&r);
    rig_hello(&r, SG_HELLO_KEEP, RIG_EPOCH);
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    char tag[SG_CTL_MAX_TAG + 1];
    struct rig_program p = { .argv = ARGV("/bin/sleep", "100"),
                             .tag = tag,
                             .flags =
                                 SG_SPAWN_STDIN | SG_SPAWN_STDOUT | SG_SPAWN_STDERR | SG_SPAWN_KEEP,
                             .fds = { ends[0], ends[1], ends[1], ends[1], ends[0], ends[0] },
                             .fd_count = 6 };
    struct sg_msg *m;
    unsigned started = 0;
    do {
        (void)snprintf(tag, sizeof tag, "%u", started++);
        m = rig_try_program(&r, &p);
    } while (m->type == SG_MSG_SPAWNED);
    assert_int_equal(m->error.kind, SG_EXHAUSTED);
    assert_in_range(started, 20, (128 - SG_INIT_SPARE_FDS) / 3);
    struct sg_msg watch = { .type = SG_MSG_WATCH, .watch = { .path = sg_text_of("/") } };
    do
        m = rig_ask(&r, &watch);
    while (m->type == SG_MSG_WATCHED);
    assert_int_equal(m->error.sys, EMFILE);
    take_last_descriptors(&r, full);
    int old = r.fd;
    r.fd = rig_dial_in(&r);
    assert_int_equal(rig_take(&r), SG_MSG_READY);
    rig_hello(&r, SG_HELLO_KEEP, 2);
    assert_int_equal(reclaim_count(&r), started - 1);
    (void)close(old);
    (void)close(ends[0]);
    (void)close(ends[1]);
    close_full_port(&full);
    rig_stop(&r);
}

int main(void)
{
#define KEPT(f) cmocka_unit_test_setup_teardown(f, start_rig, stop_rig)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_keep_a_listener_does_not_keep_init_alive),
        KEPT(init_outlives_its_connection_and_wants_a_hello_of_the_next),
        KEPT(a_host_that_never_says_hello_does_not_end_init),
        KEPT(a_new_connection_replaces_the_old_one),
        KEPT(the_last_of_several_connections_wins),
        KEPT(replies_that_waited_for_the_old_host_do_not_reach_the_new_one),
        KEPT(watches_end_with_their_connection),
        KEPT(the_end_carries_the_tag),
        KEPT(a_running_program_is_reclaimed_with_what_waits_in_its_pipes),
        KEPT(an_end_that_nobody_saw_is_remembered_until_release),
        KEPT(a_signal_that_ended_a_program_is_remembered),
        KEPT(release_of_a_running_program_drops_the_kept_ends_only),
        KEPT(close_stdin_drops_the_kept_writing_end),
        KEPT(only_named_streams_are_kept),
        KEPT(programs_do_not_inherit_what_is_kept),
        KEPT(a_terminal_goes_on_with_the_next_host),
        KEPT(a_tag_is_needed_and_names_one_exec_only),
        cmocka_unit_test(keeping_is_refused_where_nobody_said_keep),
        KEPT(near_ends_must_come_for_every_stream),
        KEPT(ends_that_nobody_releases_count_and_are_all_told),
        cmocka_unit_test(a_host_can_come_back_to_an_init_without_descriptors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
