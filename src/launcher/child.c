/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/child.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/log.h"
#include "base/str.h"
#include "ctl/chan.h"
#include "base/banned.h"

extern char **environ;

#define MS UINT64_C(1000000)

enum { FIRST_FD = 3, MAX_FDS = 4, MAX_ENV = 64 };

static const uint64_t FIRST_PAUSE_NS = 100 * MS, LONGEST_PAUSE_NS = SG_CHILD_PAUSE_MS * MS;
static const uint64_t STEADY_NS = 1000 * MS; /* one that lived so long did not fail to start */
static const uint64_t GRACE_NS = 10000 * MS;

/* ---- start ---- */

/* What its settings are found by, and nothing else of ours. */
static bool is_passed_on(const char *variable)
{
    static const char *const prefixes[] = { "SANDGLASS_", "HOME=", "XDG_" };
    for (size_t i = 0; i < SG_COUNT(prefixes); i++)
        if (sg_starts_with(variable, prefixes[i]))
            return !sg_starts_with(variable, "SANDGLASS_CONFIG=");
    return false;
}

static void fill_env(char **ret, char *config)
{
    size_t n = 0;
    for (char **e = environ; *e && n < MAX_ENV - 1; e++)
        if (is_passed_on(*e))
            ret[n++] = *e;
    if (config)
        ret[n++] = config;
    ret[n] = NULL;
}

/* `high`: the descriptors, above the numbers that they will have there. */
static int spawn(struct sg_child *c, const int *high, unsigned count, struct sg_err *err)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    (void)posix_spawn_file_actions_init(&actions);
    (void)posix_spawnattr_init(&attr);
    (void)posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    (void)posix_spawnattr_setsigmask(&attr, &none);
    (void)posix_spawnattr_setsigdefault(&attr, &all);
    for (unsigned i = 0; i < count; i++)
        (void)posix_spawn_file_actions_adddup2(&actions, high[i], FIRST_FD + (int)i);
    char *env[MAX_ENV], *argv[] = { (char *)(uintptr_t)c->ops->name, NULL };
    sg_auto_free char *config = c->config ? sg_printf("SANDGLASS_CONFIG=%s", c->config) : NULL;
    fill_env(env, config);
    int sys = posix_spawn(&c->pid, c->program, &actions, &attr, argv, env);
    (void)posix_spawn_file_actions_destroy(&actions);
    (void)posix_spawnattr_destroy(&attr);
    if (!sys)
        return 0;
    c->pid = 0;
    errno = sys;
    return sg_fail_sys(err, "start %s", sg_quote(c->program).s);
}

static int spawn_with(struct sg_child *c, const int *fds, unsigned count, struct sg_err *err)
{
    int high[MAX_FDS] = { -1, -1, -1, -1 }, ret = 0;
    unsigned n = 0;
    for (; n < count && ret == 0; n++) {
        high[n] = fcntl(fds[n], F_DUPFD_CLOEXEC, FIRST_FD + MAX_FDS);
        if (high[n] < 0)
            ret = sg_fail_sys(err, "copy a descriptor for the %s", c->ops->what);
    }
    if (ret == 0)
        ret = spawn(c, high, count, err);
    while (n > 0)
        sg_close_p(&high[--n]);
    return ret;
}

static void on_gone(struct sg_io *io, uint32_t events);

int sg_child_spawn(struct sg_child *c, const int *fds, unsigned count, struct sg_err *err)
{
    if (spawn_with(c, fds, count, err) < 0)
        return -1;
    c->started_ns = sg_loop_now(c->loop);
    c->starts++;
    /* Our own child, not yet waited for: the number cannot be anybody else's. */
    c->gone = (struct sg_io) { .fd = (int)syscall(SYS_pidfd_open, c->pid, 0), .ready = on_gone };
    if (c->gone.fd >= 0 && sg_io_want(c->loop, &c->gone, EPOLLIN, err) == 0)
        return 0;
    sg_child_abort(c);
    return sg_fail_sys(err, "watch the %s", c->ops->what);
}

int sg_child_spawn_joined(struct sg_child *c, struct sg_io *io, struct sg_err *err)
{
    int pair[2];
    if (sg_chan_pair(pair, err) < 0)
        return -1;
    sg_auto_fd near = pair[0], far = pair[1];
    if (sg_child_spawn(c, &far, 1, err) < 0)
        return -1;
    io->fd = sg_take_fd(&near);
    if (sg_io_want(c->loop, io, EPOLLIN, err) < 0) {
        sg_io_drop(c->loop, io);
        sg_child_abort(c);
        return -1;
    }
    return 0;
}

void sg_child_abort(struct sg_child *c)
{
    if (c->pid > 0) {
        (void)kill(c->pid, SIGKILL);
        (void)waitpid(c->pid, NULL, 0);
    }
    c->pid = 0;
    sg_io_drop(c->loop, &c->gone);
}

/* ---- end, and start again ---- */

static void log_end(const struct sg_child *c, int status)
{
    char text[16];
    const bool is_signal = WIFSIGNALED(status);
    (void)snprintf(text, sizeof text, "%d", is_signal ? WTERMSIG(status) : WEXITSTATUS(status));
    sg_auto_free char *line = sg_printf("the %s has ended and is started again", c->ops->what);
    sg_log(SG_LOG_ERROR, line, SG_KV(is_signal ? "signal" : "status", text));
}

static void start_later(struct sg_child *c)
{
    const uint64_t now = sg_loop_now(c->loop);
    if (now - c->started_ns >= STEADY_NS)
        c->pause_ns = 0;
    sg_timer_set(c->loop, &c->timer, now + c->pause_ns);
    c->pause_ns = c->pause_ns ? c->pause_ns * 2 : FIRST_PAUSE_NS;
    if (c->pause_ns > LONGEST_PAUSE_NS)
        c->pause_ns = LONGEST_PAUSE_NS;
}

static void on_timer(struct sg_timer *t, uint64_t now_ns)
{
    (void)now_ns;
    struct sg_child *c = SG_OWNER(t, struct sg_child, timer);
    struct sg_err err = { 0 };
    if (c->is_ending) {
        sg_log(SG_LOG_WARN, "a program does not end by itself", SG_KV("program", c->ops->name));
        sg_child_kill(c);
    } else if (c->ops->start(c, &err) < 0) {
        sg_log(SG_LOG_ERROR, "a program cannot be started", SG_KV("program", c->ops->name),
               SG_KV("error", err.msg));
        c->started_ns = sg_loop_now(c->loop);
        start_later(c);
    }
}

static void on_gone(struct sg_io *io, uint32_t events)
{
    (void)events;
    struct sg_child *c = SG_OWNER(io, struct sg_child, gone);
    int status = 0;
    sg_io_drop(c->loop, io);
    while (waitpid(c->pid, &status, 0) < 0 && errno == EINTR)
        ;
    c->pid = 0;
    sg_timer_stop(c->loop, &c->timer);
    if (!c->ops->ended(c, status))
        return;
    log_end(c, status);
    start_later(c);
}

int sg_child_begin(struct sg_child *c, struct sg_loop *l, const struct sg_child_ops *ops,
                   char *program, const char *config, struct sg_err *err)
{
    c->ops = ops;
    c->loop = l;
    c->program = program;
    c->config = config;
    c->timer.fire = on_timer;
    return ops->start(c, err);
}

void sg_child_kill(struct sg_child *c)
{
    if (c->pid > 0)
        (void)kill(c->pid, SIGKILL);
}

bool sg_child_end(struct sg_child *c)
{
    c->is_ending = true;
    if (c->loop)
        sg_timer_stop(c->loop, &c->timer);
    if (c->pid <= 0)
        return false;
    (void)kill(c->pid, SIGTERM);
    sg_timer_set(c->loop, &c->timer, sg_loop_now(c->loop) + GRACE_NS);
    return true;
}

char *sg_child_program(const char *program, const char *folder)
{
    char own[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", own, sizeof own - 1);
    own[n > 0 ? n : 0] = '\0';
    char *slash = strrchr(own, '/');
    const int n_dir = slash ? (int)(slash - own) : 0;
    char *installed = sg_printf("%.*s/%s", n_dir, own, program);
    char *built =
        sg_printf("%.*s/../%s/%s", n_dir, own, folder, program); /* in a build directory */
    const bool is_built = access(installed, X_OK) < 0 && access(built, X_OK) == 0;
    free(is_built ? installed : built);
    return is_built ? built : installed;
}
