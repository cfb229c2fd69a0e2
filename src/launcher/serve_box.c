/* SPDX-License-Identifier: Apache-2.0 */
/* The holder of boxes (holder.h): what the daemon asks about a sandbox that is one. */
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/log.h"
#include "base/str.h"
#include "launcher/holder.h"
#include "launcher/launcher.h"
#include "launcher/serve.h"
#include "base/banned.h"

static struct sg_box *find(const struct sg_launcher *l, const char *sandbox, struct sg_err *err)
{
    struct sg_box *b = sg_map_find(&l->by_id, sandbox);
    if (!b)
        sg_fail(err, SG_NOT_FOUND, "no sandbox %s here", sg_quote(sandbox).s);
    return b;
}

/* ---- create and adopt ---- */

static int answer_cell(struct sg_launcher *l, uint32_t id, const struct sg_box *b, int fd,
                       struct sg_err *err)
{
    sg_auto_buf env;
    sg_buf_init(&env, SG_CTL_MAX_BYTES);
    struct sg_msg r = { .type = SG_MSG_L_CELL, .id = id };
    if (sg_tmpl_fill_cell(b->tmpl, &env, &r.l_cell, err) < 0)
        return -1;
    r.l_cell.flags = sg_serve_flags(l) | (b->was_parked ? SG_L_PARKED : 0u) |
                     (b->record.disk[0] ? SG_L_POOL : 0u);
    r.l_cell.missing = b->kept.cgroup.missing;
    r.l_cell.pid = (uint32_t)b->kept.pid;
    r.l_cell.disk_bytes = sg_limits_disk_bytes(&b->kept.limits);
    sg_conn_send(l, &r, fd);
    return 0;
}

static int hand_over(struct sg_launcher *l, const struct sg_wish *w, struct sg_box *b,
                     struct sg_err *err)
{
    if (sg_box_claim(b, w->sandbox, &w->limits, err) < 0)
        return -1;
    if (answer_cell(l, w->id, b, b->ctl.fd, err) < 0) {
        sg_box_end(b);
        return -1;
    }
    sg_io_drop(l->loop, &b->ctl); /* theirs alone: init notices when they are gone */
    return 0;
}

void sg_serve_wish(struct sg_launcher *l, const struct sg_wish *w, struct sg_box *b,
                   const struct sg_err *err)
{
    struct sg_err own = { 0 };
    if (b && hand_over(l, w, b, &own) == 0)
        return;
    const struct sg_err *why = b ? &own : err;
    sg_log(SG_LOG_WARN, "a sandbox cannot be made", SG_KV("sandbox", w->sandbox),
           SG_KV("error", why->msg));
    sg_conn_fail(l, w->id, why);
}

static int create(struct sg_launcher *l, const struct sg_msg *m, struct sg_err *err)
{
    const struct sg_msg_l_create *c = &m->l_create;
    if (sg_map_find(&l->by_id, c->sandbox.p) || sg_maker_has_wish(l, c->sandbox.p))
        return sg_fail(err, SG_CONFLICT, "there is a sandbox %s already", sg_quote(c->sandbox.p).s);
    if (l->set.max_cells && l->claimed_count + l->maker.wish_count >= l->set.max_cells)
        return sg_fail(err, SG_EXHAUSTED, "there are %u sandboxes already", l->claimed_count);
    struct sg_wish w = {
        .id = m->id, .limits = { c->mem_bytes, c->cpu_milli, c->pids, c->disk_bytes, 0, false }
    };
    (void)snprintf(w.sandbox, sizeof w.sandbox, "%s", c->sandbox.p);
    struct sg_box *b;
    struct sg_pool *p;
    if (sg_vault_is_open(&l->vault) && sg_vault_has_room(&l->vault, err) < 0)
        return -1;
    if (sg_pool_take(l, c, &b, &p, err) < 0)
        return -1;
    if (b)
        return hand_over(l, &w, b, err);
    sg_pool_wait(p, &w);
    return 0;
}

static int adopt(struct sg_launcher *l, const struct sg_msg *m, struct sg_err *err)
{
    const struct sg_box *b = find(l, m->l_name.sandbox.p, err);
    sg_auto_fd fd = b ? sg_box_connect(b, err) : -1;
    return fd < 0 ? -1 : answer_cell(l, m->id, b, fd, err);
}

/* ---- one that is there ---- */

/* One that is ending by itself is waited for, too: who asks wants it gone. */
static struct sg_box *find_ending(const struct sg_launcher *l, const char *sandbox)
{
    for (struct sg_box *b = l->boxes; b; b = b->all_next)
        if (b->state == SG_BOX_ENDING && strcmp(b->record.sandbox, sandbox) == 0)
            return b;
    return NULL;
}

static int destroy(struct sg_launcher *l, const struct sg_msg *m, struct sg_err *err)
{
    const char *sandbox = m->l_name.sandbox.p;
    uint32_t creator;
    if (sg_maker_forget(l, sandbox, &creator)) {
        struct sg_err why = { 0 };
        sg_fail(&why, SG_CONFLICT, "the sandbox was destroyed before it was made");
        sg_conn_fail(l, creator, &why);
        sg_conn_ok(l, m->id);
        return 0;
    }
    struct sg_box *b = sg_map_find(&l->by_id, sandbox);
    if (!b)
        b = find_ending(l, sandbox);
    if (!b)
        return sg_fail(err, SG_NOT_FOUND, "no sandbox %s here", sg_quote(sandbox).s);
    sg_box_await_end(b, m->id);
    sg_box_end(b);
    return 0;
}

static int freeze(struct sg_launcher *l, const struct sg_msg *m, struct sg_err *err)
{
    struct sg_box *b = find(l, m->l_name.sandbox.p, err);
    if (!b)
        return -1;
    sg_box_freeze(b, m->id);
    return 0;
}

static int thaw(struct sg_launcher *l, const struct sg_msg *m, struct sg_err *err)
{
    struct sg_box *b = find(l, m->l_name.sandbox.p, err);
    if (!b)
        return -1;
    sg_reclaim_stop(b);
    if (sg_kept_thaw(&b->kept, err) < 0)
        return -1;
    sg_conn_ok(l, m->id);
    return 0;
}

/* How it went is told when it is over. */
static int reclaim(struct sg_launcher *l, const struct sg_msg *m, struct sg_err *err)
{
    struct sg_box *b = find(l, m->l_name.sandbox.p, err);
    if (!b || sg_reclaim_box(b, err) < 0)
        return -1;
    sg_conn_ok(l, m->id);
    return 0;
}

static int limit(struct sg_launcher *l, const struct sg_msg *m, struct sg_err *err)
{
    const struct sg_msg_l_create *c = &m->l_create;
    const struct sg_limits limits = {
        c->mem_bytes, c->cpu_milli, c->pids, c->disk_bytes, 0, false
    };
    struct sg_box *b = find(l, c->sandbox.p, err);
    if (!b || sg_box_set_limits(b, &limits, err) < 0)
        return -1;
    sg_conn_ok(l, m->id);
    return 0;
}

static int net(struct sg_launcher *l, const struct sg_msg *m, struct sg_err *err)
{
    struct sg_box *b = find(l, m->l_net.sandbox.p, err);
    if (!b)
        return -1;
    if (!m->l_net.is_on)
        sg_gate_detach(b);
    else if (sg_gate_attach(b, err) < 0)
        return -1;
    sg_conn_ok(l, m->id);
    return 0;
}

static int stats(struct sg_launcher *l, const struct sg_msg *m, struct sg_err *err)
{
    const struct sg_box *b = find(l, m->l_name.sandbox.p, err);
    struct sg_kept_report s;
    if (!b || sg_kept_report(&b->kept, &s, err) < 0)
        return -1;
    if (b->record.disk[0] &&
        sg_box_disk_use(b, &s.disk_used_bytes, &s.disk_bytes, NULL) < 0) /* no counter */
        s.disk_used_bytes = s.disk_bytes = SG_UNKNOWN;
    struct sg_msg r = { .type = SG_MSG_L_STATED, .id = m->id };
    r.l_stated = (struct sg_msg_l_stated) {
        .mem_bytes = s.now.mem_bytes,
        .mem_peak_bytes = s.usage.mem_peak_bytes,
        .mem_limit_bytes = b->kept.limits.mem_bytes,
        .cpu_ns = s.now.cpu_ns,
        .pids = s.now.pids,
        .pids_peak = s.usage.pids_peak,
        .oom_kills = s.usage.oom_kills,
        .disk_bytes = s.disk_bytes,
        .disk_used_bytes = s.disk_used_bytes,
    };
    sg_conn_send(l, &r, -1);
    return 0;
}

/* Who wants to know often, or soon, reads for himself. */
static int gauge(struct sg_launcher *l, const struct sg_msg *m, struct sg_err *err)
{
    const struct sg_box *b = find(l, m->l_name.sandbox.p, err);
    int fds[SG_L_GAUGE_COUNT];
    if (!b || sg_cgroup_gauges(&b->kept.cgroup, fds, err) < 0)
        return -1;
    struct sg_msg r = { .type = SG_MSG_L_GAUGED, .id = m->id };
    sg_conn_send_all(l, &r, fds, SG_COUNT(fds));
    for (unsigned i = 0; i < SG_COUNT(fds); i++)
        sg_drop_fd(&fds[i]);
    return 0;
}

/* ---- the storage pool ---- */

static int snapshot(struct sg_launcher *l, const struct sg_msg *m, struct sg_err *err)
{
    const struct sg_msg_l_snapshot *s = &m->l_snapshot;
    struct sg_box *b = find(l, s->sandbox.p, err);
    if (!b)
        return -1;
    sg_box_snapshot(b, m->id, s->snapshot.p, s->flags & SG_L_STAY_FROZEN);
    return 0;
}

/* ---- news ---- */

void sg_serve_ended(struct sg_launcher *l, const struct sg_box *b)
{
    struct sg_msg m = { .type = SG_MSG_L_ENDED };
    m.l_ended.sandbox = sg_text_of(b->record.sandbox);
    m.l_ended.oom_kills = sg_kept_oom_kills(&b->kept);
    m.l_ended.cpu_ns = sg_kept_cpu_ns(&b->kept);
    /* A nested one's pid 1 ends by itself when the kernel behind the wall was killed. */
    const bool may_be_killed =
        b->kept.is_nested ? m.l_ended.oom_kills > 0 : sg_kept_may_be_killed(&b->kept);
    m.l_ended.cause = !may_be_killed        ? SG_L_END_EXIT
                      : m.l_ended.oom_kills ? SG_L_END_MEMORY
                                            : SG_L_END_KILLED;
    static const char *const words[] = { "its first process exited", "memory", "killed" };
    sg_log(SG_LOG_INFO, "a sandbox has ended", SG_KV("sandbox", b->record.sandbox),
           SG_KV("why", words[m.l_ended.cause]));
    sg_conn_send(l, &m, -1);
}

/* ---- as a holder ---- */

static bool has(const struct sg_launcher *l, const char *sandbox)
{
    return sg_map_find(&l->by_id, sandbox) || sg_maker_has_wish(l, sandbox) ||
           find_ending(l, sandbox);
}

static int answer(struct sg_launcher *l, const struct sg_msg *m, struct sg_err *err)
{
    static int (*const rows[SG_MSG_TYPE_COUNT])(struct sg_launcher * l, const struct sg_msg *m,
                                                struct sg_err *err) = {
        [SG_MSG_L_CREATE] = create,
        [SG_MSG_L_ADOPT] = adopt,
        [SG_MSG_L_DESTROY] = destroy,
        [SG_MSG_L_FREEZE] = freeze,
        [SG_MSG_L_THAW] = thaw,
        [SG_MSG_L_RECLAIM] = reclaim,
        [SG_MSG_L_LIMIT] = limit,
        [SG_MSG_L_STATS] = stats,
        [SG_MSG_L_GAUGE] = gauge,
        [SG_MSG_L_NET] = net,
        [SG_MSG_L_SNAPSHOT] = snapshot,
        [SG_MSG_L_MOUNT] = sg_serve_volume,
        [SG_MSG_L_UNFOLD] = sg_serve_volume,
    };
    return rows[m->type](l, m, err);
}

/* The cursor is a slot. */
static size_t list(const struct sg_launcher *l, uint64_t *cursor, char **names, size_t max)
{
    size_t n = 0;
    uint64_t slot = *cursor;
    for (; slot < SG_SLOT_COUNT && n < max; slot++) {
        struct sg_box *b = l->by_slot[slot];
        if (b && b->state == SG_BOX_CLAIMED)
            names[n++] = b->record.sandbox;
    }
    *cursor = slot < SG_SLOT_COUNT ? slot : 0;
    return n;
}

static void daemon_lost(struct sg_launcher *l)
{
    sg_maker_forget_all(l);
    for (struct sg_box *b = l->boxes; b; b = b->all_next)
        sg_box_forget_questions(b);
}

const struct sg_holder sg_boxes = { has, answer, list, daemon_lost };
