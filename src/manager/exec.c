/* SPDX-License-Identifier: Apache-2.0 */
/* Execs of a sandbox: the list, who finds what in it, what goes out of it. */
#include "manager/exec.h"

#include <assert.h>
#include <signal.h>
#include <string.h>

#include "base/auto.h"
#include "base/str.h"
#include "manager/code_internal.h"
#include "store/store.h"
#include "base/banned.h"

enum {
    KEPT_ENDED = 1000,
    KEPT_JOURNALS = 16, /* of ended ones together: so many times what one stream may keep */
    KERNEL_JOURNAL = 8, /* so many times what others have: an event can be large */
};

const char *sg_exec_ending_name(enum sg_exec_ending e)
{
    static const char *const names[] = {
        [SG_EXEC_RUNNING] = "running", [SG_EXEC_EXIT] = "exit", [SG_EXEC_SIGNAL] = "signal",
        [SG_EXEC_TIMEOUT] = "timeout", [SG_EXEC_OOM] = "oom",   [SG_EXEC_LOST] = "lost",
    };
    return names[e];
}

struct sg_exec_set *sg_exec_set(struct sg_sandbox *s)
{
    if (!s->exec_impl) {
        struct sg_exec_set *set = sg_new(struct sg_exec_set);
        set->s = s;
        s->exec_impl = set;
    }
    return s->exec_impl;
}

/* ---- in and out ---- */

static void link_newest(struct sg_exec_set *set, struct sg_exec *x)
{
    struct sg_exec_impl *i = x->impl;
    i->newer = NULL;
    i->older = set->newest;
    *(set->newest ? &sg_exec_impl(set->newest)->newer : &set->oldest) = x;
    set->newest = x;
}

static void unlink_exec(struct sg_exec_set *set, struct sg_exec *x)
{
    struct sg_exec_impl *i = x->impl;
    *(i->newer ? &sg_exec_impl(i->newer)->older : &set->newest) = i->older;
    *(i->older ? &sg_exec_impl(i->older)->newer : &set->oldest) = i->newer;
}

struct sg_exec *sg_exec_new(struct sg_sandbox *s, const struct sg_id *id)
{
    struct sg_exec_set *set = sg_exec_set(s);
    struct sg_exec_impl *i = sg_new(struct sg_exec_impl);
    struct sg_exec *x = sg_new(struct sg_exec);
    x->id = *id;
    x->sandbox = s;
    x->impl = i;
    i->x = x;
    i->in.fd = i->streams[SG_STREAM_OUT].fd = i->streams[SG_STREAM_ERR].fd = -1;
    sg_journal_init(&i->journal, s->manager->o.journal_dir_fd, id, s->manager->o.journal_bytes);
    link_newest(set, x);
    set->running++;
    s->org->execs++;
    sg_map_put(&s->execs, x->id.s, x);
    return x;
}

static void free_exec(struct sg_exec *x)
{
    for (char **a = x->argv; a && *a; a++)
        free(*a);
    free(x->argv);
    free(x->user);
    free(x->cwd);
    free(x->tag);
    free(sg_exec_impl(x)->no_row);
    free(x->impl);
    free(x);
}

void sg_exec_count_end(struct sg_exec *x)
{
    struct sg_exec_set *set = x->sandbox->exec_impl;
    set->running--;
    x->sandbox->org->execs--;
    set->ended++;
    unlink_exec(set, x);
    link_newest(set, x);
}

void sg_exec_count_journal(struct sg_exec *x)
{
    assert(x->sandbox); /* what is in a set has one */
    struct sg_exec_impl *i = x->impl;
    struct sg_exec_set *set = x->sandbox->exec_impl;
    const uint64_t held = sg_journal_held(&i->journal);
    set->held_bytes = set->held_bytes - i->held_bytes + held;
    i->held_bytes = held;
}

void sg_exec_drop(struct sg_exec *x)
{
    assert(x->sandbox); /* once */
    struct sg_exec_impl *i = x->impl;
    struct sg_exec_set *set = x->sandbox->exec_impl;
    struct sg_loop *l = x->sandbox->manager->loop;
    i->refs++; /* ours, while readers and waiters are told */
    sg_exec_lose_readers(x);
    sg_exec_close_input(x);
    sg_exec_close_streams(x);
    sg_timer_stop(l, &i->limit);
    sg_timer_stop(l, &i->grace);
    sg_journal_close(&i->journal);
    unlink_exec(set, x);
    if (x->ending == SG_EXEC_RUNNING) {
        set->running--;
        x->sandbox->org->execs--;
    } else {
        set->ended--;
    }
    set->held_bytes -= i->held_bytes;
    (void)sg_map_remove(&x->sandbox->execs, x->id.s);
    x->sandbox = NULL;
    (void)sg_exec_unref(x);
}

void sg_exec_be_kernel(struct sg_exec *x)
{
    x->is_kernel = true;
    sg_exec_impl(x)->journal.keep_bytes *= KERNEL_JOURNAL;
}

void sg_exec_work_begin(struct sg_exec *x)
{
    if (!x->is_kernel)
        sg_sandbox_work_begin(x->sandbox);
}

void sg_exec_work_end(struct sg_exec *x)
{
    if (!x->is_kernel)
        sg_sandbox_work_end(x->sandbox);
}

void sg_exec_ref(struct sg_exec *x)
{
    sg_exec_impl(x)->refs++;
}

bool sg_exec_unref(struct sg_exec *x)
{
    unsigned left = --sg_exec_impl(x)->refs;
    if (x->sandbox)
        return true;
    if (!left)
        free_exec(x);
    return false;
}

/* The record of the exec stays, and says how much it had printed. */
static void empty_journals(struct sg_exec_set *set, bool with_readers)
{
    struct sg_manager *m = set->s->manager;
    struct sg_err err;
    for (struct sg_exec *x = set->oldest; x && set->held_bytes > KEPT_JOURNALS * m->o.journal_bytes;
         x = sg_exec_impl(x)->newer) {
        struct sg_exec_impl *i = x->impl;
        if (!i->held_bytes || (i->readers && !with_readers) ||
            sg_journal_empty(&i->journal, &err) < 0) /* or at the next end */
            continue;
        sg_exec_count_journal(x);
        m->metrics.hits[SG_HIT_JOURNAL] += !i->was_cut;
        i->was_cut = true;
    }
}

void sg_exec_prune(struct sg_sandbox *s)
{
    struct sg_exec_set *set = sg_exec_set(s);
    struct sg_exec *next;
    for (struct sg_exec *x = set->oldest; x && set->ended > KEPT_ENDED; x = next) {
        next = sg_exec_impl(x)->newer;
        if (x->ending == SG_EXEC_RUNNING)
            continue;
        sg_store_remove_exec(s->manager->store, x->id.s, NULL, NULL);
        sg_journal_remove(&sg_exec_impl(x)->journal);
        sg_exec_drop(x);
    }
    empty_journals(set, false);
    empty_journals(set, true); /* who reads slowly does not take the disk from others */
}

/* ---- finding ---- */

static bool is_known(const struct sg_exec *x)
{
    return !sg_exec_impl(x)->awaits;
}

struct sg_exec *sg_exec_find(struct sg_sandbox *s, const char *id, struct sg_err *err)
{
    struct sg_exec *x = sg_map_find(&s->execs, id);
    if (x && is_known(x))
        return x;
    (void)sg_fail(err, SG_NOT_FOUND, "no such exec: %s", sg_quote(id).s);
    return NULL;
}

struct sg_exec *sg_exec_find_pid(struct sg_sandbox *s, uint32_t pid)
{
    for (struct sg_exec *x = sg_exec_set(s)->newest; x; x = sg_exec_impl(x)->older)
        if (x->pid == pid && x->ending == SG_EXEC_RUNNING && is_known(x))
            return x;
    return NULL;
}

/* Newest first. The cursor is where to go on: an exec, or 1 at the end. */
struct sg_exec *sg_exec_next(struct sg_sandbox *s, size_t *cursor)
{
    enum { END = 1 };
    if (*cursor == END)
        return NULL;
    struct sg_exec *x = *cursor ? (struct sg_exec *)*cursor : sg_exec_set(s)->newest;
    while (x && !is_known(x))
        x = sg_exec_impl(x)->older;
    struct sg_exec *older = x ? sg_exec_impl(x)->older : NULL;
    *cursor = older ? (size_t)older : END;
    return x;
}

/* ---- hooks ---- */

void sg_exec_news(struct sg_sandbox *s, struct sg_packet *p)
{
    if (p->msg.type == SG_MSG_KEPT) {
        sg_exec_kept(s, p);
        return;
    }
    if (p->msg.type == SG_MSG_SPAWNED) { /* its start was given up */
        sg_exec_send_signal(s, p->msg.spawned.pid, SIGKILL, SG_SIGNAL_SESSION);
        return;
    }
    const struct sg_msg_exited *e = &p->msg.exited;
    struct sg_exec *x = sg_map_find(&s->execs, e->tag.p);
    if (x && sg_exec_impl(x)->awaits_kept)
        return; /* KEPT tells the same, and brings what is still in its pipes */
    if (x && x->ending == SG_EXEC_RUNNING)
        sg_exec_process_ended(x, e);
    else if (!x)
        sg_exec_release(s, e->tag.p); /* its start failed on our side */
}

void sg_exec_sandbox_ended(struct sg_sandbox *s)
{
    struct sg_exec *older;
    sg_timer_stop(s->manager->loop, &sg_exec_set(s)->reclaim);
    for (struct sg_exec *x = sg_exec_set(s)->newest; x; x = older) {
        older = sg_exec_impl(x)->older;
        if (x->ending == SG_EXEC_RUNNING)
            sg_exec_lost(x);
        sg_exec_close_streams(x);
    }
    sg_exec_prune(s);
    sg_exec_control_ended(s);
}

/* Answers of init and of the oom question do not come any more when the manager ends; the store's
 * do. */
static void drop_with_manager(struct sg_exec *x)
{
    struct sg_exec_impl *i = x->impl;
    if (i->awaits && i->started) {
        struct sg_err err;
        (void)sg_fail(&err, SG_UNAVAILABLE, "the service is stopping");
        sg_exec_cb *started = sg_take_ptr(&i->started);
        started(i->started_arg, NULL, &err);
    }
    i->refs -= (i->awaits & SG_AWAITS_SPAWN ? 1u : 0u) + (i->asks_oom ? 1u : 0u);
    sg_exec_drop(x);
}

void sg_exec_forget(struct sg_sandbox *s, bool is_manager_ending)
{
    struct sg_exec_set *set = sg_exec_set(s);
    for (struct sg_exec *x = set->newest, *older; x; x = older) {
        older = sg_exec_impl(x)->older;
        if (is_manager_ending) {
            drop_with_manager(x);
            continue;
        }
        sg_journal_remove(&sg_exec_impl(x)->journal);
        sg_exec_drop(x);
    }
    sg_code_forget(s); /* after their kernels: those that waited for one were told */
    sg_exec_control_forget(s);
    sg_timer_stop(s->manager->loop, &set->reclaim);
    free(set);
    s->exec_impl = NULL;
}
