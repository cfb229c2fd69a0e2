/* SPDX-License-Identifier: Apache-2.0 */
/* POST /v1/batch: tasks side by side; NDJSON, a line for every start and end, the report last. */
#include "manager/batch.h"

#include "api/rest/run.h"
#include "base/auto.h"
#include "base/banned.h"

enum { CONCURRENCY = 8 };

struct batch {
    struct sg_call *call;
    struct sg_batch *batch; /* NULL: over */
    struct sg_batch_spec spec;
};

/* ---- lines ---- */

static void open_line(struct sg_json *j, struct sg_buf *out, const char *key)
{
    sg_buf_init(out, SG_REST_MAX_REPLY);
    sg_json_init(j, out);
    sg_json_open(j, '{');
    sg_json_key(j, key);
}

static void send_line(struct batch *b, struct sg_json *j)
{
    sg_json_close(j, '}');
    sg_buf_add_str(j->out, "\n");
    (void)sg_reply_add(b->call, j->out->p, j->out->n);
}

static void open_task(struct batch *b, struct sg_json *j, size_t task)
{
    sg_json_open(j, '{');
    sg_json_key(j, "name");
    sg_json_str(j, b->spec.tasks[task].name);
}

static void started(void *arg, size_t task)
{
    struct batch *b = arg;
    sg_auto_buf out;
    struct sg_json j;
    open_line(&j, &out, "started");
    open_task(b, &j, task);
    sg_json_close(&j, '}');
    send_line(b, &j);
}

static void ended(void *arg, size_t task, const struct sg_task_result *r)
{
    struct batch *b = arg;
    sg_auto_buf out;
    struct sg_json j;
    open_line(&j, &out, "ended");
    open_task(b, &j, task);
    sg_rest_put_result(&j, b->call->manager, r);
    sg_json_close(&j, '}');
    send_line(b, &j);
}

static void skipped(void *arg, size_t task, const char *why)
{
    struct batch *b = arg;
    sg_auto_buf out;
    struct sg_json j;
    open_line(&j, &out, "skipped");
    open_task(b, &j, task);
    sg_json_key(&j, "why");
    sg_json_str(&j, why);
    sg_json_close(&j, '}');
    send_line(b, &j);
}

static void done(void *arg, const struct sg_batch_report *r)
{
    struct batch *b = arg;
    sg_auto_buf out;
    struct sg_json j;
    b->call->on_gone = NULL;
    open_line(&j, &out, "report");
    sg_json_open(&j, '{');
    sg_json_put_u64(&j, "tasks", b->spec.count);
    sg_json_put_u64(&j, "succeeded", r->succeeded);
    sg_json_put_u64(&j, "failed", r->failed);
    sg_json_put_u64(&j, "skipped", r->skipped);
    sg_json_put_u64(&j, "mostAtATime", r->most_at_a_time);
    sg_json_put_u64(&j, "wallMs", r->wall_ms);
    sg_json_put_u64(&j, "cpuMs", r->cpu_ns / 1000000);
    sg_json_close(&j, '}');
    send_line(b, &j);
    sg_reply_end(b->call);
}

/* ---- the request ---- */

static int read_task(struct sg_call *c, const struct sg_jval *v, struct sg_batch_task *t,
                     struct sg_err *err)
{
    struct sg_rest_task_more more = { 0 };
    const char **after = NULL;
    if (sg_rest_read_task(c, v, &t->spec, &more, err) < 0 ||
        (more.after && sg_rest_strings(c, more.after, "after", &after, err) < 0))
        return -1;
    if (!t->spec.name)
        return sg_fail(err, SG_INVALID, "a task of a batch needs a name");
    t->name = t->spec.name;
    t->after = after;
    t->always = more.always;
    return 0;
}

static int read_batch(struct sg_call *c, struct batch *b, struct sg_err *err)
{
    struct body {
        const struct sg_jval *tasks;
        const struct sg_jval *shared;
        uint64_t concurrency;
        bool stops;
    } in = { .concurrency = CONCURRENCY };
    static const struct sg_jfield fields[] = {
        { "tasks", SG_JT_ARRAY, offsetof(struct body, tasks), 0, 0, true },
        { "concurrency", SG_JT_U64, offsetof(struct body, concurrency), 1, SG_BATCH_CONCURRENCY_MAX,
          false },
        { "shared", SG_JT_OBJECT, offsetof(struct body, shared), 0, 0, false },
        { "stopOnFailure", SG_JT_BOOL, offsetof(struct body, stops), 0, 0, false },
    };
    static const struct sg_jfield shared_fields[] = {
        { "path", SG_JT_STRING, offsetof(struct sg_batch_spec, shared), 0, 0, true },
        { "bytes", SG_JT_U64, offsetof(struct sg_batch_spec, shared_bytes), 1, INT64_MAX, false },
    };
    struct sg_batch_spec spec = { 0 };
    const struct sg_jval *body;
    if (sg_call_json(c, &body, err) < 0 ||
        sg_json_read(body, fields, SG_COUNT(fields), &in, err) < 0)
        return -1;
    if (in.shared &&
        sg_json_read(in.shared, shared_fields, SG_COUNT(shared_fields), &spec, err) < 0)
        return sg_wrap(err, "shared");
    if (in.tasks->list.n == 0 || in.tasks->list.n > SG_BATCH_TASKS_MAX)
        return sg_fail(err, SG_INVALID, "a batch has 1 to %d tasks", SG_BATCH_TASKS_MAX);
    struct sg_batch_task *tasks = sg_arena_alloc(&c->arena, in.tasks->list.n * sizeof *tasks);
    if (!tasks)
        return sg_fail(err, SG_EXHAUSTED, "no room for the call");
    b->spec = (struct sg_batch_spec) { .tasks = tasks,
                                       .concurrency = (unsigned)in.concurrency,
                                       .shared = spec.shared,
                                       .shared_bytes = spec.shared_bytes,
                                       .stops_on_failure = in.stops };
    for (const struct sg_jval *v = in.tasks->list.first; v; v = v->next, b->spec.count++)
        if (read_task(c, v, &tasks[b->spec.count], err) < 0)
            return sg_wrap(err, "task %zu", b->spec.count + 1);
    return 0;
}

static void gone(struct sg_call *c)
{
    struct batch *b = c->state;
    c->on_gone = NULL;
    sg_batch_cancel(b->batch);
    sg_reply_end(c);
}

int sg_rest_batch(struct sg_call *c, struct sg_err *err)
{
    static const struct sg_batch_ops ops = { started, ended, skipped, done };
    struct batch *b = sg_arena_alloc(&c->arena, sizeof *b);
    if (!b)
        return sg_fail(err, SG_EXHAUSTED, "no room for the call");
    b->call = c;
    if (read_batch(c, b, err) < 0)
        return -1;
    b->batch = sg_batch_start(c->manager, &c->who, &b->spec, &ops, b, err);
    if (!b->batch)
        return -1;
    c->state = b;
    c->on_gone = gone;
    sg_reply_start(c, 200, "application/x-ndjson");
    return 0;
}
