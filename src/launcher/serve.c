/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/serve.h"

#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/log.h"
#include "base/str.h"
#include "engine/reclaim.h"
#include "image/store.h"
#include "launcher/holder.h"
#include "launcher/launcher.h"
#include "launcher/rules.h"
#include "base/banned.h"

enum { IDS_A_PAGE = 2048, MAX_NAMES = 1024 };

/* A handler answers by itself and returns 0, or fails and is answered for. */
typedef int handler(struct sg_launcher *l, const struct sg_msg *m, struct sg_err *err);

uint32_t sg_serve_flags(const struct sg_launcher *l)
{
    return (l->set.is_rootless ? SG_L_ROOTLESS : 0u) | (l->can_freeze ? SG_L_FREEZER : 0u) |
           (l->gate.program ? SG_L_HAS_GATE : 0u) | (l->can_reclaim ? SG_L_RECLAIMS : 0u);
}

static int hello(struct sg_launcher *l, const struct sg_msg *m, struct sg_err *err)
{
    char empty[] = "";
    char *lacking[SG_L_TIER_COUNT + 1] = { NULL };
    sg_auto_buf store;
    sg_buf_init(&store, SG_CTL_MAX_BYTES);
    struct sg_msg r = { .type = SG_MSG_L_WELCOME, .id = m->id };
    r.l_welcome = (struct sg_msg_l_welcome) {
        .version = SG_CTL_VERSION,
        .flags = sg_serve_flags(l) | (sg_vault_is_open(&l->vault) ? SG_L_POOL : 0u),
    };
    for (unsigned i = 0; i < SG_L_TIER_COUNT; i++) {
        const char *why = sg_tier_missing(l, i);
        lacking[i] = why ? (char *)(uintptr_t)why : empty;
    }
    if (sg_texts_pack(lacking, &store, &r.l_welcome.lacking, err) < 0)
        return -1;
    l->conn.has_hello = true;
    l->conn.epoch = m->l_hello.epoch;
    sg_conn_send(l, &r, -1);
    sg_gate_join(l);
    sg_export_join(l);
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

/* Every holder's, one after the other: the high half of the cursor says whose turn it is. */
static const struct sg_holder *const holders[] = { &sg_boxes };

static int list(struct sg_launcher *l, const struct sg_msg *m, struct sg_err *err)
{
    char *names[IDS_A_PAGE + 1];
    size_t n = 0;
    uint64_t turn = m->l_list.cursor >> 32, at = m->l_list.cursor & UINT32_MAX;
    while (turn < SG_COUNT(holders) && n < IDS_A_PAGE) {
        n += holders[turn]->list(l, &at, names + n, IDS_A_PAGE - n);
        turn += at == 0;
    }
    names[n] = NULL;
    return answer_list(l, m->id, names, turn < SG_COUNT(holders) ? turn << 32 | at : 0, err);
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
        if (!p->pids && !p->mounts.count) /* of those nothing is kept */
            names[n++] =
                sg_printf("%s%s%s %u %u", p->tier ? sg_tiers[p->tier].name : "", p->tier ? ":" : "",
                          p->template, p->parked_count, p->demand.wanted);
    names[n] = NULL;
    int ret = answer_list(l, m->id, names, l->maker.is_short, err);
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

static int identify(struct sg_launcher *l, const struct sg_msg *m, struct sg_err *err)
{
    char identity[SG_TMPL_NAME_MAX + 1] = "";
    struct sg_msg r = { .type = SG_MSG_L_IDENTIFIED, .id = m->id };
    if (sg_tmpl_identify(l, m->l_identify.template.p, &r.l_identified.stamp, identity, err) < 0)
        return -1;
    r.l_identified.identity = sg_text_of(identity);
    sg_conn_send(l, &r, -1);
    return 0;
}

/* ---- the storage pool ---- */

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
    if (f->base[0])
        sg_tmpl_unpin_end(l, f->base, f->snapshot, !err);
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
    if (f->base[0])
        sg_tmpl_unpin_begin(l, f->base, name);
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

_Static_assert((int)SG_RECLAIM_NONE == (int)SG_L_KEPT &&
                   (int)SG_RECLAIM_FILES == (int)SG_L_FILES_GO &&
                   (int)SG_RECLAIM_ALL == (int)SG_L_ALL_GOES,
               "one is told as the other");

static int storage(struct sg_launcher *l, const struct sg_msg *m, struct sg_err *err)
{
    const struct sg_vault *v = &l->vault;
    const bool is_open = sg_vault_is_open(v);
    struct sg_msg r = { .type = SG_MSG_L_STORED, .id = m->id };
    struct sg_reclaim_host memory;
    (void)err;
    sg_reclaim_probe(&memory);
    r.l_stored = (struct sg_msg_l_stored) {
        .flags =
            (v->is_full ? SG_L_FULL : 0u) | (is_open && !v->is_counting ? SG_L_NOT_COUNTING : 0u),
        .total_bytes = v->total_bytes,
        .free_bytes = v->free_bytes,
        .errors = v->errors,
        .errands = is_open ? sg_hands_busy(v->hands) : 0,
        .source = sg_text_of(sg_vault_source_name(v)),
        .why = sg_text_of(v->why),
        .reclaim = memory.way,
        .swap_bytes = memory.swap_bytes,
        .kept_why = sg_text_of(memory.why),
    };
    sg_conn_send(l, &r, -1);
    return 0;
}

/* ---- rules ---- */

static int rules(struct sg_launcher *l, const struct sg_msg *m, struct sg_err *err)
{
    sg_auto_fd fd = -1;
    struct sg_msg r = { .type = SG_MSG_L_RULED, .id = m->id };
    if (sg_rules_look(&l->set, m->l_rules.which, m->l_rules.stamp, &r.l_ruled.stamp, &fd, err) < 0)
        return -1;
    sg_conn_send(l, &r, fd);
    return 0;
}

/* ---- of one sandbox ---- */

const char *sg_tier_missing(const struct sg_launcher *l, enum sg_l_tier tier)
{
    const struct sg_tier_row *row = &sg_tiers[tier];
    if (!row->holder)
        return "this version does not run it";
    return row->lacks ? row->lacks(l) : NULL;
}

/* Its messages begin with the sandbox, all of them. */
static const struct sg_holder *holder_of(const struct sg_launcher *l, const struct sg_msg *m)
{
    for (size_t i = 0; i < SG_COUNT(holders); i++)
        if (holders[i]->has(l, m->l_name.sandbox.p))
            return holders[i];
    return NULL;
}

static int of_one(struct sg_launcher *l, const struct sg_msg *m, struct sg_err *err)
{
    const struct sg_holder *h = holder_of(l, m);
    const char *sandbox = m->l_name.sandbox.p;
    if (m->type != SG_MSG_L_CREATE)
        return h ? h->answer(l, m, err)
                 : sg_fail(err, SG_NOT_FOUND, "no sandbox %s here", sg_quote(sandbox).s);
    const char *why = sg_tier_missing(l, m->l_create.tier);
    if (why)
        return sg_fail(err, SG_UNSUPPORTED, "tier %s is not to be had here: %s",
                       sg_tiers[m->l_create.tier].name, why);
    if (l->stopping)
        return sg_fail(err, SG_UNAVAILABLE, "the service is ending");
    return sg_tiers[m->l_create.tier].holder->answer(l, m, err);
}

/* ---- all of them ---- */

static handler *const rows[SG_MSG_TYPE_COUNT] = {
    [SG_MSG_L_HELLO] = hello,
    [SG_MSG_L_CREATE] = of_one,
    [SG_MSG_L_ADOPT] = of_one,
    [SG_MSG_L_DESTROY] = of_one,
    [SG_MSG_L_FREEZE] = of_one,
    [SG_MSG_L_THAW] = of_one,
    [SG_MSG_L_RECLAIM] = of_one,
    [SG_MSG_L_LIMIT] = of_one,
    [SG_MSG_L_STATS] = of_one,
    [SG_MSG_L_GAUGE] = of_one,
    [SG_MSG_L_LIST] = list,
    [SG_MSG_L_TEMPLATES] = templates,
    [SG_MSG_L_POOL] = pool,
    [SG_MSG_L_SNAPSHOT] = of_one,
    [SG_MSG_L_FORGET] = forget,
    [SG_MSG_L_STORAGE] = storage,
    [SG_MSG_L_SNAPSHOTS] = snapshots,
    [SG_MSG_L_RULES] = rules,
    [SG_MSG_L_IDENTIFY] = identify,
    [SG_MSG_L_IMAGE] = sg_serve_image,
    [SG_MSG_L_NET] = of_one,
    [SG_MSG_L_MOUNT] = of_one,
    [SG_MSG_L_UNFOLD] = of_one,
    [SG_MSG_L_VOLUME_MAKE] = sg_serve_volume,
    [SG_MSG_L_VOLUME_LIMIT] = sg_serve_volume,
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

void sg_serve_daemon_lost(struct sg_launcher *l)
{
    for (size_t i = 0; i < SG_COUNT(holders); i++)
        holders[i]->daemon_lost(l);
}
