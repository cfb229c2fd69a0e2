/* SPDX-License-Identifier: Apache-2.0 */
/* What bodies of builds and of organisations lead to: a part of fuzz_rest_body.c, whose helpers it
 * uses. */
#pragma once

#include "manager/build.h"

const char *const sg_step_names[SG_STEP_KIND_COUNT] = { "RUN", "COPY", "ENV", "WORKDIR", "USER" };

int sg_build_begin(struct sg_manager *m, const struct sg_who *who, const char *name,
                   const char *const *tags, const struct sg_sandbox_limits *limits,
                   const struct sg_build_spec *spec, struct sg_build **ret, struct sg_err *err)
{
    (void)m, (void)who, (void)limits, (void)ret;
    check_text(name);
    for (size_t i = 0; tags && tags[i]; i++)
        check_text(tags[i]);
    for (size_t i = 0; i < spec->n; i++) {
        const struct sg_stage *s = &spec->stages[i];
        demand(s->kind == SG_FROM_STAGE ? s->stage > 0 : s->from != NULL);
        for (size_t k = 0; k < s->n; k++)
            for (size_t a = 0; a < s->steps[k].n; a++)
                check_text(s->steps[k].args[a]);
    }
    return refused(err);
}

int sg_org_change(struct sg_manager *m, const struct sg_who *who, const char *id, const char *name,
                  const struct sg_quota *quota, sg_org_cb *cb, void *arg, struct sg_err *err)
{
    (void)m, (void)who, (void)id, (void)name, (void)quota, (void)cb, (void)arg;
    return refused(err);
}
