/* SPDX-License-Identifier: Apache-2.0 */
/* The start command of a template, as the last step of a create: see traits.h. */
#include <string.h>

#include "base/auto.h"
#include "base/log.h"
#include "manager/life.h"
#include "manager/run.h"
#include "manager/traits.h"

#include "base/banned.h"

enum { READY_MS = 600000 };

/* A login shell, as clients of other servers know it, where the template has one. */
#define SHELL                                                                                      \
    "if [ -x /bin/bash ]; then set -- /bin/bash -l -c \"$1\"; else set -- /bin/sh -c \"$1\"; fi; "
static const char start_script[] = SHELL "exec \"$@\"";
static const char ready_script[] = SHELL "until \"$@\"; do sleep 0.1; done";

struct sg_starting {
    struct sg_sandbox *s;
    struct sg_run *start, *ready;
    sg_start_done *done;
    char said[160]; /* its last words */
};

static void over(struct sg_starting *st, const struct sg_err *err)
{
    struct sg_sandbox *s = st->s;
    sg_start_done *done = st->done;
    s->life->starting = NULL;
    if (st->start)
        sg_run_leave(st->start);
    if (st->ready)
        sg_run_leave(st->ready);
    free(st);
    if (!s->manager->is_ending)
        done(s, err);
}

static struct sg_run *run(struct sg_starting *st, const char *script, const char *command,
                          const char *tag, uint64_t timeout_ms, const struct sg_run_ops *ops,
                          struct sg_err *err)
{
    const char *const argv[] = { "/bin/sh", "-c", script, "sh", command, NULL };
    const struct sg_exec_spec spec = {
        .argv = argv,
        .tag = tag,
        .is_background = true,
        .is_templates = true,
        .timeout_ms = timeout_ms,
    };
    return sg_run_start(st->s, &spec, ops, st, err);
}

static void ready_ended(void *arg, const struct sg_exec *x, const struct sg_err *err)
{
    struct sg_starting *st = arg;
    struct sg_err own = { 0 };
    st->ready = NULL;
    if (x && x->ending == SG_EXEC_EXIT && x->code == 0) {
        over(st, NULL);
        return;
    }
    if (x)
        (void)sg_run_fail(x, &own);
    else
        own = *err;
    (void)sg_wrap(&own, "the ready command");
    over(st, &own);
}

static void said(void *arg, enum sg_stream stream, struct sg_str line)
{
    struct sg_starting *st = arg;
    (void)stream;
    (void)snprintf(st->said, sizeof st->said, "%.*s", (int)line.n, line.p);
}

/* One that succeeds has done what it had to; the ready command has the last word. */
static void start_ended(void *arg, const struct sg_exec *x, const struct sg_err *err)
{
    struct sg_starting *st = arg;
    struct sg_err own = { 0 };
    st->start = NULL;
    if (x && x->ending == SG_EXEC_EXIT && x->code == 0)
        return;
    if (x)
        (void)sg_run_fail(x, &own);
    else
        own = *err;
    if (st->said[0]) {
        const struct sg_err plain = own;
        (void)sg_fail(&own, plain.kind, "%.60s: %s", plain.msg, sg_quote(st->said).s);
    }
    (void)sg_wrap(&own, "the start command ended before it was ready");
    over(st, &own);
}

void sg_start_begin(struct sg_sandbox *s, sg_start_done *done)
{
    static const struct sg_run_ops start_ops = { said, start_ended },
                                   ready_ops = { NULL, ready_ended };
    struct sg_starting *st = sg_new(struct sg_starting);
    const char *ready = s->traits.ready ? s->traits.ready : "true";
    struct sg_err err = { 0 };
    *st = (struct sg_starting) { .s = s, .done = done };
    s->life->starting = st;
    st->start = run(st, start_script, s->traits.start, "start", 0, &start_ops, &err);
    if (!st->start ||
        !(st->ready = run(st, ready_script, ready, "ready", READY_MS, &ready_ops, &err)))
        over(st, &err);
}

void sg_start_stop(struct sg_sandbox *s)
{
    struct sg_err err = { 0 };
    if (!s->life->starting)
        return;
    (void)sg_fail(&err, SG_UNAVAILABLE, "%s",
                  s->life->has_died ? s->life->death_cause : "the sandbox is to end");
    over(s->life->starting, &err);
}
