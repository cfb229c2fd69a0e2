/* SPDX-License-Identifier: Apache-2.0 */
/* A snapshot of a box, in steps:
 *
 *     sync       what was written goes to the disk while everything still runs
 *     freeze     unless it is frozen already
 *     snapshot   little is left to be written; on the disk when it is made
 *     thaw       unless it was frozen, or is to stay so
 *
 * P1. Whatever fails after a freeze of ours thaws.
 * P2. One at a time. Where the box ends in between, or whoever asked is gone, a snapshot that was
 *     made all the same is removed. */
#include <stdio.h>

#include "base/auto.h"
#include "base/clock.h"
#include "launcher/launcher.h"
#include "launcher/serve.h"
#include "base/banned.h"

static void thaw(struct sg_box *b)
{
    if (!b->snapshot.was_frozen && b->snapshot.frozen_ns)
        (void)sg_kept_thaw(&b->kept, NULL);
}

static void fail(struct sg_box *b, const struct sg_err *err)
{
    thaw(b);
    b->snapshot.is_on = false;
    sg_tmpl_unpin_making(b->tmpl, b->snapshot.name);
    sg_conn_fail(b->launcher, b->snapshot.id, err);
}

static void made(void *arg, uint64_t bytes, const struct sg_err *err)
{
    struct sg_box *b = arg;
    struct sg_box_snapshot *s = &b->snapshot;
    b->errand = NULL;
    if (err) {
        fail(b, err);
        return;
    }
    if (!s->stays_frozen)
        thaw(b);
    s->is_on = false;
    sg_tmpl_pin_made(b->tmpl, s->name);
    struct sg_msg r = { .type = SG_MSG_L_SNAPPED, .id = s->id };
    r.l_snapped.bytes = bytes;
    r.l_snapped.frozen_ns = s->was_frozen ? 0 : sg_now_ns() - s->frozen_ns;
    sg_conn_send(b->launcher, &r, -1);
}

void sg_box_snapshot_frozen(struct sg_box *b, const struct sg_err *err)
{
    if (err) {
        fail(b, err);
        return;
    }
    b->errand = sg_vault_snapshot(&b->launcher->vault, b->record.disk, b->snapshot.name, made, b);
}

static void synced(void *arg, uint64_t value, const struct sg_err *err)
{
    struct sg_box *b = arg;
    (void)value;
    b->errand = NULL;
    if (err) {
        fail(b, err);
        return;
    }
    b->snapshot.was_frozen = sg_kept_is_frozen(&b->kept);
    b->snapshot.frozen_ns = sg_now_ns();
    if (b->snapshot.was_frozen)
        sg_box_snapshot_frozen(b, NULL);
    else
        sg_box_freeze_for_snapshot(b);
}

static int check(const struct sg_box *b, const char *name, struct sg_err *err)
{
    const struct sg_launcher *l = b->launcher;
    if (!b->record.disk[0] || !sg_vault_is_open(&l->vault))
        return sg_fail(err, SG_UNSUPPORTED,
                       "the sandbox is in memory (storage: tmpfs): there are no snapshots of it");
    if (!l->can_freeze)
        return sg_fail(err, SG_UNSUPPORTED, "this host has no freezer for sandboxes");
    if (b->snapshot.is_on || b->is_freezing)
        return sg_fail(err, SG_CONFLICT, "the sandbox is being frozen already");
    if (sg_vault_has(&l->vault, SG_VAULT_SNAP, name))
        return sg_fail(err, SG_CONFLICT, "there is a snapshot %s already", name);
    return sg_vault_has_room(&l->vault, err);
}

void sg_box_snapshot(struct sg_box *b, uint32_t id, const char *name, bool stays_frozen)
{
    struct sg_err err = { 0 };
    if (check(b, name, &err) < 0 || sg_tmpl_pin_making(b->tmpl, name, &err) < 0) {
        sg_conn_fail(b->launcher, id, &err);
        return;
    }
    b->snapshot =
        (struct sg_box_snapshot) { .id = id, .is_on = true, .stays_frozen = stays_frozen };
    (void)snprintf(b->snapshot.name, sizeof b->snapshot.name, "%s", name);
    b->errand = sg_vault_sync(&b->launcher->vault, synced, b);
}

void sg_box_snapshot_drop(struct sg_box *b, const struct sg_err *why)
{
    if (b->errand) {
        sg_errand_forget(sg_take_ptr(&b->errand));
        sg_vault_remove_made(&b->launcher->vault, SG_VAULT_SNAP, b->snapshot.name);
    }
    if (b->is_freezing) {
        b->is_freezing = false;
        sg_timer_stop(b->launcher->loop, &b->timer);
    }
    thaw(b);
    b->snapshot.is_on = false;
    sg_tmpl_unpin_making(b->tmpl, b->snapshot.name);
    if (why)
        sg_conn_fail(b->launcher, b->snapshot.id, why);
}
