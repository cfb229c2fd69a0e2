/* SPDX-License-Identifier: Apache-2.0 */
/* A manager with an in-memory store, real journals and real inits, on one loop.
 *
 * The launcher is played here: a "cell" is the program $SANDGLASS_INIT as pid 1 of a pid namespace
 * with a /proc of its own, no wall otherwise. It has a listening socket, so that a second manager
 * can adopt it as after a crash of the first. Needs root. */
#pragma once

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "check.h"
#include "ctl/chan.h"
#include "manager/exec.h"
#include "manager/files.h"
#include "manager/manager_internal.h"
#include "store/store.h"

enum { RIG_PATIENCE_MS = 10000, RIG_CELLS = 8 };

struct cell {
    char id[SG_CTL_MAX_TAG + 1]; /* "": free */
    int pid;
    bool has_ended;
};

struct rig {
    char path[48]; /* journals, sockets and whatever a test puts there */
    int journal_fd;
    struct sg_loop *loop;
    struct sg_store *store;
    struct sg_manager *m;
    struct sg_manager_options o;
    struct sg_who who;
    bool is_ready;
    struct sg_io launcher;
    struct cell cells[RIG_CELLS];
    uint64_t oom_kills; /* as the launcher tells them */
    struct sg_err err;
};

static inline void rig_turn(struct rig *r)
{
    struct sg_err err;
    assert_ok(sg_loop_turn(r->loop, 20, &err), err);
}

/* Runs the loop until it is so; fails the test where it never is. */
#define rig_until(r, condition)                                                                    \
    do {                                                                                           \
        uint64_t end_ = sg_now_ns() + (uint64_t)RIG_PATIENCE_MS * 1000000u;                        \
        while (!(condition)) {                                                                     \
            if (sg_now_ns() > end_)                                                                \
                fail_msg("waited in vain for: %s", #condition);                                    \
            rig_turn(r);                                                                           \
        }                                                                                          \
    } while (0)

/* ---- cells ---- */

static inline struct sockaddr_un rig_address(const struct rig *r, const char *id)
{
    struct sockaddr_un a = { .sun_family = AF_UNIX };
    (void)snprintf(a.sun_path, sizeof a.sun_path, "%s/%s.sock", r->path, id);
    return a;
}

static inline void rig_be_init(int control_fd, int listener_fd)
{
    int high = fcntl(listener_fd, F_DUPFD, 10), null = open("/dev/null", O_RDWR);
    if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("proc", "/proc", "proc", 0, NULL) < 0 || chdir("/") < 0)
        _exit(125);
    for (int i = 0; i < 3; i++)
        (void)dup2(null, i);
    (void)dup2(control_fd, 3);
    (void)fcntl(3, F_SETFD, 0);
    (void)dup2(high, 4);
    (void)syscall(SYS_close_range, 5u, ~0u, 0u);
    execl(getenv("SANDGLASS_INIT"), "sandglass-init", NULL);
    _exit(125);
}

static inline struct cell *rig_cell(struct rig *r, const char *id)
{
    for (unsigned i = 0; i < RIG_CELLS; i++)
        if (strcmp(r->cells[i].id, id) == 0)
            return &r->cells[i];
    return NULL;
}

/* Returns our end of its control socket. */
static inline int rig_make_cell(struct rig *r, const char *id)
{
    struct cell *c = rig_cell(r, "");
    struct sockaddr_un a = rig_address(r, id);
    int fds[2];
    assert_non_null(c);
    assert_ok(sg_chan_pair(fds, &r->err), r->err);
    sg_auto_fd listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, (void *)&a, sizeof a) | listen(listener, 4), 0);
    (void)snprintf(c->id, sizeof c->id, "%s", id);
    c->pid = (int)syscall(SYS_clone, CLONE_NEWPID | CLONE_NEWNS | SIGCHLD, NULL, NULL, NULL, NULL);
    assert_true(c->pid >= 0);
    if (c->pid == 0)
        rig_be_init(fds[1], listener);
    (void)close(fds[1]);
    return fds[0];
}

static inline void rig_end_cell(struct rig *r, struct cell *c)
{
    struct sockaddr_un a = rig_address(r, c->id);
    (void)kill(c->pid, SIGKILL);
    assert_int_equal(waitpid(c->pid, NULL, 0), c->pid);
    (void)unlink(a.sun_path);
    *c = (struct cell) { 0 };
}

static inline int rig_connect(struct rig *r, const char *id)
{
    struct sockaddr_un a = rig_address(r, id);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_int_equal(connect(fd, (void *)&a, sizeof a), 0);
    sg_chan_make_room(fd);
    return fd;
}

/* ---- the launcher ---- */

static inline void launcher_send(struct rig *r, struct sg_msg *m, uint32_t id, int fd)
{
    m->id = id;
    assert_ok(sg_chan_send(r->launcher.fd, m, &fd, fd >= 0, false, &r->err), r->err);
}

static inline void launcher_send_cell(struct rig *r, uint32_t id, int own_fd)
{
    sg_auto_fd fd = own_fd;
    static char *const names[] = { "FROM=template", "BOTH=template", NULL };
    sg_auto_buf store;
    struct sg_msg m = { .type = SG_MSG_L_CELL,
                        .l_cell = { .template = sg_text_of("base"),
                                    .user = sg_text_of(""),
                                    .home = sg_text_of("/"),
                                    .workdir = sg_text_of(r->path),
                                    .path = sg_text_of("/usr/bin:/bin") } };
    sg_buf_init(&store, SG_CTL_MAX_BYTES);
    assert_ok(sg_texts_pack(names, &store, &m.l_cell.env, &r->err), r->err);
    launcher_send(r, &m, id, fd);
}

static inline void launcher_list(struct rig *r, uint32_t id)
{
    char *names[RIG_CELLS + 1] = { 0 };
    unsigned n = 0;
    sg_auto_buf store;
    struct sg_msg m = { .type = SG_MSG_L_LISTED };
    for (unsigned i = 0; i < RIG_CELLS; i++)
        if (r->cells[i].id[0])
            names[n++] = r->cells[i].id;
    sg_buf_init(&store, SG_CTL_MAX_BYTES);
    assert_ok(sg_texts_pack(names, &store, &m.l_listed.names, &r->err), r->err);
    launcher_send(r, &m, id, -1);
}

static inline void launcher_answer(struct rig *r, const struct sg_msg *q)
{
    struct sg_msg m = { .type = SG_MSG_L_DONE };
    struct cell *c;
    switch ((unsigned)q->type) {
    case SG_MSG_L_HELLO:
        m.type = SG_MSG_L_WELCOME;
        m.l_welcome =
            (struct sg_msg_l_welcome) { .version = SG_CTL_VERSION, .flags = SG_L_FREEZER };
        break;
    case SG_MSG_L_CREATE:
        launcher_send_cell(r, q->id, rig_make_cell(r, q->l_create.sandbox.p));
        return;
    case SG_MSG_L_ADOPT:
        launcher_send_cell(r, q->id, rig_connect(r, q->l_name.sandbox.p));
        return;
    case SG_MSG_L_DESTROY:
        c = rig_cell(r, q->l_name.sandbox.p);
        if (c)
            rig_end_cell(r, c);
        break;
    case SG_MSG_L_STATS:
        m.type = SG_MSG_L_STATED;
        m.l_stated = (struct sg_msg_l_stated) { .oom_kills = r->oom_kills };
        break;
    case SG_MSG_L_LIST:
        launcher_list(r, q->id);
        return;
    case SG_MSG_L_POOL:
    case SG_MSG_L_TEMPLATES:
        m.type = SG_MSG_L_LISTED;
        break;
    default:
        break;
    }
    launcher_send(r, &m, q->id, -1);
}

static inline void launcher_ready(struct sg_io *io, uint32_t events)
{
    struct rig *r = SG_OWNER(io, struct rig, launcher);
    sg_auto_packet p;
    struct sg_err err;
    (void)events;
    sg_packet_init(&p);
    if (sg_chan_recv(io->fd, 1u << SG_ROLE_ASK, false, &p, &err) == SG_RECV_MESSAGE)
        launcher_answer(r, &p.msg);
    else
        sg_io_drop(r->loop, io);
}

/* ---- the manager ---- */

static inline void rig_is_ready(void *arg, const struct sg_err *err)
{
    struct rig *r = arg;
    if (err)
        fail_msg("manager: %s", err->msg);
    r->is_ready = true;
}

static inline void rig_start_manager(struct rig *r)
{
    int fds[2];
    assert_ok(sg_chan_pair(fds, &r->err), r->err);
    r->launcher = (struct sg_io) { .fd = fds[1], .ready = launcher_ready };
    assert_ok(sg_io_want(r->loop, &r->launcher, EPOLLIN, &r->err), r->err);
    r->is_ready = false;
    r->m = sg_manager_new(r->loop, r->store, NULL, fds[0], &r->o, rig_is_ready, r, &r->err);
    assert_non_null(r->m);
    rig_until(r, r->is_ready);
    sg_tenant_local(r->m, &r->who);
}

/* The cells, the store and the journals stay. */
static inline void rig_stop_manager(struct rig *r)
{
    sg_manager_free(r->m);
    r->m = NULL;
    if (r->launcher.fd >= 0)
        sg_io_drop(r->loop, &r->launcher);
    rig_until(r, sg_store_stats(r->store).queued == 0);
}

static inline void rig_init(struct rig *r)
{
    struct sg_store_report report;
    *r = (struct rig) { .path = "/tmp/test-exec-XXXXXX" };
    assert_non_null(mkdtemp(r->path));
    assert_int_equal(chmod(r->path, 0755), 0);
    char *journal = sg_printf("%s/journal", r->path);
    assert_int_equal(mkdir(journal, 0700), 0);
    r->journal_fd = open(journal, O_DIRECTORY | O_CLOEXEC);
    free(journal);
    r->o = (struct sg_manager_options) {
        .defaults = { .mem_bytes = 64 << 20, .cpu_milli = 500, .pids = 64, .disk_bytes = 1 << 20 },
        .most = { .mem_bytes = 1 << 30, .cpu_milli = 4000, .pids = 512, .disk_bytes = 1 << 30 },
        .default_template = "base",
        .journal_bytes = 4 << 20,
        .journal_dir_fd = r->journal_fd,
        .upload_dir_fd = -1,
    };
    r->loop = sg_loop_new(&r->err);
    assert_non_null(r->loop);
    r->store = sg_store_open(r->loop, ":memory:", &report, &r->err);
    assert_non_null(r->store);
    rig_start_manager(r);
}

static inline void rig_done(struct rig *r)
{
    if (r->m)
        rig_stop_manager(r);
    sg_store_close(r->store);
    sg_loop_free(r->loop);
    for (unsigned i = 0; i < RIG_CELLS; i++)
        if (r->cells[i].id[0])
            rig_end_cell(r, &r->cells[i]);
    (void)close(r->journal_fd);
    char *command[] = { "rm", "-rf", r->path, NULL };
    pid_t pid = fork();
    if (pid == 0) {
        execvp(command[0], command);
        _exit(1);
    }
    (void)waitpid(pid, NULL, 0);
}

/* ---- sandboxes and execs ---- */

struct told {
    unsigned calls;
    void *what; /* sandbox or exec; NULL with err */
    struct sg_err err;
};

static inline void tell_sandbox(void *arg, struct sg_sandbox *s, const struct sg_err *err)
{
    struct told *t = arg;
    t->calls++;
    t->what = s;
    if (err)
        t->err = *err;
}

static inline void tell_exec(void *arg, struct sg_exec *x, const struct sg_err *err)
{
    struct told *t = arg;
    t->calls++;
    t->what = x;
    if (err)
        t->err = *err;
}

static inline void tell_done(void *arg, const struct sg_err *err)
{
    struct told *t = arg;
    t->calls++;
    t->err = err ? *err : (struct sg_err) { 0 };
}

static inline struct sg_sandbox *rig_create(struct rig *r)
{
    static struct sg_pair env[] = { { "FROM_BOX", "sandbox" }, { "BOTH", "sandbox" } };
    const struct sg_create c = { .env = env, .env_n = 2 };
    struct told t = { 0 };
    assert_ok(sg_manager_create(r->m, &r->who, &c, tell_sandbox, &t, &r->err), r->err);
    rig_until(r, t.calls);
    if (!t.what)
        fail_msg("create: %s", t.err.msg);
    return t.what;
}

static inline void rig_destroy(struct rig *r, struct sg_sandbox *s)
{
    struct told t = { 0 };
    assert_ok(sg_manager_destroy(s, &r->who, tell_sandbox, &t, &r->err), r->err);
    rig_until(r, t.calls);
    assert_int_equal(t.err.kind, SG_OK);
}

static inline struct sg_exec *rig_try(struct rig *r, struct sg_sandbox *s, struct sg_exec_spec spec)
{
    struct told t = { 0 };
    if (sg_exec_start(s, &r->who, &spec, tell_exec, &t, &r->err) < 0)
        return NULL;
    assert_int_equal(t.calls, 0);
    rig_until(r, t.calls);
    if (!t.what)
        r->err = t.err;
    return t.what;
}

/* A shell command; `spec` without argv. */
static inline struct sg_exec *rig_shell(struct rig *r, struct sg_sandbox *s, const char *command,
                                        struct sg_exec_spec spec)
{
    const char *argv[] = { "/bin/sh", "-c", command, NULL };
    spec.argv = argv;
    struct sg_exec *x = rig_try(r, s, spec);
    if (!x)
        fail_msg("exec: %s", r->err.msg);
    return x;
}

static inline void rig_ignore(struct sg_reader *r)
{
    (void)r;
}

/* Everything it has printed, with stderr in brackets where `marks`. */
static inline char *rig_output(struct rig *r, struct sg_exec *x, bool marks)
{
    struct sg_reader reader = { .wake = rig_ignore };
    sg_auto_buf out;
    sg_buf_init(&out, 64 << 20);
    sg_reader_open(&reader, x, 0);
    for (;;) {
        enum sg_stream stream;
        uint64_t lost;
        char bytes[65536];
        ssize_t n = sg_reader_read(&reader, &stream, bytes, sizeof bytes, &lost, &r->err);
        if (n < 0)
            fail_msg("read: %s", r->err.msg);
        if (lost)
            sg_buf_addf(&out, "<%llu lost>", (unsigned long long)lost);
        if (!n)
            break;
        if (marks && stream == SG_STREAM_ERR)
            sg_buf_add_str(&out, "[");
        sg_buf_add(&out, bytes, (size_t)n);
        if (marks && stream == SG_STREAM_ERR)
            sg_buf_add_str(&out, "]");
    }
    sg_reader_close(&reader);
    return sg_strdup(sg_buf_cstr(&out));
}

static inline void rig_expect(struct rig *r, struct sg_exec *x, const char *wanted)
{
    char *text = rig_output(r, x, true);
    assert_string_equal(text, wanted);
    free(text);
}

/* Runs to its end and compares what it prints. */
static inline struct sg_exec *rig_run(struct rig *r, struct sg_sandbox *s, const char *command,
                                      const char *wanted)
{
    struct sg_exec *x = rig_shell(r, s, command, (struct sg_exec_spec) { 0 });
    rig_until(r, x->is_complete);
    if (wanted)
        rig_expect(r, x, wanted);
    return x;
}

/* How many processes of that name live in it. */
static inline unsigned rig_count(struct rig *r, struct sg_sandbox *s, const char *name)
{
    sg_auto_free char *command =
        sg_printf("grep -l '^%s$' /proc/[0-9]*/comm 2>/dev/null | wc -l", name);
    struct sg_exec *x = rig_run(r, s, command, NULL);
    sg_auto_free char *text = rig_output(r, x, false);
    assert_true(text[0] >= '0' && text[0] <= '9' && text[1] == '\n');
    return (unsigned)(text[0] - '0');
}

static inline int rig_setup(void **state)
{
    static struct rig rig;
    rig_init(&rig);
    *state = &rig;
    return 0;
}

static inline int rig_teardown(void **state)
{
    rig_done(*state);
    return 0;
}
