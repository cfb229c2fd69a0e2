/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of a frozen sandbox: some time after the pause the launcher is asked to have the
 * kernel take it. It comes back page by page when the sandbox runs again.
 *
 * V1. It is no operation: a resume does not wait for it, it is given up for that.
 * V2. After the files (pause_keep.c), where those are to go to the disk: what is written to it need
 *     not be written again. V3. Use is looked at before and after it, so that GiB-seconds are those
 * of memory that was there. */
#include "base/log.h"
#include "manager/life.h"
#include "tier/tier.h"

#include "base/banned.h"

#define MS UINT64_C(1000000)
static const uint64_t BUSY_NS = 1000 * MS;

uint64_t sg_manager_reclaimed(const struct sg_sandbox *s)
{
    return s->life->reclaimed_bytes;
}

static bool is_due(const struct sg_sandbox *s)
{
    const struct sg_manager *m = s->manager;
    return s->state == SBX_PAUSED && s->life->has_cell && !s->paused_snapshot &&
           !s->life->is_relieved && !s->life->is_gone && m->o.pause_memory_ms > 0 &&
           sg_tier_flags(m->tier) & SG_L_RECLAIMS;
}

static void look_again(struct sg_sandbox *s, uint64_t in_ns)
{
    struct sg_loop *l = s->manager->loop;
    sg_timer_set(l, &s->life->relieve, sg_loop_now(l) + in_ns);
}

/* It was resumed or has ended since: then nothing is to be done. */
static void begun(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    struct sg_sandbox *s = arg;
    (void)p;
    if (err && err->kind != SG_CONFLICT && err->kind != SG_NOT_FOUND && !s->manager->is_ending)
        sg_log(SG_LOG_WARN, "memory of a paused sandbox stays where it is",
               SG_KV("sandbox", s->id.s), SG_KV("error", err->msg));
    sg_life_drop(s);
}

static void fired(struct sg_timer *t, uint64_t now_ns)
{
    (void)now_ns;
    struct sg_life *life = SG_OWNER(t, struct sg_life, relieve);
    struct sg_sandbox *s = life->s;
    if (!is_due(s))
        return;
    if (life->op != OP_NONE || life->has_died || life->wants_end) {
        look_again(s, BUSY_NS);
        return;
    }
    life->is_relieved = true;
    sg_usage_look(s);
    sg_life_hold(s);
    sg_tier_reclaim(s->manager->tier, s->id.s, begun, s);
}

void sg_pause_memory_update(struct sg_sandbox *s)
{
    struct sg_life *life = s->life;
    if (s->state != SBX_PAUSED) {
        life->is_relieved = false;
        life->reclaimed_bytes = 0;
    }
    if (!is_due(s)) {
        sg_timer_stop(s->manager->loop, &life->relieve);
    } else if (!sg_timer_is_set(&life->relieve)) {
        life->relieve.fire = fired;
        look_again(s, s->manager->o.pause_memory_ms * MS);
    }
}

void sg_pause_memory_news(void *manager, const struct sg_msg_l_reclaimed *r)
{
    struct sg_manager *m = manager;
    struct sg_sandbox *s = sg_map_find(&m->sandboxes, r->sandbox.p);
    m->metrics.reclaimed_bytes += r->bytes;
    if (!s || s->state != SBX_PAUSED)
        return;
    s->life->reclaimed_bytes += r->bytes;
    sg_usage_look(s);
}
