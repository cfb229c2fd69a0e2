/* SPDX-License-Identifier: Apache-2.0 */
/* What bodies of builds and ports lead to: more of the functions of
 * fuzz_rest_body.c. */
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "manager/build.h"
#include "manager/preview.h"
#include "manager/tenant.h"
#include "base/banned.h"

static int refused(struct sg_err *err)
{
    return sg_fail(err, SG_CONFLICT, "no further");
}

static void check_text(const char *s)
{
    if (!s || strlen(s) > 1u << 24)
        abort();
}

static void demand(bool is_so)
{
    if (!is_so)
        abort();
}

const char *const sg_step_names[SG_STEP_KIND_COUNT] = { "RUN", "COPY", "ENV", "WORKDIR", "USER" };

int sg_build_pull(struct sg_manager *m, const struct sg_who *who, const char *name,
                  const char *const *tags, const struct sg_pull_spec *pull, struct sg_build **ret,
                  struct sg_err *err)
{
    (void)m, (void)who, (void)ret;
    check_text(name);
    check_text(pull->image);
    for (size_t i = 0; tags && tags[i]; i++)
        check_text(tags[i]);
    const char *const more[] = { pull->platform, pull->user, pull->password };
    for (size_t i = 0; i < SG_COUNT(more); i++)
        if (more[i])
            check_text(more[i]);
    return sg_fail(err, SG_UNSUPPORTED, "nothing is fetched here");
}

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

int sg_manager_open_port(struct sg_sandbox *s, const struct sg_who *who, uint16_t port,
                         bool is_public, sg_sandbox_cb *cb, void *arg, struct sg_err *err)
{
    (void)s, (void)who, (void)is_public, (void)cb, (void)arg;
    demand(port > 0);
    return refused(err);
}

int sg_manager_sign_port(const struct sg_sandbox *s, const struct sg_who *who, uint16_t port,
                         uint64_t until_s, char ret[SG_PREVIEW_TOKEN], struct sg_err *err)
{
    (void)s, (void)who, (void)until_s, (void)ret;
    demand(port > 0);
    return refused(err);
}
