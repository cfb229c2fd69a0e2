/* SPDX-License-Identifier: Apache-2.0 */
/* The files of a frozen sandbox, on the disk as well: what is left of it when the machine takes its
 * memory. Then it is paused as one whose memory was dropped (pause_disk.c), and not lost.
 *
 * W1. Begun some time after the pause, so that a short one costs nothing. A resume that comes
 *     while it is under way waits for it; all else is as with any operation.
 * W2. The row names the snapshot when that is on the disk, and not before: until then it is a
 * stray, which the next start removes. W3. Once the sandbox has run again it is worth nothing, and
 * goes after the row that names it no more is on the disk. A power cut in between finds the sandbox
 * as it was paused. W4. What could not be done is tried again later; the pause is what it would be
 * without it. */
#include <stdio.h>

#include "base/auto.h"
#include "base/log.h"
#include "manager/life.h"
#include "tier/tier.h"

#include "base/banned.h"

#define MS UINT64_C(1000000)
static const uint64_t BUSY_NS = 1000 * MS, AGAIN_NS = 600000 * MS;

static bool is_due(const struct sg_sandbox *s)
{
    return s->state == SBX_PAUSED && s->life->has_cell && s->is_pooled && !s->paused_snapshot &&
           !s->paused_files && !s->life->is_gone && s->manager->o.pause_files_ms > 0;
}

static void look_again(struct sg_sandbox *s, uint64_t in_ns)
{
    struct sg_loop *l = s->manager->loop;
    sg_timer_set(l, &s->life->keep, sg_loop_now(l) + in_ns);
}

/* ---- a snapshot that nobody needs any more ---- */

struct dropping {
    struct sg_manager *m;
    char *id; /* owned */
};

static void dropped(void *arg, const struct sg_err *err)
{
    struct dropping *d = arg;
    if (!err) /* else its row may name it still: the next start decides */
        sg_tier_forget(d->m->tier, d->id, NULL, NULL);
    free(d->id);
    free(d);
}

void sg_pause_keep_drop(struct sg_sandbox *s)
{
    if (!s->paused_files)
        return;
    struct dropping *d = sg_new(struct dropping);
    d->m = s->manager;
    d->id = sg_take_ptr(&s->paused_files);
    sg_row_put(s, s->life->row_state, SG_STORE_FULL, sg_note_done,
               sg_note_new(s->manager, dropped, d));
}

/* ---- keeping ---- */

/* A resume has waited, unless the end is nearer. */
static void over(struct sg_sandbox *s)
{
    struct sg_life *life = s->life;
    struct sg_err err = { 0 };
    const bool wants_resume = life->wants_resume;
    life->wants_resume = false;
    if (wants_resume && !life->has_died && !life->wants_end) {
        life->op = OP_NONE;
        sg_resume_begin(s);
        return;
    }
    if (wants_resume)
        (void)sg_fail(&err, SG_CONFLICT, "the sandbox has ended");
    sg_life_end(s, wants_resume ? &err : NULL);
}

static void give_up(struct sg_sandbox *s, const struct sg_err *err)
{
    sg_log(SG_LOG_WARN, "the files of a paused sandbox are not on the disk",
           SG_KV("sandbox", s->id.s), SG_KV("error", err->msg));
    look_again(s, AGAIN_NS);
    over(s);
}

static void written(struct sg_sandbox *s)
{
    struct sg_err err;
    if (!sg_life_failed(s, &err)) {
        over(s);
        return;
    }
    sg_pause_keep_drop(s);
    give_up(s, &err);
}

static void snapped(struct sg_sandbox *s)
{
    struct sg_err err;
    sg_auto_free char *id = sg_take_ptr(&s->life->keeping);
    if (sg_life_failed(s, &err)) {
        give_up(s, &err);
        return;
    }
    s->paused_files = sg_take_ptr(&id);
    sg_life_expect(s, 1, written);
    sg_life_put_row(s, SBX_PAUSED, SG_STORE_FULL);
}

static void fired(struct sg_timer *t, uint64_t now_ns)
{
    (void)now_ns;
    struct sg_life *life = SG_OWNER(t, struct sg_life, keep);
    struct sg_sandbox *s = life->s;
    if (!is_due(s))
        return;
    if (life->op != OP_NONE || life->has_died || life->wants_end) {
        look_again(s, BUSY_NS);
        return;
    }
    const struct sg_id id = sg_id_new('t');
    sg_life_begin(s, OP_KEEP);
    life->keeping = sg_strdup(id.s);
    sg_life_expect(s, 1, snapped);
    sg_tier_snapshot(s->manager->tier, s->id.s, id.s, SG_L_STAY_FROZEN, sg_life_tier_answer, s);
}

void sg_pause_keep_update(struct sg_sandbox *s)
{
    if (!is_due(s)) {
        sg_timer_stop(s->manager->loop, &s->life->keep);
    } else if (!sg_timer_is_set(&s->life->keep)) {
        s->life->keep.fire = fired;
        look_again(s, s->manager->o.pause_files_ms * MS);
    }
}

/* ---- its memory is lost ---- */

/* Nobody waits for the row: the one that is there names the same files, and leads here again. */
void sg_pause_keep_fall(struct sg_sandbox *s, const char *cause)
{
    sg_log(SG_LOG_WARN, "a paused sandbox has lost its memory, and is paused with its files",
           SG_KV("sandbox", s->id.s), SG_KV("cause", cause));
    s->paused_snapshot = sg_take_ptr(&s->paused_files);
    sg_row_put(s, SBX_PAUSED, SG_STORE_FULL, NULL, NULL);
    sg_life_event(s, "sandbox.paused", "memory", "lost");
}

static void cell_gone(struct sg_sandbox *s)
{
    struct sg_err stuck;
    (void)sg_life_failed(s, &stuck); /* what is left of it is the reconciler's */
    sg_pause_keep_fall(s, s->life->death_cause);
    sg_life_end(s, NULL);
}

bool sg_pause_keep_died(struct sg_sandbox *s)
{
    if (s->state != SBX_PAUSED || !s->paused_files)
        return false;
    sg_life_begin(s, OP_DEATH);
    sg_cell_end(s, cell_gone);
    return true;
}
