/* SPDX-License-Identifier: Apache-2.0 */
/* The loop: one event at a time.
 *
 * epoll is asked for a single event per call. A handler may therefore free any object, its own
 * included, without a later event of the same batch pointing at it; and epoll hands out ready
 * descriptors in turn, so none starves. Children are known by SIGCHLD and wait4(), because pid 1
 * also inherits processes that it never started. */
#include <errno.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "init/init.h"
#include "base/banned.h"

static const uint64_t NS_PER_MS = 1000000, KILL_GRACE_NS = 1000000000;

int sg_source_want(struct sg_init *in, struct sg_source *s, uint32_t events, struct sg_err *err)
{
    if (events == s->events)
        return 0;
    int op = !events ? EPOLL_CTL_DEL : s->events ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
    struct epoll_event ev = { .events = events, .data.ptr = s };
    if (epoll_ctl(in->epoll_fd, op, s->fd, &ev) < 0)
        return sg_fail_sys(err, "poll a descriptor");
    s->events = events;
    return 0;
}

void sg_source_drop(struct sg_init *in, struct sg_source *s)
{
    if (s->fd < 0)
        return;
    (void)sg_source_want(in, s, 0, NULL);
    sg_drop_fd(&s->fd);
}

/* ---- children ---- */

static void reap(struct sg_init *in, struct sg_source *s, uint32_t events)
{
    (void)events;
    struct signalfd_siginfo info;
    (void)!read(s->fd, &info, sizeof info);
    for (;;) {
        int status;
        struct rusage use;
        int pid = wait4(-1, &status, WNOHANG, &use);
        if (pid <= 0)
            return;
        if (!sg_exec_exited(in, pid, status, &use))
            sg_worker_exited(in, pid, status);
    }
}

/* ---- deadlines ---- */

static int timeout_ms(const struct sg_init *in, uint64_t now_ns)
{
    uint64_t at = sg_dial_deadline(in);
    if (in->shutdown_ns && in->shutdown_ns < at)
        at = in->shutdown_ns;
    if (at == UINT64_MAX)
        return -1;
    return at <= now_ns ? 0 : (int)((at - now_ns) / NS_PER_MS + 1);
}

/* SHUTDOWN has asked nicely; the next step takes no answer, and the one after waits no longer. */
static void shut_down_further(struct sg_init *in, uint64_t now_ns)
{
    if (in->has_killed) {
        in->is_over = true;
        return;
    }
    in->has_killed = true;
    in->shutdown_ns = now_ns + KILL_GRACE_NS;
    (void)sg_serve_kill_all(SIGKILL, NULL);
}

/* Pid 1 inherits whoever loses a parent: without children it is alone. */
static bool is_alone(void)
{
    siginfo_t info;
    return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0 && errno == ECHILD;
}

static void pass_deadlines(struct sg_init *in, uint64_t now_ns)
{
    sg_dial_expire(in, now_ns);
    if (!in->shutdown_ns)
        return;
    if (!in->running_count && sg_outbox_is_empty(in) && is_alone())
        in->is_over = true;
    else if (in->shutdown_ns <= now_ns)
        shut_down_further(in, now_ns);
}

static int turn(struct sg_init *in, struct sg_err *err)
{
    bool has_deadline = in->shutdown_ns || in->dial_count;
    struct epoll_event ev;
    int n = epoll_wait(in->epoll_fd, &ev, 1, has_deadline ? timeout_ms(in, sg_now_ns()) : -1);
    if (n < 0 && errno != EINTR)
        return sg_fail_sys(err, "wait for events");
    if (n > 0) {
        struct sg_source *s = ev.data.ptr;
        s->ready(in, s, ev.events);
    }
    if (in->has_hung_up)
        sg_conn_end(in);
    if (in->shutdown_ns || in->dial_count)
        pass_deadlines(in, sg_now_ns());
    return 0;
}

/* ---- start ---- */

/* Children inherit our dispositions, so they are put right once, here, and not at every spawn. */
enum { KERNEL_SIGNALS = 64 };

/* Not by way of libc, which keeps a few numbers to itself and would leave those ignored that
 * whoever started us had ignored. KILL and STOP refuse, which is fine. */
static void reset_signals(void)
{
    const struct {
        void (*handler)(int);
        unsigned long flags;
        void (*restorer)(void);
        uint64_t mask;
    } plain = { .handler = SIG_DFL };
    for (int i = 1; i <= KERNEL_SIGNALS; i++)
        (void)syscall(SYS_rt_sigaction, i, &plain, NULL, sizeof plain.mask);
}

static int open_sources(struct sg_init *in, struct sg_err *err)
{
    sigset_t all, child;
    sigfillset(&all);
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    if (sigprocmask(SIG_SETMASK, &all, NULL) < 0)
        return sg_fail_sys(err, "block signals");
    in->signals.fd = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
    in->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (in->signals.fd < 0 || in->epoll_fd < 0)
        return sg_fail_sys(err, "open the loop");
    if (in->ctl.fd >= 0 && sg_source_want(in, &in->ctl, EPOLLIN, err) < 0)
        return -1;
    if (in->listener.fd >= 0 && sg_source_want(in, &in->listener, EPOLLIN, err) < 0)
        return -1;
    return sg_source_want(in, &in->signals, EPOLLIN, err);
}

static int stream_ceiling(void)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) < 0 || files.rlim_cur > INT32_MAX)
        return INT32_MAX;
    return (int)files.rlim_cur - SG_INIT_SPARE_FDS;
}

int sg_init_run(int ctl_fd, int listener_fd, unsigned flags, struct sg_err *err)
{
    struct sg_init *in = sg_new(struct sg_init);
    in->drops_caps = flags & SG_INIT_DROPS_CAPS;
    const bool has_channel = flags & SG_INIT_CHANNEL;
    in->ctl = (struct sg_source) { .fd = has_channel ? -1 : ctl_fd, .ready = sg_serve_ready };
    in->channel.fd = -1;
    in->listener = (struct sg_source) { .fd = listener_fd, .ready = sg_conn_accept };
    in->signals.ready = reap;
    in->out_end = &in->out;
    sg_buf_init(&in->encoded, SG_CTL_MAX_BYTES);
    in->started_ns = sg_now_ns();
    in->stream_ceiling = stream_ceiling();
    sg_packet_init(&in->packet);
    sg_users_init(&in->users);

    reset_signals();
    (void)umask(0); /* modes in requests mean what they say */
    (void)syscall(SYS_setgroups, (size_t)0,
                  NULL); /* user_enter.c relies on it; rootless has none */
    if (open_sources(in, err) < 0 || (has_channel && sg_channel_open(in, ctl_fd, err) < 0))
        return -1;
    if (!has_channel)
        sg_conn_begin(in);
    while (!in->is_over)
        if (turn(in, err) < 0)
            return -1;
    return 0;
}
