/* SPDX-License-Identifier: Apache-2.0 */
/* The host's side of a conversation with the real init loop, which runs in a forked child.
 *
 * As root the child is pid 1 of a pid namespace of its own, so "every process" is a safe thing to
 * say; otherwise it is an ordinary process, and tests that need more skip themselves. Waiting has a
 * deadline and fails the test. With SANDGLASS_INIT=<program> that program is driven instead of the
 * loop in the library. A rig that is started with a listener can be left and connected to again. */
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "check.h"
#include "ctl/chan.h"
#include "init/init.h"

enum { RIG_PATIENCE_MS = 10000, RIG_EVENTS = 512, RIG_KEPT = SG_INIT_MAX_EXECS, RIG_EPOCH = 77 };

struct rig_change {
    uint32_t watch, what;
    char path[256];
};

struct rig_kept {
    char tag[SG_CTL_MAX_TAG + 1];
    struct sg_msg_kept row; /* without its tag */
    int fds[3];             /* by stream; -1: none */
};

struct rig {
    int fd, pid;
    bool has_proc;       /* to be set before the start: /proc is that of init's own processes */
    int listener_fd;     /* -1: nobody can come back */
    unsigned open_files; /* to be set before the start: init's limit; 0: ours */
    struct sockaddr_un address;
    struct rig_kept *kept; /* RIG_KEPT of them, made when the first comes */
    unsigned kept_count;
    char exit_tag[SG_CTL_MAX_TAG + 1]; /* of the last exit that was noted */
    uint32_t last_id;
    struct sg_packet packet; /* the last reply */
    struct sg_msg_exited exits[RIG_EVENTS];
    unsigned exit_count;
    struct rig_change changes[RIG_EVENTS];
    unsigned change_count;
};

static inline void rig_mount_proc(void)
{
    if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("proc", "/proc", "proc", 0, NULL) < 0)
        _exit(124);
}

static inline void rig_exec_program(const char *program, int fd, int listener_fd)
{
    int low_fds[] = { fcntl(fd, F_DUPFD, 10), fcntl(listener_fd, F_DUPFD, 10) };
    for (int i = 0; i < 2; i++) /* 3 and 4, without close-on-exec */
        if (low_fds[i] < 0 || dup2(low_fds[i], 3 + i) < 0)
            (void)close(3 + i);
    (void)syscall(SYS_close_range, 5u, ~0u, 0u);
    execl(program, "sandglass-init", NULL);
    _exit(125);
}

static inline void rig_be_init(const struct rig *r, int fd)
{
    int listener_fd = r->listener_fd;
    struct rlimit files = { r->open_files, r->open_files };
    if (r->has_proc)
        rig_mount_proc();
    if (r->open_files && setrlimit(RLIMIT_NOFILE, &files) < 0)
        _exit(124);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int i = 0; i < 3; i++)
        (void)dup2(null, i);
    (void)close(null);
    struct sg_err err;
    if (chdir("/") < 0)
        _exit(125);
    const char *program = getenv("SANDGLASS_INIT");
    if (program)
        rig_exec_program(program, fd, listener_fd);
    _exit(sg_init_run(fd, listener_fd, 0, &err) < 0 ? 125 : 0);
}

static inline void rig_note_kept(struct rig *r)
{
    const struct sg_msg_kept *m = &r->packet.msg.kept;
    if (!r->kept)
        r->kept = calloc(RIG_KEPT, sizeof *r->kept);
    assert_non_null(r->kept);
    assert_true(r->kept_count < RIG_KEPT);
    struct rig_kept *k = &r->kept[r->kept_count++];
    k->row = *m;
    (void)snprintf(k->tag, sizeof k->tag, "%s", m->tag.p);
    unsigned next = 0;
    for (unsigned i = 0; i < 3; i++)
        k->fds[i] = m->flags & 1u << i ? sg_packet_take_fd(&r->packet, next++) : -1;
    assert_int_equal(next, r->packet.fd_count);
}

static inline void rig_drop_kept(struct rig *r)
{
    for (unsigned i = 0; i < r->kept_count; i++)
        for (unsigned k = 0; k < 3; k++)
            sg_drop_fd(&r->kept[i].fds[k]);
    r->kept_count = 0;
}

/* Takes one packet; events are noted. Returns its type, SG_MSG_NONE when the other side is gone. */
static inline enum sg_msg_type rig_take(struct rig *r)
{
    struct pollfd p = { .fd = r->fd, .events = POLLIN };
    if (poll(&p, 1, RIG_PATIENCE_MS) != 1)
        fail_msg("init says nothing");
    struct sg_err err = { 0 };
    const unsigned roles = 1u << SG_ROLE_REPLY | 1u << SG_ROLE_EVENT;
    enum sg_recv got = sg_chan_recv(r->fd, roles, false, &r->packet, &err);
    if (got == SG_RECV_CLOSED)
        return SG_MSG_NONE;
    if (got != SG_RECV_MESSAGE)
        fail_msg("init talks rubbish: %s", err.msg);
    const struct sg_msg *m = &r->packet.msg;
    if (m->type == SG_MSG_EXITED && r->exit_count < RIG_EVENTS) {
        r->exits[r->exit_count++] = m->exited;
        (void)snprintf(r->exit_tag, sizeof r->exit_tag, "%s", m->exited.tag.p);
    }
    if (m->type == SG_MSG_KEPT)
        rig_note_kept(r);
    if (m->type == SG_MSG_CHANGED && r->change_count < RIG_EVENTS) {
        struct rig_change *c = &r->changes[r->change_count++];
        *c = (struct rig_change) { .watch = m->changed.watch, .what = m->changed.what };
        (void)snprintf(c->path, sizeof c->path, "%s", m->changed.path.p);
    }
    return m->type;
}

static inline uint32_t rig_send(struct rig *r, struct sg_msg *m, const int *fds, unsigned count)
{
    struct sg_err err = { 0 };
    m->id = ++r->last_id;
    assert_ok(sg_chan_send(r->fd, m, fds, count, true, &err), err);
    return m->id;
}

static inline struct sg_msg *rig_reply(struct rig *r, uint32_t id)
{
    for (;;) {
        enum sg_msg_type type = rig_take(r);
        if (type == SG_MSG_NONE)
            fail_msg("init ended before its reply");
        if (sg_msg_table[type].role == SG_ROLE_REPLY) {
            assert_int_equal(r->packet.msg.id, id);
            return &r->packet.msg;
        }
    }
}

static inline struct sg_msg *rig_ask(struct rig *r, struct sg_msg *m)
{
    return rig_reply(r, rig_send(r, m, NULL, 0));
}

/* Asks and demands a reply of this type. */
static inline struct sg_msg *rig_do(struct rig *r, struct sg_msg m, enum sg_msg_type wanted)
{
    struct sg_msg *reply = rig_ask(r, &m);
    if (reply->type == SG_MSG_ERROR && wanted != SG_MSG_ERROR)
        fail_msg("%s: %s", sg_msg_table[m.type].name, reply->error.text.p);
    assert_string_equal(sg_msg_table[reply->type].name, sg_msg_table[wanted].name);
    return reply;
}

/* Asks and demands an error of this kind. */
static inline void rig_refuse(struct rig *r, struct sg_msg m, enum sg_kind kind, int sys)
{
    struct sg_msg *reply = rig_do(r, m, SG_MSG_ERROR);
    assert_string_equal(sg_kind_name(reply->error.kind), sg_kind_name(kind));
    assert_int_equal(reply->error.sys, sys);
    assert_true(reply->error.text.n > 0);
}

static inline void rig_listen(struct rig *r)
{
    r->address = (struct sockaddr_un) { .sun_family = AF_UNIX };
    (void)snprintf(r->address.sun_path, sizeof r->address.sun_path, "/tmp/sandglass-rig-%d-%llu",
                   (int)getpid(), (unsigned long long)sg_now_ns());
    r->listener_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(r->listener_fd, (void *)&r->address, sizeof r->address), 0);
    assert_int_equal(listen(r->listener_fd, 8), 0);
}

/* Starts init without a word, with what `r` says of listener_fd and has_proc. */
static inline void rig_start_as_told(struct rig *r)
{
    sg_packet_init(&r->packet);
    struct sg_err err = { 0 };
    int fds[2];
    assert_ok(sg_chan_pair(fds, &err), err);
    unsigned long flags = geteuid() == 0 ? CLONE_NEWPID : 0;
    r->pid = (int)syscall(SYS_clone, flags | SIGCHLD, NULL, NULL, NULL, NULL);
    assert_true(r->pid >= 0);
    if (r->pid == 0) {
        (void)close(fds[0]);
        rig_be_init(r, fds[1]);
    }
    (void)close(fds[1]);
    r->fd = fds[0];
    assert_int_equal(rig_take(r), SG_MSG_READY);
    assert_int_equal(r->packet.msg.ready.version, SG_CTL_VERSION);
}

static inline void rig_start_silent(struct rig *r)
{
    *r = (struct rig) { .listener_fd = -1 };
    rig_start_as_told(r);
}

static inline void rig_hello(struct rig *r, uint32_t flags, uint32_t epoch);

/* With a listener, and /proc where we may, and KEEP said. */
static inline void rig_start_kept(struct rig *r)
{
    *r = (struct rig) { .has_proc = geteuid() == 0 };
    rig_listen(r);
    rig_start_as_told(r);
    rig_hello(r, SG_HELLO_KEEP, RIG_EPOCH);
}

static inline int rig_dial_in(struct rig *r)
{
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (void *)&r->address, sizeof r->address), 0);
    sg_chan_make_room(fd);
    return fd;
}

/* Comes back: hangs up where a connection is left, and connects anew. */
static inline void rig_come_back(struct rig *r)
{
    sg_drop_fd(&r->fd);
    r->fd = rig_dial_in(r);
    assert_int_equal(rig_take(r), SG_MSG_READY);
    assert_int_equal(r->packet.msg.epoch, 0);
}

static inline void rig_hello(struct rig *r, uint32_t flags, uint32_t epoch)
{
    flags |= geteuid() ? SG_HELLO_ONE_USER : 0;
    struct sg_msg hello = { .type = SG_MSG_HELLO, .hello = { SG_CTL_VERSION, flags, epoch } };
    (void)rig_do(r, hello, SG_MSG_OK);
    assert_int_equal(r->packet.msg.epoch, epoch);
}

static inline void rig_start(struct rig *r)
{
    rig_start_silent(r);
    rig_hello(r, 0, RIG_EPOCH);
}

/* Init's exit status, -1 where a signal ended it. */
static inline int rig_wait(struct rig *r)
{
    int status;
    assert_int_equal(waitpid(r->pid, &status, 0), r->pid);
    r->pid = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Hangs up: init must end by itself, unless it was told to stay. */
static inline void rig_stop(struct rig *r)
{
    if (r->pid && r->listener_fd >= 0 && kill(r->pid, SIGKILL) == 0)
        (void)rig_wait(r);
    sg_packet_done(&r->packet);
    rig_drop_kept(r);
    free(r->kept);
    (void)close(r->fd);
    if (r->listener_fd >= 0) {
        (void)close(r->listener_fd);
        (void)unlink(r->address.sun_path);
    }
    if (r->pid)
        assert_int_equal(rig_wait(r), 0);
}

/* ---- programs ---- */

struct rig_program {
    char *const *argv, *const *env;
    const char *user, *cwd;
    uint32_t flags, rows, cols;
    int fds[SG_CTL_MAX_FDS];
    unsigned fd_count;
    const char *tag;
};

static inline uint32_t rig_send_program(struct rig *r, const struct rig_program *p)
{
    static char *const nothing[] = { NULL };
    sg_auto_buf argv, env;
    struct sg_err err = { 0 };
    sg_buf_init(&argv, SG_CTL_MAX_BYTES);
    sg_buf_init(&env, SG_CTL_MAX_BYTES);
    struct sg_msg m = { .type = SG_MSG_SPAWN,
                        .spawn = { .flags = p->flags,
                                   .rows = p->rows,
                                   .cols = p->cols,
                                   .user = sg_text_of(p->user ? p->user : ""),
                                   .cwd = sg_text_of(p->cwd ? p->cwd : "/"),
                                   .tag = sg_text_of(p->tag ? p->tag : "") } };
    assert_ok(sg_texts_pack(p->argv, &argv, &m.spawn.argv, &err), err);
    assert_ok(sg_texts_pack(p->env ? p->env : nothing, &env, &m.spawn.env, &err), err);
    return rig_send(r, &m, p->fds, p->fd_count);
}

/* The reply to the attempt. */
static inline struct sg_msg *rig_try_program(struct rig *r, const struct rig_program *p)
{
    return rig_reply(r, rig_send_program(r, p));
}

static inline uint32_t rig_start_program(struct rig *r, const struct rig_program *p)
{
    struct sg_msg *m = rig_try_program(r, p);
    if (m->type == SG_MSG_ERROR)
        fail_msg("spawn: %s", m->error.text.p);
    assert_int_equal(m->type, SG_MSG_SPAWNED);
    assert_true(m->spawned.pid > 1);
    return m->spawned.pid;
}

static inline struct sg_msg_exited rig_exit_of(struct rig *r, uint32_t pid)
{
    for (;;) {
        for (unsigned i = 0; i < r->exit_count; i++)
            if (r->exits[i].pid == pid) {
                struct sg_msg_exited e = r->exits[i];
                r->exits[i] = r->exits[--r->exit_count];
                return e;
            }
        if (rig_take(r) == SG_MSG_NONE)
            fail_msg("init ended before the program did");
    }
}

/* Reads fd to its end, with patience. */
static inline void rig_read_all(int fd, struct sg_buf *out)
{
    for (;;) {
        struct pollfd p = { .fd = fd, .events = POLLIN };
        if (poll(&p, 1, RIG_PATIENCE_MS) != 1)
            fail_msg("the stream neither speaks nor ends");
        char room[65536];
        ssize_t n = read(fd, room, sizeof room);
        assert_true(n >= 0);
        if (n == 0)
            return;
        sg_buf_add(out, room, (size_t)n);
    }
}

/* Runs a shell command and compares what it prints (both streams). Returns its exit code. */
static inline uint32_t rig_shell(struct rig *r, struct rig_program p, const char *command,
                                 const char *wanted)
{
    char *const argv[] = { "/bin/sh", "-c", (char *)(uintptr_t)command, NULL };
    int out[2];
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    p.argv = argv;
    p.flags |= SG_SPAWN_STDOUT;
    p.fds[p.fd_count++] = out[1];
    uint32_t pid = rig_start_program(r, &p);
    (void)close(out[1]);
    sg_auto_buf text;
    sg_buf_init(&text, 1 << 20);
    rig_read_all(out[0], &text);
    (void)close(out[0]);
    if (wanted)
        assert_string_equal(sg_buf_cstr(&text), wanted);
    return rig_exit_of(r, pid).code;
}
