/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of a task, and its ends. A step asks and returns; its answer makes the next one. The
 * sandbox is looked up by its id each time: it may have ended in between. */
#include "manager/task.h"

#include <string.h>

#include "base/auto.h"
#include "base/json.h"
#include "base/log.h"
#include "manager/gauge.h"
#include "manager/life.h"
#include "manager/task_internal.h"
#include "manager/trace.h"

#include "base/banned.h"

#define NS_PER_MS 1000000u
#define MARGIN_MS                                                                                  \
    60000u /* of a sandbox's lifetime over its work: should nobody be left to end it */

const char *const sg_task_ending_names[SG_TASK_ENDING_COUNT] = {
    "exit",       "permitted", "timeout", "oom",     "crash",       "lost",
    "file_error", "refused",   "denied",  "expired", "unavailable",
};

static void begin(struct sg_task *t);

uint64_t sg_task_lap(struct sg_task *t)
{
    const uint64_t now = sg_loop_now(t->m->loop), ms = (now - t->step_ns) / NS_PER_MS;

    t->step_ns = now;
    return ms;
}

/* ---- the end ---- */

static void result_done(struct sg_task_result *r)
{
    for (unsigned i = 0; i < SG_STREAM_COUNT; i++)
        sg_buf_done(&r->output[i]);
    for (size_t i = 0; i < r->file_count; i++) {
        free(r->files[i].path);
        sg_buf_done(&r->files[i].bytes);
    }
    r->file_count = 0;
    free(r->decision);
    r->decision = NULL;
}

static void release(struct sg_task *t)
{
    sg_later_cancel(t->m->loop, &t->go);
    sg_approval_leave(&t->waits);
    sg_gauge_close(t->gauge);
    result_done(&t->r);
    free(t);
}

static void forget(struct sg_task *t)
{
    *t->link = t->next;
    if (t->next)
        t->next->link = t->link;
    release(t);
}

/* What a program did to itself is the operator's business; what was refused is security's. */
static const char *class_of(enum sg_task_ending e)
{
    return e == SG_TASK_EXIT || e == SG_TASK_PERMITTED    ? NULL
           : e >= SG_TASK_REFUSED && e <= SG_TASK_EXPIRED ? "security"
                                                          : "operational";
}

static void tell(struct sg_task *t)
{
    const char *class = class_of(t->r.ending);
    sg_auto_buf data;
    struct sg_json j;

    sg_buf_init(&data, 8192);
    sg_json_init(&j, &data);
    sg_json_open(&j, '{');
    sg_json_key(&j, "operation");
    sg_json_str(&j, t->spec->ask.operation);
    sg_json_key(&j, "ending");
    sg_json_str(&j, sg_task_ending_names[t->r.ending]);
    if (class) {
        sg_json_key(&j, "class");
        sg_json_str(&j, class);
        sg_json_key(&j, "error");
        sg_json_str(&j, t->r.err.msg);
    }
    sg_json_key(&j, "attempts");
    sg_json_u64(&j, t->r.attempts);
    sg_json_key(&j, "ms");
    sg_json_u64(&j, t->r.times.all);
    sg_json_close(&j, '}');
    sg_events_add(t->m, t->who.org, t->r.sandbox, class ? "task.failed" : "task.ended",
                  sg_buf_cstr(&data));
    if (class)
        sg_manager_audit(t->m, &t->who, "task.failed", NULL, sg_buf_cstr(&data));
}

static void finish(struct sg_task *t)
{
    t->r.times.all = (sg_loop_now(t->m->loop) - t->began_ns) / NS_PER_MS;
    if (t->spec) {
        tell(t);
        sg_trace_task(t);
        t->done(t->arg, &t->r);
    }
    forget(t);
}

static bool may_retry(const struct sg_task *t)
{
    if (!t->spec) /* nobody waits for it any more */
        return false;
    const bool is_loss = t->r.ending == SG_TASK_LOST || t->r.ending == SG_TASK_UNAVAILABLE;
    const bool is_clean = !t->was_started || t->spec->ask.network == SG_NEED_NET_NONE;

    return is_loss && is_clean && t->r.attempts <= t->spec->retries && !t->m->is_ending;
}

static void over(struct sg_task *t)
{
    if (!may_retry(t)) {
        finish(t);
        return;
    }
    (void)snprintf(t->r.last_loss, sizeof t->r.last_loss, "%.150s", t->r.err.msg);
    const unsigned attempts = t->r.attempts;
    struct sg_task_times times = t->r.times;
    char loss[sizeof t->r.last_loss];
    memcpy(loss, t->r.last_loss, sizeof loss);
    result_done(&t->r);
    t->r = (struct sg_task_result) { .attempts = attempts, .times = times };
    memcpy(t->r.last_loss, loss, sizeof loss);
    t->was_started = false;
    begin(t);
}

static void destroyed(void *arg, struct sg_sandbox *s, const struct sg_err *err)
{
    struct sg_task *t = arg;

    (void)s;
    if (err && !t->m->is_ending)
        sg_log(SG_LOG_WARN, "a task's sandbox is left to its lifetime", SG_KV("error", err->msg));
    over(t);
}

void sg_task_end(struct sg_task *t, enum sg_task_ending ending, const struct sg_err *err)
{
    struct sg_sandbox *s = t->r.sandbox[0] ? sg_map_find(&t->m->sandboxes, t->r.sandbox) : NULL;
    const struct sg_who who = t->who;
    struct sg_err own;

    t->r.ending = ending;
    if (err)
        t->r.err = *err;
    sg_task_exec_leave(t);
    if (s) /* as of the last look, which came with the end of the program */
        t->r.amounts = s->life->used;
    if (!s || t->m->is_ending) {
        over(t);
    } else if (may_retry(t)) {
        if (sg_manager_destroy(s, &t->who, destroyed, t, &own) < 0)
            over(t);
    } else { /* nobody has to wait for what nobody can see any more */
        s->is_leaving = true;
        finish(t);
        sg_destroy_soon(s, &who);
    }
}

struct sg_sandbox *sg_task_sandbox(struct sg_task *t)
{
    struct sg_sandbox *s = sg_map_find(&t->m->sandboxes, t->r.sandbox);
    struct sg_err err = { 0 };

    if (t->spec && s && s->state == SBX_RUNNING)
        return s;
    (void)sg_fail(&err, SG_UNAVAILABLE, "%s",
                  !t->spec           ? "the caller has gone"
                  : s && s->cause[0] ? s->cause
                                     : "the sandbox ended under its task");
    sg_task_end(t, SG_TASK_LOST, &err);
    return NULL;
}

/* ---- a sandbox ---- */

static void created(void *arg, struct sg_sandbox *s, const struct sg_err *err)
{
    struct sg_task *t = arg;

    t->r.times.create += sg_task_lap(t);
    if (!s) {
        const bool is_ours =
            err->kind == SG_UNAVAILABLE || err->kind == SG_TIMEOUT || err->kind == SG_INTERNAL;
        sg_task_end(t, is_ours ? SG_TASK_UNAVAILABLE : SG_TASK_REFUSED, err);
        return;
    }
    memcpy(t->r.sandbox, s->id.s, sizeof t->r.sandbox);
    t->r.was_parked = s->was_parked;
    sg_task_upload(t);
}

static void take_sandbox(struct sg_task *t)
{
    const struct sg_task_spec *spec = t->spec;
    struct sg_pair mark[] = { { (char *)"sandglass.task", (char *)spec->ask.operation } };
    struct sg_err err = { 0 };
    const struct sg_create c = {
        .template = spec->template,
        .limits = spec->limits,
        .timeout_ms = spec->timeout_ms + MARGIN_MS,
        .env = spec->env,
        .env_n = spec->env_n,
        .metadata = mark,
        .metadata_n = SG_COUNT(mark),
        .mounts = spec->mounts,
        .mounts_n = spec->mounts_n,
        .ask = &spec->ask,
        .is_brief = true,
    };
    if (sg_manager_create(t->m, &t->who, &c, created, t, &err) < 0)
        sg_task_end(t, err.kind == SG_UNAVAILABLE ? SG_TASK_UNAVAILABLE : SG_TASK_REFUSED, &err);
}

/* ---- the decision ---- */

void sg_task_permitted(struct sg_task *t)
{
    struct sg_err err = { 0 };

    if (t->r.wall != SG_WALL_NONE && !t->spec->argv) {
        (void)sg_fail(&err, SG_INVALID, "one of code, cmd and argv is needed");
        sg_task_end(t, SG_TASK_REFUSED, &err);
    } else if (t->r.wall != SG_WALL_NONE) {
        take_sandbox(t);
    } else if (t->spec->argv || t->spec->file_count) {
        (void)sg_fail(&err, SG_INVALID,
                      "%s has tier none: nothing is run for it here, so leave out what to run",
                      t->spec->ask.operation);
        sg_task_end(t, SG_TASK_REFUSED, &err);
    } else {
        sg_task_end(t, SG_TASK_PERMITTED, NULL);
    }
}

static char *decision_text(const struct sg_decision *d, const struct sg_ask *a)
{
    sg_auto_buf out;
    struct sg_json j;

    sg_buf_init(&out, 8192);
    sg_json_init(&j, &out);
    sg_decision_put(&j, d, a, false);
    return sg_strdup(sg_buf_cstr(&out));
}

static void route(struct sg_later *l)
{
    struct sg_task *t = SG_OWNER(l, struct sg_task, go);
    struct sg_decision d;
    struct sg_err err = { 0 };

    t->step_ns = sg_loop_now(t->m->loop);
    t->r.attempts++;
    for (unsigned i = 0; i < SG_STREAM_COUNT; i++)
        sg_buf_init(&t->r.output[i], SG_TASK_OUTPUT_BYTES);
    if (sg_tenant_demand(&t->who, SG_SCOPE_EXEC, &err) < 0 ||
        sg_manager_route(t->m, &t->who, &t->spec->ask, &d, &err) < 0) {
        sg_task_end(t, SG_TASK_REFUSED, &err);
        return;
    }
    t->r.decision = decision_text(&d, &t->spec->ask);
    (void)snprintf(t->rule, sizeof t->rule, "%s", d.rule ? d.rule->name : "");
    if (sg_decision_error(&d, &err) < 0) {
        (void)sg_manager_denied(t->m, &t->who, "task.run", NULL, &err);
        sg_task_end(t, SG_TASK_REFUSED, &err);
        return;
    }
    t->r.wall = d.wall;
    if (d.needs_approval && t->r.attempts == 1)
        sg_task_ask(t);
    else
        sg_task_permitted(t);
}

static void begin(struct sg_task *t)
{
    t->at = t->pattern = t->fed = 0;
    t->out_bytes = 0;
    t->go.call = route;
    sg_later_call(t->m->loop, &t->go);
}

/* The sandboxes live on, each with its lifetime. */
static void free_tasks(struct sg_manager *m)
{
    while (m->tasks) {
        struct sg_task *t = m->tasks;
        m->tasks = t->next;
        if (t->next)
            t->next->link = &m->tasks;
        sg_task_exec_leave(t);
        t->r.ending = SG_TASK_UNAVAILABLE;
        (void)sg_fail(&t->r.err, SG_UNAVAILABLE, "the service is ending");
        if (t->spec)
            t->done(t->arg, &t->r);
        release(t);
    }
}

struct sg_task *sg_task_start(struct sg_manager *m, const struct sg_who *who,
                              const struct sg_task_spec *spec, sg_task_cb *done, void *arg)
{
    struct sg_task *t = sg_new(struct sg_task);

    *t = (struct sg_task) { .m = m, .who = *who, .spec = spec, .done = done, .arg = arg };
    m->free_tasks = free_tasks;
    t->pipe.fd = -1;
    t->began_ns = sg_loop_now(m->loop);
    t->id = sg_id_new('j');
    t->above = who->trace;
    t->who.trace = sg_trace_below(&t->above, t->id.s);
    t->next = m->tasks;
    t->link = &m->tasks;
    if (t->next)
        t->next->link = &t->next;
    m->tasks = t;
    begin(t);
    return t;
}

/* What it waits for comes, finds no spec, and ends it. */
void sg_task_cancel(struct sg_task *t)
{
    if (sg_task_leave(t) || t->go.is_queued) {
        t->spec = NULL;
        forget(t);
    } else {
        t->spec = NULL;
        struct sg_sandbox *s = t->r.sandbox[0] ? sg_map_find(&t->m->sandboxes, t->r.sandbox) : NULL;
        struct sg_err err;
        if (s) /* its readers, execs and files end with it, and then so does the task */
            (void)sg_manager_destroy(s, &t->who, NULL, NULL, &err);
    }
}
