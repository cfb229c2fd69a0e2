/* SPDX-License-Identifier: Apache-2.0 */
/* A pass: wait, take the time, deliver the batch, fire what is due, make the deferred calls.
 *
 * What a deferred call defers waits for the next pass (which then does not wait), and so does a
 * timer that is set to a time that has come: neither can keep descriptors from being served. */
#include <errno.h>
#include <pthread.h>
#include <sys/signalfd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "loop/loop_internal.h"
#include "base/banned.h"

struct sg_loop *sg_loop_new(struct sg_err *err)
{
    sg_auto_fd fd = epoll_create1(EPOLL_CLOEXEC);
    if (fd < 0) {
        sg_fail_sys(err, "make an event loop");
        return NULL;
    }
    struct sg_loop *l = sg_new(struct sg_loop);
    l->epoll_fd = sg_take_fd(&fd);
    l->signals.fd = -1;
    l->now_ns = sg_now_ns();
    return l;
}

void sg_loop_free(struct sg_loop *l)
{
    if (!l)
        return;
    while (l->works)
        sg_work_free(l->works);
    sg_drop_fd(&l->signals.fd);
    sg_drop_fd(&l->epoll_fd);
    free(l->heap);
    free(l);
}

uint64_t sg_loop_now(const struct sg_loop *l)
{
    return l->now_ns;
}

void sg_loop_stop(struct sg_loop *l)
{
    l->is_stopping = true;
}

/* ---- descriptors ---- */

static void forget_in_batch(struct sg_loop *l, const struct sg_io *io)
{
    for (unsigned i = l->batch_at; i < l->batch_n; i++)
        if (l->batch[i].data.ptr == io)
            l->batch[i].data.ptr = NULL;
}

int sg_io_want(struct sg_loop *l, struct sg_io *io, uint32_t events, struct sg_err *err)
{
    if (io->events == events)
        return 0;
    int op = !events ? EPOLL_CTL_DEL : io->events ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
    struct epoll_event e = { .events = events, .data.ptr = io };
    if (epoll_ctl(l->epoll_fd, op, io->fd, &e) < 0)
        return sg_fail_sys(err, "watch a descriptor");
    if (!events)
        forget_in_batch(l, io);
    io->events = events;
    return 0;
}

/* Closing alone would not do: somebody else may hold a duplicate, and then epoll keeps its entry.
 */
void sg_io_drop(struct sg_loop *l, struct sg_io *io)
{
    if (io->events) {
        (void)epoll_ctl(l->epoll_fd, EPOLL_CTL_DEL, io->fd, NULL);
        forget_in_batch(l, io);
        io->events = 0;
    }
    sg_drop_fd(&io->fd);
}

static void deliver(struct sg_loop *l)
{
    while (l->batch_at < l->batch_n) {
        const struct epoll_event *e = &l->batch[l->batch_at++];
        struct sg_io *io = e->data.ptr;
        if (!io)
            continue;
        /* a handler before this one may have changed what is wanted */
        uint32_t events = e->events & (io->events | EPOLLHUP | EPOLLERR);
        if (events)
            io->ready(io, events);
    }
}

/* ---- deferred calls ---- */

void sg_later_call(struct sg_loop *l, struct sg_later *later)
{
    if (later->is_queued)
        return;
    later->is_queued = true;
    later->next = NULL;
    *(l->laters.first ? &l->laters.last->next : &l->laters.first) = later;
    l->laters.last = later;
}

static void remove_from(struct sg_laters *list, const struct sg_later *later)
{
    struct sg_later *before = NULL;
    for (struct sg_later *i = list->first; i; before = i, i = i->next) {
        if (i != later)
            continue;
        *(before ? &before->next : &list->first) = i->next;
        if (list->last == i)
            list->last = before;
        return;
    }
}

void sg_later_cancel(struct sg_loop *l, struct sg_later *later)
{
    if (!later->is_queued)
        return;
    remove_from(&l->laters, later);
    remove_from(&l->running_laters, later);
    later->is_queued = false;
}

static void call_laters(struct sg_loop *l)
{
    l->running_laters = l->laters;
    l->laters = (struct sg_laters) { 0 };
    for (struct sg_later *later; (later = l->running_laters.first);) {
        l->running_laters.first = later->next;
        later->is_queued = false;
        later->call(later);
    }
}

/* ---- signals ---- */

static void read_signals(struct sg_io *io, uint32_t events)
{
    (void)events;
    struct sg_loop *l = SG_OWNER(io, struct sg_loop, signals);
    struct signalfd_siginfo info;
    while (io->fd >= 0 && read(io->fd, &info, sizeof info) == sizeof info)
        l->got_signal(l->signal_arg, &info);
}

int sg_loop_signals(struct sg_loop *l, const int *numbers, unsigned count,
                    void (*got)(void *arg, const struct signalfd_siginfo *info), void *arg,
                    struct sg_err *err)
{
    sigset_t set;
    (void)sigemptyset(&set);
    for (unsigned i = 0; i < count; i++)
        (void)sigaddset(&set, numbers[i]);
    int failed = pthread_sigmask(SIG_BLOCK, &set, NULL);
    if (failed)
        return sg_fail(err, sg_kind_of_errno(failed), "block signals");
    sg_auto_fd fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (fd < 0)
        return sg_fail_sys(err, "make a signal descriptor");
    sg_io_drop(l, &l->signals);
    l->signals.fd = sg_take_fd(&fd);
    l->signals.ready = read_signals;
    l->got_signal = got;
    l->signal_arg = arg;
    return sg_io_want(l, &l->signals, EPOLLIN, err);
}

/* ---- the pass ---- */

int sg_loop_turn(struct sg_loop *l, int timeout_ms, struct sg_err *err)
{
    int wait_ms = l->laters.first ? 0 : sg_loop_timeout_ms(l, timeout_ms);
    int n = epoll_wait(l->epoll_fd, l->batch, SG_LOOP_BATCH, wait_ms);
    if (n < 0 && errno != EINTR)
        return sg_fail_sys(err, "wait for events");
    l->now_ns = sg_now_ns();
    l->batch_at = 0;
    l->batch_n = n > 0 ? (unsigned)n : 0;
    deliver(l);
    sg_loop_fire(l);
    call_laters(l);
    return 0;
}

int sg_loop_run(struct sg_loop *l, struct sg_err *err)
{
    while (!l->is_stopping)
        if (sg_loop_turn(l, -1, err) < 0)
            return -1;
    l->is_stopping = false;
    return 0;
}
