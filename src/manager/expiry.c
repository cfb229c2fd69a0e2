/* SPDX-License-Identifier: Apache-2.0 */
/* The two clocks of a sandbox: its absolute lifetime, and the time in which nothing happens.
 *
 * The idle timer is lazy: a call or the end of work only notes the time, and the timer, when it
 * fires, looks how long ago that was and sleeps on. So the hot path sets no timer. */
#include "base/auto.h"
#include "base/log.h"
#include "manager/life.h"

#include "base/banned.h"

#define NS_PER_MS 1000000u
enum { AGAIN_MS = 60000 }; /* a pause at expiry that did not work is tried again after this */

static void expired(struct sg_sandbox *s, enum sg_state_event e)
{
    s->life->has_expired = true;
    s->life->expiry = e;
    sg_life_settle(s);
}

/* ---- idle ---- */

static bool can_idle(const struct sg_sandbox *s)
{
    return s->idle_ms > 0 && s->work == 0 && s->state == SBX_RUNNING && !s->life->is_gone;
}

static void idle_fired(struct sg_timer *t, uint64_t now_ns)
{
    struct sg_sandbox *s = SG_OWNER(t, struct sg_sandbox, idle);
    uint64_t at = s->idle_since_ns + s->idle_ms * NS_PER_MS;

    if (!can_idle(s))
        return; /* the end of the work sets it again */
    if (at > now_ns)
        sg_timer_set(s->manager->loop, t, at);
    else
        expired(s, EV_IDLE);
}

static void watch_idle(struct sg_sandbox *s)
{
    s->idle_since_ns = sg_loop_now(s->manager->loop);
    if (!can_idle(s) || sg_timer_is_set(&s->idle))
        return;
    s->idle.fire = idle_fired;
    sg_timer_set(s->manager->loop, &s->idle, s->idle_since_ns + s->idle_ms * NS_PER_MS);
}

void sg_sandbox_touch(struct sg_sandbox *s)
{
    s->idle_since_ns = sg_loop_now(s->manager->loop);
}

void sg_sandbox_work_begin(struct sg_sandbox *s)
{
    s->work++;
}

void sg_sandbox_work_end(struct sg_sandbox *s)
{
    if (--s->work == 0)
        watch_idle(s);
}

/* ---- lifetime ---- */

static void life_fired(struct sg_timer *t, uint64_t now_ns)
{
    (void)now_ns;
    expired(SG_OWNER(t, struct sg_sandbox, expiry), EV_TIMEOUT);
}

static void watch_lifetime(struct sg_sandbox *s)
{
    struct sg_loop *l = s->manager->loop;
    int64_t left = s->expires_ms - sg_manager_unix_ms();

    /* Creating and ending sandboxes have no lifetime: the one has not begun, the other is over. */
    if (s->expires_ms == 0 || s->state == SBX_CREATING || s->life->is_ending || s->life->is_gone) {
        sg_timer_stop(l, &s->expiry);
        return;
    }
    s->expiry.fire = life_fired;
    sg_timer_set(l, &s->expiry, sg_loop_now(l) + (left > 0 ? (uint64_t)left * NS_PER_MS : 0));
}

void sg_expiry_renew(struct sg_sandbox *s)
{
    s->expires_ms = s->timeout_ms ? sg_manager_unix_ms() + (int64_t)s->timeout_ms : 0;
}

void sg_expiry_update(struct sg_sandbox *s)
{
    watch_lifetime(s);
    watch_idle(s);
}

void sg_expiry_stop(struct sg_sandbox *s)
{
    sg_timer_stop(s->manager->loop, &s->expiry);
    sg_timer_stop(s->manager->loop, &s->idle);
}

/* ---- what happens then ---- */

static void end_by_itself(struct sg_sandbox *s, enum sg_state_event e)
{
    sg_life_cause(s, e == EV_IDLE ? "nothing happened in it for its idle time"
                                  : "its lifetime is over");
    sg_life_event(s, e == EV_IDLE ? "sandbox.idle" : "sandbox.expired", "cause", s->cause);
    sg_manager_audit(s->manager, NULL, e == EV_IDLE ? "sandbox.idle" : "sandbox.expire", s, NULL);
    sg_destroy_begin(s);
}

static void paused(void *arg, struct sg_sandbox *s, const struct sg_err *err)
{
    struct sg_sandbox *which = arg;

    (void)s;
    if (!err || which->life->is_gone || which->state != SBX_RUNNING)
        return;
    sg_log(SG_LOG_WARN, "sandbox could not be paused at its expiry", SG_KV("sandbox", which->id.s),
           SG_KV("error", err->msg));
    which->expires_ms = sg_manager_unix_ms() + AGAIN_MS;
    sg_expiry_update(which);
}

static void pause_by_itself(struct sg_sandbox *s, enum sg_state_event e)
{
    s->expires_ms = 0; /* a paused one waits until somebody comes */
    sg_expiry_update(s);
    if (s->state != SBX_RUNNING) {
        sg_row_touch(s);
        return;
    }
    sg_life_event(s, e == EV_IDLE ? "sandbox.idle" : "sandbox.expired", "cause", "");
    sg_manager_audit(s->manager, NULL, "sandbox.pause", s, NULL);
    sg_life_wait(&s->life->waiting, paused, s);
    if (s->drops_memory && s->is_pooled)
        sg_pause_disk_begin(s);
    else
        sg_pause_begin(s);
}

void sg_expiry_act(struct sg_sandbox *s)
{
    enum sg_state_event e = s->life->expiry;
    struct sg_err err;
    enum sg_state next;

    s->life->has_expired = false;
    if (s->life->is_ending)
        return;
    /* Between the clock and now somebody may have come, or the lifetime may have been changed. */
    if (e == EV_IDLE && (!can_idle(s) || sg_loop_now(s->manager->loop) - s->idle_since_ns <
                                             s->idle_ms * NS_PER_MS)) {
        sg_expiry_update(s);
        return;
    }
    if (e == EV_TIMEOUT && (s->expires_ms == 0 || s->expires_ms > sg_manager_unix_ms())) {
        watch_lifetime(s);
        return;
    }
    if (sg_state_next(s->state, e, &next, &err) < 0)
        return;
    if (s->on_expiry == SG_EXPIRY_PAUSE && s->state != SBX_FAILED)
        pause_by_itself(s, e);
    else
        end_by_itself(s, e);
}
