/* SPDX-License-Identifier: Apache-2.0 */
/* A sandbox as a row of the store, and back. What a restart cannot learn from the launcher is in
 * `spec`, as JSON; a member that an older version did not write keeps its default. */
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/jsonr.h"
#include "manager/capture.h"
#include "manager/life.h"
#include "manager/cred.h"
#include "manager/net.h"
#include "manager/preview.h"
#include "manager/traits.h"
#include "manager/volume.h"

#include "base/banned.h"

enum { SPEC_MAX = 1 << 20 };

/* ---- pairs ---- */

void sg_pairs_copy(struct sg_pairs *to, const struct sg_pair *v, size_t n)
{
    to->v = n ? sg_alloc(n * sizeof *to->v) : NULL;
    to->n = n;
    for (size_t i = 0; i < n; i++)
        to->v[i] = (struct sg_pair) { sg_strdup(v[i].name), sg_strdup(v[i].value) };
}

void sg_pairs_done(struct sg_pairs *p)
{
    for (size_t i = 0; i < p->n; i++) {
        free(p->v[i].name);
        free(p->v[i].value);
    }
    free(p->v);
    *p = (struct sg_pairs) { 0 };
}

void sg_pairs_write(struct sg_json *j, const struct sg_pairs *p)
{
    sg_json_open(j, '{');
    for (size_t i = 0; i < p->n; i++) {
        sg_json_key(j, p->v[i].name);
        sg_json_str(j, p->v[i].value);
    }
    sg_json_close(j, '}');
}

void sg_pairs_read(const struct sg_jval *v, struct sg_pairs *to)
{
    if (!v || v->kind != SG_J_OBJECT || v->list.n == 0)
        return;
    to->v = sg_alloc(v->list.n * sizeof *to->v);
    for (const struct sg_jval *one = v->list.first; one; one = one->next) {
        if (one->kind == SG_J_STRING)
            to->v[to->n++] = (struct sg_pair) { sg_strdup(one->key.p), sg_strdup(one->s.p) };
    }
}

/* ---- out ---- */

static void write_number(struct sg_json *j, const char *key, uint64_t v)
{
    sg_json_key(j, key);
    sg_json_u64(j, v);
}

static void write_text(struct sg_json *j, const char *key, const char *v)
{
    if (!v)
        return;
    sg_json_key(j, key);
    sg_json_str(j, v);
}

static void write_mounts(struct sg_json *j, const struct sg_mounts *all)
{
    sg_json_key(j, "mounts");
    sg_json_open(j, '[');
    for (size_t i = 0; i < all->n; i++) {
        sg_json_open(j, '{');
        sg_json_key(j, "volume");
        sg_json_str(j, all->v[i].volume);
        sg_json_key(j, "path");
        sg_json_str(j, all->v[i].path);
        sg_json_key(j, "readOnly");
        sg_json_bool(j, all->v[i].is_read_only);
        sg_json_close(j, '}');
    }
    sg_json_close(j, ']');
}

static void write_previews(struct sg_json *j, const struct sg_sandbox *s)
{
    sg_json_key(j, "previews");
    sg_json_open(j, '[');
    for (size_t i = 0; i < s->preview_n; i++) {
        sg_json_open(j, '{');
        write_number(j, "port", s->previews[i].port);
        sg_json_key(j, "public");
        sg_json_bool(j, s->previews[i].is_public);
        write_text(j, "key", s->previews[i].key);
        sg_json_close(j, '}');
    }
    sg_json_close(j, ']');
}

static void write_spec(const struct sg_sandbox *s, struct sg_buf *out)
{
    struct sg_json j;

    sg_json_init(&j, out);
    sg_json_open(&j, '{');
    sg_json_key(&j, "limits");
    sg_json_open(&j, '{');
    write_number(&j, "memoryBytes", s->limits.mem_bytes);
    write_number(&j, "cpuMilli", s->limits.cpu_milli);
    write_number(&j, "pids", s->limits.pids);
    write_number(&j, "diskBytes", s->limits.disk_bytes);
    sg_json_close(&j, '}');
    write_number(&j, "timeoutMs", s->timeout_ms);
    write_number(&j, "idleMs", s->idle_ms);
    sg_json_key(&j, "pausesAtExpiry");
    sg_json_bool(&j, s->on_expiry == SG_EXPIRY_PAUSE);
    write_number(&j, "retriesLeft", s->retries_left);
    write_number(&j, "retriesUsed", s->retries_used);
    sg_json_key(&j, "wasParked");
    sg_json_bool(&j, s->was_parked);
    sg_json_key(&j, "isKnown");
    sg_json_bool(&j, s->life->is_known);
    sg_json_key(&j, "isEnding");
    sg_json_bool(&j, s->life->is_ending);
    sg_json_key(&j, "dropsMemory");
    sg_json_bool(&j, s->drops_memory);
    sg_json_key(&j, "isPooled");
    sg_json_bool(&j, s->is_pooled);
    if (s->checkpoint_every)
        write_number(&j, "checkpointEvery", s->checkpoint_every);
    if (s->captures_n) {
        sg_json_key(&j, "captures");
        sg_json_open(&j, '[');
        for (size_t i = 0; i < s->captures_n; i++)
            sg_json_str(&j, s->captures[i]);
        sg_json_close(&j, ']');
    }
    write_text(&j, "snapshot", s->snapshot);
    write_text(&j, "parent", s->parent);
    write_text(&j, "pausedSnapshot", s->paused_snapshot);
    write_text(&j, "pausedFiles", s->paused_files);
    sg_json_key(&j, "metadata");
    sg_pairs_write(&j, &s->metadata);
    sg_json_key(&j, "env");
    sg_pairs_write(&j, &s->env);
    if (sg_policy_has_way(&s->network)) {
        sg_json_key(&j, "network");
        sg_net_put_row(&j, &s->network);
    }
    write_text(&j, "tier", sg_wall_names[s->wall]);
    if (s->preview_n)
        write_previews(&j, s);
    if (s->creds.use_n || s->creds.field_n) {
        sg_json_key(&j, "credentials");
        sg_creds_put(&j, &s->creds);
    }
    write_text(&j, "decision", s->decision);
    if (s->mounts.n)
        write_mounts(&j, &s->mounts);
    if (s->is_internal) {
        sg_json_key(&j, "isInternal");
        sg_json_bool(&j, true);
    }
    if (s->is_brief) {
        sg_json_key(&j, "isBrief");
        sg_json_bool(&j, true);
    }
    if (!sg_traits_is_empty(&s->traits)) {
        sg_json_key(&j, "traits");
        sg_traits_put(&j, &s->traits);
    }
    write_text(&j, "built", s->built);
    write_text(&j, "door", s->door);
    sg_json_close(&j, '}');
}

void sg_row_put(struct sg_sandbox *s, enum sg_state state, enum sg_store_mode mode,
                sg_store_done *done, void *arg)
{
    sg_auto_buf spec;

    sg_buf_init(&spec, SPEC_MAX);
    write_spec(s, &spec);
    s->life->row_state = state;
    struct sg_sandbox_row row = {
        .id = s->id.s,
        .org = s->org->id.s,
        .template = s->template,
        .state = sg_state_name(state),
        .cause = s->cause,
        .spec = sg_buf_cstr(&spec),
        .created_ms = s->created_ms,
        .started_ms = s->started_ms,
        .expires_ms = s->expires_ms,
        .updated_ms = sg_manager_unix_ms(),
    };
    sg_store_put_sandbox(s->manager->store, &row, mode, done, arg);
}

void sg_row_touch(struct sg_sandbox *s)
{
    sg_row_put(s, s->life->row_state, SG_STORE_NORMAL, NULL, NULL);
}

/* ---- in ---- */

struct spec {
    const struct sg_jval *limits, *metadata, *env, *network;
    uint64_t timeout_ms, idle_ms, retries_left, retries_used, checkpoint_every;
    bool pauses, was_parked, is_known, is_ending, drops_memory, is_pooled, is_internal, is_brief;
    const struct sg_jval *mounts, *traits, *previews, *captures, *credentials;
    const char *tier, *decision, *door, *snapshot, *parent, *paused_snapshot, *paused_files, *built;
};

struct preview_doc {
    uint64_t port;
    bool is_public;
    const char *key;
};

/* One that cannot be read is not open. */
static void read_previews(const struct sg_jval *v, struct sg_sandbox *s)
{
    static const struct sg_jfield fields[] = {
        { "port", SG_JT_U64, offsetof(struct preview_doc, port), 1, UINT16_MAX, true },
        { "public", SG_JT_BOOL, offsetof(struct preview_doc, is_public), 0, 0, true },
        { "key", SG_JT_STRING, offsetof(struct preview_doc, key), 0, 0, true },
    };
    const struct sg_jval *one = v ? v->list.first : NULL;
    if (one)
        s->previews = sg_alloc(SG_PREVIEWS_MAX * sizeof *s->previews);
    for (; one && s->preview_n < SG_PREVIEWS_MAX; one = one->next) {
        struct preview_doc d = { 0 };
        struct sg_err err;
        if (sg_json_read(one, fields, SG_COUNT(fields), &d, &err) < 0 ||
            strlen(d.key) != SG_PREVIEW_KEY)
            continue;
        struct sg_preview *p = &s->previews[s->preview_n++];
        *p = (struct sg_preview) { .port = (uint16_t)d.port, .is_public = d.is_public };
        memcpy(p->key, d.key, SG_PREVIEW_KEY);
    }
}

static const struct sg_jfield spec_fields[] = {
    { "limits", SG_JT_OBJECT, offsetof(struct spec, limits), 0, 0, false },
    { "timeoutMs", SG_JT_U64, offsetof(struct spec, timeout_ms), 0, UINT64_MAX, false },
    { "idleMs", SG_JT_U64, offsetof(struct spec, idle_ms), 0, UINT64_MAX, false },
    { "pausesAtExpiry", SG_JT_BOOL, offsetof(struct spec, pauses), 0, 0, false },
    { "retriesLeft", SG_JT_U64, offsetof(struct spec, retries_left), 0, UINT32_MAX, false },
    { "retriesUsed", SG_JT_U64, offsetof(struct spec, retries_used), 0, UINT32_MAX, false },
    { "wasParked", SG_JT_BOOL, offsetof(struct spec, was_parked), 0, 0, false },
    { "isKnown", SG_JT_BOOL, offsetof(struct spec, is_known), 0, 0, false },
    { "isEnding", SG_JT_BOOL, offsetof(struct spec, is_ending), 0, 0, false },
    { "metadata", SG_JT_OBJECT, offsetof(struct spec, metadata), 0, 0, false },
    { "env", SG_JT_OBJECT, offsetof(struct spec, env), 0, 0, false },
    { "tier", SG_JT_STRING, offsetof(struct spec, tier), 0, 0, false },
    { "decision", SG_JT_STRING, offsetof(struct spec, decision), 0, 0, false },
    { "network", SG_JT_OBJECT, offsetof(struct spec, network), 0, 0, false },
    { "previews", SG_JT_ARRAY, offsetof(struct spec, previews), 0, 0, false },
    { "credentials", SG_JT_OBJECT, offsetof(struct spec, credentials), 0, 0, false },
    { "door", SG_JT_STRING, offsetof(struct spec, door), 0, 0, false },
    { "dropsMemory", SG_JT_BOOL, offsetof(struct spec, drops_memory), 0, 0, false },
    { "checkpointEvery", SG_JT_U64, offsetof(struct spec, checkpoint_every), 0, UINT32_MAX, false },
    { "captures", SG_JT_ARRAY, offsetof(struct spec, captures), 0, 0, false },
    { "isPooled", SG_JT_BOOL, offsetof(struct spec, is_pooled), 0, 0, false },
    { "snapshot", SG_JT_STRING, offsetof(struct spec, snapshot), 0, 0, false },
    { "parent", SG_JT_STRING, offsetof(struct spec, parent), 0, 0, false },
    { "pausedSnapshot", SG_JT_STRING, offsetof(struct spec, paused_snapshot), 0, 0, false },
    { "pausedFiles", SG_JT_STRING, offsetof(struct spec, paused_files), 0, 0, false },
    { "mounts", SG_JT_ARRAY, offsetof(struct spec, mounts), 0, 0, false },
    { "isInternal", SG_JT_BOOL, offsetof(struct spec, is_internal), 0, 0, false },
    { "isBrief", SG_JT_BOOL, offsetof(struct spec, is_brief), 0, 0, false },
    { "traits", SG_JT_OBJECT, offsetof(struct spec, traits), 0, 0, false },
    { "built", SG_JT_STRING, offsetof(struct spec, built), 0, 0, false },
};
struct mount_row {
    const char *volume, *path;
    bool is_read_only;
};
static const struct sg_jfield mount_fields[] = {
    { "volume", SG_JT_STRING, offsetof(struct mount_row, volume), 0, 0, true },
    { "path", SG_JT_STRING, offsetof(struct mount_row, path), 0, 0, true },
    { "readOnly", SG_JT_BOOL, offsetof(struct mount_row, is_read_only), 0, 0, false },
};
#define LIMIT(key, field)                                                                          \
    {                                                                                              \
        key, SG_JT_U64, offsetof(struct sg_sandbox_limits, field), 0, UINT64_MAX, false            \
    }
static const struct sg_jfield limit_fields[] = {
    LIMIT("memoryBytes", mem_bytes),
    LIMIT("cpuMilli", cpu_milli),
    LIMIT("pids", pids),
    LIMIT("diskBytes", disk_bytes),
};

static char *copy(const char *text)
{
    return text ? sg_strdup(text) : NULL;
}

static int read_mounts(struct sg_sandbox *s, const struct sg_jval *v, struct sg_err *err)
{
    for (const struct sg_jval *one = v ? v->list.first : NULL; one; one = one->next) {
        struct mount_row r = { 0 };
        if (sg_json_read(one, mount_fields, SG_COUNT(mount_fields), &r, err) < 0)
            return -1;
        sg_mounts_add(s, r.volume, r.path, r.is_read_only);
    }
    return 0;
}

static void read_captures(struct sg_sandbox *s, const struct sg_jval *v)
{
    const char *found[SG_CAPTURES_MAX];
    size_t n = 0;
    for (const struct sg_jval *one = v ? v->list.first : NULL; one; one = one->next)
        if (one->kind == SG_J_STRING && n < SG_CAPTURES_MAX)
            found[n++] = one->s.p;
    sg_captures_copy(s, found, n);
}

static int read_spec(struct sg_sandbox *s, const char *text, struct sg_err *err)
{
    sg_auto_arena a;
    const struct sg_jval *v;
    struct spec spec = { 0 };

    sg_arena_init(&a, (size_t)4 * SPEC_MAX);
    if (sg_json_parse(sg_str_of(text), &a, &v, err) < 0 ||
        sg_json_read(v, spec_fields, SG_COUNT(spec_fields), &spec, err) < 0)
        return -1;
    if (spec.limits &&
        sg_json_read(spec.limits, limit_fields, SG_COUNT(limit_fields), &s->limits, err) < 0)
        return -1;
    read_previews(spec.previews, s);
    if (spec.network && sg_net_read(spec.network, &s->network, err) < 0)
        return -1;
    if (spec.credentials && sg_creds_load(spec.credentials, &s->creds, err) < 0)
        return -1;
    s->timeout_ms = spec.timeout_ms;
    s->idle_ms = spec.idle_ms;
    s->on_expiry = spec.pauses ? SG_EXPIRY_PAUSE : SG_EXPIRY_KILL;
    s->retries_left = (unsigned)spec.retries_left;
    s->retries_used = (unsigned)spec.retries_used;
    s->was_parked = spec.was_parked;
    s->life->is_known = spec.is_known;
    s->life->is_ending = spec.is_ending;
    if (read_mounts(s, spec.mounts, err) < 0)
        return -1;
    s->is_internal = spec.is_internal;
    s->is_brief = spec.is_brief;
    sg_pairs_read(spec.metadata, &s->metadata);
    sg_pairs_read(spec.env, &s->env);
    const int wall =
        spec.tier ? sg_router_word(sg_wall_names, SG_WALL_COUNT, "tier", sg_str_of(spec.tier), err)
                  : SG_WALL_CELL;
    if (wall < 0)
        return -1;
    s->wall = (enum sg_wall)wall;
    s->decision = copy(spec.decision);
    s->drops_memory = spec.drops_memory;
    s->is_pooled = spec.is_pooled;
    s->checkpoint_every = (unsigned)spec.checkpoint_every;
    read_captures(s, spec.captures);
    s->door = copy(spec.door);
    s->built = copy(spec.built);
    sg_traits_read(spec.traits, &s->traits);
    s->snapshot = copy(spec.snapshot);
    s->parent = copy(spec.parent);
    s->paused_snapshot = copy(spec.paused_snapshot);
    s->paused_files = copy(spec.paused_files);
    return 0;
}

struct sg_sandbox *sg_row_load(struct sg_manager *m, const struct sg_sandbox_row *r,
                               struct sg_err *err)
{
    struct sg_org *org = sg_map_find(&m->orgs, r->org);
    enum sg_state state;
    struct sg_id id;

    if (!sg_id_is_valid(r->id, 's') || sg_state_parse(r->state, &state) < 0 || !org) {
        (void)sg_fail(err, SG_INVALID, "row %s makes no sense", sg_quote(r->id).s);
        return NULL;
    }
    memcpy(id.s, r->id, sizeof id.s);
    struct sg_sandbox *s = sg_life_new(m, org, &id);
    s->state = state;
    s->life->row_state = state;
    s->template = sg_strdup(r->template);
    sg_life_cause(s, r->cause ? r->cause : "");
    s->created_ms = r->created_ms;
    s->started_ms = r->started_ms;
    s->expires_ms = r->expires_ms;
    if (read_spec(s, r->spec ? r->spec : "{}", err) < 0) {
        (void)sg_wrap(err, "spec of %s", s->id.s);
        sg_life_free(s);
        return NULL;
    }
    if (s->is_internal || s->is_brief) { /* whatever became of it: nobody was told */
        s->state = s->life->row_state = SBX_CREATING;
        s->life->is_known = false;
    }
    return s;
}
