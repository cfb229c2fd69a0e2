/* SPDX-License-Identifier: Apache-2.0 */
/* What sandboxes used, over their whole life: samples, asked of the launcher every few seconds.
 *
 * A sandbox has a bounded number of them. When its place is full every second one goes, and from
 * then on they are twice as far apart: so the oldest is always from its beginning, and a sandbox
 * that lives for a month costs no more than one that lives for an hour. Many sandboxes share a
 * bounded number of questions a second, and are asked less often each. They are in memory only: a
 * daemon that starts anew begins anew. */
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "manager/life.h"
#include "tier/tier.h"

#include "base/banned.h"

#define TICK_NS     UINT64_C(1000000000)
#define DISTANCE_NS UINT64_C(5000000000)
#define FIRST_NS    UINT64_C(2000000000) /* most sandboxes are gone by then, and cost nothing */
enum { MOST = 240, ASKED_A_TICK = 20 };

struct sg_samples {
    struct sg_sample *v; /* owned: MOST of them, once there is one */
    size_t n;
    uint64_t distance_ns, due_ns;
    bool is_asked;
};

const struct sg_sample *sg_manager_samples(const struct sg_sandbox *s, size_t *ret_n)
{
    const struct sg_samples *x = s->life->samples;
    *ret_n = x ? x->n : 0;
    return x ? x->v : NULL;
}

void sg_samples_free(struct sg_sandbox *s)
{
    struct sg_samples *x = sg_take_ptr(&s->life->samples);
    if (x)
        free(x->v);
    free(x);
}

static void thin_out(struct sg_samples *x)
{
    for (size_t i = 0; i < x->n / 2; i++)
        x->v[i] = x->v[2 * i];
    x->n /= 2;
    x->distance_ns *= 2;
}

static void answered(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    struct sg_sandbox *s = arg;
    struct sg_samples *x = s->life->samples;

    if (x)
        x->is_asked = false;
    if (x && !err && p && !s->manager->is_ending) {
        const struct sg_msg_l_stated *m = &p->msg.l_stated;
        if (!x->v)
            x->v = sg_alloc(MOST * sizeof *x->v);
        if (x->n == MOST)
            thin_out(x);
        x->v[x->n++] = (struct sg_sample) { .at_ms = sg_manager_unix_ms(),
                                            .cpu_ns = m->cpu_ns,
                                            .mem_bytes = m->mem_bytes,
                                            .mem_limit_bytes = m->mem_limit_bytes,
                                            .disk_bytes = m->disk_bytes,
                                            .disk_used_bytes = m->disk_used_bytes };
    }
    sg_life_drop(s);
}

static struct sg_samples *samples_of(struct sg_sandbox *s, uint64_t now_ns)
{
    if (!s->life->samples) {
        s->life->samples = sg_new(struct sg_samples);
        s->life->samples->distance_ns = DISTANCE_NS;
        s->life->samples->due_ns = now_ns + FIRST_NS;
    }
    return s->life->samples;
}

static void tick(struct sg_timer *t, uint64_t now_ns)
{
    struct sg_manager *m = SG_OWNER(t, struct sg_manager, samples);
    /* As many as there were a moment ago, each once before any a second time. */
    const uint64_t turn_ns = m->sampled / ASKED_A_TICK * TICK_NS;
    unsigned asked = 0;

    m->sampled = 0;
    for (struct sg_sandbox *s = m->oldest; s; s = s->newer) {
        if (s->state != SBX_RUNNING || !s->life->has_cell || s->life->op != OP_NONE ||
            s->is_standby)
            continue;
        struct sg_samples *x = samples_of(s, now_ns);
        m->sampled++;
        if (x->is_asked || now_ns < x->due_ns || asked == ASKED_A_TICK)
            continue;
        asked++;
        x->is_asked = true;
        x->due_ns = now_ns + (x->distance_ns > turn_ns ? x->distance_ns : turn_ns);
        sg_life_hold(s);
        sg_tier_stats(m->tier, s->id.s, answered, s);
    }
    sg_timer_set(m->loop, t, now_ns + TICK_NS);
}

void sg_samples_start(struct sg_manager *m)
{
    m->samples.fire = tick;
    sg_timer_set(m->loop, &m->samples, sg_loop_now(m->loop) + TICK_NS);
}
