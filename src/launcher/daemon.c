/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/daemon.h"

#include <errno.h>
#include <fcntl.h>
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
#include "launcher/launcher.h"
#include "base/banned.h"

extern char **environ;

#define MS UINT64_C(1000000)

/* Descriptors as in docs/design/service.md. */
enum { LAUNCHER_FD = 3, TCP_FD, UNIX_FD, FIRST_FREE_FD, MAX_ENV = 64 };
enum { EXIT_SETTINGS = 2 }; /* of the daemon */

static const uint64_t FIRST_PAUSE_NS = 100 * MS, LONGEST_PAUSE_NS = 1000 * MS;
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

/* Above the numbers that they will have there. */
static int copy_high(int fd, struct sg_err *err)
{
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, FIRST_FREE_FD);
    if (copy < 0)
        return sg_fail_sys(err, "copy a descriptor for the daemon");
    return copy;
}

static int spawn(struct sg_daemon *d, const int fds[3], struct sg_err *err)
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
    for (int i = 0; i < 3; i++)
        (void)posix_spawn_file_actions_adddup2(&actions, fds[i], LAUNCHER_FD + i);
    char *env[MAX_ENV], name[] = "sandglassd", *argv[] = { name, NULL };
    sg_auto_free char *config = d->config ? sg_printf("SANDGLASS_CONFIG=%s", d->config) : NULL;
    fill_env(env, config);
    int sys = posix_spawn(&d->pid, d->program, &actions, &attr, argv, env);
    (void)posix_spawn_file_actions_destroy(&actions);
    (void)posix_spawnattr_destroy(&attr);
    if (!sys)
        return 0;
    d->pid = 0;
    errno = sys;
    return sg_fail_sys(err, "start %s", sg_quote(d->program).s);
}

static void on_gone(struct sg_io *io, uint32_t events);

static int start(struct sg_launcher *l, struct sg_err *err)
{
    struct sg_daemon *d = &l->daemon;
    int pair[2];
    if (sg_chan_pair(pair, err) < 0)
        return -1;
    sg_auto_fd near = pair[0], far_low = pair[1];
    sg_auto_fd far = copy_high(far_low, err), tcp = copy_high(d->tcp_fd, err),
               un = copy_high(d->unix_fd, err);
    if (far < 0 || tcp < 0 || un < 0)
        return -1;
    const int fds[3] = { far, tcp, un };
    if (spawn(d, fds, err) < 0)
        return -1;
    d->started_ns = sg_loop_now(l->loop);
    d->starts++;
    /* Our own child, not yet waited for: the number cannot be anybody else's. */
    d->gone = (struct sg_io) { .fd = (int)syscall(SYS_pidfd_open, d->pid, 0), .ready = on_gone };
    if (d->gone.fd < 0 || sg_io_want(l->loop, &d->gone, EPOLLIN, err) < 0 ||
        sg_conn_open(l, sg_take_fd(&near), err) < 0) {
        (void)kill(d->pid, SIGKILL);
        (void)waitpid(d->pid, NULL, 0);
        d->pid = 0;
        sg_io_drop(l->loop, &d->gone);
        return sg_fail_sys(err, "watch the daemon");
    }
    return 0;
}

/* ---- end, and start again ---- */

static void log_end(int status)
{
    char text[16];
    const bool is_signal = WIFSIGNALED(status);
    (void)snprintf(text, sizeof text, "%d", is_signal ? WTERMSIG(status) : WEXITSTATUS(status));
    sg_log(SG_LOG_ERROR, "the daemon has ended and is started again",
           SG_KV(is_signal ? "signal" : "status", text));
}

static void start_later(struct sg_launcher *l)
{
    struct sg_daemon *d = &l->daemon;
    const uint64_t now = sg_loop_now(l->loop);
    if (now - d->started_ns >= STEADY_NS)
        d->pause_ns = 0;
    sg_timer_set(l->loop, &d->timer, now + d->pause_ns);
    d->pause_ns = d->pause_ns ? d->pause_ns * 2 : FIRST_PAUSE_NS;
    if (d->pause_ns > LONGEST_PAUSE_NS)
        d->pause_ns = LONGEST_PAUSE_NS;
}

static void on_timer(struct sg_timer *t, uint64_t now_ns)
{
    (void)now_ns;
    struct sg_launcher *l = SG_OWNER(t, struct sg_launcher, daemon.timer);
    struct sg_err err = { 0 };
    if (l->daemon.is_ending) {
        sg_log(SG_LOG_WARN, "the daemon does not end by itself");
        sg_daemon_kill(l);
    } else if (start(l, &err) < 0) {
        sg_log(SG_LOG_ERROR, "the daemon cannot be started", SG_KV("error", err.msg));
        l->daemon.started_ns = sg_loop_now(l->loop);
        start_later(l);
    }
}

static void on_gone(struct sg_io *io, uint32_t events)
{
    (void)events;
    struct sg_launcher *l = SG_OWNER(io, struct sg_launcher, daemon.gone);
    struct sg_daemon *d = &l->daemon;
    int status = 0;
    sg_io_drop(l->loop, io);
    while (waitpid(d->pid, &status, 0) < 0 && errno == EINTR)
        ;
    d->pid = 0;
    sg_conn_close(l);
    sg_timer_stop(l->loop, &d->timer);
    if (d->is_ending) {
        sg_launcher_daemon_gone(l);
        return;
    }
    if (d->starts == 1 && WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SETTINGS) {
        d->is_hopeless = true;
        sg_launcher_stop(l, SG_STOP_LEAVE);
        return;
    }
    log_end(status);
    start_later(l);
}

int sg_daemon_start(struct sg_launcher *l, struct sg_err *err)
{
    l->daemon.timer.fire = on_timer;
    return start(l, err);
}

void sg_daemon_kill(struct sg_launcher *l)
{
    if (l->daemon.pid > 0)
        (void)kill(l->daemon.pid, SIGKILL);
    else if (!l->daemon.program)
        sg_launcher_stop(l, SG_STOP_LEAVE);
}

void sg_daemon_end(struct sg_launcher *l)
{
    struct sg_daemon *d = &l->daemon;
    d->is_ending = true;
    sg_timer_stop(l->loop, &d->timer);
    if (d->pid <= 0) {
        sg_launcher_daemon_gone(l);
        return;
    }
    (void)kill(d->pid, SIGTERM);
    sg_timer_set(l->loop, &d->timer, sg_loop_now(l->loop) + GRACE_NS);
}
