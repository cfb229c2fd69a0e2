/* SPDX-License-Identifier: Apache-2.0 */
/* Volumes: subvolumes of the storage pool, and their mounts in cells. Making, removing and syncing
 * wait for the disk, so hands do them. */
#include <fcntl.h>
#include <stdio.h>

#include "launcher/holder.h"
#include "launcher/launcher.h"
#include "launcher/mount.h"
#include "launcher/serve.h"
#include "base/auto.h"
#include "base/str.h"
#include "base/banned.h"

/* Who waits for a hand. */
struct asking {
    struct sg_launcher *launcher;
    uint32_t id, epoch;
};

static void answered(void *arg, uint64_t value, const struct sg_err *err)
{
    sg_auto_free struct asking *a = arg;
    struct sg_launcher *l = a->launcher;
    (void)value;
    if (!l->conn.has_hello || l->conn.epoch != a->epoch) /* it asks anew, if it wants to */
        return;
    if (err)
        sg_conn_fail(l, a->id, err);
    else
        sg_conn_ok(l, a->id);
}

static struct asking *asking(struct sg_launcher *l, const struct sg_msg *m)
{
    struct asking *a = sg_new(struct asking);
    *a = (struct asking) { l, m->id, l->conn.epoch };
    return a;
}

/* One that is there already was made by somebody who did not live to hear it. */
static int make(struct sg_launcher *l, const struct sg_msg *m, struct sg_err *err)
{
    const char *name = m->l_volume.volume.p;
    if (sg_vault_has_room(&l->vault, err) < 0)
        return -1;
    if (sg_vault_has(&l->vault, SG_VAULT_VOLUME, name))
        return sg_fail(err, SG_CONFLICT, "volume %s is there", sg_quote(name).s);
    (void)sg_vault_make_volume(&l->vault, name, m->l_volume.bytes, answered, asking(l, m));
    return 0;
}

static int unmake(struct sg_launcher *l, const struct sg_msg *m, struct sg_err *err)
{
    (void)err;
    (void)sg_vault_remove(&l->vault, SG_VAULT_VOLUME, m->l_volume.volume.p, answered, asking(l, m));
    return 0;
}

static int use(struct sg_launcher *l, const struct sg_msg *m, struct sg_err *err)
{
    struct sg_msg r = { .type = SG_MSG_L_STATED, .id = m->id };
    if (sg_vault_use(&l->vault, SG_VAULT_VOLUME, m->l_volume.volume.p, &r.l_stated.disk_used_bytes,
                     &r.l_stated.disk_bytes, err) < 0)
        return -1;
    sg_conn_send(l, &r, -1);
    return 0;
}

/* SG_CONFLICT: more is stored than that. */
static int limit(struct sg_launcher *l, const struct sg_msg *m, struct sg_err *err)
{
    if (sg_vault_limit(&l->vault, SG_VAULT_VOLUME, m->l_volume.volume.p, m->l_volume.bytes, err) <
        0)
        return -1;
    sg_conn_ok(l, m->id);
    return 0;
}

static struct sg_box *claimed(const struct sg_launcher *l, const char *sandbox, struct sg_err *err)
{
    struct sg_box *b = sg_map_find(&l->by_id, sandbox);
    if (b && b->state == SG_BOX_CLAIMED)
        return b;
    (void)sg_fail(err, SG_NOT_FOUND, "no sandbox %s", sg_quote(sandbox).s);
    return NULL;
}

static int mount_it(struct sg_launcher *l, const struct sg_msg *m, struct sg_err *err)
{
    const struct sg_msg_l_mount *q = &m->l_mount;
    const struct sg_box *b = claimed(l, q->sandbox.p, err);
    if (!b)
        return -1;
    if (b->kept.is_nested)
        return sg_fail(err, SG_UNSUPPORTED, "volumes of tier %s come with its create",
                       sg_tiers[b->record.tier].name);
    sg_auto_fd dir = sg_vault_open_part(&l->vault, SG_VAULT_VOLUME, q->volume.p, err);
    if (dir < 0 || sg_mount_into(&b->kept, dir, q->path.p, q->flags & SG_L_READ_ONLY, err) < 0)
        return -1;
    sg_conn_ok(l, m->id);
    return 0;
}

/* ---- a cell that sees its own writable layer ---- */

struct unfolding {
    struct sg_launcher *launcher;
    uint32_t id, epoch;
    char sandbox[SG_ID_LEN + 1];
};

static int show_layer(const struct sg_launcher *l, const char *sandbox, struct sg_err *err)
{
    const struct sg_box *b = claimed(l, sandbox, err);
    sg_auto_fd layer = b ? sg_vault_open_part(&l->vault, SG_VAULT_CELL, b->record.disk, err) : -1;
    if (layer < 0)
        return -1;
    sg_auto_fd up = openat(layer, "up", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (up < 0)
        return sg_fail_sys(err, "open a writable layer");
    return sg_mount_into(&b->kept, up, SG_CTL_LAYER, true, err);
}

static void unfolded(void *arg, uint64_t value, const struct sg_err *err)
{
    sg_auto_free struct unfolding *u = arg;
    struct sg_launcher *l = u->launcher;
    struct sg_err own = { 0 };
    (void)value;
    if (!l->conn.has_hello || l->conn.epoch != u->epoch)
        return;
    if (!err && show_layer(l, u->sandbox, &own) < 0)
        err = &own;
    if (err)
        sg_conn_fail(l, u->id, err);
    else
        sg_conn_ok(l, u->id);
}

static int unfold(struct sg_launcher *l, const struct sg_msg *m, struct sg_err *err)
{
    const char *sandbox = m->l_name.sandbox.p;
    const struct sg_box *b = claimed(l, sandbox, err);
    if (!b)
        return -1;
    if (!b->record.disk[0] || b->kept.is_nested || b->kept.is_foreign)
        return sg_fail(err, SG_UNSUPPORTED, "the sandbox has no layer in the storage pool");
    struct unfolding *u = sg_new(struct unfolding);
    *u = (struct unfolding) { .launcher = l, .id = m->id, .epoch = l->conn.epoch };
    (void)snprintf(u->sandbox, sizeof u->sandbox, "%s", sandbox);
    (void)sg_vault_unfold(&l->vault, b->record.disk, unfolded, u);
    return 0;
}

static int sync_it(struct sg_launcher *l, const struct sg_msg *m, struct sg_err *err)
{
    (void)err;
    (void)sg_vault_sync(&l->vault, answered, asking(l, m));
    return 0;
}

int sg_serve_volume(struct sg_launcher *l, const struct sg_msg *m, struct sg_err *err)
{
    static int (*const rows[SG_MSG_TYPE_COUNT])(struct sg_launcher * l, const struct sg_msg *m,
                                                struct sg_err *err) = {
        [SG_MSG_L_VOLUME_MAKE] = make, [SG_MSG_L_VOLUME_REMOVE] = unmake,
        [SG_MSG_L_VOLUME_USE] = use,   [SG_MSG_L_MOUNT] = mount_it,
        [SG_MSG_L_SYNC] = sync_it,     [SG_MSG_L_VOLUME_LIMIT] = limit,
        [SG_MSG_L_UNFOLD] = unfold,
    };
    if (!sg_vault_is_open(&l->vault))
        return sg_fail(err, SG_UNSUPPORTED, "this server has no storage pool: %s", l->vault.why);
    return rows[m->type](l, m, err);
}
