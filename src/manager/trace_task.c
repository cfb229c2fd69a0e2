/* SPDX-License-Identifier: Apache-2.0 */
/* The span of a task: its sandbox is gone by then. */
#include <stdio.h>

#include "base/auto.h"
#include "manager/task_internal.h"
#include "manager/trace_internal.h"
#include "base/banned.h"

void sg_trace_task(struct sg_task *task)
{
    struct sg_manager *m = task->m;
    const struct sg_task_spec *spec = task->spec;
    const struct sg_task_result *r = &task->r;
    const bool has_content = sg_traces_want_content(m);
    const bool is_fine = r->ending == SG_TASK_PERMITTED || (r->ending == SG_TASK_EXIT && !r->code);
    const int64_t now_ms = sg_manager_unix_ms();
    char error[64];

    if (!m->traces)
        return;
    struct sg_told t = { .tool = spec->tool ? spec->tool : "run",
                         .org = task->who.org->id.s,
                         .sandbox = r->sandbox,
                         .template = spec->template,
                         .tier = sg_wall_names[r->wall],
                         .operation = spec->ask.operation,
                         .rule = task->rule,
                         .agent = spec->ask.agent,
                         .ending = sg_task_ending_names[r->ending],
                         .limits = &spec->limits,
                         .amounts = &r->amounts,
                         .exit_code = r->ending == SG_TASK_EXIT ? (int64_t)r->code : -1 };
    (void)snprintf(error, sizeof error, "%s %u", t.ending, r->signal ? r->signal : r->code);
    t.span = (struct sg_trace_span) { .id = task->id.s,
                                      .trace = &task->above,
                                      .start_ms = now_ms - (int64_t)r->times.all,
                                      .end_ms = now_ms,
                                      .error = is_fine         ? NULL
                                               : r->err.msg[0] ? r->err.msg
                                                               : error };
    sg_auto_free char *input =
        has_content && spec->argv ? sg_told_argv((char *const *)spec->argv) : NULL;
    sg_auto_free char *output = has_content ? sg_told_end(t.ending, t.exit_code, r->output) : NULL;
    t.input = input;
    t.output = output;
    sg_told_tell(m, &t);
}
