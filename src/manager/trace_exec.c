/* SPDX-License-Identifier: Apache-2.0 */
/* The span of a command. */
#include <stdio.h>

#include "base/auto.h"
#include "manager/exec_internal.h"
#include "manager/life.h"
#include "manager/trace_internal.h"
#include "base/banned.h"

void sg_trace_exec(struct sg_exec *x)
{
    struct sg_sandbox *s = x->sandbox;
    const bool has_content = sg_traces_want_content(s->manager);
    struct sg_amounts amounts;
    char error[64];

    if (!s->manager->traces || s->is_internal || x->is_kernel)
        return;
    struct sg_told t = sg_told_of(s);
    const bool is_fine = x->ending == SG_EXEC_EXIT && x->code == 0;
    t.ending = sg_exec_ending_name(x->ending);
    if (x->ending != SG_EXEC_LOST)
        t.exit_code = x->signal ? 128 + x->signal : x->code;
    (void)snprintf(error, sizeof error, "%s %u", t.ending, x->signal ? x->signal : x->code);
    t.span = (struct sg_trace_span) { .id = x->id.s,
                                      .trace = &sg_exec_impl(x)->trace,
                                      .start_ms = x->started_ms,
                                      .end_ms = x->ended_ms,
                                      .error = is_fine ? NULL : error };
    t.tool = "exec";
    sg_exec_amounts(x, &amounts);
    t.amounts = &amounts;
    sg_auto_free char *input = has_content ? sg_told_argv(x->argv) : NULL;
    sg_auto_free char *output = has_content ? sg_told_end(t.ending, t.exit_code, NULL) : NULL;
    t.input = input;
    t.output = output;
    sg_told_tell(s->manager, &t);
}
