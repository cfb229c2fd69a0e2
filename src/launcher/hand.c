/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/hand.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/log.h"
#include "base/banned.h"

/* Which lane does what. */
static const enum sg_lane lane_of[SG_ERRAND_OP_COUNT] = {
    [SG_ERRAND_MAKE] = SG_LANE_PROMPT,    [SG_ERRAND_SNAPSHOT] = SG_LANE_PROMPT,
    [SG_ERRAND_VOLUME] = SG_LANE_PROMPT,  [SG_ERRAND_REMOVE] = SG_LANE_LEISURE,
    [SG_ERRAND_SYNC] = SG_LANE_LEISURE,   [SG_ERRAND_TIDY] = SG_LANE_LEISURE,
    [SG_ERRAND_UNFOLD] = SG_LANE_LEISURE,
};

struct result {
    uint64_t value;
    uint32_t kind, sys;
    char msg[sizeof((struct sg_err *)NULL)->msg];
};

struct lane {
    struct sg_hands *hands;
    struct sg_io io; /* fd -1: it has no hand, or the hand died */
    pid_t pid;
    struct sg_errand *first, **end; /* the first is with the hand where is_out */
    bool is_out;
    struct sg_later begin; /* outside of the call that gave it */
};

struct sg_hands {
    struct sg_loop *loop;
    int pool_fd;
    sg_errand_fn *work;
    unsigned busy;
    struct lane lanes[SG_LANE_COUNT];
};

/* ---- the hand's side ---- */

static _Noreturn void be_a_hand(struct sg_hands *h, int fd)
{
    struct sg_errand_data d;
    for (;;) {
        const ssize_t n = recv(fd, &d, sizeof d, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n != (ssize_t)sizeof d)
            _exit(0);
        struct sg_err err = { 0 };
        struct result r = { 0 };
        if (h->work(h->pool_fd, &d, &r.value, &err) < 0) {
            r.kind = err.kind;
            r.sys = (uint32_t)err.sys;
            memcpy(r.msg, err.msg, sizeof r.msg);
        }
        if (send(fd, &r, sizeof r, MSG_NOSIGNAL) < 0)
            _exit(0);
    }
}

/* The two that stay, at 3 and 4, and nothing above. */
static int keep_only(int *fd, int *keep_fd)
{
    const int high = fcntl(*fd, F_DUPFD_CLOEXEC, 5),
              high_keep = fcntl(*keep_fd, F_DUPFD_CLOEXEC, 5);
    if (high < 0 || high_keep < 0 || dup2(high, 3) < 0 || dup2(high_keep, 4) < 0)
        return -1;
    *fd = 3;
    *keep_fd = 4;
    return (int)syscall(SYS_close_range, 5, ~0U, 0);
}

static _Noreturn void start_in_child(struct sg_hands *h, int fd)
{
    sigset_t none;
    sigemptyset(&none);
    (void)prctl(PR_SET_NAME, "sandglass-hand");
    /* Signals for the whole group are the launcher's affair: a hand ends with its socket. */
    const struct sigaction ignore = { .sa_handler = SIG_IGN };
    (void)sigaction(SIGINT, &ignore, NULL);
    (void)sigaction(SIGTERM, &ignore, NULL);
    (void)sigaction(SIGHUP, &ignore, NULL);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    if (keep_only(&fd, &h->pool_fd) < 0)
        _exit(1);
    be_a_hand(h, fd);
}

/* ---- ours ---- */

static void on_ready(struct sg_io *io, uint32_t events);

static int start(struct lane *lane, struct sg_err *err)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return sg_fail_sys(err, "make a socket for a helper of the storage pool");
    sg_auto_fd near = pair[0], far = pair[1];
    const pid_t pid = fork();
    if (pid < 0)
        return sg_fail_sys(err, "start a helper of the storage pool");
    if (pid == 0)
        start_in_child(lane->hands, far);
    lane->pid = pid;
    lane->io = (struct sg_io) { .fd = sg_take_fd(&near), .ready = on_ready };
    return sg_io_want(lane->hands->loop, &lane->io, EPOLLIN, err);
}

static void stop(struct lane *lane)
{
    sg_io_drop(lane->hands->loop, &lane->io);
    if (lane->pid > 0)
        while (waitpid(lane->pid, NULL, 0) < 0 && errno == EINTR)
            ;
    lane->pid = 0;
}

static struct sg_errand *pop(struct lane *lane)
{
    struct sg_errand *e = lane->first;
    lane->first = e->next;
    if (!lane->first)
        lane->end = &lane->first;
    lane->is_out = false;
    lane->hands->busy--;
    return e;
}

static void answer(struct lane *lane, uint64_t value, const struct sg_err *err)
{
    sg_auto_free struct sg_errand *e = pop(lane);
    if (lane->first)
        sg_later_call(lane->hands->loop, &lane->begin);
    if (e->done)
        e->done(e->arg, value, err);
    else if (err)
        sg_log(SG_LOG_WARN, "the storage pool could not do what nobody waits for",
               SG_KV("error", err->msg));
}

/* The one that it was at is answered for; the next begins with a new hand. */
static void lose(struct lane *lane)
{
    struct sg_err err = { 0 };
    sg_log(SG_LOG_ERROR, "a helper of the storage pool has died");
    sg_fail(&err, SG_UNAVAILABLE, "the storage pool's helper died; try again");
    const bool was_out = lane->is_out;
    stop(lane);
    if (was_out)
        answer(lane, 0, &err);
}

static void begin(struct sg_later *later)
{
    struct lane *lane = SG_OWNER(later, struct lane, begin);
    struct sg_err err = { 0 };
    if (lane->is_out || !lane->first)
        return;
    lane->is_out = true;
    if (lane->io.fd < 0 && start(lane, &err) < 0)
        answer(lane, 0, &err);
    else if (send(lane->io.fd, &lane->first->data, sizeof lane->first->data, MSG_NOSIGNAL) < 0)
        lose(lane);
}

static void on_ready(struct sg_io *io, uint32_t events)
{
    (void)events;
    struct lane *lane = SG_OWNER(io, struct lane, io);
    struct result r;
    const ssize_t n = recv(io->fd, &r, sizeof r, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n != (ssize_t)sizeof r || !lane->is_out || r.kind >= SG_KIND_COUNT) {
        lose(lane);
        return;
    }
    struct sg_err err = { .kind = (enum sg_kind)r.kind, .sys = (int)r.sys, .where = "" };
    memcpy(err.msg, r.msg, sizeof err.msg);
    err.msg[sizeof err.msg - 1] = '\0';
    answer(lane, r.value, r.kind ? &err : NULL);
}

struct sg_hands *sg_hands_new(struct sg_loop *l, int pool_fd, sg_errand_fn *work,
                              struct sg_err *err)
{
    struct sg_hands *h = sg_new(struct sg_hands);
    *h = (struct sg_hands) { .loop = l, .pool_fd = pool_fd, .work = work };
    for (unsigned i = 0; i < SG_LANE_COUNT; i++) {
        struct lane *lane = &h->lanes[i];
        *lane = (struct lane) { .hands = h, .io = { .fd = -1 }, .begin = { .call = begin } };
        lane->end = &lane->first;
    }
    for (unsigned i = 0; i < SG_LANE_COUNT; i++)
        if (start(&h->lanes[i], err) < 0) {
            sg_hands_free(h);
            return NULL;
        }
    return h;
}

void sg_hands_free(struct sg_hands *h)
{
    if (!h)
        return;
    for (unsigned i = 0; i < SG_LANE_COUNT; i++) {
        struct lane *lane = &h->lanes[i];
        sg_later_cancel(h->loop, &lane->begin);
        const bool is_out = lane->is_out;
        stop(lane); /* what it was given is done by then */
        for (bool is_first = true; lane->first; is_first = false) {
            sg_auto_free struct sg_errand *e = pop(lane);
            uint64_t unused;
            if (e->data.op == SG_ERRAND_REMOVE && !(is_first && is_out))
                (void)h->work(h->pool_fd, &e->data, &unused, NULL);
        }
    }
    free(h);
}

struct sg_errand *sg_hands_give(struct sg_hands *h, const struct sg_errand_data *d,
                                void (*done)(void *arg, uint64_t value, const struct sg_err *err),
                                void *arg)
{
    struct lane *lane = &h->lanes[d->is_ordered ? SG_LANE_PROMPT : lane_of[d->op]];
    struct sg_errand *e = sg_new(struct sg_errand);
    *e = (struct sg_errand) { .data = *d, .done = done, .arg = arg };
    *lane->end = e;
    lane->end = &e->next;
    h->busy++;
    if (!lane->is_out)
        sg_later_call(h->loop, &lane->begin);
    return e;
}

void sg_errand_forget(struct sg_errand *e)
{
    e->done = NULL;
}

unsigned sg_hands_busy(const struct sg_hands *h)
{
    return h->busy;
}
