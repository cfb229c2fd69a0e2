/* SPDX-License-Identifier: Apache-2.0 */
/* init: programs are started, signalled, and their ends reported. */
#include <errno.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "init_rig.h"
#include "base/banned.h"

#define ARGV(...) ((char *const[]) { __VA_ARGS__, NULL })

static int start_rig(void **state)
{
    static struct rig rig;
    rig_start(&rig);
    *state = &rig;
    return 0;
}

static int stop_rig(void **state)
{
    rig_stop(*state);
    return 0;
}

static void need_root(void)
{
    if (geteuid() != 0)
        skip();
}

/* ---- the conversation ---- */

static void a_request_before_hello_is_refused(void **state)
{
    (void)state;
    struct rig r;
    rig_start_silent(&r);
    rig_refuse(&r, (struct sg_msg) { .type = SG_MSG_INFO }, SG_CONFLICT, 0);
    rig_stop(&r);
}

static void another_version_is_refused_and_the_right_one_still_accepted(void **state)
{
    (void)state;
    struct rig r;
    rig_start_silent(&r);
    struct sg_msg hello = { .type = SG_MSG_HELLO, .hello = { SG_CTL_VERSION + 1, 0, 5 } };
    rig_refuse(&r, hello, SG_UNSUPPORTED, 0);
    hello.hello.version = SG_CTL_VERSION;
    assert_int_equal(rig_do(&r, hello, SG_MSG_OK)->epoch, 5);
    rig_stop(&r);
}

static void replies_carry_the_epoch_of_the_last_hello(void **state)
{
    struct rig *r = *state;
    struct sg_msg info = { .type = SG_MSG_INFO };
    assert_int_equal(rig_do(r, info, SG_MSG_INFOED)->epoch, RIG_EPOCH);
    struct sg_msg hello = { .type = SG_MSG_HELLO, .hello = { SG_CTL_VERSION, 0, 4242 } };
    assert_int_equal(rig_do(r, hello, SG_MSG_OK)->epoch, 4242);
    assert_int_equal(rig_do(r, info, SG_MSG_INFOED)->epoch, 4242);
}

static void info_counts_processes_and_time(void **state)
{
    struct rig *r = *state;
    struct sg_msg *m = rig_do(r, (struct sg_msg) { .type = SG_MSG_INFO }, SG_MSG_INFOED);
    assert_int_equal(m->infoed.version, SG_CTL_VERSION);
    assert_true(m->infoed.processes >= 1);
    assert_in_range(m->infoed.uptime_ns, 1, 60000000000u);
}

static void a_malformed_packet_is_answered_with_id_zero_and_survived(void **state)
{
    struct rig *r = *state;
    static const char *const rubbish[] = { "x", "SGL1", "SGL1\x63\0\0\0aaaabbbb",
                                           "SGL1\x02\0\0\0aaaabbbb" };
    static const size_t sizes[] = { 1, 4, 16, 16 };
    for (unsigned i = 0; i < SG_COUNT(rubbish); i++) {
        assert_true(send(r->fd, rubbish[i], sizes[i], MSG_NOSIGNAL) > 0);
        assert_int_equal(rig_reply(r, 0)->type, SG_MSG_ERROR);
        assert_int_equal(r->packet.msg.error.kind, SG_INVALID);
    }
    struct sg_msg wrong_way = { .type = SG_MSG_OK };
    (void)rig_send(r, &wrong_way, NULL, 0);
    assert_int_equal(rig_reply(r, 0)->type, SG_MSG_ERROR);
    (void)rig_do(r, (struct sg_msg) { .type = SG_MSG_INFO }, SG_MSG_INFOED);
}

static void descriptors_that_no_message_permits_are_refused(void **state)
{
    struct rig *r = *state;
    struct sg_msg info = { .type = SG_MSG_INFO };
    int fds[1] = { r->fd };
    uint32_t id = rig_send(r, &info, fds, 1);
    assert_int_equal(rig_reply(r, id)->error.kind, SG_INVALID);
}

/* ---- start and end ---- */

static void exit_codes_are_reported(void **state)
{
    struct rig *r = *state;
    assert_int_equal(rig_shell(r, (struct rig_program) { 0 }, "exit 0", ""), 0);
    assert_int_equal(rig_shell(r, (struct rig_program) { 0 }, "exit 7", ""), 7);
    assert_int_equal(rig_shell(r, (struct rig_program) { 0 }, "exit 255", ""), 255);
}

static void the_end_says_what_was_used(void **state)
{
    struct rig *r = *state;
    struct rig_program p = { .argv = ARGV("/bin/sh", "-c",
                                          "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done") };
    struct sg_msg_exited e = rig_exit_of(r, rig_start_program(r, &p));
    assert_in_range(e.cpu_ns, 1000000, 10000000000u);
    assert_in_range(e.max_rss_bytes, 100000, 100000000);
}

static void a_missing_program_is_not_found(void **state)
{
    struct rig *r = *state;
    static const char *const names[] = { "/nonexistent/x", "surely-no-such-program", "" };
    for (unsigned i = 0; i < SG_COUNT(names); i++) {
        struct rig_program p = { .argv = ARGV((char *)(uintptr_t)names[i]) };
        struct sg_msg *m = rig_try_program(r, &p);
        assert_int_equal(m->type, SG_MSG_ERROR);
        assert_int_equal(m->error.sys, ENOENT);
        assert_int_equal(m->error.kind, SG_NOT_FOUND);
    }
}

static void a_program_that_is_not_executable_is_denied(void **state)
{
    struct rig *r = *state;
    struct rig_program p = { .argv = ARGV("/etc/passwd") };
    struct sg_msg *m = rig_try_program(r, &p);
    assert_int_equal(m->type, SG_MSG_ERROR);
    assert_int_equal(m->error.sys, EACCES);
    /* in the search path too, even when later directories do not have it at all */
    struct rig_program q = { .argv = ARGV("passwd-"),
                             .env = ARGV("PATH=/nonexistent:/etc:/nowhere") };
    struct stat st;
    if (stat("/etc/passwd-", &st) == 0)
        assert_int_equal(rig_try_program(r, &q)->error.sys, EACCES);
}

static void no_program_at_all_is_invalid(void **state)
{
    struct rig *r = *state;
    static char *const nothing[] = { NULL };
    struct rig_program p = { .argv = nothing };
    assert_int_equal(rig_try_program(r, &p)->error.kind, SG_INVALID);
}

static void a_failed_start_leaves_no_process_and_no_event(void **state)
{
    struct rig *r = *state;
    struct rig_program p = { .argv = ARGV("/nonexistent") };
    assert_int_equal(rig_try_program(r, &p)->type, SG_MSG_ERROR);
    assert_int_equal(rig_shell(r, (struct rig_program) { 0 }, "exit 3", ""), 3);
    assert_int_equal(r->exit_count, 0);
}

static void streams_must_be_as_many_as_are_named(void **state)
{
    struct rig *r = *state;
    struct rig_program p = { .argv = ARGV("/bin/true"),
                             .flags = SG_SPAWN_STDIN | SG_SPAWN_STDOUT,
                             .fds = { r->fd },
                             .fd_count = 1 };
    assert_int_equal(rig_try_program(r, &p)->error.kind, SG_INVALID);
    p.flags = 0;
    assert_int_equal(rig_try_program(r, &p)->error.kind, SG_INVALID);
}

/* ---- surroundings ---- */

static void the_environment_is_the_given_one_and_what_is_missing_is_added(void **state)
{
    struct rig *r = *state;
    need_root();
    struct rig_program p = { .user = "nobody", .env = ARGV("A=1", "HOME=/given") };
    assert_int_equal(rig_shell(r, p,
                               "/usr/bin/env | grep -v -e '^PWD=' -e '^_=' -e '^SHLVL=' | sort",
                               "A=1\nHOME=/given\nLOGNAME=nobody\nSHELL=/usr/sbin/nologin\n"
                               "USER=nobody\n"),
                     0);
}

static void the_search_path_is_that_of_the_given_environment(void **state)
{
    struct rig *r = *state;
    char dir[] = "/tmp/sg-path-XXXXXX", script[64];
    assert_non_null(mkdtemp(dir));
    (void)snprintf(script, sizeof script, "%s/sg-tool", dir);
    sg_auto_fd fd = open(script, O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
    assert_true(fd >= 0 && write(fd, "#!/bin/sh\nexit 42\n", 18) == 18);
    sg_drop_fd(&fd);
    char path[80];
    (void)snprintf(path, sizeof path, "PATH=/nowhere:%s", dir);
    struct rig_program p = { .argv = ARGV("sg-tool"), .env = ARGV(path) };
    uint32_t code = rig_exit_of(r, rig_start_program(r, &p)).code;
    struct rig_program q = { .argv = ARGV("sg-tool"), .env = ARGV("PATH=/bin:/usr/bin") };
    int sys = (int)rig_try_program(r, &q)->error.sys;
    (void)unlink(script);
    (void)rmdir(dir);
    assert_int_equal(code, 42);
    assert_int_equal(sys, ENOENT);
}

static void the_directory_is_the_asked_one_or_the_home(void **state)
{
    struct rig *r = *state;
    need_root();
    (void)rig_shell(r, (struct rig_program) { .cwd = "/usr" }, "pwd", "/usr\n");
    (void)rig_shell(r, (struct rig_program) { .user = "daemon", .cwd = "" }, "pwd", "/usr/sbin\n");
    /* nobody's home does not exist */
    (void)rig_shell(r, (struct rig_program) { .user = "nobody", .cwd = "" }, "pwd", "/\n");
    struct rig_program p = { .argv = ARGV("/bin/true"), .cwd = "/nonexistent" };
    assert_int_equal(rig_try_program(r, &p)->error.sys, ENOENT);
}

static void the_directory_is_entered_as_the_user(void **state)
{
    struct rig *r = *state;
    need_root();
    struct rig_program p = { .argv = ARGV("/bin/true"), .cwd = "/root", .user = "nobody" };
    struct stat st;
    if (stat("/root", &st) < 0 || st.st_mode & 1)
        skip();
    assert_int_equal(rig_try_program(r, &p)->error.sys, EACCES);
}

static void the_user_is_taken_on_completely(void **state)
{
    struct rig *r = *state;
    need_root();
    (void)rig_shell(
        r, (struct rig_program) { .user = "daemon" },
        "grep -E '^(Uid|Gid|Groups|CapEff|CapPrm)' /proc/self/status | tr -s '\\t ' ' '",
        "Uid: 1 1 1 1\nGid: 1 1 1 1\nGroups: 1 \nCapPrm: 0000000000000000\n"
        "CapEff: 0000000000000000\n");
    (void)rig_shell(r, (struct rig_program) { .user = "4321:99" },
                    "id -u; id -g; id -G; echo $HOME", "4321\n99\n99\n/\n");
}

static void an_unknown_user_is_not_found(void **state)
{
    struct rig *r = *state;
    static const char *const names[] = { "surely-not-here", "12:", "1:2:3", "-1", "4294967295" };
    for (unsigned i = 0; i < SG_COUNT(names); i++) {
        struct rig_program p = { .argv = ARGV("/bin/true"), .user = names[i] };
        struct sg_msg *m = rig_try_program(r, &p);
        assert_int_equal(m->type, SG_MSG_ERROR);
        assert_int_equal(m->error.kind, SG_NOT_FOUND);
    }
}

static void with_one_user_only_the_own_name_is_accepted(void **state)
{
    (void)state;
    need_root();
    struct rig r;
    rig_start_silent(&r);
    struct sg_msg hello = { .type = SG_MSG_HELLO,
                            .hello = { SG_CTL_VERSION, SG_HELLO_ONE_USER, 1 } };
    (void)rig_do(&r, hello, SG_MSG_OK);
    static const char *const own[] = { "", "root", "0", "0:0" };
    for (unsigned i = 0; i < SG_COUNT(own); i++)
        (void)rig_shell(&r, (struct rig_program) { .user = own[i] }, "id -u", "0\n");
    static const char *const others[] = { "daemon", "1", "0:1" };
    for (unsigned i = 0; i < SG_COUNT(others); i++) {
        struct rig_program p = { .argv = ARGV("/bin/true"), .user = others[i] };
        assert_int_equal(rig_try_program(&r, &p)->error.kind, SG_DENIED);
    }
    rig_stop(&r);
}

static void a_program_starts_clean(void **state)
{
    struct rig *r = *state;
    (void)rig_shell(r, (struct rig_program) { 0 },
                    "umask; ls /proc/self/fd | tr '\\n' ' '; "
                    "grep -E '^Sig(Blk|Ign)' /proc/self/status | tr -s '\\t ' ' '; "
                    "read pid name state parent group session rest </proc/self/stat; "
                    "[ $pid = $session ] && echo leader",
                    "0022\n0 1 2 3 SigBlk: 0000000000000000\nSigIgn: 0000000000000000\nleader\n");
}

static void absent_streams_are_dev_null_and_stderr_goes_where_stdout_goes(void **state)
{
    struct rig *r = *state;
    (void)rig_shell(r, (struct rig_program) { 0 }, "readlink /proc/self/fd/0; echo e >&2",
                    "/dev/null\ne\n");
}

static void the_streams_end_with_the_program(void **state)
{
    struct rig *r = *state;
    int in[2], out[2];
    assert_int_equal(pipe2(in, O_CLOEXEC) | pipe2(out, O_CLOEXEC), 0);
    struct rig_program p = { .argv = ARGV("/bin/cat"),
                             .flags = SG_SPAWN_STDIN | SG_SPAWN_STDOUT,
                             .fds = { in[0], out[1] },
                             .fd_count = 2 };
    uint32_t pid = rig_start_program(r, &p);
    (void)close(in[0]);
    (void)close(out[1]);
    assert_int_equal(write(in[1], "through", 7), 7);
    (void)close(in[1]);
    sg_auto_buf text;
    sg_buf_init(&text, 100);
    rig_read_all(out[0], &text);
    (void)close(out[0]);
    assert_string_equal(sg_buf_cstr(&text), "through");
    assert_int_equal(rig_exit_of(r, pid).code, 0);
}

/* ---- signals ---- */

static struct sg_msg signal_message(uint32_t pid, int signal, uint32_t scope)
{
    return (struct sg_msg) { .type = SG_MSG_SIGNAL, .signal = { pid, (uint32_t)signal, scope } };
}

static void a_signal_ends_a_program_and_is_reported(void **state)
{
    struct rig *r = *state;
    struct rig_program p = { .argv = ARGV("/bin/sleep", "60") };
    uint32_t pid = rig_start_program(r, &p);
    (void)rig_do(r, signal_message(pid, SIGTERM, SG_SIGNAL_PROCESS), SG_MSG_OK);
    struct sg_msg_exited e = rig_exit_of(r, pid);
    assert_int_equal(e.signal, SIGTERM);
    assert_int_equal(e.code, 0);
    rig_refuse(r, signal_message(pid, SIGTERM, SG_SIGNAL_PROCESS), SG_NOT_FOUND, ESRCH);
}

static void a_group_is_signalled_whole(void **state)
{
    struct rig *r = *state;
    int out[2];
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    struct rig_program p = { .argv = ARGV("/bin/sh", "-c", "sleep 60 & sleep 60 & wait"),
                             .flags = SG_SPAWN_STDOUT,
                             .fds = { out[1] },
                             .fd_count = 1 };
    uint32_t pid = rig_start_program(r, &p);
    (void)close(out[1]);
    (void)rig_do(r, signal_message(pid, SIGKILL, SG_SIGNAL_GROUP), SG_MSG_OK);
    sg_auto_buf text;
    sg_buf_init(&text, 100);
    rig_read_all(out[0], &text); /* ends only when the sleepers are gone as well */
    (void)close(out[0]);
    assert_int_equal(rig_exit_of(r, pid).signal, SIGKILL);
}

static void all_means_every_process_but_init(void **state)
{
    struct rig *r = *state;
    need_root();
    struct rig_program p = { .argv = ARGV("/bin/sleep", "60") };
    uint32_t a = rig_start_program(r, &p), b = rig_start_program(r, &p);
    (void)rig_do(r, signal_message(0, SIGKILL, SG_SIGNAL_ALL), SG_MSG_OK);
    assert_int_equal(rig_exit_of(r, a).signal, SIGKILL);
    assert_int_equal(rig_exit_of(r, b).signal, SIGKILL);
    (void)rig_do(r, signal_message(0, SIGKILL, SG_SIGNAL_ALL), SG_MSG_OK);
}

static void init_itself_cannot_be_signalled(void **state)
{
    struct rig *r = *state;
    for (uint32_t pid = 0; pid < 2; pid++)
        for (uint32_t scope = SG_SIGNAL_PROCESS; scope <= SG_SIGNAL_GROUP; scope++)
            rig_refuse(r, signal_message(pid, SIGKILL, scope), SG_INVALID, 0);
}

static void orphans_are_reaped_in_silence(void **state)
{
    struct rig *r = *state;
    need_root();
    for (int i = 0; i < 5; i++)
        (void)rig_shell(r, (struct rig_program) { 0 }, "(sleep 0.01 &)", NULL);
    /* pid 1 has no zombies left once the last sleeper has ended */
    (void)rig_shell(r, (struct rig_program) { 0 }, "sleep 0.1", "");
    assert_int_equal(r->exit_count, 0);
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/task/%d/children", r->pid, r->pid);
    sg_auto_fd fd = open(path, O_RDONLY | O_CLOEXEC);
    char text[64];
    assert_int_equal(read(fd, text, sizeof text), 0);
}

/* ---- the end of init ---- */

static void the_end_of_the_control_socket_ends_init_and_everything(void **state)
{
    (void)state;
    need_root();
    struct rig r;
    rig_start(&r);
    int out[2];
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    struct rig_program p = {
        .argv = ARGV("/bin/sleep", "60"), .flags = SG_SPAWN_STDOUT, .fds = { out[1] }, .fd_count = 1
    };
    (void)rig_start_program(&r, &p);
    (void)close(out[1]);
    rig_stop(&r);
    char c;
    assert_int_equal(read(out[0], &c, 1), 0);
    (void)close(out[0]);
}

static void shutdown_asks_first_and_ends_at_once_when_all_obey(void **state)
{
    (void)state;
    need_root();
    enum {
        TRIES = 10
    }; /* one that waits for its second never ends before it; a busy machine may */
    uint64_t quickest_ns = UINT64_MAX;
    for (unsigned i = 0; i < TRIES && quickest_ns > 900000000; i++) {
        struct rig r;
        rig_start(&r);
        struct rig_program p = { .argv = ARGV("/bin/sleep", "60") };
        uint32_t pid = rig_start_program(&r, &p);
        uint64_t before_ns = sg_now_ns();
        (void)rig_do(&r, (struct sg_msg) { .type = SG_MSG_SHUTDOWN }, SG_MSG_OK);
        assert_int_equal(rig_exit_of(&r, pid).signal, SIGTERM);
        assert_int_equal(rig_take(&r), SG_MSG_NONE);
        assert_int_equal(rig_wait(&r), 0);
        if (sg_now_ns() - before_ns < quickest_ns)
            quickest_ns = sg_now_ns() - before_ns;
        rig_stop(&r);
    }
    assert_in_range(quickest_ns, 0, 900000000);
}

static void shutdown_kills_those_who_do_not_listen(void **state)
{
    (void)state;
    need_root();
    struct rig r;
    rig_start(&r);
    int out[2];
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    struct rig_program p = { .argv = ARGV("/bin/sh", "-c", "trap '' TERM; echo x; sleep 60 & wait"),
                             .flags = SG_SPAWN_STDOUT,
                             .fds = { out[1] },
                             .fd_count = 1 };
    uint32_t pid = rig_start_program(&r, &p);
    char c;
    assert_int_equal(read(out[0], &c, 1), 1);
    (void)rig_do(&r, (struct sg_msg) { .type = SG_MSG_SHUTDOWN }, SG_MSG_OK);
    assert_int_equal(rig_try_program(&r, &p)->error.kind, SG_CONFLICT);
    assert_int_equal(rig_exit_of(&r, pid).signal, SIGKILL);
    assert_int_equal(rig_take(&r), SG_MSG_NONE);
    (void)close(out[0]);
    (void)close(out[1]);
    rig_stop(&r);
}

/* ---- a host that does not read ---- */

static void no_end_is_lost_while_the_host_does_not_read(void **state)
{
    struct rig *r = *state;
    enum { PROGRAMS = 40, FLOOD = 200000 };
    struct rig_program p = { .argv = ARGV("/bin/sh", "-c", "read x; exit 9"),
                             .flags = SG_SPAWN_STDIN };
    int in[2];
    assert_int_equal(pipe2(in, O_CLOEXEC), 0);
    p.fds[0] = in[0];
    p.fd_count = 1;
    uint32_t pids[PROGRAMS];
    for (unsigned i = 0; i < PROGRAMS; i++)
        pids[i] = rig_start_program(r, &p);
    (void)close(in[0]);

    /* Ask until the pipes are full both ways: init must have stopped listening by then. */
    struct sg_err err = { 0 };
    struct sg_msg info = { .type = SG_MSG_INFO };
    unsigned asked = 0;
    uint64_t deadline_ns = sg_now_ns() + 30000000000u;
    for (unsigned refused = 0; refused < 50 && asked < FLOOD && sg_now_ns() < deadline_ns;) {
        info.id = r->last_id + 1;
        if (sg_chan_send(r->fd, &info, NULL, 0, false, &err) == 0) {
            r->last_id++;
            asked++;
            refused = 0;
        } else {
            refused++;
            struct timespec pause = { .tv_nsec = 2000000 };
            (void)nanosleep(&pause, NULL);
        }
    }
    assert_in_range(asked, 100, FLOOD - 1);
    (void)close(in[1]); /* and now all programs end */

    unsigned answered = 0, ended = 0;
    while (answered < asked || ended < PROGRAMS) {
        enum sg_msg_type type = rig_take(r);
        assert_int_not_equal(type, SG_MSG_NONE);
        answered += type == SG_MSG_INFOED;
        ended += type == SG_MSG_EXITED;
    }
    for (unsigned i = 0; i < PROGRAMS; i++)
        assert_int_equal(rig_exit_of(r, pids[i]).code, 9);
}

int main(void)
{
#define WITH_RIG(f) cmocka_unit_test_setup_teardown(f, start_rig, stop_rig)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_before_hello_is_refused),
        cmocka_unit_test(another_version_is_refused_and_the_right_one_still_accepted),
        WITH_RIG(replies_carry_the_epoch_of_the_last_hello),
        WITH_RIG(info_counts_processes_and_time),
        WITH_RIG(a_malformed_packet_is_answered_with_id_zero_and_survived),
        WITH_RIG(descriptors_that_no_message_permits_are_refused),
        WITH_RIG(exit_codes_are_reported),
        WITH_RIG(the_end_says_what_was_used),
        WITH_RIG(a_missing_program_is_not_found),
        WITH_RIG(a_program_that_is_not_executable_is_denied),
        WITH_RIG(no_program_at_all_is_invalid),
        WITH_RIG(a_failed_start_leaves_no_process_and_no_event),
        WITH_RIG(streams_must_be_as_many_as_are_named),
        WITH_RIG(the_environment_is_the_given_one_and_what_is_missing_is_added),
        WITH_RIG(the_search_path_is_that_of_the_given_environment),
        WITH_RIG(the_directory_is_the_asked_one_or_the_home),
        WITH_RIG(the_directory_is_entered_as_the_user),
        WITH_RIG(the_user_is_taken_on_completely),
        WITH_RIG(an_unknown_user_is_not_found),
        cmocka_unit_test(with_one_user_only_the_own_name_is_accepted),
        WITH_RIG(a_program_starts_clean),
        WITH_RIG(absent_streams_are_dev_null_and_stderr_goes_where_stdout_goes),
        WITH_RIG(the_streams_end_with_the_program),
        WITH_RIG(a_signal_ends_a_program_and_is_reported),
        WITH_RIG(a_group_is_signalled_whole),
        WITH_RIG(all_means_every_process_but_init),
        WITH_RIG(init_itself_cannot_be_signalled),
        WITH_RIG(orphans_are_reaped_in_silence),
        cmocka_unit_test(the_end_of_the_control_socket_ends_init_and_everything),
        cmocka_unit_test(shutdown_asks_first_and_ends_at_once_when_all_obey),
        cmocka_unit_test(shutdown_kills_those_who_do_not_listen),
        WITH_RIG(no_end_is_lost_while_the_host_does_not_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
