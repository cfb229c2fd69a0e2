/* SPDX-License-Identifier: Apache-2.0 */
/* The course of a build; see build.h.
 *
 * At any moment it waits for one thing: a sandbox, a step, a layer, a row; or it is on the loop's
 * list (`go`). A cancellation ends the sandbox, so that what is waited for comes back with an
 * error, and the build ends there. */
#include "manager/build.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/auto.h"
#include "base/log.h"
#include "base/str.h"
#include "manager/build_internal.h"
#include "manager/image_job.h"
#include "manager/life.h"
#include "manager/net.h"
#include "manager/run.h"
#include "manager/snapshot.h"
#include "manager/standby.h"
#include "manager/traits.h"
#include "tier/tier.h"

#include "base/banned.h"

enum { BUILD_MS = 3600000 };
const char *const sg_step_names[SG_STEP_KIND_COUNT] = { "RUN", "COPY", "ENV", "WORKDIR", "USER" };

static void go_on(struct sg_building *b);

/* ---- what hangs on it ---- */

void sg_building_log(struct sg_building *b, enum sg_build_level level, const char *text)
{
    sg_build_add_line(b->build, level, b->label, sg_str_of(text));
    sg_build_tell(b->build);
}

struct sg_sandbox *sg_building_box(struct sg_building *b, const char *id, struct sg_err *err)
{
    struct sg_sandbox *s = sg_map_find(&b->m->sandboxes, id);
    if (s && s->state == SBX_RUNNING)
        return s;
    (void)sg_fail(err, SG_UNAVAILABLE, "%s",
                  s && s->cause[0] ? s->cause : "the sandbox of the build ended");
    return NULL;
}

static void end_box(struct sg_building *b, char *id)
{
    struct sg_sandbox *s = *id ? sg_map_find(&b->m->sandboxes, id) : NULL;
    const struct sg_who us = { .org = b->org, .scopes = SG_SCOPE_ALL };
    struct sg_err ignored;
    if (s && !b->m->is_ending)
        (void)sg_manager_destroy(s, &us, NULL, NULL, &ignored);
    *id = '\0';
}

int sg_building_make_box(struct sg_building *b, const struct sg_ground *g, char *ret_id,
                         sg_sandbox_cb *made, struct sg_err *err)
{
    const struct sg_who us = { .org = b->org, .scopes = SG_SCOPE_ALL };
    const struct sg_create c = {
        .template = g->base,
        .snapshot = g->snapshot,
        .limits = b->build->limits,
        .timeout_ms = b->m->o.max_timeout_ms && b->m->o.max_timeout_ms < BUILD_MS
                          ? b->m->o.max_timeout_ms
                          : BUILD_MS,
        .network = &b->network,
        .traits = &g->traits,
        .is_internal = true,
    };
    struct sg_sandbox *s = NULL;
    if (sg_manager_create_internal(b->m, &us, &c, made, b, &s, err) < 0)
        return -1;
    memcpy(ret_id, s->id.s, SG_ID_LEN + 1);
    return 0;
}

/* ---- the end ---- */

static void release(struct sg_building *b)
{
    sg_timer_stop(b->m->loop, &b->deadline);
    sg_later_cancel(b->m->loop, &b->go);
    if (b->run)
        sg_run_leave(b->run);
    sg_image_end(b->job);
    for (unsigned i = 0; i < SG_STAGES_MAX; i++) {
        sg_ground_done(&b->made[i].at);
        sg_traits_done(&b->made[i].below);
    }
    sg_policy_done(&b->network);
    sg_arena_done(&b->arena);
    b->build->work = NULL;
    free(b);
}

static void ended(void *arg, const struct sg_err *err)
{
    struct sg_build *b = arg;
    if (err)
        sg_log(SG_LOG_ERROR, "the end of a build could not be recorded", SG_KV("build", b->id),
               SG_KV("error", err->msg));
}

static void over(struct sg_building *b)
{
    struct sg_manager *m = b->m;
    struct sg_build *build = b->build;
    build->updated_ms = sg_manager_unix_ms();
    end_box(b, b->box);
    end_box(b, b->source);
    release(b);
    sg_build_put(m, build, ended, build);
    sg_build_tell(build);
    sg_events_add(m, build->of->org, NULL,
                  build->state == SG_BUILD_READY ? "template.built" : "template.failed", NULL);
    sg_built_prune(m, build->of);
    sg_layers_trim(m);
    sg_standby_soon(m);
}

void sg_building_fail(struct sg_building *b, const struct sg_err *err)
{
    struct sg_build *build = b->build;
    const struct sg_err *why = b->is_cancelled ? &b->why : err;
    if (b->m->is_ending) /* the next start says that it was interrupted */
        return;
    build->state = SG_BUILD_ERROR;
    sg_traits_set(&build->reason, why->msg);
    sg_traits_set(&build->reason_step, b->label);
    sg_building_log(b, SG_BUILD_FAILED, why->msg);
    over(b);
}

/* B1: the build's row, then that of its template, whose tags lead to it. */
static void template_written(void *arg, const struct sg_err *err)
{
    struct sg_building *b = arg;
    if (err) {
        sg_building_fail(b, err);
        return;
    }
    b->build->state = SG_BUILD_READY;
    sg_building_log(b, SG_BUILD_INFO, "Build finished");
    over(b);
}

static void build_written(void *arg, const struct sg_err *err)
{
    struct sg_building *b = arg;
    struct sg_build *build = b->build;
    if (err || b->is_cancelled) {
        sg_building_fail(b, err);
        return;
    }
    for (size_t i = 0; build->tags[i]; i++)
        sg_built_set_tag(build->of, build->tags[i], build->id);
    sg_built_put(b->m, build->of, template_written, b);
}

static void succeed(struct sg_building *b)
{
    struct sg_build *build = b->build;
    struct sg_ground *g = &b->made[b->spec.n - 1].at;
    free(build->base);
    free(build->snapshot);
    build->base = sg_strdup(g->base);
    build->snapshot = sg_strdup(g->snapshot ? g->snapshot : "");
    sg_traits_done(&build->traits);
    sg_traits_copy(&build->traits, &g->traits);
    build->updated_ms = sg_manager_unix_ms();
    build->state =
        SG_BUILD_READY; /* as the row says; whoever asks is told when the tags are moved */
    sg_build_put(b->m, build, build_written, b);
    build->state = SG_BUILD_BUILDING;
}

/* ---- the start command: K3 ---- */

static void quiet(struct sg_sandbox *s, void *arg, const struct sg_err *err);

static void proven(void *arg, struct sg_sandbox *s, const struct sg_err *err)
{
    struct sg_building *b = arg;
    if (err || b->is_cancelled) {
        sg_building_fail(b, err);
        return;
    }
    if (sg_building_is_unpinned(b)) {
        quiet(s, b, NULL);
        return;
    }
    end_box(b, b->box);
    sg_building_proof(b, b->build->proof);
    succeed(b);
}

static bool is_proven(struct sg_building *b)
{
    char proof[65];
    sg_building_proof(b, proof);
    for (const struct sg_built *t = b->m->built; t; t = t->next)
        for (const struct sg_build *one = t->org == b->org ? t->newest : NULL; one;
             one = one->older)
            if (one->state == SG_BUILD_READY && strcmp(one->proof, proof) == 0) {
                memcpy(b->build->proof, proof, sizeof proof);
                return true;
            }
    return false;
}

static void finalize(struct sg_building *b)
{
    struct sg_ground *g = &b->made[b->spec.n - 1].at;
    struct sg_err err = { 0 };
    (void)snprintf(b->label, sizeof b->label, "finalize");
    if (b->spec.start)
        sg_traits_set(&g->traits.start, b->spec.start);
    if (b->spec.start || b->spec.ready)
        sg_traits_set(&g->traits.ready, b->spec.ready);
    /* Without a layer nobody has seen yet that what is below is there. */
    const bool is_sure = !g->traits.start && g->snapshot;
    if (is_sure || (!b->misses && !sg_building_is_unpinned(b) && is_proven(b))) {
        succeed(b);
        return;
    }
    if (g->traits.start)
        sg_building_log(b, SG_BUILD_INFO, "Running start command and waiting until it is ready");
    else
        (void)snprintf(b->label, sizeof b->label, "base");
    if (sg_building_make_box(b, g, b->box, proven, &err) < 0)
        sg_building_fail(b, &err);
}

/* ---- layers ---- */

static void layer_made(void *arg, struct sg_snapshot *t, const struct sg_err *err)
{
    struct sg_building *b = arg;
    struct sg_stage_made *made = &b->made[b->stage];
    if (err || b->is_cancelled) {
        sg_building_fail(b, err);
        return;
    }
    free(made->at.snapshot);
    made->at.snapshot = sg_strdup(t->id.s);
    memcpy(made->key, b->next_key, sizeof made->key);
    b->step++;
    sg_later_call(b->m->loop, &b->go);
}

static void quiet(struct sg_sandbox *s, void *arg, const struct sg_err *err)
{
    struct sg_building *b = arg;
    struct sg_err own = { 0 };
    if (!err &&
        sg_snapshot_layer(s, b->next_key, &b->made[b->stage].at.traits, layer_made, b, &own) < 0)
        err = &own;
    if (err)
        sg_building_fail(b, err);
}

/* K2: what the step has left running would be in no layer, and in the way of the next step. */
void sg_building_step_done(struct sg_building *b, const struct sg_err *err)
{
    struct sg_err own = { 0 };
    end_box(b, b->source);
    struct sg_sandbox *s = err || b->is_cancelled ? NULL : sg_building_box(b, b->box, &own);
    if (s)
        sg_exec_kill_all(s, quiet, b);
    else
        sg_building_fail(b, err ? err : &own);
}

static void box_made(void *arg, struct sg_sandbox *s, const struct sg_err *err)
{
    struct sg_building *b = arg;
    if (err || b->is_cancelled)
        sg_building_fail(b, err);
    else
        sg_building_do(b, s);
}

/* True: the step is done, there is a layer of it. */
static bool take_layer(struct sg_building *b)
{
    struct sg_stage_made *made = &b->made[b->stage];
    struct sg_snapshot *t = b->misses ? NULL : sg_layer_find(b->m, b->org, b->next_key);
    if (!t)
        return false;
    sg_snapshot_use_layer(b->m, t);
    free(made->at.snapshot);
    made->at.snapshot = sg_strdup(t->id.s);
    sg_traits_done(&made->at.traits);
    sg_traits_copy(&made->at.traits, &t->traits);
    end_box(b, b->box); /* it would be one of other files */
    return true;
}

static void announce(struct sg_building *b, const char *how)
{
    const struct sg_step *s = sg_building_step(b);
    const size_t all = b->spec.stages[b->stage].n;
    sg_auto_free char *args = sg_strdup("");
    for (size_t i = 0; i < s->n; i++) {
        char *more = sg_printf("%s %s", args, s->args[i]);
        free(args);
        args = more;
    }
    for (char *p = args; *p; p++)
        *p = *p == '\n' ? ' ' : *p;
    sg_auto_free char *text =
        sg_printf("%s[%s %u/%u] %s%.300s", how, b->spec.n > 1 ? "stage" : "builder",
                  (unsigned)b->step + 1, (unsigned)all, sg_step_names[s->kind], args);
    sg_building_log(b, SG_BUILD_INFO, text);
}

/* Goes through what needs no sandbox; false: something is waited for. */
static bool next_step(struct sg_building *b)
{
    struct sg_stage_made *made = &b->made[b->stage];
    struct sg_err err = { 0 };
    if (b->spec.n > 1) /* stage.step */
        (void)snprintf(b->label, sizeof b->label, "%u.%u", b->stage + 1, (unsigned)b->step + 1);
    else
        (void)snprintf(b->label, sizeof b->label, "%u", (unsigned)b->step + 1);
    sg_building_next_key(b);
    b->misses |= sg_building_step(b)->is_forced;
    const bool is_pure = sg_building_do_pure(b);
    const bool is_there = !is_pure && take_layer(b);
    announce(b, is_there ? "CACHED " : "");
    if (is_pure || is_there) {
        memcpy(made->key, b->next_key, sizeof made->key);
        b->step++;
        return true;
    }
    struct sg_sandbox *s = b->box[0] ? sg_building_box(b, b->box, &err) : NULL;
    struct sg_ground plain = { made->at.base, made->at.snapshot, { 0 } };
    if (s)
        sg_building_do(b, s);
    else if (b->box[0] || sg_building_make_box(b, &plain, b->box, box_made, &err) < 0)
        sg_building_fail(b, &err);
    return false;
}

/* ---- stages ---- */

static void begin_stage(struct sg_building *b)
{
    const struct sg_stage *s = &b->spec.stages[b->stage];
    struct sg_ground *g = &b->made[b->stage].at;
    (void)snprintf(b->label, sizeof b->label, "base");
    if (s->kind == SG_FROM_STAGE) {
        const struct sg_ground *from = &b->made[s->stage - 1].at;
        g->base = sg_strdup(from->base);
        g->snapshot = from->snapshot ? sg_strdup(from->snapshot) : NULL;
        sg_traits_copy(&g->traits, &from->traits);
        b->made[b->stage].stamp = b->made[s->stage - 1].stamp;
    }
    sg_traits_copy(&b->made[b->stage].below,
                   s->kind == SG_FROM_STAGE ? &b->made[s->stage - 1].below : &g->traits);
    sg_building_first_key(b, b->stage);
    sg_auto_free char *text = sg_printf("FROM %s", s->from ? s->from : "an earlier stage");
    sg_building_log(b, SG_BUILD_INFO, text);
}

static bool next_stage(struct sg_building *b)
{
    end_box(b, b->box);
    b->step = 0;
    do
        b->stage++;
    while (b->stage < b->spec.n && !b->made[b->stage].is_needed);
    if (b->stage < b->spec.n) {
        begin_stage(b);
        return true;
    }
    b->stage = (unsigned)b->spec.n - 1;
    finalize(b);
    return false;
}

static void go_on(struct sg_building *b)
{
    bool is_free = true;
    while (is_free && !b->is_cancelled)
        is_free = b->step < b->spec.stages[b->stage].n ? next_step(b) : next_stage(b);
    if (is_free)
        sg_building_fail(b, &b->why);
}

static void went(struct sg_later *l)
{
    go_on(SG_OWNER(l, struct sg_building, go));
}

/* ---- beginning ---- */

static void cancel(struct sg_building *b, const struct sg_err *why)
{
    if (b->is_cancelled)
        return;
    b->is_cancelled = true;
    b->why = *why;
    char box[SG_ID_LEN + 1], source[SG_ID_LEN + 1];
    memcpy(box, b->box, sizeof box);
    memcpy(source, b->source, sizeof source);
    end_box(b, box);
    end_box(b, source);
    if (b->job && !b->open) { /* nothing else is waited for but this */
        sg_image_end(b->job);
        b->job = NULL;
        if (!b->made[0].at.base)
            sg_later_call(b->m->loop, &b->go);
    }
}

static void too_late(struct sg_timer *t, uint64_t now_ns)
{
    struct sg_err err = { 0 };
    (void)now_ns;
    (void)sg_fail(&err, SG_TIMEOUT, "the build took longer than an hour");
    cancel(SG_OWNER(t, struct sg_building, deadline), &err);
}

/* Stages that the last one needs. */
static void mark_needed(struct sg_building *b)
{
    b->made[b->spec.n - 1].is_needed = true;
    for (size_t i = b->spec.n; i-- > 0;) {
        const struct sg_stage *s = &b->spec.stages[i];
        if (!b->made[i].is_needed)
            continue;
        if (s->kind == SG_FROM_STAGE)
            b->made[s->stage - 1].is_needed = true;
        for (size_t k = 0; k < s->n; k++)
            if (s->steps[k].stage)
                b->made[s->steps[k].stage - 1].is_needed = true;
    }
}

static int find_grounds(struct sg_building *b, const struct sg_who *who, struct sg_err *err)
{
    for (size_t i = 0; i < b->spec.n; i++) {
        const struct sg_stage *s = &b->spec.stages[i];
        if (s->kind != SG_FROM_STAGE && s->kind != SG_FROM_REGISTRY && b->made[i].is_needed &&
            sg_ground_find(b->m, who, s->kind, s->from, &b->made[i].at, err) < 0)
            return -1;
    }
    return 0;
}

/* A base that was made anew under the same name is another one: its layers are not those of the one
 * before. Who does not know it leaves that to the first sandbox, which tells why. */
static void set_out(struct sg_building *b)
{
    if (--b->open)
        return;
    b->stage = 0;
    while (!b->made[b->stage].is_needed)
        b->stage++;
    if (!b->is_cancelled)
        begin_stage(b);
    sg_later_call(b->m->loop, &b->go);
}

struct identifying {
    struct sg_building *b;
    size_t stage;
};

static void identified(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    sg_auto_free struct identifying *w = arg;
    if (p && !err)
        w->b->made[w->stage].stamp = p->msg.l_identified.stamp;
    if (!w->b->m->is_ending)
        set_out(w->b);
}

void sg_building_set_out(struct sg_building *b)
{
    b->open = 1;
    for (size_t i = 0; i < b->spec.n && !b->is_cancelled; i++) {
        if (!b->made[i].is_needed || b->spec.stages[i].kind == SG_FROM_STAGE)
            continue;
        struct identifying *w = sg_new(struct identifying);
        *w = (struct identifying) { b, i };
        b->open++;
        sg_tier_identify(b->m->tier, b->made[i].at.base, identified, w);
    }
    set_out(b);
}

int sg_build_start(struct sg_manager *m, const struct sg_who *who, struct sg_build *build,
                   const struct sg_build_spec *spec, struct sg_err *err)
{
    unsigned running = 0;
    if (sg_tenant_demand(who, SG_SCOPE_EXEC, err) < 0)
        return sg_manager_denied(m, who, "template.build", NULL, err);
    if (build->state != SG_BUILD_WAITING || build->work)
        return sg_fail(err, SG_INVALID, "the build is %s already",
                       sg_build_state_name(build->state));
    if (!(sg_tier_flags(m->tier) & SG_L_POOL))
        return sg_fail(err, SG_UNSUPPORTED,
                       "there is no storage pool: templates cannot be built here");
    for (const struct sg_built *t = m->built; t; t = t->next)
        for (const struct sg_build *one = t->newest; one && t->org == who->org; one = one->older)
            running += one->work != NULL;
    if (running >= SG_BUILDS_AT_ONCE)
        return sg_fail(err, SG_EXHAUSTED, "the organisation builds %u templates already", running);
    struct sg_building *b = sg_new(struct sg_building);
    b->m = m;
    b->build = build;
    b->org = who->org;
    sg_arena_init(&b->arena, SG_BUILD_SPEC_MAX);
    b->go.call = went;
    b->deadline.fire = too_late;
    build->work = b;
    if (sg_build_spec_copy(&b->arena, spec, &b->spec, err) < 0) {
        release(b);
        return -1;
    }
    b->misses = spec->is_forced;
    mark_needed(b);
    if (spec->network)
        sg_net_copy(&b->network, spec->network);
    if (spec->pull && sg_building_pull(b, spec->pull, err) < 0) {
        release(b);
        return -1;
    }
    build->state = SG_BUILD_BUILDING;
    build->updated_ms = sg_manager_unix_ms();
    sg_manager_audit_value(m, who, "template.build", NULL, "template", build->of->name);
    (void)snprintf(b->label, sizeof b->label, "base");
    sg_timer_set(m->loop, &b->deadline, sg_loop_now(m->loop) + BUILD_MS * UINT64_C(1000000));
    sg_build_put(m, build, NULL, NULL);
    struct sg_err why = { 0 };
    if (find_grounds(b, who, &why) < 0)
        cancel(b, &why); /* told by its state, as all that goes wrong with a build */
    if (!spec->pull)
        sg_building_set_out(b);
    return 0;
}

int sg_build_begin(struct sg_manager *m, const struct sg_who *who, const char *name,
                   const char *const *tags, const struct sg_sandbox_limits *limits,
                   const struct sg_build_spec *spec, struct sg_build **ret, struct sg_err *err)
{
    struct sg_build *b;
    if (sg_build_create(m, who, name, tags, limits, &b, err) < 0)
        return -1;
    if (sg_build_start(m, who, b, spec, err) == 0) {
        *ret = b;
        return 0;
    }
    struct sg_built *of = b->of;
    sg_store_remove_build(m->store, b->id, NULL, NULL);
    sg_build_forget(m, b);
    if (!of->newest && !of->tag_n) {
        sg_store_remove_template(m->store, of->id.s, NULL, NULL);
        sg_built_drop(m, of);
    }
    return -1;
}

int sg_build_cancel(struct sg_manager *m, const struct sg_who *who, struct sg_build *b,
                    struct sg_err *err)
{
    struct sg_err why = { 0 };
    if (sg_tenant_demand(who, SG_SCOPE_EXEC, err) < 0)
        return sg_manager_denied(m, who, "template.cancel", NULL, err);
    if (!b->work)
        return sg_fail(err, SG_CONFLICT, "the build is %s", sg_build_state_name(b->state));
    sg_manager_audit_value(m, who, "template.cancel", NULL, "template", b->of->name);
    (void)sg_fail(&why, SG_CONFLICT, "the build was cancelled");
    cancel(b->work, &why);
    return 0;
}

void sg_builds_end(struct sg_manager *m)
{
    for (struct sg_built *t = m->built; t; t = t->next)
        for (struct sg_build *b = t->newest; b; b = b->older)
            if (b->work)
                release(b->work);
}
