/* SPDX-License-Identifier: Apache-2.0 */
/* A pause that keeps the files and nothing else: a snapshot, and then the cell ends. It survives
 * what a frozen sandbox does not, the end of the machine's power. A resume makes a cell of the
 * snapshot, which goes when the row that says "running" is on the disk.
 *
 * Q1. The row that says "pausing" names the snapshot before there is one; the row that says
 * "paused" is on the disk before the cell ends. Between the two the sandbox stays frozen, so that
 * nothing is written that would not be kept. Q2. A resume that fails leaves it paused, with its
 * snapshot. */
#include "base/auto.h"
#include "manager/life.h"
#include "manager/volume.h"
#include "tier/tier.h"

#include "base/banned.h"

#define HELLO_NS 15000000000u /* until init must have answered */

static void forget(struct sg_sandbox *s)
{
    if (s->paused_snapshot)
        sg_tier_forget(s->manager->tier, s->paused_snapshot, NULL, NULL);
    free(sg_take_ptr(&s->paused_snapshot));
}

void sg_pause_disk_forget(struct sg_sandbox *s)
{
    forget(s);
    if (s->paused_files)
        sg_tier_forget(s->manager->tier, s->paused_files, NULL, NULL);
    free(sg_take_ptr(&s->paused_files));
}

/* ---- pause ---- */

static void failed_over(struct sg_sandbox *s)
{
    struct sg_err ignored;
    (void)sg_life_failed(s, &ignored); /* it may never have been frozen */
    forget(s);
    sg_life_must(s, EV_FAIL);
    sg_row_put(s, s->state, SG_STORE_NORMAL, NULL, NULL);
    sg_life_end(s, &s->life->why);
}

static void pause_failed(struct sg_sandbox *s, const struct sg_err *err)
{
    s->life->why = *err;
    sg_life_expect(s, 1, failed_over);
    sg_tier_thaw(s->manager->tier, s->id.s, sg_life_tier_answer, s);
}

static void cell_gone(struct sg_sandbox *s)
{
    struct sg_err stuck;
    (void)sg_life_failed(s, &stuck); /* what is left of it is the reconciler's */
    sg_life_event(s, "sandbox.paused", "memory", "dropped");
    sg_life_end(s, NULL);
}

static void paused_written(struct sg_sandbox *s)
{
    struct sg_err err;
    if (sg_life_failed(s, &err)) {
        pause_failed(s, &err);
        return;
    }
    sg_life_must(s, EV_PAUSED);
    sg_cell_end(s, cell_gone);
}

static void snapped(struct sg_sandbox *s)
{
    struct sg_err err;
    if (sg_life_failed(s, &err)) {
        pause_failed(s, &err);
        return;
    }
    sg_life_expect(s, 1, paused_written);
    sg_life_put_row(s, SBX_PAUSED, SG_STORE_FULL);
}

static void pausing_written(struct sg_sandbox *s)
{
    struct sg_err err;
    if (sg_life_failed(s, &err)) {
        pause_failed(s, &err);
        return;
    }
    sg_life_expect(s, 1, snapped);
    sg_tier_snapshot(s->manager->tier, s->id.s, s->paused_snapshot, SG_L_STAY_FROZEN,
                     sg_life_tier_answer, s);
}

void sg_pause_disk_begin(struct sg_sandbox *s)
{
    const struct sg_id id = sg_id_new('t');
    sg_life_begin(s, OP_PAUSE);
    sg_life_must(s, EV_PAUSE);
    free(s->paused_snapshot);
    s->paused_snapshot = sg_strdup(id.s);
    sg_life_expect(s, 1, pausing_written);
    sg_life_put_row(s, SBX_PAUSING, SG_STORE_NORMAL);
}

/* ---- resume ---- */

static void paused_again(struct sg_sandbox *s)
{
    struct sg_err ignored;
    struct sg_life *life = s->life;
    (void)sg_life_failed(s, &ignored);
    if (!s->paused_snapshot)
        s->paused_snapshot = sg_take_ptr(&life->snapshot_before);
    sg_life_must(s, EV_FAIL);
    sg_row_put(s, SBX_PAUSED, SG_STORE_FULL, NULL, NULL);
    sg_life_end(s, &life->why);
}

static void resume_failed(struct sg_sandbox *s, const struct sg_err *err)
{
    s->life->why = *err;
    sg_timer_stop(s->manager->loop, &s->life->clock);
    sg_cell_end(s, paused_again);
}

static void running(struct sg_sandbox *s)
{
    struct sg_err err;
    struct sg_life *life = s->life;
    sg_timer_stop(s->manager->loop, &life->clock);
    if (sg_life_failed(s, &err)) {
        resume_failed(s, &err);
        return;
    }
    sg_tier_forget(s->manager->tier, life->snapshot_before, NULL, NULL);
    free(sg_take_ptr(&life->snapshot_before));
    if (s->expires_ms == 0 || s->expires_ms <= sg_manager_unix_ms())
        sg_expiry_renew(s);
    sg_life_must(s, EV_RESUMED);
    sg_sandbox_event(s, "sandbox.resumed", NULL);
    sg_life_end(s, NULL);
}

static void hello_late(struct sg_timer *t, uint64_t now_ns)
{
    (void)now_ns;
    struct sg_life *life = SG_OWNER(t, struct sg_life, clock);
    if (life->err.kind == SG_OK)
        (void)sg_fail(&life->err, SG_TIMEOUT, "the sandbox did not answer after its resume");
    sg_cell_cut(life->s);
}

/* A fresh cell has none of its volumes. */
static void mounted(struct sg_sandbox *s)
{
    struct sg_err err;
    if (sg_life_failed(s, &err)) {
        resume_failed(s, &err);
        return;
    }
    sg_life_expect(s, 1, running);
    sg_life_put_row(s, SBX_RUNNING, SG_STORE_FULL);
}

static void greeted(struct sg_sandbox *s)
{
    struct sg_err err;
    if (sg_life_failed(s, &err))
        resume_failed(s, &err);
    else
        sg_mounts_begin(s, mounted);
}

static void cell_made(struct sg_sandbox *s)
{
    struct sg_life *life = s->life;
    struct sg_loop *l = s->manager->loop;
    struct sg_err err;
    if (sg_life_failed(s, &err)) {
        resume_failed(s, &err);
        return;
    }
    life->snapshot_before = sg_take_ptr(&s->paused_snapshot);
    s->started_ms = sg_manager_unix_ms();
    sg_peer_hold(s->peer, false); /* it is no frozen one that answers late */
    life->mount_at = 0;
    life->clock.fire = hello_late;
    sg_timer_set(l, &life->clock, sg_loop_now(l) + HELLO_NS);
    if (s->mounts.n) {
        sg_life_expect(s, 1 + sg_net_answers(s), greeted);
    } else {
        sg_life_expect(s, 2 + sg_net_answers(s), running);
        sg_life_put_row(s, SBX_RUNNING, SG_STORE_FULL);
    }
    if (sg_cell_hello(s, sg_life_tier_answer, &err) < 0)
        sg_life_got(s, &err);
    sg_net_open(s);
}

static void launcher_answered(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    struct sg_sandbox *s = arg;
    struct sg_err own = { 0 };
    if (p && sg_cell_connect(s, p, &own) < 0)
        err = &own;
    sg_life_got(s, err);
}

static void resuming_written(struct sg_sandbox *s)
{
    struct sg_tier_limits limits = sg_cell_limits(&s->limits);
    char *mounts[SG_MOUNTS_TEXTS];
    struct sg_err err;
    enum sg_l_tier tier;
    if (sg_life_failed(s, &err) || sg_rules_tier(s->manager, s->wall, &tier, &err) < 0) {
        s->life->why = err;
        paused_again(s);
        return;
    }
    sg_life_expect(s, 1, cell_made);
    sg_tier_create(s->manager->tier, tier, s->id.s, s->paused_snapshot, &limits,
                   sg_mounts_ahead(s, mounts), launcher_answered, s);
}

void sg_resume_disk_begin(struct sg_sandbox *s)
{
    sg_life_begin(s, OP_RESUME);
    sg_life_must(s, EV_RESUME);
    sg_life_expect(s, 1, resuming_written);
    sg_life_put_row(s, SBX_RESUMING, SG_STORE_NORMAL);
}
