/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots, forks, rollback, lineage, the storage pool. */
#include <limits.h>
#include <stddef.h>
#include <string.h>

#include "api/rest/rest.h"
#include "base/auto.h"
#include "manager/capture.h"
#include "manager/snapshot.h"
#include "base/banned.h"

enum { LIMIT_MAX = 1000, FORKS_DEFAULT = 1 };

static void put_snapshot(struct sg_json *j, const struct sg_manager *m, const struct sg_snapshot *t)
{
    sg_json_open(j, '{');
    sg_rest_put_text(j, "id", t->id.s);
    sg_rest_put_text(j, "org", t->org->id.s);
    sg_rest_put_text(j, "name", t->name);
    sg_rest_put_text(j, "tag", t->tag);
    sg_rest_put_text(j, "sandbox", t->sandbox);
    sg_rest_put_text(j, "parent", t->parent);
    sg_rest_put_text(j, "template", t->template);
    sg_json_put_u64(j, "bytes", t->bytes);
    if (t->frozen_ns)
        sg_json_put_u64(j, "frozenUs", t->frozen_ns / 1000);
    sg_json_put_u64(j, "sandboxes", sg_snapshot_users(m, t));
    sg_rest_put_time(j, "createdAt", t->created_ms);
    sg_json_close(j, '}');
}

static void reply_snapshot(struct sg_call *c, int status, const struct sg_snapshot *t)
{
    sg_auto_buf out;
    struct sg_json j;
    sg_buf_init(&out, SG_REST_MAX_REPLY);
    sg_json_init(&j, &out);
    put_snapshot(&j, c->manager, t);
    sg_reply_json(c, status, &out);
}

void sg_rest_reply_snapshot(struct sg_call *c, const struct sg_snapshot *t)
{
    reply_snapshot(c, 201, t);
}

static void snapped(void *arg, struct sg_snapshot *t, const struct sg_err *err)
{
    if (err)
        sg_reply_error(arg, err);
    else
        sg_rest_reply_snapshot(arg, t);
}

int sg_rest_snapshot_create(struct sg_call *c, struct sg_err *err)
{
    struct body {
        const char *name, *tag;
    } b = { 0 };
    static const struct sg_jfield fields[] = {
        { "name", SG_JT_STRING, offsetof(struct body, name), 0, 0, false },
        { "tag", SG_JT_STRING, offsetof(struct body, tag), 0, 0, false },
    };
    const struct sg_jval *body;
    struct sg_sandbox *s = sg_rest_sandbox(c, err);
    if (!s || sg_call_json(c, &body, err) < 0 ||
        sg_json_read(body, fields, SG_COUNT(fields), &b, err) < 0)
        return -1;
    return sg_manager_snapshot(s, &c->who, b.name, b.tag, snapped, c, err);
}

static bool matches(const struct sg_snapshot *t, const char *sandbox, const char *name)
{
    return (!sandbox || strcmp(t->sandbox, sandbox) == 0) && (!name || strcmp(t->name, name) == 0);
}

int sg_rest_snapshot_list(struct sg_call *c, struct sg_err *err)
{
    static const char *const known[] = { "sandbox", "name", "limit", NULL };
    const char *sandbox = sg_call_query(c, "sandbox"), *name = sg_call_query(c, "name");
    uint64_t limit = LIMIT_MAX;
    if (sg_call_query_only(c, known, err) < 0 ||
        sg_call_query_u64(c, "limit", 1, LIMIT_MAX, &limit, err) < 0)
        return -1;
    sg_auto_buf out;
    struct sg_json j;
    sg_rest_open_list(&j, &out, "snapshots");
    for (const struct sg_snapshot *t = sg_snapshot_next(c->manager, &c->who, NULL); t && limit;
         t = sg_snapshot_next(c->manager, &c->who, t)) {
        if (!matches(t, sandbox, name))
            continue;
        put_snapshot(&j, c->manager, t);
        limit--;
    }
    sg_json_close(&j, ']');
    sg_json_close(&j, '}');
    sg_reply_json(c, 200, &out);
    return 0;
}

static struct sg_snapshot *find(struct sg_call *c, struct sg_err *err)
{
    return sg_snapshot_find(c->manager, &c->who, sg_call_param(c, "snapshot"), err);
}

int sg_rest_snapshot_get(struct sg_call *c, struct sg_err *err)
{
    const struct sg_snapshot *t = find(c, err);
    if (!t)
        return -1;
    reply_snapshot(c, 200, t);
    return 0;
}

int sg_rest_snapshot_delete(struct sg_call *c, struct sg_err *err)
{
    static const char *const known[] = { "cascade", NULL };
    bool cascades = false;
    if (sg_call_query_only(c, known, err) < 0 ||
        sg_call_query_bool(c, "cascade", &cascades, err) < 0)
        return -1;
    struct sg_snapshot *t = find(c, err);
    return t ? sg_snapshot_remove(c->manager, &c->who, t, cascades, sg_rest_reply_done, c, err)
             : -1;
}

int sg_rest_sandbox_rollback(struct sg_call *c, struct sg_err *err)
{
    const char *ref = NULL;
    const struct sg_jfield fields[] = { { "snapshot", SG_JT_STRING, 0, 0, 0, true } };
    const struct sg_jval *body;
    struct sg_sandbox *s = sg_rest_sandbox(c, err);
    if (!s || sg_call_json(c, &body, err) < 0 || sg_json_read(body, fields, 1, &ref, err) < 0)
        return -1;
    struct sg_snapshot *t = sg_snapshot_find(c->manager, &c->who, ref, err);
    return t ? sg_manager_rollback(s, &c->who, t, sg_rest_reply_sandbox, c, err) : -1;
}

/* ---- fork ---- */

static void put_forked(struct sg_json *j, const struct sg_forked *f)
{
    sg_json_open(j, '{');
    if (f->s) {
        sg_json_key(j, "sandbox");
        sg_rest_put_sandbox(j, f->s);
    } else {
        sg_json_key(j, "error");
        sg_json_open(j, '{');
        sg_rest_put_text(j, "kind", sg_kind_name(f->err.kind));
        sg_rest_put_text(j, "message", f->err.msg);
        sg_json_close(j, '}');
    }
    sg_json_close(j, '}');
}

static void forked(void *arg, const struct sg_forked *v, unsigned n, const struct sg_err *err)
{
    struct sg_call *c = arg;
    if (err) {
        sg_reply_error(c, err);
        return;
    }
    sg_auto_buf out;
    struct sg_json j;
    sg_rest_open_list(&j, &out, "forks");
    for (unsigned i = 0; i < n; i++)
        put_forked(&j, &v[i]);
    sg_json_close(&j, ']');
    sg_json_close(&j, '}');
    sg_reply_json(c, 201, &out);
}

int sg_rest_sandbox_fork(struct sg_call *c, struct sg_err *err)
{
    struct body {
        uint64_t count, timeout_ms, checkpoint_every;
        const struct sg_jval *captures;
    } b = { FORKS_DEFAULT, UINT64_MAX, UINT_MAX, NULL };
    static const struct sg_jfield fields[] = {
        { "count", SG_JT_U64, offsetof(struct body, count), 1, SG_FORKS_MAX, false },
        { "timeoutMs", SG_JT_U64, offsetof(struct body, timeout_ms), 0, UINT64_MAX / 1000000,
          false },
        { "captureFiles", SG_JT_ARRAY, offsetof(struct body, captures), 0, 0, false },
        { "checkpointEvery", SG_JT_U64, offsetof(struct body, checkpoint_every), 0,
          SG_CHECKPOINT_EVERY_MAX, false },
    };
    const struct sg_jval *body;
    const char **captures = NULL;
    struct sg_sandbox *s = sg_rest_sandbox(c, err);
    if (!s || sg_call_json(c, &body, err) < 0 ||
        sg_json_read(body, fields, SG_COUNT(fields), &b, err) < 0 ||
        sg_rest_strings(c, b.captures, "captureFiles", &captures, err) < 0)
        return -1;
    const struct sg_fork f = { .count = (unsigned)b.count,
                               .timeout_ms = b.timeout_ms,
                               .captures = captures,
                               .captures_n = b.captures ? b.captures->list.n : 0,
                               .checkpoint_every = (unsigned)b.checkpoint_every };
    return sg_manager_fork(s, &c->who, &f, forked, c, err);
}

/* ---- pause ---- */

int sg_rest_sandbox_pause(struct sg_call *c, struct sg_err *err)
{
    bool keeps_memory = true;
    const struct sg_jfield fields[] = { { "memory", SG_JT_BOOL, 0, 0, 0, false } };
    const struct sg_jval *body;
    struct sg_sandbox *s = sg_rest_sandbox(c, err);
    if (!s || sg_call_json(c, &body, err) < 0 ||
        sg_json_read(body, fields, 1, &keeps_memory, err) < 0)
        return -1;
    return keeps_memory ? sg_manager_pause(s, &c->who, sg_rest_reply_sandbox, c, err)
                        : sg_manager_pause_disk(s, &c->who, sg_rest_reply_sandbox, c, err);
}

/* ---- lineage: each with the one that it came from ---- */

static void put_node(struct sg_json *j, const char *kind, const char *id, const char *parent,
                     const char *name, const char *state, int64_t created_ms)
{
    sg_json_open(j, '{');
    sg_rest_put_text(j, "kind", kind);
    sg_rest_put_text(j, "id", id);
    sg_rest_put_text(j, "parent", parent);
    sg_rest_put_text(j, "name", name);
    sg_rest_put_text(j, "state", state);
    sg_rest_put_time(j, "createdAt", created_ms);
    sg_json_close(j, '}');
}

/* Of a sandbox the snapshot that it was made of, where that is still there; else the sandbox that
 * it was forked from. One that is younger is what it went back to: parents are older. */
static const char *parent_of(struct sg_call *c, const struct sg_sandbox *s)
{
    const struct sg_snapshot *t =
        s->snapshot ? sg_snapshot_find(c->manager, &c->who, s->snapshot, NULL) : NULL;
    return t && t->created_ms <= s->created_ms ? s->snapshot : s->parent;
}

int sg_rest_tree(struct sg_call *c, struct sg_err *err)
{
    struct sg_list_query q = { .limit = LIMIT_MAX };
    bool has_more;
    struct sg_sandbox **v = sg_arena_alloc(&c->arena, LIMIT_MAX * sizeof(struct sg_sandbox *));
    if (!v)
        return sg_fail(err, SG_EXHAUSTED, "no room for the list");
    sg_auto_buf out;
    struct sg_json j;
    sg_rest_open_list(&j, &out, "nodes");
    for (const struct sg_snapshot *t = sg_snapshot_next(c->manager, &c->who, NULL); t;
         t = sg_snapshot_next(c->manager, &c->who, t)) {
        sg_auto_free char *name = *t->name ? sg_printf("%s:%s", t->name, t->tag) : NULL;
        put_node(&j, "snapshot", t->id.s, t->sandbox, name, "ready", t->created_ms);
    }
    do {
        const size_t n = sg_manager_list(c->manager, &c->who, &q, v, &has_more);
        for (size_t i = 0; i < n; i++)
            put_node(&j, "sandbox", v[i]->id.s, parent_of(c, v[i]), v[i]->template,
                     sg_state_name(v[i]->state), v[i]->created_ms);
        q.after = n ? v[n - 1]->id.s : NULL;
    } while (has_more && q.after);
    sg_json_close(&j, ']');
    sg_json_close(&j, '}');
    sg_reply_json(c, 200, &out);
    return 0;
}

/* ---- the pool ---- */

static void put_memory(struct sg_json *j, const struct sg_storage *st)
{
    sg_json_key(j, "pausedMemory");
    sg_json_open(j, '{');
    sg_rest_put_text(j, "is", st->paused_memory);
    sg_json_put_u64(j, "swapBytes", st->swap_bytes);
    if (*st->kept_why)
        sg_rest_put_text(j, "why", st->kept_why);
    sg_json_close(j, '}');
}

static void storage_known(void *arg, const struct sg_storage *st, const struct sg_err *err)
{
    struct sg_call *c = arg;
    if (err) {
        sg_reply_error(c, err);
        return;
    }
    sg_auto_buf out;
    struct sg_json j;
    sg_buf_init(&out, SG_REST_MAX_REPLY);
    sg_json_init(&j, &out);
    sg_json_open(&j, '{');
    sg_rest_put_text(&j, "source", st->source);
    sg_rest_put_text(&j, "why", st->why);
    sg_json_put_u64(&j, "totalBytes", st->total_bytes);
    sg_json_put_u64(&j, "freeBytes", st->free_bytes);
    sg_json_key(&j, "full");
    sg_json_bool(&j, st->is_full);
    sg_json_key(&j, "limitsHold");
    sg_json_bool(&j, st->is_counting);
    sg_json_put_u64(&j, "errors", st->errors);
    sg_json_put_u64(&j, "snapshots", st->snapshots);
    put_memory(&j, st);
    sg_json_close(&j, '}');
    sg_reply_json(c, 200, &out);
}

int sg_rest_storage(struct sg_call *c, struct sg_err *err)
{
    return sg_manager_storage(c->manager, storage_known, c, err);
}

/* ---- what is of no use any more ---- */

static void put_ids(struct sg_json *j, const char *key, const char *const *v, size_t n)
{
    sg_json_key(j, key);
    sg_json_open(j, '[');
    for (size_t i = 0; i < n; i++)
        sg_json_str(j, v[i]);
    sg_json_close(j, ']');
}

static void collected(void *arg, const struct sg_gc_found *f, const struct sg_err *err)
{
    struct sg_call *c = arg;
    if (err) {
        sg_reply_error(c, err);
        return;
    }
    sg_auto_buf out;
    struct sg_json j;
    sg_buf_init(&out, SG_REST_MAX_REPLY);
    sg_json_init(&j, &out);
    sg_json_open(&j, '{');
    put_ids(&j, "snapshots", f->snapshots, f->snapshots_n);
    put_ids(&j, "artifacts", f->artifacts, f->artifacts_n);
    put_ids(&j, "layers", f->layers, f->layers_n);
    sg_json_put_u64(&j, "snapshotBytes", f->snapshot_bytes);
    sg_json_put_u64(&j, "layerBytes", f->layer_bytes);
    sg_json_close(&j, '}');
    sg_reply_json(c, 200, &out);
}

struct gc_body {
    uint64_t days, layer_days;
    bool is_dry;
};

int sg_rest_gc(struct sg_call *c, struct sg_err *err)
{
    static const struct sg_jfield fields[] = {
        { "artifactDays", SG_JT_U64, offsetof(struct gc_body, days), 0, 36500, false },
        { "layerDays", SG_JT_U64, offsetof(struct gc_body, layer_days), 0, 36500, false },
        { "dryRun", SG_JT_BOOL, offsetof(struct gc_body, is_dry), 0, 0, false },
    };
    struct gc_body b = { .days = SG_ARTIFACT_DAYS, .layer_days = SG_LAYER_DAYS };
    const struct sg_jval *body;
    if (sg_call_json(c, &body, err) < 0 ||
        sg_json_read(body, fields, SG_COUNT(fields), &b, err) < 0)
        return -1;
    const struct sg_gc_wish w = { (unsigned)b.days, (unsigned)b.layer_days, b.is_dry };
    return sg_manager_gc(c->manager, &c->who, &w, collected, c, err);
}
