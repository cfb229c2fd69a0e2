/* SPDX-License-Identifier: Apache-2.0 */
/* Fork and rollback, both by way of a snapshot.
 *
 * A fork takes a hidden one, makes the new sandboxes of it, and removes it: each has its own copy.
 * A rollback ends the cell and makes another of the snapshot, under the same id; the row says so
 * before, so that a restart in between goes on with it. */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "manager/capture.h"
#include "manager/life.h"
#include "manager/cred.h"
#include "manager/net.h"
#include "manager/snapshot.h"
#include "manager/traits.h"

#include "base/banned.h"

struct forking {
    struct sg_manager *m;
    struct sg_who who;
    unsigned count, left;
    char *template, *parent, *built; /* owned */
    struct sg_traits traits;
    struct sg_pairs metadata, env;
    struct sg_mounts mounts; /* those of the sandbox, copied */
    struct sg_mount_spec *wanted;
    struct sg_create create;
    struct sg_ask ask; /* the same tier as its source, or none */
    struct sg_policy network;
    struct sg_cred_set creds;
    char **doors; /* owned; NULL: none */
    char **captures;
    size_t captures_n;
    char snapshot[SG_ID_LEN + 1];
    struct sg_forked *v;
    struct one {
        struct forking *f;
        unsigned i;
        char id[SG_ID_LEN + 1]; /* "": it was not made */
    } * ones;
    sg_fork_cb *cb;
    void *arg;
};

static void free_forking(struct forking *f)
{
    for (unsigned i = 0; f->doors && i < f->count; i++)
        free(f->doors[i]);
    free(f->doors);
    for (size_t i = 0; i < f->captures_n; i++)
        free(f->captures[i]);
    free(f->captures);
    free(f->template);
    free(f->parent);
    free(f->built);
    sg_traits_done(&f->traits);
    sg_pairs_done(&f->metadata);
    sg_pairs_done(&f->env);
    sg_policy_done(&f->network);
    sg_creds_done(&f->creds);
    for (size_t i = 0; i < f->mounts.n; i++)
        free(f->mounts.v[i].path);
    free(f->mounts.v);
    free(f->wanted);
    free(f->v);
    free(f->ones);
    free(f);
}

/* One that ended meanwhile is found no more. */
static void tell(struct forking *f)
{
    for (unsigned i = 0; i < f->count; i++) {
        f->v[i].s = sg_map_find(&f->m->sandboxes, f->ones[i].id);
        if (!f->v[i].s && f->v[i].err.kind == SG_OK)
            (void)sg_fail(&f->v[i].err, SG_NOT_FOUND, "the sandbox has ended already");
    }
    struct sg_snapshot *t = sg_map_find(&f->m->snapshots, f->snapshot);
    if (t && !f->m->is_ending)
        sg_snapshot_remove_hidden(f->m, t);
    f->cb(f->arg, f->v, f->count, NULL);
    free_forking(f);
}

static void one_made(void *arg, struct sg_sandbox *s, const struct sg_err *err)
{
    struct one *one = arg;
    struct forking *f = one->f;
    if (s)
        memcpy(one->id, s->id.s, sizeof one->id);
    if (err)
        f->v[one->i].err = *err;
    if (--f->left == 0)
        tell(f);
}

static void snapped(void *arg, struct sg_snapshot *t, const struct sg_err *err)
{
    struct forking *f = arg;
    if (err) {
        f->cb(f->arg, NULL, 0, err);
        free_forking(f);
        return;
    }
    memcpy(f->snapshot, t->id.s, sizeof f->snapshot);
    f->create.snapshot = f->snapshot;
    f->left = f->count + 1;
    for (unsigned i = 0; i < f->count; i++) {
        struct sg_err own = { 0 };
        f->ones[i] = (struct one) { .f = f, .i = i };
        f->create.door = f->doors ? f->doors[i] : NULL;
        if (sg_manager_create(f->m, &f->who, &f->create, one_made, &f->ones[i], &own) < 0)
            one_made(&f->ones[i], NULL, &own);
    }
    if (--f->left == 0)
        tell(f);
}

/* The source may end before its forks are made. */
static void copy_mounts(struct forking *w, const struct sg_mounts *from)
{
    w->mounts.n = from->n;
    w->mounts.v = from->n ? sg_alloc(from->n * sizeof *w->mounts.v) : NULL;
    w->wanted = from->n ? sg_alloc(from->n * sizeof *w->wanted) : NULL;
    for (size_t i = 0; i < from->n; i++) {
        struct sg_mount *m = &w->mounts.v[i];
        *m = from->v[i];
        m->path = sg_strdup(m->path);
        w->wanted[i] = (struct sg_mount_spec) { m->volume, m->path, m->is_read_only };
    }
}

/* Those of the call, or of the source. */
static void copy_captures(struct forking *w, const struct sg_sandbox *s, const struct sg_fork *f)
{
    const char *const *from = f->captures ? f->captures : (const char *const *)s->captures;
    const size_t n = f->captures ? f->captures_n : s->captures_n;
    w->captures = n ? sg_alloc(n * sizeof *w->captures) : NULL;
    for (w->captures_n = 0; w->captures_n < n; w->captures_n++)
        w->captures[w->captures_n] = sg_strdup(from[w->captures_n]);
}

static struct forking *new_forking(const struct sg_sandbox *s, const struct sg_who *who,
                                   const struct sg_fork *f)
{
    struct forking *w = sg_new(struct forking);
    w->m = s->manager;
    w->who = *who;
    w->who.org = s->org;
    w->count = f->count;
    w->template = sg_strdup(s->template);
    w->parent = sg_strdup(s->id.s);
    w->built = s->built ? sg_strdup(s->built) : NULL;
    sg_traits_copy(&w->traits, &s->traits);
    sg_pairs_copy(&w->metadata, s->metadata.v, s->metadata.n);
    sg_pairs_copy(&w->env, s->env.v, s->env.n);
    sg_net_copy(&w->network, &s->network);
    free(sg_take_ptr(&w->network.networks.own)); /* that is what its parent is called */
    sg_creds_copy(&w->creds, &s->creds);
    copy_mounts(w, &s->mounts);
    copy_captures(w, s, f);
    sg_ask_init(&w->ask, SG_OPERATION_DEFAULT);
    w->ask.wish = (int)s->wall;
    w->create = (struct sg_create) {
        .ask = &w->ask,
        .mounts = w->wanted,
        .mounts_n = w->mounts.n,
        .template = w->template,
        .limits = s->limits,
        .timeout_ms = f->timeout_ms == UINT64_MAX ? s->timeout_ms : f->timeout_ms,
        .idle_ms = s->idle_ms,
        .on_expiry = s->on_expiry,
        .drops_memory = s->drops_memory,
        .captures = (const char *const *)w->captures,
        .captures_n = w->captures_n,
        .checkpoint_every =
            f->checkpoint_every == UINT_MAX ? s->checkpoint_every : f->checkpoint_every,
        .metadata = w->metadata.v,
        .metadata_n = w->metadata.n,
        .env = w->env.v,
        .env_n = w->env.n,
        .parent = w->parent,
        .traits = &w->traits,
        .built = w->built,
        .network = &w->network,
        .creds = &w->creds,
    };
    w->v = sg_alloc(f->count * sizeof *w->v);
    w->ones = sg_alloc(f->count * sizeof *w->ones);
    if (f->doors) {
        w->doors = sg_alloc(f->count * sizeof *w->doors);
        for (unsigned i = 0; i < f->count; i++)
            w->doors[i] = sg_strdup(f->doors[i]);
    }
    return w;
}

int sg_manager_fork(struct sg_sandbox *s, const struct sg_who *who, const struct sg_fork *f,
                    sg_fork_cb *cb, void *arg, struct sg_err *err)
{
    if (f->count < 1 || f->count > SG_FORKS_MAX)
        return sg_fail(err, SG_INVALID, "count must be 1 to %d", SG_FORKS_MAX);
    if (sg_captures_check(f->captures, f->captures_n, err) < 0)
        return -1;
    if (f->checkpoint_every != UINT_MAX && f->checkpoint_every > SG_CHECKPOINT_EVERY_MAX)
        return sg_fail(err, SG_INVALID, "checkpointEvery must be at most %d",
                       SG_CHECKPOINT_EVERY_MAX);
    if (sg_snapshot_demand(s, who, "sandbox.fork", err) < 0)
        return -1;
    if (s->state != SBX_RUNNING)
        return sg_fail(err, SG_CONFLICT, "cannot fork a sandbox that is %s",
                       sg_state_name(s->state));
    struct forking *w = new_forking(s, who, f);
    w->cb = cb;
    w->arg = arg;
    if (sg_snapshot_hidden(s, snapped, w, err) < 0) {
        free_forking(w);
        return -1;
    }
    char count[16];
    (void)snprintf(count, sizeof count, "%u", f->count);
    sg_manager_audit_value(s->manager, who, "sandbox.fork", s, "count", count);
    return 0;
}

/* ---- rollback ---- */

static void row_written(struct sg_sandbox *s)
{
    struct sg_err err;
    if (sg_life_failed(s, &err)) { /* nothing was touched yet */
        char *was = sg_take_ptr(&s->life->snapshot_before);
        free(s->snapshot);
        s->snapshot = was;
        sg_life_must(s, EV_READY);
        sg_life_end(s, &err);
        return;
    }
    free(sg_take_ptr(&s->life->snapshot_before));
    sg_life_event(s, "sandbox.rolledback", "snapshot", s->snapshot);
    sg_cell_end(s, sg_create_attempt);
}

int sg_manager_rollback(struct sg_sandbox *s, const struct sg_who *who, struct sg_snapshot *t,
                        sg_sandbox_cb *cb, void *arg, struct sg_err *err)
{
    if (sg_snapshot_demand(s, who, "sandbox.rollback", err) < 0)
        return -1;
    if (s->state != SBX_RUNNING)
        return sg_fail(err, SG_CONFLICT, "cannot roll back a sandbox that is %s",
                       sg_state_name(s->state));
    if (strcmp(t->template, s->template) != 0 || t->org != s->org)
        return sg_fail(err, SG_CONFLICT, "snapshot %s is of template %s, the sandbox of %s",
                       t->id.s, t->template, s->template);
    sg_manager_audit_value(s->manager, who, "sandbox.rollback", s, "snapshot", t->id.s);
    sg_life_begin(s, OP_CREATE);
    sg_life_wait(&s->life->waiting, cb, arg);
    s->life->snapshot_before = s->snapshot;
    s->snapshot = sg_strdup(t->id.s);
    sg_life_must(s, EV_FAIL);
    sg_life_must(s, EV_RETRY);
    sg_life_expect(s, 1, row_written);
    sg_life_put_row(s, SBX_CREATING, SG_STORE_NORMAL);
    return 0;
}
