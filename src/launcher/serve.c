/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/serve.h"

#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/log.h"
#include "base/str.h"
#include "image/store.h"
#include "launcher/launcher.h"
#include "launcher/rules.h"
#include "base/banned.h"

enum { IDS_A_PAGE = 2048, MAX_NAMES = 1024 };

/* A handler answers by itself and returns 0, or fails and is answered for. */
typedef int handler(struct sg_launcher *l, const struct sg_msg *m, struct sg_err *err);

static struct sg_box *find(const struct sg_launcher *l, const char *sandbox, struct sg_err *err)
{
    struct sg_box *b = sg_map_find(&l->by_id, sandbox);
    if (!b)
        sg_fail(err, SG_NOT_FOUND, "no sandbox %s here", sg_quote(sandbox).s);
    return b;
}

static uint32_t own_flags(const struct sg_launcher *l)
{
    return (l->set.is_rootless ? SG_L_ROOTLESS : 0u) | (l->can_freeze ? SG_L_FREEZER : 0u) |
           (l->gate.program ? SG_L_HAS_GATE : 0u);
}

static uint32_t pool_flag(bool is_on)
{
    return is_on ? SG_L_POOL : 0u;
}

static int hello(struct sg_launcher *l, const struct sg_msg *m, struct sg_err *err)
{
    (void)err;
    l->conn.has_hello = true;
    l->conn.epoch = m->l_hello.epoch;
    struct sg_msg r = { .type = SG_MSG_L_WELCOME, .id = m->id };
    r.l_welcome = (struct sg_msg_l_welcome) {
        .version = SG_CTL_VERSION, .flags = own_flags(l) | pool_flag(sg_vault_is_open(&l->vault))
    };
    sg_conn_send(l, &r, -1);
    sg_gate_join(l);
    return 0;
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
    r.l_cell.flags =
        own_flags(l) | (b->was_parked ? SG_L_PARKED : 0u) | pool_flag(b->record.disk[0] != '\0');
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
    if (l->stopping)
        return sg_fail(err, SG_UNAVAILABLE, "the service is ending");
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
    if (sg_pool_take(l, c->template.p, &b, &p, err) < 0)
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
    if (!b || sg_kept_thaw(&b->kept, err) < 0)
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

/* ---- lists ---- */

static int answer_list(struct sg_launcher *l, uint32_t id, char *const *names, uint64_t next,
                       struct sg_err *err)
{
    sg_auto_buf store;
    sg_buf_init(&store, SG_CTL_MAX_BYTES);
    struct sg_msg r = { .type = SG_MSG_L_LISTED, .id = id };
    r.l_listed.next = next;
    if (sg_texts_pack(names, &store, &r.l_listed.names, err) < 0)
        return -1;
    sg_conn_send(l, &r, -1);
    return 0;
}

/* The cursor is a slot: what comes and goes meanwhile neither hides nor repeats the others. */
static int list(struct sg_launcher *l, const struct sg_msg *m, struct sg_err *err)
{
    char *names[IDS_A_PAGE + 1];
    size_t n = 0;
    uint64_t slot = m->l_list.cursor;
    for (; slot < SG_SLOT_COUNT && n < IDS_A_PAGE; slot++) {
        struct sg_box *b = l->by_slot[slot];
        if (b && b->state == SG_BOX_CLAIMED)
            names[n++] = b->record.sandbox;
    }
    names[n] = NULL;
    return answer_list(l, m->id, names, slot < SG_SLOT_COUNT ? slot : 0, err);
}

static void free_names(char **names)
{
    for (size_t i = 0; names[i]; i++)
        free(names[i]);
}

static int pool(struct sg_launcher *l, const struct sg_msg *m, struct sg_err *err)
{
    char *names[MAX_NAMES + 1];
    size_t n = 0;
    for (const struct sg_pool *p = l->maker.pools; p && n < MAX_NAMES; p = p->next)
        names[n++] = sg_printf("%s %u %u", p->template, p->parked_count, p->wanted);
    names[n] = NULL;
    int ret = answer_list(l, m->id, names, 0, err);
    free_names(names);
    return ret;
}

static int templates(struct sg_launcher *l, const struct sg_msg *m, struct sg_err *err)
{
    char *names[MAX_NAMES + 1];
    size_t n = 0;
    names[n++] = sg_strdup("host");
    int store = sg_templates_open(l->set.state_dir, false, NULL);
    sg_auto_dir dir = store < 0 ? NULL : fdopendir(store);
    for (struct dirent *d; dir && n < MAX_NAMES && (d = readdir(dir));)
        if (sg_template_check_name(d->d_name, NULL) == 0)
            names[n++] = sg_strdup(d->d_name);
    names[n] = NULL;
    int ret = answer_list(l, m->id, names, 0, err);
    free_names(names);
    return ret;
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

/* Who waits for the end of a snapshot. */
struct forgetting {
    struct sg_launcher *launcher;
    uint32_t id, epoch;
    char snapshot[SG_CTL_MAX_TAG + 1], base[SG_TMPL_NAME_MAX + 1];
};

static void forgotten(void *arg, uint64_t value, const struct sg_err *err)
{
    sg_auto_free struct forgetting *f = arg;
    struct sg_launcher *l = f->launcher;
    (void)value;
    if (!err && f->base[0])
        sg_tmpl_unpin_named(l, f->base, f->snapshot);
    if (!l->conn.has_hello || l->conn.epoch != f->epoch) /* it asks anew, if it wants to */
        return;
    if (err)
        sg_conn_fail(l, f->id, err);
    else
        sg_conn_ok(l, f->id);
}

/* What is made of it has its own copy. One that is not there is forgotten. */
static int forget(struct sg_launcher *l, const struct sg_msg *m, struct sg_err *err)
{
    const char *name = m->l_forget.snapshot.p;
    if (!sg_vault_is_open(&l->vault))
        return sg_fail(err, SG_UNSUPPORTED, "there is no storage pool");
    struct forgetting *f = sg_new(struct forgetting);
    *f = (struct forgetting) { .launcher = l, .id = m->id, .epoch = l->conn.epoch };
    (void)snprintf(f->snapshot, sizeof f->snapshot, "%s", name);
    if (sg_vault_base_of(&l->vault, name, f->base, NULL) < 0)
        f->base[0] = '\0';
    (void)sg_vault_remove(&l->vault, SG_VAULT_SNAP, name, forgotten, f);
    return 0;
}

struct names {
    char *v[IDS_A_PAGE + 1];
    size_t n;
    uint64_t skip;
    bool has_more;
};

static void take_name(void *arg, const char *name)
{
    struct names *names = arg;
    if (names->skip)
        names->skip--;
    else if (names->n < IDS_A_PAGE)
        names->v[names->n++] = sg_strdup(name);
    else
        names->has_more = true;
}

static int snapshots(struct sg_launcher *l, const struct sg_msg *m, struct sg_err *err)
{
    struct names names = { .skip = m->l_list.cursor };
    if (sg_vault_is_open(&l->vault))
        sg_vault_list(&l->vault, SG_VAULT_SNAP, take_name, &names);
    const uint64_t next = names.has_more ? m->l_list.cursor + names.n : 0;
    int ret = answer_list(l, m->id, names.v, next, err);
    free_names(names.v);
    return ret;
}

static int storage(struct sg_launcher *l, const struct sg_msg *m, struct sg_err *err)
{
    const struct sg_vault *v = &l->vault;
    const bool is_open = sg_vault_is_open(v);
    struct sg_msg r = { .type = SG_MSG_L_STORED, .id = m->id };
    (void)err;
    r.l_stored = (struct sg_msg_l_stored) {
        .flags =
            (v->is_full ? SG_L_FULL : 0u) | (is_open && !v->is_counting ? SG_L_NOT_COUNTING : 0u),
        .total_bytes = v->total_bytes,
        .free_bytes = v->free_bytes,
        .errands = is_open ? sg_hands_busy(v->hands) : 0,
        .source = sg_text_of(sg_vault_source_name(v)),
        .why = sg_text_of(v->why),
    };
    sg_conn_send(l, &r, -1);
    return 0;
}

/* ---- rules ---- */

static int rules(struct sg_launcher *l, const struct sg_msg *m, struct sg_err *err)
{
    sg_auto_fd fd = -1;
    struct sg_msg r = { .type = SG_MSG_L_RULED, .id = m->id };
    if (sg_rules_look(&l->set, m->l_rules.stamp, &r.l_ruled.stamp, &fd, err) < 0)
        return -1;
    sg_conn_send(l, &r, fd);
    return 0;
}

/* ---- all of them ---- */

static handler *const rows[SG_MSG_TYPE_COUNT] = {
    [SG_MSG_L_HELLO] = hello,
    [SG_MSG_L_CREATE] = create,
    [SG_MSG_L_ADOPT] = adopt,
    [SG_MSG_L_DESTROY] = destroy,
    [SG_MSG_L_FREEZE] = freeze,
    [SG_MSG_L_THAW] = thaw,
    [SG_MSG_L_LIMIT] = limit,
    [SG_MSG_L_STATS] = stats,
    [SG_MSG_L_LIST] = list,
    [SG_MSG_L_TEMPLATES] = templates,
    [SG_MSG_L_POOL] = pool,
    [SG_MSG_L_SNAPSHOT] = snapshot,
    [SG_MSG_L_FORGET] = forget,
    [SG_MSG_L_STORAGE] = storage,
    [SG_MSG_L_SNAPSHOTS] = snapshots,
    [SG_MSG_L_RULES] = rules,
    [SG_MSG_L_NET] = net,
    [SG_MSG_L_MOUNT] = sg_serve_volume,
    [SG_MSG_L_VOLUME_MAKE] = sg_serve_volume,
    [SG_MSG_L_VOLUME_REMOVE] = sg_serve_volume,
    [SG_MSG_L_VOLUME_USE] = sg_serve_volume,
    [SG_MSG_L_SYNC] = sg_serve_volume,
};

void sg_serve(struct sg_launcher *l, const struct sg_msg *m)
{
    struct sg_err err = { 0 };
    const uint32_t id = m->id;
    const char *name = sg_msg_table[m->type].name;
    if (sg_permit_check(&l->set.permit, l->conn.has_hello, m, &err) < 0) {
        sg_log(SG_LOG_WARN, "the daemon asked for what it may not", SG_KV("error", err.msg));
        sg_conn_fail(l, id, &err);
    } else if (rows[m->type](l, m, &err) < 0) {
        if (err.kind == SG_INTERNAL)
            sg_log(SG_LOG_ERROR, "a request failed", SG_KV("request", name),
                   SG_KV("error", err.msg), SG_KV("where", err.where));
        sg_conn_fail(l, id, &err);
    }
}

void sg_serve_ended(struct sg_launcher *l, const struct sg_box *b)
{
    struct sg_msg m = { .type = SG_MSG_L_ENDED };
    m.l_ended.sandbox = sg_text_of(b->record.sandbox);
    m.l_ended.oom_kills = sg_kept_oom_kills(&b->kept);
    m.l_ended.cause = !sg_kept_may_be_killed(&b->kept) ? SG_L_END_EXIT
                      : m.l_ended.oom_kills            ? SG_L_END_MEMORY
                                                       : SG_L_END_KILLED;
    static const char *const words[] = { "its first process exited", "memory", "killed" };
    sg_log(SG_LOG_INFO, "a sandbox has ended", SG_KV("sandbox", b->record.sandbox),
           SG_KV("why", words[m.l_ended.cause]));
    sg_conn_send(l, &m, -1);
}

void sg_serve_daemon_lost(struct sg_launcher *l)
{
    sg_maker_forget_all(l);
    for (struct sg_box *b = l->boxes; b; b = b->all_next)
        sg_box_forget_questions(b);
}
