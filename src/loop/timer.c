/* SPDX-License-Identifier: Apache-2.0 */
/* Timers: a binary heap of borrowed pointers. A timer knows its place, so that moving and stopping
 * one needs no search. */
#include <limits.h>

#include "base/auto.h"
#include "base/clock.h"
#include "loop/loop_internal.h"
#include "base/banned.h"

static void put(struct sg_loop *l, size_t i, struct sg_timer *t)
{
    l->heap[i] = t;
    t->place = i + 1;
}

static void sift_up(struct sg_loop *l, size_t i, struct sg_timer *t)
{
    while (i > 0) {
        size_t parent = (i - 1) / 2;
        if (l->heap[parent]->at_ns <= t->at_ns)
            break;
        put(l, i, l->heap[parent]);
        i = parent;
    }
    put(l, i, t);
}

static void sift_down(struct sg_loop *l, size_t i, struct sg_timer *t)
{
    for (;;) {
        size_t child = 2 * i + 1;
        if (child + 1 < l->heap_n && l->heap[child + 1]->at_ns < l->heap[child]->at_ns)
            child++;
        if (child >= l->heap_n || l->heap[child]->at_ns >= t->at_ns)
            break;
        put(l, i, l->heap[child]);
        i = child;
    }
    put(l, i, t);
}

static void settle(struct sg_loop *l, size_t i, struct sg_timer *t)
{
    if (i > 0 && l->heap[(i - 1) / 2]->at_ns > t->at_ns)
        sift_up(l, i, t);
    else
        sift_down(l, i, t);
}

static void make_room(struct sg_loop *l)
{
    if (l->heap_n < l->heap_cap)
        return;
    size_t cap = l->heap_cap ? l->heap_cap * 2 : 64;
    struct sg_timer **heap = realloc(l->heap, cap * sizeof(struct sg_timer *));
    if (!heap)
        abort(); /* as every small allocation */
    l->heap = heap;
    l->heap_cap = cap;
}

void sg_timer_set(struct sg_loop *l, struct sg_timer *t, uint64_t at_ns)
{
    t->at_ns = at_ns;
    if (t->place) {
        settle(l, t->place - 1, t);
        return;
    }
    make_room(l);
    sift_up(l, l->heap_n++, t);
}

void sg_timer_stop(struct sg_loop *l, struct sg_timer *t)
{
    if (!t->place)
        return;
    size_t i = t->place - 1;
    struct sg_timer *last = l->heap[--l->heap_n];
    t->place = 0;
    if (last != t)
        settle(l, i, last);
}

int sg_loop_timeout_ms(const struct sg_loop *l, int most)
{
    if (!l->heap_n)
        return most;
    uint64_t now = sg_now_ns(),
             at = l->heap[0]->at_ns; /* handlers took time since the pass began */
    uint64_t ms = at <= now ? 0 : (at - now) / 1000000 + ((at - now) % 1000000 != 0);
    if (most >= 0 && ms > (uint64_t)most)
        return most;
    return ms > INT_MAX ? INT_MAX : (int)ms;
}

/* At most as many as there are now: one that sets itself again waits for the next pass at the
 * latest when all others had their turn. */
void sg_loop_fire(struct sg_loop *l)
{
    for (size_t left = l->heap_n; left > 0 && l->heap_n > 0; left--) {
        struct sg_timer *t = l->heap[0];
        if (t->at_ns > l->now_ns)
            return;
        sg_timer_stop(l, t);
        t->fire(t, l->now_ns);
    }
}
