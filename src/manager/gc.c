/* SPDX-License-Identifier: Apache-2.0 */
/* What nobody has a use for any more is removed when somebody asks, and by itself once an hour:
 * checkpoints of sandboxes that are gone, kept files that are old (capture.h), and layers that no
 * template, sandbox or build needs (layer.c). Snapshots that somebody asked for stay until somebody
 * removes them. */
#include <string.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "base/log.h"
#include "base/str.h"
#include "ctl/entry.h"
#include "manager/build.h"
#include "manager/capture.h"
#include "manager/files.h"
#include "manager/life.h"
#include "manager/snapshot.h"
#include "manager/volume.h"

#include "base/banned.h"

enum { FOUND_MAX = 1000 };
static const uint64_t HOUR_NS = 3600000000000;

struct gc {
    struct sg_manager *m;
    struct sg_who who;
    char *snapshots[FOUND_MAX], *artifacts[FOUND_MAX], *layers[FOUND_MAX]; /* owned */
    size_t snapshots_n, artifacts_n, layers_n, at;
    uint64_t snapshot_bytes, layer_bytes;
    uint64_t before_ns, cursor; /* artifacts of before then */
    struct sg_gc_wish wish;
    char volume[SG_ID_LEN + 1];
    sg_gc_cb *cb;
    void *arg;
};

static void over(struct gc *g, const struct sg_err *err)
{
    const struct sg_gc_found f = { .snapshots = (const char *const *)g->snapshots,
                                   .snapshots_n = g->snapshots_n,
                                   .snapshot_bytes = g->snapshot_bytes,
                                   .artifacts = (const char *const *)g->artifacts,
                                   .artifacts_n = g->artifacts_n,
                                   .layers = (const char *const *)g->layers,
                                   .layers_n = g->layers_n,
                                   .layer_bytes = g->layer_bytes };
    if (g->cb)
        g->cb(g->arg, err ? NULL : &f, err);
    for (size_t i = 0; i < g->snapshots_n; i++)
        free(g->snapshots[i]);
    for (size_t i = 0; i < g->artifacts_n; i++)
        free(g->artifacts[i]);
    for (size_t i = 0; i < g->layers_n; i++)
        free(g->layers[i]);
    free(g);
}

/* ---- snapshots ---- */

static void take_snapshots(struct gc *g)
{
    struct sg_snapshot *next;
    struct sg_err err = { 0 };
    for (struct sg_snapshot *t = sg_snapshot_next(g->m, &g->who, NULL); t; t = next) {
        next = sg_snapshot_next(g->m, &g->who, t);
        if (t->org != g->who.org || !sg_checkpoint_is(t) || g->snapshots_n == FOUND_MAX ||
            sg_map_find(&g->m->sandboxes, t->sandbox) || sg_snapshot_users(g->m, t))
            continue;
        g->snapshots[g->snapshots_n++] = sg_strdup(t->id.s);
        g->snapshot_bytes += t->bytes;
        if (!g->wish.is_dry)
            (void)sg_snapshot_remove(g->m, &g->who, t, false, NULL, NULL, &err);
    }
}

/* Each of them could be made again, by the build that made it. */
static void take_layers(struct gc *g)
{
    const int64_t before = sg_manager_unix_ms() - (int64_t)g->wish.layer_days * 86400000;
    struct sg_snapshot *next;
    for (struct sg_snapshot *t = g->m->newest_snapshot; t; t = next) {
        next = t->older;
        if (t->org != g->who.org || !sg_layer_is_free(g->m, t) || t->used_ms > before ||
            g->layers_n == FOUND_MAX)
            continue;
        g->layers[g->layers_n++] = sg_strdup(t->id.s);
        g->layer_bytes += t->bytes;
        if (!g->wish.is_dry)
            sg_snapshot_remove_hidden(g->m, t);
    }
}

/* ---- kept files ---- */

static struct sg_sandbox *visitor(struct gc *g, struct sg_err *err)
{
    return sg_volume_visitor(g->m, &g->who, g->volume, err);
}

static void next_removal(struct gc *g);

static void removed(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    struct gc *g = arg;
    (void)p;
    if (err)
        sg_log(SG_LOG_INFO, "old files that were kept stay", SG_KV("error", err->msg));
    next_removal(g);
}

static void next_removal(struct gc *g)
{
    struct sg_err err = { 0 };
    if (g->wish.is_dry || g->at == g->artifacts_n) {
        over(g, NULL);
        return;
    }
    sg_auto_free char *path = sg_printf("/%s", g->artifacts[g->at++]);
    struct sg_msg m = { .type = SG_MSG_REMOVE };
    m.remove = (struct sg_msg_path) { sg_text_of("root"), sg_text_of(path), SG_REMOVE_RECURSIVE };
    struct sg_sandbox *s = visitor(g, &err);
    if (!s || sg_files_ask(s, &g->who, &m, NULL, 0, removed, g, &err) < 0)
        over(g, &err);
}

static int next_page(struct gc *g, struct sg_err *err);

static void listed(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    struct gc *g = arg;
    struct sg_err own = { 0 };
    struct sg_entry e;
    bool is_bad = false;
    if (err || p->msg.type != SG_MSG_LISTED) {
        if (!err)
            (void)sg_fail(&own, SG_UNAVAILABLE, "the volume gave no answer");
        over(g, err ? err : &own);
        return;
    }
    struct sg_bytes rest = p->msg.listed.entries;
    while (sg_entry_next(&rest, &e, &is_bad))
        if (S_ISDIR(e.mode) && e.mtime_ns < g->before_ns && sg_id_is_valid(e.name.p, 's') &&
            g->artifacts_n < FOUND_MAX)
            g->artifacts[g->artifacts_n++] = sg_strdup(e.name.p);
    g->cursor = p->msg.listed.next;
    if (!g->cursor)
        next_removal(g);
    else if (next_page(g, &own) < 0)
        over(g, &own);
}

static int next_page(struct gc *g, struct sg_err *err)
{
    struct sg_msg m = { .type = SG_MSG_LIST };
    m.list = (struct sg_msg_list) { sg_text_of("root"), sg_text_of("/"), g->cursor };
    struct sg_sandbox *s = visitor(g, err);
    return s ? sg_files_ask(s, &g->who, &m, NULL, 0, listed, g, err) : -1;
}

static void arrived(void *arg, struct sg_sandbox *s, const struct sg_err *err)
{
    struct gc *g = arg;
    struct sg_err own = { 0 };
    (void)s;
    if (err || next_page(g, &own) < 0)
        over(g, err ? err : &own);
}

int sg_manager_gc(struct sg_manager *m, const struct sg_who *who, const struct sg_gc_wish *w,
                  sg_gc_cb *cb, void *arg, struct sg_err *err)
{
    struct sg_err none = { 0 };
    if (sg_tenant_demand(who, SG_SCOPE_EXEC, err) < 0)
        return sg_manager_denied(m, who, "storage.gc", NULL, err);
    struct gc *g = sg_new(struct gc);
    g->m = m;
    g->who = *who;
    g->wish = *w;
    g->cb = cb;
    g->arg = arg;
    g->before_ns =
        (uint64_t)(sg_manager_unix_ms() - (int64_t)w->artifact_days * 86400000) * 1000000u;
    if (!w->is_dry)
        sg_manager_audit(m, who, "storage.gc", NULL, NULL);
    take_snapshots(g);
    take_layers(g);
    struct sg_volume *v = sg_volume_find(m, who, SG_ARTIFACTS, &none);
    if (!v) {
        over(g, NULL);
        return 0;
    }
    memcpy(g->volume, v->id.s, sizeof g->volume);
    if (sg_volume_visit(m, v, arrived, g, &none) < 0)
        over(g, &none);
    return 0;
}

/* ---- by itself ---- */

static void tick(struct sg_timer *t, uint64_t now_ns)
{
    struct sg_manager *m = SG_OWNER(t, struct sg_manager, gc);
    const struct sg_gc_wish wish = { SG_ARTIFACT_DAYS, SG_LAYER_DAYS, false };
    struct sg_err err = { 0 };
    sg_layers_trim(m);
    for (const struct sg_volume *v = m->volumes; v && !m->is_ending; v = v->next) {
        const struct sg_who us = { .org = v->org, .scopes = SG_SCOPE_ALL, .is_operator = true };
        if (v->state == SG_VOLUME_READY && strcmp(v->name, SG_ARTIFACTS) == 0)
            (void)sg_manager_gc(m, &us, &wish, NULL, NULL, &err);
    }
    sg_timer_set(m->loop, t, now_ns + HOUR_NS);
}

void sg_gc_start(struct sg_manager *m)
{
    m->gc.fire = tick;
    sg_timer_set(m->loop, &m->gc, sg_loop_now(m->loop) + HOUR_NS);
}
