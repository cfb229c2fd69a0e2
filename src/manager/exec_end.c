/* SPDX-License-Identifier: Apache-2.0 */
/* How an exec ends; the steps are X2 in exec_internal.h. */
#include <signal.h>
#include <string.h>

#include "base/auto.h"
#include "manager/capture.h"
#include "manager/exec_internal.h"
#include "manager/life.h"
#include "manager/trace.h"
#include "tier/peer.h"
#include "base/banned.h"

#define GRACE_NS 50000000u /* for children that keep its pipes open */
enum { LINGERING_MAX = 64, SHELL_KILLED = 128 + SIGKILL };

/* ---- RELEASE: init may forget it ---- */

void sg_exec_release(struct sg_sandbox *s, const char *tag)
{
    struct sg_msg m = { .type = SG_MSG_RELEASE, .release = { sg_text_of(tag) } };
    struct sg_err err;
    if (s->peer)
        (void)sg_peer_ask(s->peer, &m, NULL, 0, NULL, NULL, &err); /* or after the next restart */
}

/* While the rest of a tree is to be killed, init must know whose it is. */
void sg_exec_release_if_done(struct sg_exec *x)
{
    struct sg_exec_impl *i = x->impl;
    if (i->is_released || !i->is_written || sg_timer_is_set(&i->limit))
        return;
    i->is_released = true;
    sg_exec_release(x->sandbox, x->id.s);
}

static void end_written(void *arg, const struct sg_err *err)
{
    struct sg_exec *x = arg;
    if (!sg_exec_unref(x) || err) /* not written: init remembers, and a restart tries again */
        return;
    sg_exec_impl(x)->is_written = true;
    sg_exec_release_if_done(x);
}

/* ---- complete ---- */

static enum sg_exec_ending ending_of(const struct sg_exec *x)
{
    const struct sg_exec_impl *i = x->impl;
    if (!i->has_exited)
        return SG_EXEC_LOST;
    if (i->has_timed_out)
        return SG_EXEC_TIMEOUT;
    if (i->is_oom)
        return SG_EXEC_OOM;
    return x->signal ? SG_EXEC_SIGNAL : SG_EXEC_EXIT;
}

/* Pipes that children still hold are read on, to nowhere, within reason. */
static void keep_lingering(struct sg_exec *x)
{
    struct sg_exec_impl *i = x->impl;
    struct sg_exec_set *set = sg_exec_set(x->sandbox);
    for (unsigned k = 0; k < SG_STREAM_COUNT; k++) {
        if (i->streams[k].fd < 0)
            continue;
        if (set->lingering < LINGERING_MAX && i->has_exited)
            set->lingering++;
        else
            sg_io_drop(x->sandbox->manager->loop, &i->streams[k]);
    }
    sg_exec_watch_streams(x);
}

/* The kernel counts its processor time; of the rest it has its share of what its sandbox held
 * meanwhile: memory by its own peak, the network by what passed while it ran. */
void sg_exec_amounts(const struct sg_exec *x, struct sg_amounts *ret)
{
    const struct sg_sandbox *s = x->sandbox;
    const struct sg_life *life = s->life;
    const int64_t end_ms = x->ended_ms ? x->ended_ms : sg_manager_unix_ms();
    const uint64_t ms = end_ms > x->started_ms ? (uint64_t)(end_ms - x->started_ms) : 0;
    const uint64_t net = life->net_in + life->net_out, before = sg_exec_impl(x)->net_before;

    *ret = (struct sg_amounts) { .cpu_ns = x->cpu_ns,
                                 .mem_mib_ms = (x->max_rss_bytes >> 20) * ms,
                                 .vcpu_milli_ms = s->limits.cpu_milli * ms,
                                 .allotted_mib_ms = (s->limits.mem_bytes >> 20) * ms,
                                 .disk_mib_ms = (life->disk_used_bytes >> 20) * ms,
                                 .wall_ms = ms,
                                 .net_bytes = net > before ? net - before : 0 };
}

static void announce(struct sg_exec *x)
{
    struct sg_metrics *m = &x->sandbox->manager->metrics;
    m->hits[SG_HIT_TIMEOUT] += x->ending == SG_EXEC_TIMEOUT;
    m->hits[SG_HIT_OOM] += x->ending == SG_EXEC_OOM;
    sg_auto_free char *detail = sg_exec_detail(x, false);
    sg_sandbox_event(x->sandbox, "exec.ended", detail);
    sg_sandbox_used(x->sandbox, 1, 0, x->total_bytes);
    sg_trace_exec(x);
}

static void complete(struct sg_exec *x)
{
    struct sg_exec_impl *i = x->impl;
    struct sg_sandbox *s = x->sandbox;
    sg_timer_stop(s->manager->loop, &i->grace);
    if (!i->is_killing)
        sg_timer_stop(s->manager->loop, &i->limit);
    x->ending = ending_of(x);
    x->is_complete = true;
    if (!x->ended_ms)
        x->ended_ms = sg_manager_unix_ms();
    sg_exec_count_end(x);
    sg_exec_count_journal(x);
    keep_lingering(x);
    sg_exec_close_input(x);
    if (!i->readers)
        sg_journal_close(&i->journal);
    sg_exec_ref(x);
    sg_exec_put_row(x, end_written);
    announce(x);
    sg_exec_work_end(x);
    sg_exec_wake(x);
    sg_checkpoint_count(s);
}

/* ---- the steps ---- */

static void oom_known(void *arg, bool has_oomed)
{
    struct sg_exec *x = arg;
    if (!sg_exec_unref(x))
        return;
    sg_exec_impl(x)->is_oom = has_oomed;
    sg_exec_impl(x)->asks_oom = false;
    sg_exec_go_on_ending(x);
}

static void grace_over(struct sg_timer *t, uint64_t now_ns)
{
    (void)now_ns;
    struct sg_exec_impl *i = SG_OWNER(t, struct sg_exec_impl, grace);
    i->is_over = true;
    (void)sg_exec_drain(i->x);
    sg_exec_go_on_ending(i->x);
}

void sg_exec_go_on_ending(struct sg_exec *x)
{
    struct sg_exec_impl *i = x->impl;
    struct sg_loop *l = x->sandbox->manager->loop;
    if (i->awaits || !i->has_exited || x->is_complete)
        return;
    bool has_output = i->streams[SG_STREAM_OUT].fd >= 0 || i->streams[SG_STREAM_ERR].fd >= 0;
    if (has_output && !i->is_over) {
        if (i->grace.fire != grace_over || !sg_timer_is_set(&i->grace)) {
            i->grace.fire = grace_over;
            sg_timer_set(l, &i->grace, sg_loop_now(l) + GRACE_NS);
        }
        return;
    }
    if (i->asks_oom)
        return;
    struct sg_sandbox *s = x->sandbox;
    complete(x);
    sg_exec_prune(s);
}

void sg_exec_process_ended(struct sg_exec *x, const struct sg_msg_exited *e)
{
    struct sg_exec_impl *i = x->impl;
    if (i->has_exited)
        return;
    i->has_exited = true;
    x->code = e->code;
    x->signal = e->signal;
    x->cpu_ns = e->cpu_ns;
    x->max_rss_bytes = e->max_rss_bytes;
    x->ended_ms = sg_manager_unix_ms();
    if (!i->is_killing)
        sg_timer_stop(x->sandbox->manager->loop, &i->limit);
    /* A shell reports the SIGKILL of its command as a code. */
    if (!i->is_killing && (x->signal == SIGKILL || x->code == SHELL_KILLED)) {
        i->asks_oom = true;
        sg_exec_ref(x);
        sg_manager_oom_check(x->sandbox, oom_known, x);
    }
    (void)sg_exec_drain(x);
    sg_exec_go_on_ending(x);
}

void sg_exec_lost(struct sg_exec *x)
{
    struct sg_exec_impl *i = x->impl;
    struct sg_loop *l = x->sandbox->manager->loop;
    (void)sg_exec_drain(x);
    i->is_killing = false; /* nobody is left to be killed */
    sg_timer_stop(l, &i->limit);
    i->is_released = true;
    complete(x);
}
