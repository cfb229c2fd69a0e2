/* SPDX-License-Identifier: Apache-2.0 */
/* Blocking work: jobs go to threads through one list, and come back through another.
 *
 * W1. A job belongs to the queue from sg_work_add() until its `done` is called.
 * W2. `lock` guards both lists and the flag, nothing else; no job runs under it.
 * W3. The eventfd is written when the list of finished jobs stops being empty, so a burst of jobs
 *     costs one wake-up. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/eventfd.h>

#include "base/auto.h"
#include "loop/loop_internal.h"
#include "base/banned.h"

struct jobs {
    struct sg_job *first, *last;
};

struct sg_work {
    struct sg_loop *loop;        /* borrows */
    struct sg_work *next, *prev; /* in the loop's list */
    struct sg_io wake;
    pthread_mutex_t lock;
    pthread_cond_t has_job;
    struct jobs waiting, finished;
    bool is_ending;
    char name[16];
    unsigned thread_count;
    pthread_t threads[];
};

static void push(struct jobs *list, struct sg_job *j)
{
    j->next = NULL;
    *(list->first ? &list->last->next : &list->first) = j;
    list->last = j;
}

static struct sg_job *pop(struct jobs *list)
{
    struct sg_job *j = list->first;
    if (j)
        list->first = j->next;
    return j;
}

static void *run_jobs(void *arg)
{
    struct sg_work *w = arg;
    (void)pthread_mutex_lock(&w->lock);
    for (;;) {
        struct sg_job *j = pop(&w->waiting);
        if (!j && w->is_ending)
            break;
        if (!j) {
            (void)pthread_cond_wait(&w->has_job, &w->lock);
            continue;
        }
        (void)pthread_mutex_unlock(&w->lock);
        j->work(j);
        (void)pthread_mutex_lock(&w->lock);
        bool was_empty = !w->finished.first;
        push(&w->finished, j);
        if (was_empty)
            (void)eventfd_write(w->wake.fd, 1);
    }
    (void)pthread_mutex_unlock(&w->lock);
    return NULL;
}

static void call_done(struct sg_work *w)
{
    (void)pthread_mutex_lock(&w->lock);
    struct jobs finished = w->finished;
    w->finished = (struct jobs) { 0 };
    (void)pthread_mutex_unlock(&w->lock);
    for (struct sg_job *j; (j = pop(&finished));)
        j->done(j);
}

/* `done` may free the queue no more than a handler may free the loop. */
static void finished_some(struct sg_io *io, uint32_t events)
{
    (void)events;
    eventfd_t count;
    (void)eventfd_read(io->fd, &count);
    call_done(SG_OWNER(io, struct sg_work, wake));
}

/* With every signal blocked: they are the loop's. */
static int start_threads(struct sg_work *w, unsigned threads, struct sg_err *err)
{
    sigset_t all, before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = 0;
    while (!failed && w->thread_count < threads) {
        failed = pthread_create(&w->threads[w->thread_count], NULL, run_jobs, w);
        if (!failed)
            (void)pthread_setname_np(w->threads[w->thread_count++], w->name);
    }
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed)
        return sg_fail(err, sg_kind_of_errno(failed), "start a thread for %s", w->name);
    return 0;
}

struct sg_work *sg_work_new(struct sg_loop *l, const char *name, unsigned threads,
                            struct sg_err *err)
{
    struct sg_work *w = sg_alloc(sizeof *w + threads * sizeof w->threads[0]);
    w->loop = l;
    (void)snprintf(w->name, sizeof w->name, "%s", name);
    (void)pthread_mutex_init(&w->lock, NULL);
    (void)pthread_cond_init(&w->has_job, NULL);
    w->next = l->works;
    if (w->next)
        w->next->prev = w;
    l->works = w;
    w->wake =
        (struct sg_io) { .fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), .ready = finished_some };
    int failed = w->wake.fd < 0 ? sg_fail_sys(err, "make an event descriptor")
                                : sg_io_want(l, &w->wake, EPOLLIN, err);
    if (failed || start_threads(w, threads, err) < 0) {
        sg_work_free(w);
        return NULL;
    }
    return w;
}

void sg_work_add(struct sg_work *w, struct sg_job *j)
{
    (void)pthread_mutex_lock(&w->lock);
    push(&w->waiting, j);
    (void)pthread_cond_signal(&w->has_job);
    (void)pthread_mutex_unlock(&w->lock);
}

void sg_work_free(struct sg_work *w)
{
    if (!w)
        return;
    (void)pthread_mutex_lock(&w->lock);
    w->is_ending = true;
    (void)pthread_cond_broadcast(&w->has_job);
    (void)pthread_mutex_unlock(&w->lock);
    for (unsigned i = 0; i < w->thread_count; i++)
        (void)pthread_join(w->threads[i], NULL);
    call_done(w);
    for (struct sg_job *j; (j = pop(&w->waiting));) { /* added by a `done`: nobody else is left */
        j->work(j);
        j->done(j);
    }
    *(w->prev ? &w->prev->next : &w->loop->works) = w->next;
    if (w->next)
        w->next->prev = w->prev;
    sg_io_drop(w->loop, &w->wake);
    (void)pthread_cond_destroy(&w->has_job);
    (void)pthread_mutex_destroy(&w->lock);
    free(w);
}
