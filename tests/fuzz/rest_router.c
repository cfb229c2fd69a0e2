/* SPDX-License-Identifier: Apache-2.0 */
/* What fuzz_rest_body.c has in place of the manager, for tasks, approvals and tool calls. */
#include "manager/approval.h"
#include "manager/batch.h"
#include "manager/intercept.h"
#include "manager/task.h"
#include "fuzz_demand.h"
#include "base/banned.h"

const char *const sg_task_ending_names[SG_TASK_ENDING_COUNT] = { "exit" };
const char *const sg_approval_state_names[SG_APPROVAL_STATE_COUNT] = { "a", "b", "c", "d", "e" };

static void check_task(const struct sg_task_spec *t)
{
    check_text(t->name);
    check_text(t->template);
    check_text(t->cwd);
    check_text(t->user);
    check_pairs(t->env, t->env_n);
    for (const char *const *a = t->argv; a && *a; a++)
        check_text(*a);
    for (const char *const *p = t->collect; p && *p; p++)
        check_text(*p);
    demand(t->file_count <= SG_TASK_FILES_MAX && t->retries <= SG_TASK_RETRIES_MAX);
    for (size_t i = 0; i < t->file_count; i++)
        demand(t->files[i].path[0] && t->files[i].bytes.p);
}

struct sg_task *sg_task_start(struct sg_manager *m, const struct sg_who *who,
                              const struct sg_task_spec *spec, sg_task_cb *done, void *arg)
{
    static struct sg_task_result r;
    (void)m, (void)who;
    check_task(spec);
    r.ending = SG_TASK_REFUSED;
    (void)refused(&r.err);
    done(arg, &r);
    return NULL;
}

struct sg_batch *sg_batch_start(struct sg_manager *m, const struct sg_who *who,
                                const struct sg_batch_spec *spec, const struct sg_batch_ops *ops,
                                void *arg, struct sg_err *err)
{
    (void)m, (void)who, (void)ops, (void)arg;
    demand(spec->count && spec->concurrency);
    for (size_t i = 0; i < spec->count; i++) {
        demand(spec->tasks[i].name);
        check_task(&spec->tasks[i].spec);
        for (const char *const *a = spec->tasks[i].after; a && *a; a++)
            check_text(*a);
    }
    (void)refused(err);
    return NULL;
}

int sg_approval_ask(struct sg_manager *m, const struct sg_who *who,
                    const struct sg_approval_spec *spec, sg_approval_cb *cb, void *arg,
                    struct sg_err *err)
{
    (void)m, (void)who, (void)cb, (void)arg;
    check_text(spec->operation);
    check_text(spec->summary);
    demand(spec->timeout_ms > 0);
    return refused(err);
}

int sg_intercept_ask(struct sg_manager *m, const struct sg_who *who,
                     const struct sg_intercept_spec *spec, sg_intercept_cb *cb, void *arg,
                     struct sg_err *err)
{
    (void)m, (void)who, (void)cb, (void)arg;
    check_text(spec->tool);
    check_text(spec->cwd);
    check_text(spec->session);
    demand(!spec->input || spec->input->kind == SG_J_OBJECT);
    return refused(err);
}

static struct sg_approval approval;

struct sg_approval *sg_approval_find(struct sg_manager *m, const struct sg_who *who, const char *id,
                                     struct sg_err *err)
{
    (void)m, (void)who, (void)id, (void)err;
    return &approval;
}

int sg_approval_decide(struct sg_approval *a, const struct sg_who *who, bool is_approved,
                       const char *reason, sg_approval_cb *cb, void *arg, struct sg_err *err)
{
    (void)a, (void)who, (void)is_approved, (void)cb, (void)arg;
    check_text(reason);
    return refused(err);
}
