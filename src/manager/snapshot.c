/* SPDX-License-Identifier: Apache-2.0 */
/* Making, finding, removing snapshots. The launcher knows ids and bytes; names, owners and lineage
 * are here. */
#include "manager/snapshot.h"

#include <string.h>

#include "base/auto.h"
#include "base/log.h"
#include "base/str.h"
#include "manager/built.h"
#include "manager/life.h"
#include "manager/traits.h"
#include "tier/tier.h"

#include "base/banned.h"

enum { TRAITS_MAX = 512 << 10 };
static const char *const state_names[] = { "making", "ready", "going" };

/* ---- being ---- */

static void link_in(struct sg_manager *m, struct sg_snapshot *t)
{
    t->older = m->newest_snapshot;
    if (t->older)
        t->older->newer = t;
    m->newest_snapshot = t;
    sg_map_put(&m->snapshots, t->id.s, t);
}

static struct sg_snapshot *new_snapshot(const struct sg_id *id, struct sg_org *org,
                                        const char *name, const char *tag)
{
    struct sg_snapshot *t = sg_new(struct sg_snapshot);
    t->id = *id;
    t->org = org;
    t->name = sg_strdup(name);
    t->tag = sg_strdup(tag);
    t->layer = sg_strdup("");
    return t;
}

static void free_snapshot(struct sg_snapshot *t)
{
    free(t->name);
    free(t->tag);
    free(t->sandbox);
    free(t->parent);
    free(t->template);
    free(t->layer);
    sg_traits_done(&t->traits);
    free(t);
}

static void drop(struct sg_manager *m, struct sg_snapshot *t)
{
    (void)sg_map_remove(&m->snapshots, t->id.s);
    if (t->newer)
        t->newer->older = t->older;
    else
        m->newest_snapshot = t->older;
    if (t->older)
        t->older->newer = t->newer;
    free_snapshot(t);
}

void sg_snapshots_free(struct sg_manager *m)
{
    while (m->newest_snapshot)
        drop(m, m->newest_snapshot);
    sg_map_done(&m->snapshots);
}

static void put_row(struct sg_manager *m, const struct sg_snapshot *t, enum sg_store_mode mode,
                    sg_store_done *done, void *arg)
{
    sg_auto_buf traits;
    struct sg_json j;
    sg_buf_init(&traits, TRAITS_MAX);
    sg_json_init(&j, &traits);
    sg_traits_put(&j, &t->traits);
    const struct sg_snapshot_row row = {
        .layer = t->layer,
        .traits = sg_buf_cstr(&traits),
        .used_ms = t->used_ms,
        .id = t->id.s,
        .org = t->org->id.s,
        .name = t->name,
        .tag = t->tag,
        .sandbox = t->sandbox,
        .parent = t->parent,
        .template = t->template,
        .state = state_names[t->state],
        .bytes = (int64_t)t->bytes,
        .created_ms = t->created_ms,
    };
    if (!t->is_hidden) /* one without a row is removed after a restart */
        sg_store_put_snapshot(m->store, &row, mode, done, arg);
    else if (done)
        done(arg, NULL);
}

/* ---- making ---- */

struct making {
    struct sg_snapshot *t;
    sg_snapshot_cb *cb;
    void *arg;
};

/* The operation's end: what failed is in no list any more. */
static void over(void *arg, struct sg_sandbox *s, const struct sg_err *err)
{
    sg_auto_free struct making *w = arg;
    (void)s;
    w->cb(w->arg, err ? NULL : w->t, err);
}

static void fail(struct sg_sandbox *s, const struct sg_err *err)
{
    struct sg_manager *m = s->manager;
    struct sg_snapshot *t = sg_take_ptr(&s->life->snapshot);
    const struct sg_err why = *err;
    if (!t->is_hidden)
        sg_store_remove_snapshot(m->store, t->id.s, NULL, NULL);
    drop(m, t);
    sg_life_end(s, &why);
}

/* Z4 */
static void take_name(struct sg_manager *m, const struct sg_snapshot *t)
{
    for (struct sg_snapshot *o = m->newest_snapshot; o && *t->name; o = o->older) {
        if (o == t || o->org != t->org || strcmp(o->name, t->name) != 0 ||
            strcmp(o->tag, t->tag) != 0)
            continue;
        o->name[0] = o->tag[0] = '\0';
        put_row(m, o, SG_STORE_NORMAL, NULL, NULL);
    }
}

static void ready_written(struct sg_sandbox *s)
{
    struct sg_err err;
    if (sg_life_failed(s, &err)) {
        sg_tier_forget(s->manager->tier, s->life->snapshot->id.s, NULL, NULL);
        fail(s, &err);
        return;
    }
    struct sg_snapshot *t = sg_take_ptr(&s->life->snapshot);
    if (!t->is_hidden)
        sg_life_event(s, "sandbox.snapshot", "snapshot", t->id.s);
    sg_life_end(s, NULL);
}

static void row_written(void *arg, const struct sg_err *err)
{
    sg_life_got(arg, err);
}

static void snapped(struct sg_sandbox *s)
{
    struct sg_manager *m = s->manager;
    struct sg_snapshot *t = s->life->snapshot;
    struct sg_err err;
    if (sg_life_failed(s, &err)) {
        fail(s, &err);
        return;
    }
    t->state = SG_SNAPSHOT_READY;
    take_name(m, t);
    sg_life_expect(s, 1, ready_written);
    put_row(m, t, SG_STORE_FULL, sg_note_done, sg_note_new(m, row_written, s));
}

static void launcher_answered(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    struct sg_sandbox *s = arg;
    if (p && s->life->snapshot) {
        s->life->snapshot->bytes = p->msg.l_snapped.bytes;
        s->life->snapshot->frozen_ns = p->msg.l_snapped.frozen_ns;
    }
    sg_life_got(s, err);
}

static void making_written(struct sg_sandbox *s)
{
    struct sg_err err;
    if (sg_life_failed(s, &err)) {
        fail(s, &err);
        return;
    }
    sg_life_expect(s, 1, snapped);
    sg_tier_snapshot(s->manager->tier, s->id.s, s->life->snapshot->id.s, 0, launcher_answered, s);
}

static int check_name(const char *name, const char *tag, struct sg_err *err)
{
    if ((name && sg_template_name_check(name, err) < 0) ||
        (tag && sg_template_name_check(tag, err) < 0))
        return -1;
    if (tag && !name)
        return sg_fail(err, SG_INVALID, "a tag needs a name");
    if (name && sg_id_is_valid(name, 't'))
        return sg_fail(err, SG_INVALID, "%s looks like the id of a snapshot", sg_quote(name).s);
    return 0;
}

int sg_snapshot_refuse(const struct sg_sandbox *s, struct sg_err *err)
{
    if (s->wall == SG_WALL_DOCKER)
        return sg_fail(err, SG_UNSUPPORTED,
                       "what a sandbox of tier docker writes is in memory, and its root is the "
                       "Engine's: no files of it can be kept; tiers cell and gvisor can");
    return sg_fail(err, SG_UNSUPPORTED,
                   "the sandbox is in memory (storage: tmpfs): no files of it can be kept");
}

int sg_snapshot_demand(struct sg_sandbox *s, const struct sg_who *who, const char *action,
                       struct sg_err *err)
{
    struct sg_manager *m = s->manager;
    if (s->life->is_gone)
        return sg_fail(err, SG_NOT_FOUND, "no sandbox '%s'", s->id.s);
    if (sg_tenant_demand(who, SG_SCOPE_EXEC, err) < 0)
        return sg_manager_denied(m, who, action, s, err);
    if (!s->is_pooled && (s->life->has_cell || !s->paused_snapshot))
        return sg_snapshot_refuse(s, err);
    if (s->life->op != OP_NONE || s->life->has_died)
        return sg_fail(err, SG_CONFLICT, "the sandbox is being changed; try again");
    return 0;
}

/* Of a running, stopped or frozen one; hidden: for a fork; layer: its key, or "". */
static int begin(struct sg_sandbox *s, const char *name, const char *tag, bool is_hidden,
                 const char *layer, const struct sg_traits *traits, sg_snapshot_cb *cb, void *arg,
                 struct sg_err *err)
{
    struct sg_manager *m = s->manager;
    const bool has_cell = s->life->has_cell && (s->state == SBX_RUNNING ||
                                                s->state == SBX_STOPPED || s->state == SBX_PAUSED);
    if (!has_cell)
        return sg_fail(err, SG_CONFLICT, "cannot take a snapshot of a sandbox that is %s",
                       sg_state_name(s->state));
    const struct sg_id id = sg_id_new('t');
    struct sg_snapshot *t =
        new_snapshot(&id, s->org, name ? name : "", name ? (tag ? tag : "default") : "");
    t->sandbox = sg_strdup(s->id.s);
    t->parent = sg_strdup(s->snapshot ? s->snapshot : "");
    t->template = sg_strdup(s->template);
    t->created_ms = sg_manager_unix_ms();
    t->is_hidden = is_hidden;
    t->used_ms = t->created_ms;
    free(t->layer);
    t->layer = sg_strdup(layer);
    sg_traits_copy(&t->traits, traits);
    link_in(m, t);
    struct making *w = sg_new(struct making);
    *w = (struct making) { t, cb, arg };
    sg_life_begin(s, OP_SNAPSHOT);
    s->life->snapshot = t;
    sg_life_wait(&s->life->waiting, over, w);
    sg_life_expect(s, 1, making_written);
    put_row(m, t, SG_STORE_NORMAL, sg_note_done, sg_note_new(m, row_written, s));
    return 0;
}

int sg_manager_snapshot(struct sg_sandbox *s, const struct sg_who *who, const char *name,
                        const char *tag, sg_snapshot_cb *cb, void *arg, struct sg_err *err)
{
    if (sg_snapshot_demand(s, who, "sandbox.snapshot", err) < 0 || check_name(name, tag, err) < 0 ||
        begin(s, name, tag, false, "", &s->traits, cb, arg, err) < 0)
        return -1;
    sg_manager_audit_value(s->manager, who, "sandbox.snapshot", s, "snapshot",
                           s->life->snapshot ? s->life->snapshot->id.s : "");
    return 0;
}

int sg_snapshot_hidden(struct sg_sandbox *s, sg_snapshot_cb *cb, void *arg, struct sg_err *err)
{
    return begin(s, NULL, NULL, true, "", &s->traits, cb, arg, err);
}

int sg_snapshot_layer(struct sg_sandbox *s, const char *key, const struct sg_traits *traits,
                      sg_snapshot_cb *cb, void *arg, struct sg_err *err)
{
    return begin(s, NULL, NULL, false, key, traits, cb, arg, err);
}

/* ---- finding ---- */

static bool is_visible(const struct sg_snapshot *t, const struct sg_who *who)
{
    return t->state == SG_SNAPSHOT_READY && !t->is_hidden && !t->layer[0] &&
           (t->org == who->org || who->is_operator);
}

struct sg_snapshot *sg_snapshot_next(struct sg_manager *m, const struct sg_who *who,
                                     const struct sg_snapshot *t)
{
    struct sg_snapshot *o = t ? t->older : m->newest_snapshot;
    while (o && !is_visible(o, who))
        o = o->older;
    return o;
}

static bool has_name(const struct sg_snapshot *t, struct sg_str name, const char *tag)
{
    return sg_str_is(name, t->name) && strcmp(t->tag, tag) == 0;
}

struct sg_snapshot *sg_snapshot_find(struct sg_manager *m, const struct sg_who *who,
                                     const char *ref, struct sg_err *err)
{
    const char *slash = strrchr(ref, '/');
    const char *bare = slash ? slash + 1 : ref, *colon = strchr(bare, ':');
    const struct sg_str name = { bare, colon ? (size_t)(colon - bare) : strlen(bare) };
    const char *tag = colon ? colon + 1 : "default";
    for (struct sg_snapshot *t = sg_snapshot_next(m, who, NULL); t && name.n;
         t = sg_snapshot_next(m, who, t)) {
        if ((sg_str_is(name, t->id.s) && strcmp(tag, "default") == 0) ||
            (t->org == who->org && has_name(t, name, tag)))
            return t;
    }
    (void)sg_fail(err, SG_NOT_FOUND, "no snapshot %s", sg_quote(ref).s);
    return NULL;
}

unsigned sg_snapshot_users(const struct sg_manager *m, const struct sg_snapshot *t)
{
    unsigned n = 0;
    for (const struct sg_sandbox *s = m->newest; s; s = s->older)
        n += s->snapshot && strcmp(s->snapshot, t->id.s) == 0;
    return n;
}

/* ---- removing: row "going", sandboxes, the launcher, the row ---- */

struct removing {
    struct sg_manager *m;
    char id[SG_ID_LEN + 1];
    unsigned left; /* sandboxes that are to go first, and one */
    struct sg_err err;
    sg_removed_cb *cb;
    void *arg;
};

static void removal_over(struct removing *r, const struct sg_err *err)
{
    struct sg_snapshot *t = sg_map_find(&r->m->snapshots, r->id);
    if (t && err && !r->m->is_ending)
        t->state = SG_SNAPSHOT_READY; /* the row says "going": the next start finishes it */
    else if (t && !err)
        drop(r->m, t);
    if (r->cb)
        r->cb(r->arg, err);
    free(r);
}

static void row_removed(void *arg, const struct sg_err *err)
{
    removal_over(arg, err);
}

static void launcher_forgot(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    struct removing *r = arg;
    const struct sg_snapshot *t = sg_map_find(&r->m->snapshots, r->id);
    (void)p;
    if (err || !t || t->is_hidden || r->m->is_ending) {
        removal_over(r, err);
        return;
    }
    sg_store_remove_snapshot(r->m->store, r->id, sg_note_done, sg_note_new(r->m, row_removed, r));
}

static void one_less(struct removing *r)
{
    if (--r->left > 0)
        return;
    if (r->err.kind != SG_OK)
        removal_over(r, &r->err);
    else
        sg_tier_forget(r->m->tier, r->id, launcher_forgot, r);
}

static void sandbox_gone(void *arg, struct sg_sandbox *s, const struct sg_err *err)
{
    struct removing *r = arg;
    (void)s;
    if (err && r->err.kind == SG_OK)
        r->err = *err;
    one_less(r);
}

static void remove_users(struct removing *r, const struct sg_who *who)
{
    struct sg_err err = { 0 };
    for (struct sg_sandbox *s = r->m->newest; s; s = s->older) {
        if (!s->snapshot || strcmp(s->snapshot, r->id) != 0)
            continue;
        r->left++;
        if (sg_manager_destroy(s, who, sandbox_gone, r, &err) == 0)
            continue;
        r->left--; /* never the last: the caller holds one */
        if (r->err.kind == SG_OK)
            r->err = err;
    }
}

int sg_snapshot_remove(struct sg_manager *m, const struct sg_who *who, struct sg_snapshot *t,
                       bool with_sandboxes, sg_removed_cb *cb, void *arg, struct sg_err *err)
{
    const unsigned users = sg_snapshot_users(m, t);
    if (sg_tenant_demand(who, SG_SCOPE_EXEC, err) < 0)
        return sg_manager_denied(m, who, "snapshot.remove", NULL, err);
    if (users && !with_sandboxes)
        return sg_fail(err, SG_CONFLICT,
                       "%u sandboxes were made of snapshot %s: destroy them first, or with it "
                       "(cascade)",
                       users, t->id.s);
    if (sg_built_needs(m, t->id.s))
        return sg_fail(err, SG_CONFLICT, "a template stands on snapshot %s: remove that first",
                       t->id.s);
    sg_manager_audit_value(m, who, "snapshot.remove", NULL, "snapshot", t->id.s);
    struct removing *r = sg_new(struct removing);
    *r = (struct removing) { .m = m, .left = 1, .cb = cb, .arg = arg };
    memcpy(r->id, t->id.s, sizeof r->id);
    t->state = SG_SNAPSHOT_GOING;
    put_row(m, t, SG_STORE_NORMAL, NULL, NULL);
    remove_users(r, who);
    one_less(r);
    return 0;
}

void sg_snapshot_use_layer(struct sg_manager *m, struct sg_snapshot *t)
{
    t->used_ms = sg_manager_unix_ms();
    put_row(m, t, SG_STORE_NORMAL, NULL, NULL);
}

void sg_snapshot_remove_hidden(struct sg_manager *m, struct sg_snapshot *t)
{
    struct removing *r = sg_new(struct removing);
    *r = (struct removing) { .m = m, .left = 1 };
    memcpy(r->id, t->id.s, sizeof r->id);
    t->state = SG_SNAPSHOT_GOING;
    put_row(m, t, SG_STORE_NORMAL, NULL, NULL);
    one_less(r);
}

/* ---- after a restart, and from time to time ---- */

static void load_traits(struct sg_snapshot *t, const struct sg_snapshot_row *r)
{
    sg_auto_arena a;
    const struct sg_jval *v;
    sg_arena_init(&a, 4 * TRAITS_MAX);
    if (r->traits && sg_json_parse(sg_str_of(r->traits), &a, &v, NULL) == 0)
        sg_traits_read(v, &t->traits);
    free(t->layer);
    t->layer = sg_strdup(r->layer ? r->layer : "");
}

static bool load_one(void *arg, const struct sg_snapshot_row *r)
{
    struct sg_manager *m = arg;
    struct sg_org *org = sg_map_find(&m->orgs, r->org);
    struct sg_id id;
    if (!org || !sg_id_is_valid(r->id, 't') || strcmp(r->state, state_names[1]) != 0) {
        sg_store_remove_snapshot(m->store, r->id, NULL, NULL); /* what it tells of is a stray now */
        return true;
    }
    memcpy(id.s, r->id, sizeof id.s);
    struct sg_snapshot *t = new_snapshot(&id, org, r->name, r->tag);
    t->state = SG_SNAPSHOT_READY;
    t->sandbox = sg_strdup(r->sandbox);
    t->parent = sg_strdup(r->parent);
    t->template = sg_strdup(r->template);
    t->bytes = (uint64_t)r->bytes;
    t->created_ms = r->created_ms;
    t->used_ms = r->used_ms;
    load_traits(t, r);
    link_in(m, t);
    return true;
}

int sg_snapshots_load(struct sg_manager *m, struct sg_err *err)
{
    if (sg_store_each_snapshot(m->store, load_one, m, err) < 0)
        return sg_wrap(err, "load the snapshots");
    return 0;
}

static bool is_known(const struct sg_manager *m, const char *id)
{
    if (sg_map_find(&m->snapshots, id))
        return true;
    for (const struct sg_sandbox *s = m->newest; s; s = s->older) {
        const char *const own[] = { s->paused_snapshot, s->paused_files, s->life->keeping };
        for (size_t i = 0; i < SG_COUNT(own); i++)
            if (own[i] && strcmp(own[i], id) == 0)
                return true;
    }
    return false;
}

static void listed(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    struct sg_manager *m = arg;
    struct sg_text one;
    if (err || m->is_ending)
        return;
    struct sg_texts list = p->msg.l_listed.names;
    const uint64_t next = p->msg.l_listed.next;
    while (sg_text_next(&list, &one)) {
        if (is_known(m, one.p))
            continue;
        sg_log(SG_LOG_INFO, "a snapshot that nobody was told of is removed",
               SG_KV("snapshot", one.p));
        sg_tier_forget(m->tier, one.p, NULL, NULL);
    }
    if (next)
        sg_tier_snapshots(m->tier, next, listed, m);
}

void sg_snapshots_reconcile(struct sg_manager *m)
{
    if (sg_tier_flags(m->tier) & SG_L_POOL)
        sg_tier_snapshots(m->tier, 0, listed, m);
}

/* ---- the pool ---- */

struct storing {
    struct sg_manager *m;
    sg_storage_cb *cb;
    void *arg;
};

static void stored(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    sg_auto_free struct storing *q = arg;
    if (err) {
        q->cb(q->arg, NULL, err);
        return;
    }
    static const char *const words[SG_L_RECLAIM_COUNT] = {
        [SG_L_KEPT] = "kept", [SG_L_FILES_GO] = "files", [SG_L_ALL_GOES] = "reclaimed"
    };
    const struct sg_msg_l_stored *l = &p->msg.l_stored;
    const struct sg_storage st = {
        .source = l->source.p,
        .why = l->why.p,
        .total_bytes = l->total_bytes,
        .free_bytes = l->free_bytes,
        .errors = l->errors,
        .is_full = (l->flags & SG_L_FULL) != 0,
        .is_counting = !(l->flags & SG_L_NOT_COUNTING),
        .snapshots = (unsigned)q->m->snapshots.n,
        .paused_memory = words[l->reclaim],
        .swap_bytes = l->swap_bytes,
        .kept_why = l->kept_why.p,
    };
    q->cb(q->arg, &st, NULL);
}

int sg_manager_storage(struct sg_manager *m, sg_storage_cb *cb, void *arg, struct sg_err *err)
{
    (void)err;
    struct storing *q = sg_new(struct storing);
    *q = (struct storing) { m, cb, arg };
    sg_tier_storage(m->tier, stored, q);
    return 0;
}
