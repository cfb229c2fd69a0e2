/* SPDX-License-Identifier: Apache-2.0 */
/* The host's side of a conversation with the real init loop, which runs in a forked child.
 *
 * As root the child is pid 1 of a pid namespace of its own, so "every process" is a safe thing to
 * say; otherwise it is an ordinary process, and tests that need more skip themselves. Waiting has a
 * deadline and fails the test. With SANDGLASS_INIT=<program> that program is driven instead of the
 * loop in the library. */
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "check.h"
#include "ctl/chan.h"
#include "init/init.h"

enum { RIG_PATIENCE_MS = 10000, RIG_EVENTS = 512, RIG_EPOCH = 77 };

struct rig_change {
    uint32_t watch, what;
    char path[256];
};

struct rig {
    int fd, pid;
    uint32_t last_id;
    struct sg_packet packet; /* the last reply */
    struct sg_msg_exited exits[RIG_EVENTS];
    unsigned exit_count;
    struct rig_change changes[RIG_EVENTS];
    unsigned change_count;
};

static inline void rig_be_init(int fd)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int i = 0; i < 3; i++)
        (void)dup2(null, i);
    (void)close(null);
    struct sg_err err;
    if (chdir("/") < 0)
        _exit(125);
    const char *program = getenv("SANDGLASS_INIT");
    if (program && dup2(fd, 3) == 3) {
        (void)fcntl(3, F_SETFD, 0); /* where it was 3 already */
        execl(program, "sandglass-init", NULL);
        _exit(125);
    }
    _exit(sg_init_run(fd, &err) < 0 ? 125 : 0);
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
    if (m->type == SG_MSG_EXITED && r->exit_count < RIG_EVENTS)
        r->exits[r->exit_count++] = m->exited;
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

/* Starts init without a word. */
static inline void rig_start_silent(struct rig *r)
{
    memset(r, 0, sizeof *r);
    sg_packet_init(&r->packet);
    struct sg_err err = { 0 };
    int fds[2];
    assert_ok(sg_chan_pair(fds, &err), err);
    unsigned long flags = geteuid() == 0 ? CLONE_NEWPID : 0;
    r->pid = (int)syscall(SYS_clone, flags | SIGCHLD, NULL, NULL, NULL, NULL);
    assert_true(r->pid >= 0);
    if (r->pid == 0) {
        (void)close(fds[0]);
        rig_be_init(fds[1]);
    }
    (void)close(fds[1]);
    r->fd = fds[0];
    assert_int_equal(rig_take(r), SG_MSG_READY);
    assert_int_equal(r->packet.msg.ready.version, SG_CTL_VERSION);
}

static inline void rig_start(struct rig *r)
{
    rig_start_silent(r);
    struct sg_msg hello = { .type = SG_MSG_HELLO,
                            .hello = { SG_CTL_VERSION, geteuid() ? SG_HELLO_ONE_USER : 0,
                                       RIG_EPOCH } };
    (void)rig_do(r, hello, SG_MSG_OK);
}

/* Init's exit status, -1 where a signal ended it. */
static inline int rig_wait(struct rig *r)
{
    int status;
    assert_int_equal(waitpid(r->pid, &status, 0), r->pid);
    r->pid = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Hangs up: init must end by itself. */
static inline void rig_stop(struct rig *r)
{
    sg_packet_done(&r->packet);
    (void)close(r->fd);
    if (r->pid)
        assert_int_equal(rig_wait(r), 0);
}

/* ---- programs ---- */

struct rig_program {
    char *const *argv, *const *env;
    const char *user, *cwd;
    uint32_t flags, rows, cols;
    int fds[3];
    unsigned fd_count;
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
                                   .cwd = sg_text_of(p->cwd ? p->cwd : "/") } };
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
