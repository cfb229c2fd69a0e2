/* SPDX-License-Identifier: Apache-2.0 */
/* init: a terminal inside, pumped through two pipes. */
#include <errno.h>

#include "init_rig.h"
#include "base/banned.h"

struct terminal {
    struct rig rig;
    int in, out; /* the host's ends */
    uint32_t pid;
};

static void open_terminal(struct terminal *t, const char *command, uint32_t rows, uint32_t cols)
{
    int in[2], out[2];
    char *const argv[] = { "/bin/sh", "-c", (char *)(uintptr_t)command, NULL };
    rig_start(&t->rig);
    assert_int_equal(pipe2(in, O_CLOEXEC) | pipe2(out, O_CLOEXEC), 0);
    struct rig_program p = { .argv = argv,
                             .flags = SG_SPAWN_PTY | SG_SPAWN_STDIN | SG_SPAWN_STDOUT,
                             .rows = rows,
                             .cols = cols,
                             .fds = { in[0], out[1] },
                             .fd_count = 2 };
    t->pid = rig_start_program(&t->rig, &p);
    (void)close(in[0]);
    (void)close(out[1]);
    t->in = in[1];
    t->out = out[0];
}

static void close_terminal(struct terminal *t)
{
    if (t->in >= 0)
        (void)close(t->in);
    (void)close(t->out);
    rig_stop(&t->rig);
}

static void type(struct terminal *t, const char *text)
{
    assert_int_equal(write(t->in, text, strlen(text)), (int)strlen(text));
}

/* Reads until `wanted` has been printed. */
static void expect(struct terminal *t, const char *wanted)
{
    sg_auto_buf text;
    sg_buf_init(&text, 1 << 20);
    while (!strstr(sg_buf_cstr(&text), wanted)) {
        struct pollfd p = { .fd = t->out, .events = POLLIN };
        if (poll(&p, 1, RIG_PATIENCE_MS) != 1)
            fail_msg("waited for '%s', got '%s'", wanted, sg_buf_cstr(&text));
        char c;
        if (read(t->out, &c, 1) != 1)
            fail_msg("ended before '%s': '%s'", wanted, sg_buf_cstr(&text));
        sg_buf_add(&text, &c, 1);
    }
}

static void a_terminal_echoes_and_has_the_asked_size(void **state)
{
    (void)state;
    struct terminal t;
    open_terminal(&t, "stty size; read line; echo \"got:$line\"", 33, 101);
    expect(&t, "33 101\r\n");
    type(&t, "hello\n");
    expect(&t, "hello\r\n"); /* the echo */
    expect(&t, "got:hello\r\n");
    assert_int_equal(rig_exit_of(&t.rig, t.pid).code, 0);
    close_terminal(&t);
}

static void it_is_the_controlling_terminal(void **state)
{
    (void)state;
    struct terminal t;
    open_terminal(&t, "echo to-tty >/dev/tty; tty", 0, 0);
    expect(&t, "to-tty\r\n/dev/pts/");
    close_terminal(&t);
}

static void a_resize_is_seen_inside(void **state)
{
    (void)state;
    struct terminal t;
    open_terminal(&t, "trap 'stty size; exit 5' WINCH; echo ready; while :; do sleep 0.05; done", 0,
                  0);
    expect(&t, "ready");
    struct sg_msg resize = { .type = SG_MSG_RESIZE, .resize = { t.pid, 50, 132 } };
    (void)rig_do(&t.rig, resize, SG_MSG_OK);
    expect(&t, "50 132\r\n");
    assert_int_equal(rig_exit_of(&t.rig, t.pid).code, 5);
    rig_refuse(&t.rig, resize, SG_NOT_FOUND, 0);
    close_terminal(&t);
}

static void the_end_of_input_is_an_end_of_file(void **state)
{
    (void)state;
    struct terminal t;
    open_terminal(&t, "stty -echo; echo ready; cat; echo ended", 0, 0);
    expect(&t, "ready\r\n");
    type(&t, "line\nhalf"); /* a begun line needs the end said twice */
    (void)close(t.in);
    t.in = -1;
    expect(&t, "line\r\nhalf");
    expect(&t, "ended\r\n");
    assert_int_equal(rig_exit_of(&t.rig, t.pid).code, 0);
    close_terminal(&t);
}

static void close_stdin_is_an_end_of_file_too(void **state)
{
    (void)state;
    struct terminal t;
    open_terminal(&t, "cat; echo ended", 0, 0);
    struct sg_msg m = { .type = SG_MSG_CLOSE_STDIN, .close_stdin = { t.pid } };
    (void)rig_do(&t.rig, m, SG_MSG_OK);
    expect(&t, "ended\r\n");
    close_terminal(&t);
}

static void control_c_interrupts(void **state)
{
    (void)state;
    struct terminal t;
    open_terminal(&t, "echo ready; exec sleep 60", 0, 0);
    expect(&t, "ready");
    type(&t, "\003");
    assert_int_equal(rig_exit_of(&t.rig, t.pid).signal, SIGINT);
    close_terminal(&t);
}

static void expect_count(struct terminal *t, int last)
{
    sg_auto_buf text, wanted;
    sg_buf_init(&text, 1 << 20);
    sg_buf_init(&wanted, 1 << 20);
    for (int i = 1; i <= last; i++)
        sg_buf_addf(&wanted, "%d\r\n", i);
    rig_read_all(t->out, &text);
    assert_int_equal(text.n, wanted.n);
    assert_memory_equal(text.p, wanted.p, wanted.n);
}

static void all_output_arrives_before_the_end_is_told(void **state)
{
    (void)state;
    struct terminal t;
    open_terminal(&t, "seq 1 30000", 0, 0);
    expect_count(&t, 30000);
    assert_int_equal(rig_exit_of(&t.rig, t.pid).code, 0);
    close_terminal(&t);
}

static void what_a_dead_program_printed_waits_for_a_slow_host(void **state)
{
    (void)state;
    struct terminal t;
    open_terminal(&t, "read go; exec seq 1 3000", 0, 0);
    assert_true(fcntl(t.out, F_SETPIPE_SZ, 4096) >= 4096); /* much less than is printed */
    type(&t, "\n");
    expect(&t, "\r\n");
    struct sg_msg probe = { .type = SG_MSG_SIGNAL, .signal = { t.pid, 0, SG_SIGNAL_PROCESS } };
    uint64_t deadline_ns = sg_now_ns() + 30000000000u;
    while (rig_ask(&t.rig, &probe)->type == SG_MSG_OK)
        assert_true(sg_now_ns() < deadline_ns);
    assert_int_equal(t.rig.exit_count, 0); /* it is gone, and not yet told so */
    expect_count(&t, 3000);
    assert_int_equal(rig_exit_of(&t.rig, t.pid).code, 0);
    close_terminal(&t);
}

static void a_host_that_does_not_read_stops_only_that_program(void **state)
{
    (void)state;
    struct terminal t;
    open_terminal(&t, "yes", 0, 0);
    for (int i = 0; i < 20; i++)
        assert_int_equal(rig_shell(&t.rig, (struct rig_program) { 0 }, "exit 4", ""), 4);
    struct sg_msg kill_it = { .type = SG_MSG_SIGNAL,
                              .signal = { t.pid, SIGKILL, SG_SIGNAL_GROUP } };
    (void)rig_do(&t.rig, kill_it, SG_MSG_OK);
    sg_auto_buf text; /* the end waits for what was printed */
    sg_buf_init(&text, 1 << 20);
    rig_read_all(t.out, &text);
    assert_in_range(text.n, 4096, 1 << 20);
    assert_int_equal(rig_exit_of(&t.rig, t.pid).signal, SIGKILL);
    close_terminal(&t);
}

static void a_program_that_does_not_read_stops_only_its_own_input(void **state)
{
    (void)state;
    struct terminal t;
    open_terminal(&t, "stty -icanon -echo; echo ready; sleep 60", 0, 0);
    expect(&t, "ready");
    assert_int_equal(fcntl(t.in, F_SETFL, O_NONBLOCK), 0);
    static char junk[4096];
    memset(junk, 'x', sizeof junk);
    for (unsigned refused = 0; refused < 20;) {
        if (write(t.in, junk, sizeof junk) > 0)
            refused = 0;
        else
            refused++;
        (void)rig_do(&t.rig, (struct sg_msg) { .type = SG_MSG_INFO }, SG_MSG_INFOED);
    }
    close_terminal(&t);
}

static void a_reader_that_goes_away_does_not_hang_the_program(void **state)
{
    (void)state;
    struct terminal t;
    open_terminal(&t, "seq 1 50000; exit 6", 0, 0);
    (void)close(t.out);
    t.out = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_int_equal(rig_exit_of(&t.rig, t.pid).code, 6);
    close_terminal(&t);
}

static void a_terminal_needs_streams_that_can_be_waited_for(void **state)
{
    (void)state;
    struct rig r;
    rig_start(&r);
    sg_auto_fd file = open("/etc/passwd", O_RDONLY | O_CLOEXEC);
    char *const argv[] = { "/bin/true", NULL };
    struct rig_program p = {
        .argv = argv, .flags = SG_SPAWN_PTY | SG_SPAWN_STDIN, .fds = { file }, .fd_count = 1
    };
    assert_int_equal(rig_try_program(&r, &p)->type, SG_MSG_ERROR);
    p.flags = SG_SPAWN_PTY | SG_SPAWN_STDERR;
    assert_int_equal(rig_try_program(&r, &p)->error.kind, SG_INVALID);
    rig_stop(&r);
}

static void plain_programs_have_no_size(void **state)
{
    (void)state;
    struct rig r;
    rig_start(&r);
    char *const argv[] = { "/bin/sleep", "60", NULL };
    struct rig_program p = { .argv = argv };
    uint32_t pid = rig_start_program(&r, &p);
    rig_refuse(&r, (struct sg_msg) { .type = SG_MSG_RESIZE, .resize = { pid, 1, 1 } }, SG_CONFLICT,
               0);
    (void)rig_do(&r, (struct sg_msg) { .type = SG_MSG_SIGNAL, .signal = { pid, SIGKILL, 0 } },
                 SG_MSG_OK);
    (void)rig_exit_of(&r, pid);
    rig_stop(&r);
}

static void the_terminal_belongs_to_the_user(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip();
    struct rig r;
    rig_start(&r);
    assert_int_equal(rig_shell(&r, (struct rig_program) { .user = "daemon", .flags = SG_SPAWN_PTY },
                               "stat -c %u /dev/stdin -L; echo x >/dev/tty", "1\r\nx\r\n"),
                     0);
    rig_stop(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_terminal_echoes_and_has_the_asked_size),
        cmocka_unit_test(it_is_the_controlling_terminal),
        cmocka_unit_test(a_resize_is_seen_inside),
        cmocka_unit_test(the_end_of_input_is_an_end_of_file),
        cmocka_unit_test(close_stdin_is_an_end_of_file_too),
        cmocka_unit_test(control_c_interrupts),
        cmocka_unit_test(all_output_arrives_before_the_end_is_told),
        cmocka_unit_test(what_a_dead_program_printed_waits_for_a_slow_host),
        cmocka_unit_test(a_host_that_does_not_read_stops_only_that_program),
        cmocka_unit_test(a_program_that_does_not_read_stops_only_its_own_input),
        cmocka_unit_test(a_reader_that_goes_away_does_not_hang_the_program),
        cmocka_unit_test(a_terminal_needs_streams_that_can_be_waited_for),
        cmocka_unit_test(plain_programs_have_no_size),
        cmocka_unit_test(the_terminal_belongs_to_the_user),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
