/* SPDX-License-Identifier: Apache-2.0 */
/* Volumes: finding, making, removing; see volume.h. */
#include "manager/volume.h"

#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/auto.h"
#include "base/log.h"
#include "base/str.h"
#include "manager/life.h"
#include "tier/tier.h"

#include "base/banned.h"

#define MIN_BYTES (UINT64_C(1) << 20)
#define MAX_BYTES (UINT64_C(1) << 44)

static const char *const state_names[] = {
    [SG_VOLUME_MAKING] = "making", [SG_VOLUME_READY] = "ready", [SG_VOLUME_REMOVING] = "removing"
};

/* ---- the list, by organisation and name ---- */

static void add(struct sg_manager *m, struct sg_volume *v)
{
    struct sg_volume **link = &m->volumes;
    for (; *link; link = &(*link)->next) {
        const int way = strcmp((*link)->org->id.s, v->org->id.s);
        if (way > 0 || (way == 0 && strcmp((*link)->name, v->name) > 0))
            break;
    }
    v->next = *link;
    *link = v;
    v->org->disk_bytes += v->bytes;
}

static void drop(struct sg_manager *m, struct sg_volume *v)
{
    struct sg_volume **link = &m->volumes;
    while (*link != v)
        link = &(*link)->next;
    *link = v->next;
    v->org->disk_bytes -= v->bytes;
    free(v->name);
    OPENSSL_cleanse(v->token, sizeof v->token);
    free(v);
}

static struct sg_volume *named(struct sg_manager *m, const struct sg_org *org, const char *which)
{
    const bool is_id = sg_id_is_valid(which, 'v');
    for (struct sg_volume *v = m->volumes; v; v = v->next)
        if (v->org == org && strcmp(is_id ? v->id.s : v->name, which) == 0)
            return v;
    return NULL;
}

struct sg_volume *sg_volume_find(struct sg_manager *m, const struct sg_who *who, const char *which,
                                 struct sg_err *err)
{
    struct sg_volume *v = named(m, who->org, which);
    if (v && v->state == SG_VOLUME_READY)
        return v;
    (void)sg_fail(err, SG_NOT_FOUND, "volume %s not found", sg_quote(which).s);
    return NULL;
}

struct sg_volume *sg_volume_by_token(struct sg_manager *m, const char *token)
{
    if (strlen(token) != SG_VOLUME_TOKEN_LEN)
        return NULL;
    for (struct sg_volume *v = m->volumes; v; v = v->next)
        if (strncmp(token, v->id.s, SG_ID_LEN) == 0)
            return v->state == SG_VOLUME_READY &&
                           CRYPTO_memcmp(v->token, token, SG_VOLUME_TOKEN_LEN) == 0
                       ? v
                       : NULL;
    return NULL;
}

const struct sg_volume *sg_volume_next(struct sg_manager *m, const struct sg_who *who,
                                       const struct sg_volume *v)
{
    for (v = v ? v->next : m->volumes; v; v = v->next)
        if (v->org == who->org && v->state == SG_VOLUME_READY)
            return v;
    return NULL;
}

unsigned sg_volume_users(struct sg_manager *m, const struct sg_volume *v)
{
    unsigned n = 0;
    for (const struct sg_sandbox *s = m->newest; s; s = s->older)
        for (size_t i = 0; i < s->mounts.n && !s->is_internal && s->state != SBX_FAILED; i++)
            n += strcmp(s->mounts.v[i].volume, v->id.s) == 0;
    return n;
}

/* ---- rows ---- */

void sg_volume_put_row(struct sg_manager *m, const struct sg_volume *v, enum sg_volume_state state,
                       void (*done)(void *arg, const struct sg_err *err), void *arg)
{
    const struct sg_volume_row row = {
        .id = v->id.s,
        .org = v->org->id.s,
        .name = v->name,
        .token = v->token,
        .state = state_names[state],
        .bytes = (int64_t)v->bytes,
        .created_ms = v->created_ms,
    };
    if (done)
        sg_store_put_volume(m->store, &row, SG_STORE_FULL, sg_note_done, sg_note_new(m, done, arg));
    else
        sg_store_put_volume(m->store, &row, SG_STORE_FULL, NULL, NULL);
}

static bool load_one(void *arg, const struct sg_volume_row *r)
{
    struct sg_manager *m = arg;
    struct sg_org *org = r->org ? sg_map_find(&m->orgs, r->org) : NULL;
    if (!org || !r->name || !r->token || !r->state || !sg_id_is_valid(r->id, 'v') ||
        strlen(r->token) != SG_VOLUME_TOKEN_LEN)
        return true;
    struct sg_volume *v = sg_new(struct sg_volume);
    memcpy(v->id.s, r->id, sizeof v->id.s);
    memcpy(v->token, r->token, sizeof v->token);
    v->org = org;
    v->name = sg_strdup(r->name);
    v->bytes = (uint64_t)r->bytes;
    v->created_ms = r->created_ms;
    const bool is_left = sg_starts_with(r->name, SG_VOLUME_BATCH) &&
                         sg_id_is_valid(r->name + strlen(SG_VOLUME_BATCH), SG_VOLUME_BATCH_LETTER);
    const bool is_ready = strcmp(r->state, state_names[SG_VOLUME_READY]) == 0;
    v->state = is_ready && !is_left ? SG_VOLUME_READY : SG_VOLUME_REMOVING;
    add(m, v);
    return true;
}

int sg_volume_load(struct sg_manager *m, struct sg_err *err)
{
    if (sg_store_each_volume(m->store, load_one, m, err) < 0)
        return sg_wrap(err, "load the volumes");
    return 0;
}

void sg_volume_free_all(struct sg_manager *m)
{
    while (m->volumes)
        drop(m, m->volumes);
}

/* ---- one change at a time; the object stays until it is over ---- */

struct change {
    struct sg_manager *m;
    struct sg_volume *v;
    sg_volume_cb *made;
    sg_tenant_cb *removed;
    void *arg;
    struct sg_err why; /* a making that failed */
};

static void change_over(struct change *c, const struct sg_err *err)
{
    if (c->made)
        c->made(c->arg, err ? NULL : c->v, err);
    else if (c->removed)
        c->removed(c->arg, err);
    free(c);
}

/* ---- removing, also of what could not be made ---- */

static void row_gone(void *arg, const struct sg_err *err)
{
    struct change *c = arg;
    if (!err && !c->m->is_ending)
        drop(c->m, c->v);
    change_over(c, c->why.kind != SG_OK ? &c->why : err);
}

static void part_gone(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    struct change *c = arg;
    (void)p;
    if (err) { /* the row says what is to be done at the next start */
        change_over(c, c->why.kind != SG_OK ? &c->why : err);
        return;
    }
    sg_store_remove_volume(c->m->store, c->v->id.s, sg_note_done, sg_note_new(c->m, row_gone, c));
}

static void unmake(struct change *c)
{
    c->v->state = SG_VOLUME_REMOVING;
    sg_tier_volume_remove(c->m->tier, c->v->id.s, part_gone, c);
}

static void marked(void *arg, const struct sg_err *err)
{
    struct change *c = arg;
    if (err) {
        c->v->state = SG_VOLUME_READY;
        change_over(c, err);
        return;
    }
    unmake(c);
}

static void end_visitor(struct sg_manager *m, const struct sg_volume *v)
{
    struct sg_sandbox *s = v->visitor.s[0] ? sg_map_find(&m->sandboxes, v->visitor.s) : NULL;
    const struct sg_who us = { .org = v->org, .scopes = SG_SCOPE_ALL, .is_operator = true };
    struct sg_err ignored;
    if (s)
        (void)sg_manager_destroy(s, &us, NULL, NULL, &ignored);
}

int sg_volume_remove(struct sg_manager *m, const struct sg_who *who, const char *which, bool force,
                     sg_tenant_cb *cb, void *arg, struct sg_err *err)
{
    struct sg_volume *v = sg_volume_find(m, who, which, err);
    if (!v)
        return -1;
    if (sg_tenant_demand(who, SG_SCOPE_EXEC, err) < 0)
        return sg_manager_denied(m, who, "volume.remove", NULL, err);
    const unsigned users = sg_volume_users(m, v);
    if (v->is_changing)
        return sg_fail(err, SG_CONFLICT, "volume %s is being changed; try again",
                       sg_quote(v->name).s);
    if (users && !force)
        return sg_fail(err, SG_CONFLICT, "volume %s is mounted in %u sandboxes",
                       sg_quote(v->name).s, users);
    struct change *c = sg_new(struct change);
    *c = (struct change) { .m = m, .v = v, .removed = cb, .arg = arg };
    v->state = SG_VOLUME_REMOVING;
    end_visitor(m, v);
    sg_manager_audit_value(m, who, "volume.remove", NULL, "volume", v->name);
    sg_events_add(m, v->org, NULL, "volume.removed", NULL);
    sg_volume_put_row(m, v, SG_VOLUME_REMOVING, marked, c);
    return 0;
}

void sg_volume_recover(struct sg_manager *m)
{
    for (struct sg_volume *v = m->volumes; v; v = v->next) {
        if (v->state != SG_VOLUME_REMOVING || !(sg_tier_flags(m->tier) & SG_L_POOL))
            continue;
        struct change *c = sg_new(struct change);
        *c = (struct change) { .m = m, .v = v };
        unmake(c);
    }
}

/* ---- making ---- */

static void fail_making(struct change *c, const struct sg_err *err)
{
    c->why = *err;
    unmake(c);
}

static void row_ready(void *arg, const struct sg_err *err)
{
    struct change *c = arg;
    if (err) {
        fail_making(c, err);
        return;
    }
    c->v->state = SG_VOLUME_READY;
    sg_events_add(c->m, c->v->org, NULL, "volume.created", NULL);
    change_over(c, NULL);
}

static void part_made(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    struct change *c = arg;
    (void)p;
    if (err)
        fail_making(c, err);
    else
        sg_volume_put_row(c->m, c->v, SG_VOLUME_READY, row_ready, c);
}

static void row_written(void *arg, const struct sg_err *err)
{
    struct change *c = arg;
    if (err)
        fail_making(c, err);
    else
        sg_tier_volume_make(c->m->tier, c->v->id.s, c->v->bytes, part_made, c);
}

static int check_name(const char *name, struct sg_err *err)
{
    static const char some[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    const size_t n = strlen(name);
    if (!n || n > 128 || strspn(name, some) != n || strchr("._-", name[0]) ||
        sg_id_is_valid(name, 'v'))
        return sg_fail(err, SG_INVALID,
                       "%s is no name for a volume: letters, digits, '.', '_' and '-'",
                       sg_quote(name).s);
    return 0;
}

int sg_volume_check_bytes(struct sg_manager *m, const struct sg_org *org, uint64_t bytes,
                          uint64_t had, struct sg_err *err)
{
    const uint64_t others = org->disk_bytes - had;
    if (bytes < MIN_BYTES || bytes > MAX_BYTES)
        return sg_fail(err, SG_INVALID, "a volume has 1 MiB to 16 TiB");
    if (bytes > had && org->quota.disk_bytes &&
        (others > org->quota.disk_bytes || bytes > org->quota.disk_bytes - others)) {
        m->metrics.hits[SG_HIT_DISK]++;
        return sg_fail(err, SG_EXHAUSTED, "the organisation's quota of disk is %llu bytes",
                       (unsigned long long)org->quota.disk_bytes);
    }
    return 0;
}

static int check_room(struct sg_manager *m, const struct sg_org *org, uint64_t bytes,
                      struct sg_err *err)
{
    unsigned count = 0;
    for (const struct sg_volume *v = m->volumes; v; v = v->next)
        count += v->org == org;
    if (count >= SG_VOLUMES_MAX)
        return sg_fail(err, SG_EXHAUSTED, "an organisation has at most %d volumes", SG_VOLUMES_MAX);
    return sg_volume_check_bytes(m, org, bytes, 0, err);
}

static int fill_token(struct sg_volume *v, struct sg_err *err)
{
    unsigned char random[(SG_VOLUME_TOKEN_LEN - SG_ID_LEN) / 2];
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        return sg_fail_sys(err, "random bytes for a token");
    memcpy(v->token, v->id.s, SG_ID_LEN);
    for (size_t i = 0; i < sizeof random; i++)
        (void)snprintf(v->token + SG_ID_LEN + 2 * i, 3, "%02x", random[i]);
    return 0;
}

int sg_volume_create(struct sg_manager *m, const struct sg_who *who, const char *name,
                     uint64_t bytes, sg_volume_cb *cb, void *arg, struct sg_err *err)
{
    bytes = bytes ? bytes : SG_VOLUME_BYTES;
    if (sg_tenant_demand(who, SG_SCOPE_EXEC, err) < 0)
        return sg_manager_denied(m, who, "volume.create", NULL, err);
    if (check_name(name, err) < 0)
        return -1;
    if (!m->is_ready || m->is_ending || sg_map_find(&m->orgs, who->org->id.s) != who->org)
        return sg_fail(err, SG_UNAVAILABLE, "not now");
    if (!(sg_tier_flags(m->tier) & SG_L_POOL))
        return sg_fail(err, SG_UNSUPPORTED, "this server has no storage pool for volumes");
    if (named(m, who->org, name))
        return sg_fail(err, SG_CONFLICT, "there is a volume %s", sg_quote(name).s);
    if (check_room(m, who->org, bytes, err) < 0)
        return -1;
    struct sg_volume *v = sg_new(struct sg_volume);
    v->id = sg_id_new('v');
    if (fill_token(v, err) < 0) {
        free(v);
        return -1;
    }
    v->org = who->org;
    v->name = sg_strdup(name);
    v->bytes = bytes;
    v->created_ms = sg_manager_unix_ms();
    add(m, v);
    struct change *c = sg_new(struct change);
    *c = (struct change) { .m = m, .v = v, .made = cb, .arg = arg };
    sg_manager_audit_value(m, who, "volume.create", NULL, "volume", v->name);
    sg_volume_put_row(m, v, SG_VOLUME_MAKING, row_written, c);
    return 0;
}

/* ---- questions ---- */

struct asking {
    sg_volume_use_cb *use;
    sg_tenant_cb *done;
    void *arg;
};

static void answered(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    struct asking *a = arg;
    if (a->use)
        a->use(a->arg, err ? 0 : p->msg.l_stated.disk_used_bytes, err);
    else
        a->done(a->arg, err);
    free(a);
}

int sg_volume_use(struct sg_manager *m, const struct sg_volume *v, sg_volume_use_cb *cb, void *arg,
                  struct sg_err *err)
{
    (void)err;
    struct asking *a = sg_new(struct asking);
    *a = (struct asking) { .use = cb, .arg = arg };
    sg_tier_volume_use(m->tier, v->id.s, answered, a);
    return 0;
}

int sg_volume_sync(struct sg_manager *m, sg_tenant_cb *cb, void *arg, struct sg_err *err)
{
    (void)err;
    struct asking *a = sg_new(struct asking);
    *a = (struct asking) { .done = cb, .arg = arg };
    sg_tier_sync(m->tier, answered, a);
    return 0;
}
