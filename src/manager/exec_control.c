/* SPDX-License-Identifier: Apache-2.0 */
/* Signals, sizes, time limits, and the end of everything in a sandbox. */
#include <signal.h>

#include "base/auto.h"
#include "manager/exec_internal.h"
#include "tier/peer.h"
#include "base/banned.h"

#define KILL_AFTER_NS 2000000000u
#define LOOK_AGAIN_NS 50000000u
#define NS_PER_MS     1000000u
enum { LOOKS_MAX = 400 }; /* twenty seconds */

void sg_exec_send_signal(struct sg_sandbox *s, uint32_t pid, int number, uint32_t scope)
{
    struct sg_msg m = { .type = SG_MSG_SIGNAL, .signal = { pid, (uint32_t)number, scope } };
    struct sg_err err;
    if (s->peer)
        (void)sg_peer_ask(s->peer, &m, NULL, 0, NULL, NULL, &err);
}

/* ---- the whole tree ---- */

static void term_was_not_enough(struct sg_timer *t, uint64_t now_ns)
{
    (void)now_ns;
    struct sg_exec *x = SG_OWNER(t, struct sg_exec_impl, limit)->x;
    sg_exec_send_signal(x->sandbox, x->pid, SIGKILL, SG_SIGNAL_SESSION);
    sg_exec_release_if_done(x);
}

void sg_exec_begin_kill(struct sg_exec *x)
{
    struct sg_exec_impl *i = x->impl;
    struct sg_loop *l = x->sandbox->manager->loop;
    if (i->is_killing)
        return;
    i->is_killing = true;
    sg_exec_send_signal(x->sandbox, x->pid, SIGTERM, SG_SIGNAL_SESSION);
    i->limit.fire = term_was_not_enough;
    sg_timer_set(l, &i->limit, sg_loop_now(l) + KILL_AFTER_NS);
}

static void time_is_over(struct sg_timer *t, uint64_t now_ns)
{
    struct sg_exec *x = SG_OWNER(t, struct sg_exec_impl, limit)->x;
    struct sg_exec_impl *i = x->impl;
    if (i->awaits & SG_AWAITS_SPAWN) { /* a limit of next to nothing: nobody to signal yet */
        sg_timer_set(x->sandbox->manager->loop, t, now_ns + LOOK_AGAIN_NS);
        return;
    }
    i->has_timed_out = true;
    sg_exec_begin_kill(x);
}

void sg_exec_set_limit(struct sg_exec *x)
{
    struct sg_exec_impl *i = x->impl;
    struct sg_loop *l = x->sandbox->manager->loop;
    if (!i->deadline_ms)
        return;
    int64_t left_ms = i->deadline_ms - sg_manager_unix_ms();
    i->limit.fire = time_is_over;
    sg_timer_set(l, &i->limit, sg_loop_now(l) + (left_ms > 0 ? (uint64_t)left_ms * NS_PER_MS : 0));
}

/* ---- asked for ---- */

static int demand_control(struct sg_exec *x, const struct sg_who *who, const char *action,
                          struct sg_err *err)
{
    struct sg_sandbox *s = x->sandbox;
    if (who && sg_tenant_demand(who, SG_SCOPE_EXEC, err) < 0)
        return sg_manager_denied(s->manager, who, action, s, err);
    if (sg_sandbox_demand_running(s, err) < 0)
        return -1;
    if (sg_exec_impl(x)->awaits_kept) /* its number is not known for sure */
        return sg_fail(err, SG_UNAVAILABLE,
                       "the sandbox has not answered since the service was started; try again");
    return 0;
}

static void audit(struct sg_exec *x, const struct sg_who *who, const char *action)
{
    sg_auto_free char *detail = sg_exec_detail(x, false);
    sg_manager_audit(x->sandbox->manager, who, action, x->sandbox, detail);
}

int sg_exec_signal(struct sg_exec *x, const struct sg_who *who, int number, struct sg_err *err)
{
    if (demand_control(x, who, "exec.signal", err) < 0)
        return -1;
    if (number < 1 || number > 64)
        return sg_fail(err, SG_INVALID, "no such signal: %d", number);
    if (!sg_exec_is_live(x) || sg_exec_impl(x)->has_exited)
        return sg_fail(err, SG_CONFLICT, "exec %s has ended", x->id.s);
    sg_exec_send_signal(x->sandbox, x->pid, number, SG_SIGNAL_GROUP);
    audit(x, who, "exec.signal");
    return 0;
}

int sg_exec_kill(struct sg_exec *x, const struct sg_who *who, struct sg_err *err)
{
    if (demand_control(x, who, "exec.kill", err) < 0)
        return -1;
    if (!sg_exec_is_live(x))
        return 0;
    sg_exec_begin_kill(x);
    audit(x, who, "exec.kill");
    return 0;
}

int sg_exec_resize(struct sg_exec *x, uint32_t rows, uint32_t cols, struct sg_err *err)
{
    struct sg_msg m = { .type = SG_MSG_RESIZE, .resize = { x->pid, rows, cols } };
    if (demand_control(x, NULL, NULL, err) < 0)
        return -1;
    if (!x->has_tty || !sg_exec_is_live(x))
        return sg_fail(err, SG_CONFLICT, "exec %s has no terminal", x->id.s);
    if (!rows || !cols || rows > UINT16_MAX || cols > UINT16_MAX)
        return sg_fail(err, SG_INVALID, "a terminal has 1 to 65535 rows and columns");
    return sg_peer_ask(x->sandbox->peer, &m, NULL, 0, NULL, NULL, err);
}

/* ---- everything ---- */

struct sg_kill_all {
    struct sg_sandbox *s;
    void (*done)(struct sg_sandbox *s, void *arg, const struct sg_err *err);
    void *arg;
    struct sg_timer look;
    uint64_t kill_ns; /* when TERM was not enough */
    unsigned looks;
};

static void end_kill_all(struct sg_kill_all *k, const struct sg_err *err)
{
    struct sg_sandbox *s = k->s;
    sg_exec_set(s)->kill_all = NULL;
    sg_timer_stop(s->manager->loop, &k->look);
    void (*done)(struct sg_sandbox *, void *, const struct sg_err *) = k->done;
    void *arg = k->arg;
    free(k);
    done(s, arg, err);
}

static void counted(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    struct sg_kill_all *k = arg;
    struct sg_err own;
    if (!p || p->msg.type != SG_MSG_INFOED) {
        (void)sg_fail(&own, SG_UNAVAILABLE, "init gave no sensible answer");
        end_kill_all(k, err ? err : &own);
    } else if (p->msg.infoed.processes <= 1) { /* init itself */
        end_kill_all(k, NULL);
    } else if (++k->looks == LOOKS_MAX) {
        (void)sg_fail(&own, SG_TIMEOUT, "%u processes would not end",
                      (unsigned)p->msg.infoed.processes - 1);
        end_kill_all(k, &own);
    } else {
        struct sg_loop *l = k->s->manager->loop;
        sg_timer_set(l, &k->look, sg_loop_now(l) + LOOK_AGAIN_NS);
    }
}

static void look(struct sg_timer *t, uint64_t now_ns)
{
    struct sg_kill_all *k = SG_OWNER(t, struct sg_kill_all, look);
    struct sg_msg m = { .type = SG_MSG_INFO };
    struct sg_err err;
    if (now_ns >= k->kill_ns)
        sg_exec_send_signal(k->s, 0, SIGKILL, SG_SIGNAL_ALL);
    if (!k->s->peer)
        (void)sg_fail(&err, SG_UNAVAILABLE, "the sandbox is not connected");
    else if (sg_peer_ask(k->s->peer, &m, NULL, 0, counted, k, &err) == 0)
        return;
    end_kill_all(k, &err);
}

void sg_exec_kill_all(struct sg_sandbox *s,
                      void (*done)(struct sg_sandbox *s, void *arg, const struct sg_err *err),
                      void *arg)
{
    struct sg_loop *l = s->manager->loop;
    struct sg_kill_all *k = sg_new(struct sg_kill_all);
    *k = (struct sg_kill_all) { .s = s,
                                .done = done,
                                .arg = arg,
                                .look = { .fire = look },
                                .kill_ns = sg_loop_now(l) + KILL_AFTER_NS };
    sg_exec_set(s)->kill_all = k;
    sg_exec_send_signal(s, 0, SIGTERM, SG_SIGNAL_ALL);
    sg_timer_set(l, &k->look, sg_loop_now(l)); /* not from inside this call */
}

void sg_exec_control_ended(struct sg_sandbox *s)
{
    struct sg_kill_all *k = sg_exec_set(s)->kill_all;
    struct sg_err err;
    (void)sg_fail(&err, SG_UNAVAILABLE, "the sandbox has ended");
    if (k)
        end_kill_all(k, &err);
}

/* Only when the manager ends, and then no question is answered any more; a sandbox that is
 * destroyed has lost its connection before. */
void sg_exec_control_forget(struct sg_sandbox *s)
{
    struct sg_kill_all *k = sg_exec_set(s)->kill_all;
    if (!k)
        return;
    sg_timer_stop(s->manager->loop, &k->look);
    free(k);
}
