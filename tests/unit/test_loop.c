/* SPDX-License-Identifier: Apache-2.0 */
/* loop: descriptors, timers, deferred calls, signals. test_work.c has the threads. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "check.h"
#include "loop/loop.h"
#include "random.h"
#include "base/banned.h"

struct rig {
    struct sg_loop *loop;
    struct sg_err err;
};

static int start(void **state)
{
    struct rig *r = sg_new(struct rig);
    r->loop = sg_loop_new(&r->err);
    *state = r;
    return r->loop ? 0 : -1;
}

static int stop(void **state)
{
    struct rig *r = *state;
    sg_loop_free(r->loop);
    free(r);
    return 0;
}

static void turn(struct rig *r, int timeout_ms)
{
    assert_ok(sg_loop_turn(r->loop, timeout_ms, &r->err), r->err);
}

/* ---- descriptors ---- */

struct source {
    struct sg_io io;
    struct rig *rig;
    int other_end;
    unsigned calls;
    uint32_t last;
    struct source *victim; /* dropped by the handler */
};

static void got(struct sg_io *io, uint32_t events)
{
    struct source *s = SG_OWNER(io, struct source, io);
    s->calls++;
    s->last = events;
    if (s->victim)
        sg_io_drop(s->rig->loop, &s->victim->io);
}

static struct source open_source(struct rig *r)
{
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    return (
        struct source) { .io = { .fd = ends[0], .ready = got }, .rig = r, .other_end = ends[1] };
}

static void close_source(struct source *s)
{
    sg_io_drop(s->rig->loop, &s->io);
    (void)close(s->other_end);
}

static void poke(const struct source *s)
{
    assert_int_equal(write(s->other_end, "x", 1), 1);
}

static void a_readable_descriptor_is_told_until_it_is_read(void **state)
{
    struct rig *r = *state;
    struct source s = open_source(r);
    assert_ok(sg_io_want(r->loop, &s.io, EPOLLIN, &r->err), r->err);
    turn(r, 0);
    assert_int_equal(s.calls, 0);
    poke(&s);
    turn(r, 0);
    turn(r, 0);
    assert_int_equal(s.calls, 2);
    assert_int_equal(s.last, EPOLLIN);
    assert_ok(sg_io_want(r->loop, &s.io, 0, &r->err), r->err);
    turn(r, 0);
    assert_int_equal(s.calls, 2);
    assert_ok(sg_io_want(r->loop, &s.io, EPOLLIN, &r->err), r->err);
    turn(r, 0);
    assert_int_equal(s.calls, 3);
    close_source(&s);
    assert_int_equal(s.io.fd, -1);
}

static void the_end_of_the_other_side_is_told(void **state)
{
    struct rig *r = *state;
    struct source s = open_source(r);
    assert_ok(sg_io_want(r->loop, &s.io, EPOLLIN, &r->err), r->err);
    (void)close(s.other_end);
    turn(r, 0);
    assert_true(s.last & EPOLLHUP);
    sg_io_drop(r->loop, &s.io);
}

/* Two are ready in one batch and each would drop the other: only one may be called. */
static void a_source_dropped_in_its_batch_is_not_called(void **state)
{
    struct rig *r = *state;
    struct source *a = sg_new(struct source), *b = sg_new(struct source);
    *a = open_source(r);
    *b = open_source(r);
    a->victim = b;
    b->victim = a;
    assert_ok(sg_io_want(r->loop, &a->io, EPOLLIN, &r->err), r->err);
    assert_ok(sg_io_want(r->loop, &b->io, EPOLLIN, &r->err), r->err);
    poke(a);
    poke(b);
    turn(r, 0);
    assert_int_equal(a->calls + b->calls, 1);
    a->victim = b->victim = NULL;
    close_source(a);
    close_source(b);
    free(a);
    free(b);
}

static void drop_and_reuse(struct sg_io *io, uint32_t events)
{
    struct source *s = SG_OWNER(io, struct source, io);
    (void)events;
    s->calls++;
    struct source *v = s->victim;
    sg_io_drop(s->rig->loop, &v->io);
    (void)close(v->other_end);
    unsigned calls = v->calls;
    *v = open_source(s->rig); /* most likely the same number */
    v->calls = calls;
    assert_ok(sg_io_want(s->rig->loop, &v->io, EPOLLIN, &s->rig->err), s->rig->err);
}

static void a_source_used_again_gets_no_event_of_its_past(void **state)
{
    struct rig *r = *state;
    struct source a = open_source(r), b = open_source(r);
    a.victim = &b;
    b.victim = &a;
    a.io.ready = b.io.ready = drop_and_reuse;
    assert_ok(sg_io_want(r->loop, &a.io, EPOLLIN, &r->err), r->err);
    assert_ok(sg_io_want(r->loop, &b.io, EPOLLIN, &r->err), r->err);
    poke(&a);
    poke(&b);
    turn(r, 0);
    assert_int_equal(a.calls + b.calls, 1);
    close_source(&a);
    close_source(&b);
}

static void want_nothing_of_victim(struct sg_io *io, uint32_t events)
{
    struct source *s = SG_OWNER(io, struct source, io);
    (void)events;
    s->calls++;
    assert_ok(sg_io_want(s->rig->loop, &s->victim->io, EPOLLOUT, &s->rig->err), s->rig->err);
}

static void an_event_that_is_no_longer_wanted_is_not_delivered(void **state)
{
    struct rig *r = *state;
    struct source a = open_source(r), b = open_source(r);
    a.victim = &b;
    b.victim = &a;
    a.io.ready = b.io.ready = want_nothing_of_victim;
    assert_ok(sg_io_want(r->loop, &a.io, EPOLLIN, &r->err), r->err);
    assert_ok(sg_io_want(r->loop, &b.io, EPOLLIN, &r->err), r->err);
    poke(&a);
    poke(&b);
    turn(r, 0);
    assert_int_equal(a.calls + b.calls, 1);
    close_source(&a);
    close_source(&b);
}

static void more_sources_than_a_batch_are_all_served(void **state)
{
    struct rig *r = *state;
    enum { MANY = 150 };
    struct source *s = sg_alloc(MANY * sizeof *s);
    for (int i = 0; i < MANY; i++) {
        s[i] = open_source(r);
        assert_ok(sg_io_want(r->loop, &s[i].io, EPOLLIN, &r->err), r->err);
        poke(&s[i]);
    }
    for (int i = 0; i < 6; i++)
        turn(r, 0);
    for (int i = 0; i < MANY; i++) {
        assert_true(s[i].calls > 0);
        close_source(&s[i]);
    }
    free(s);
}

/* ---- timers ---- */

struct alarm {
    struct sg_timer timer;
    struct rig *rig;
    unsigned calls;
    uint64_t fired_ns;
    bool is_repeated;
    struct alarm *stops; /* by the handler */
};
static uint64_t last_at_ns;

static void fired(struct sg_timer *t, uint64_t now_ns)
{
    struct alarm *a = SG_OWNER(t, struct alarm, timer);
    a->calls++;
    a->fired_ns = now_ns;
    assert_true(now_ns >= t->at_ns);
    assert_true(t->at_ns >= last_at_ns); /* in order */
    assert_false(sg_timer_is_set(t));
    last_at_ns = t->at_ns;
    if (a->is_repeated)
        sg_timer_set(a->rig->loop, t, now_ns);
    if (a->stops)
        sg_timer_stop(a->rig->loop, &a->stops->timer);
}

static void a_timer_fires_at_or_after_its_time_and_once(void **state)
{
    struct rig *r = *state;
    struct alarm a = { .timer.fire = fired, .rig = r };
    last_at_ns = 0;
    uint64_t at = sg_now_ns() + 3000000;
    sg_timer_set(r->loop, &a.timer, at);
    int turns = 0;
    for (; turns < 100 && !a.calls; turns++)
        turn(r, 1000);
    assert_int_equal(a.calls, 1);
    assert_true(a.fired_ns >= at);
    assert_true(turns <= 3); /* it slept, and did not ask again and again */
    turn(r, 0);
    assert_int_equal(a.calls, 1);
}

static void timers_fire_in_order_whatever_was_set_moved_and_stopped(void **state)
{
    struct rig *r = *state;
    enum { MANY = 500 };
    struct rng rng = rng_start(__func__);
    struct alarm *a = sg_alloc(MANY * sizeof *a);
    uint64_t now = sg_now_ns();
    for (int i = 0; i < MANY; i++)
        a[i] = (struct alarm) { .timer.fire = fired, .rig = r };
    for (int i = 0; i < 5000; i++) {
        struct alarm *one = &a[rng_below(&rng, MANY)];
        if (rng_below(&rng, 3))
            sg_timer_set(r->loop, &one->timer, now - rng_below(&rng, 1000000));
        else
            sg_timer_stop(r->loop, &one->timer);
    }
    unsigned want = 0;
    for (int i = 0; i < MANY; i++)
        want += sg_timer_is_set(&a[i].timer);
    last_at_ns = 0;
    turn(r, 0);
    unsigned got_calls = 0;
    for (int i = 0; i < MANY; i++)
        got_calls += a[i].calls;
    assert_int_equal(got_calls, want);
    free(a);
}

static void a_timer_stopped_by_another_does_not_fire(void **state)
{
    struct rig *r = *state;
    struct alarm a = { .timer.fire = fired, .rig = r }, b = a;
    a.stops = &b;
    last_at_ns = 0;
    sg_timer_set(r->loop, &a.timer, 1);
    sg_timer_set(r->loop, &b.timer, 2);
    turn(r, 0);
    assert_int_equal(a.calls, 1);
    assert_int_equal(b.calls, 0);
}

static void a_timer_that_sets_itself_again_does_not_hold_the_pass(void **state)
{
    struct rig *r = *state;
    struct alarm a = { .timer.fire = fired, .rig = r, .is_repeated = true };
    last_at_ns = 0;
    sg_timer_set(r->loop, &a.timer, 1);
    turn(r, -1);
    assert_int_equal(a.calls, 1);
    turn(r, -1);
    assert_int_equal(a.calls, 2);
    sg_timer_stop(r->loop, &a.timer);
}

/* ---- deferred calls ---- */

struct chore {
    struct sg_later later;
    struct rig *rig;
    unsigned order, calls;
    struct chore *defers, *cancels;
};
static unsigned chores_done;

static void do_chore(struct sg_later *later)
{
    struct chore *c = SG_OWNER(later, struct chore, later);
    c->calls++;
    c->order = ++chores_done;
    if (c->defers)
        sg_later_call(c->rig->loop, &c->defers->later);
    if (c->cancels)
        sg_later_cancel(c->rig->loop, &c->cancels->later);
}

static void deferred_calls_come_in_order_and_once(void **state)
{
    struct rig *r = *state;
    struct chore a = { .later.call = do_chore, .rig = r }, b = a, c = a;
    chores_done = 0;
    a.defers = &a;
    sg_later_call(r->loop, &a.later);
    sg_later_call(r->loop, &b.later);
    sg_later_call(r->loop, &a.later);
    sg_later_call(r->loop, &c.later);
    sg_later_cancel(r->loop, &c.later);
    turn(r, -1);
    assert_int_equal(a.order, 1);
    assert_int_equal(b.order, 2);
    assert_int_equal(c.calls, 0);
    assert_int_equal(a.calls, 1); /* its own request waits for the next pass */
    a.defers = NULL;
    turn(r, -1);
    assert_int_equal(a.calls, 2);
}

static void a_deferred_call_cancels_a_later_one_and_the_queue_goes_on(void **state)
{
    struct rig *r = *state;
    struct chore a = { .later.call = do_chore, .rig = r }, b = a, c = a;
    chores_done = 0;
    a.cancels = &c;
    sg_later_call(r->loop, &a.later);
    sg_later_call(r->loop, &b.later);
    sg_later_call(r->loop, &c.later);
    turn(r, -1);
    assert_int_equal(b.calls, 1);
    assert_int_equal(c.calls, 0);
    sg_later_call(r->loop, &c.later);
    turn(r, -1);
    assert_int_equal(c.calls, 1);
}

/* ---- signals, stop ---- */

static void note_signal(void *arg, const struct signalfd_siginfo *info)
{
    struct rig *r = arg;
    assert_int_equal(info->ssi_signo, SIGUSR1);
    sg_loop_stop(r->loop);
}

static void a_signal_arrives_on_the_loop_and_can_end_it(void **state)
{
    struct rig *r = *state;
    static const int numbers[] = { SIGUSR1 };
    assert_ok(sg_loop_signals(r->loop, numbers, 1, note_signal, r, &r->err), r->err);
    assert_int_equal(raise(SIGUSR1), 0);
    assert_ok(sg_loop_run(r->loop, &r->err), r->err);
}

#define EACH(test) cmocka_unit_test_setup_teardown(test, start, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        EACH(a_readable_descriptor_is_told_until_it_is_read),
        EACH(the_end_of_the_other_side_is_told),
        EACH(a_source_dropped_in_its_batch_is_not_called),
        EACH(a_source_used_again_gets_no_event_of_its_past),
        EACH(an_event_that_is_no_longer_wanted_is_not_delivered),
        EACH(more_sources_than_a_batch_are_all_served),
        EACH(a_timer_fires_at_or_after_its_time_and_once),
        EACH(timers_fire_in_order_whatever_was_set_moved_and_stopped),
        EACH(a_timer_stopped_by_another_does_not_fire),
        EACH(a_timer_that_sets_itself_again_does_not_hold_the_pass),
        EACH(deferred_calls_come_in_order_and_once),
        EACH(a_deferred_call_cancels_a_later_one_and_the_queue_goes_on),
        EACH(a_signal_arrives_on_the_loop_and_can_end_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
