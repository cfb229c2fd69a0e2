/* SPDX-License-Identifier: Apache-2.0 */
/* The span of an execution in a context. */
#include "base/auto.h"
#include "manager/code_internal.h"
#include "manager/life.h"
#include "manager/trace_internal.h"
#include "base/banned.h"

void sg_trace_code(struct sg_code_run *r)
{
    struct sg_sandbox *s = r->context->sandbox;
    static const char *const verdicts[] = { "done", "timeout", "restarted", "removed" };

    if (!s->manager->traces || !r->began_ms)
        return;
    struct sg_told t = sg_told_of(s);
    const int64_t now_ms = sg_manager_unix_ms();
    const uint64_t ms = now_ms > r->began_ms ? (uint64_t)(now_ms - r->began_ms) : 0;
    const struct sg_amounts amounts = { .wall_ms = ms,
                                        .vcpu_milli_ms = s->limits.cpu_milli * ms,
                                        .allotted_mib_ms = (s->limits.mem_bytes >> 20) * ms };
    t.tool = "code";
    t.ending = verdicts[r->verdict];
    t.amounts = &amounts;
    t.input = r->shown;
    t.span = (struct sg_trace_span) { .id = r->id.s,
                                      .trace = &r->trace,
                                      .start_ms = r->began_ms,
                                      .end_ms = now_ms,
                                      .error = r->verdict == SG_CODE_NO_VERDICT ? NULL : t.ending };
    sg_told_tell(s->manager, &t);
}
