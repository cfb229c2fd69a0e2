/* SPDX-License-Identifier: Apache-2.0 */
/* A template that is an image of a registry: a build whose ground is fetched first, by a process
 * that has a network (image_job.h). What it says is the build's log; what it made has no name, and
 * the layer that every such build takes keeps it. Credentials go from the call into the pipe. */
#include <string.h>

#include "base/auto.h"
#include "base/json.h"
#include "base/jsonr.h"
#include "image/unnamed.h"
#include "manager/build_internal.h"
#include "manager/image_job.h"
#include "manager/life.h"
#include "base/banned.h"

enum { REQUEST_MAX = 32 << 10 };

/* A template without a name stays while something stands on it: a layer has to, though it is empty.
 */
bool sg_building_is_unpinned(struct sg_building *b)
{
    const struct sg_stage_made *made = &b->made[b->spec.n - 1];
    memcpy(b->next_key, made->key, sizeof b->next_key);
    return sg_templates_is_image(made->at.base) && !made->at.snapshot;
}

static void said(void *arg, const struct sg_jval *v)
{
    struct sg_building *b = arg;
    const struct sg_jval *line = sg_json_get(v, "say"), *name = sg_json_get(v, "template");
    if (line && line->kind == SG_J_STRING)
        sg_building_log(b, SG_BUILD_INFO, line->s.p);
    if (!name || name->kind != SG_J_STRING || !sg_templates_is_image(name->s.p) ||
        b->made[0].at.base)
        return;
    b->made[0].at.base = sg_strdup(name->s.p);
    sg_building_set_out(b);
}

static void ended(void *arg, const struct sg_err *err)
{
    struct sg_building *b = arg;
    struct sg_err own = { 0 };
    b->job = NULL;
    if (b->made[0].at.base) /* the next sandbox of it tells whether it is still there */
        return;
    if (!err) {
        (void)sg_fail(&own, SG_UNAVAILABLE, "the image was not fetched to its end");
        err = &own;
    }
    sg_building_fail(b, err);
}

static void put(struct sg_json *j, const char *key, const char *text)
{
    if (text)
        sg_json_put_str(j, key, text);
}

int sg_building_pull(struct sg_building *b, const struct sg_pull_spec *pull, struct sg_err *err)
{
    static const struct sg_image_ops ops = { said, ended };
    struct sg_json j;
    sg_auto_buf request;
    sg_buf_init(&request, REQUEST_MAX);
    sg_json_init(&j, &request);
    sg_json_open(&j, '{');
    sg_json_put_str(&j, "action", "pull");
    sg_json_put_str(&j, "image", pull->image);
    put(&j, "platform", pull->platform);
    put(&j, "user", pull->user);
    put(&j, "password", pull->password);
    sg_json_close(&j, '}');
    sg_buf_add_str(&request, "\n");
    b->job = sg_image_begin(b->m, b->org, &request, SG_IMAGE_NO_DATA, NULL, &ops, b, err);
    if (request.p)
        explicit_bzero(request.p, request.n);
    return b->job ? 0 : -1;
}

int sg_build_pull(struct sg_manager *m, const struct sg_who *who, const char *name,
                  const char *const *tags, const struct sg_pull_spec *pull, struct sg_build **ret,
                  struct sg_err *err)
{
    const struct sg_sandbox_limits limits = { 0 };
    const struct sg_stage stage = { .kind = SG_FROM_REGISTRY, .from = pull->image };
    const struct sg_build_spec spec = { .stages = &stage, .n = 1, .pull = pull, .is_roots = true };
    if (sg_tenant_demand(who, SG_SCOPE_ADMIN, err) < 0)
        return sg_manager_denied(m, who, "template.pull", NULL, err);
    if (sg_build_begin(m, who, name, tags, &limits, &spec, ret, err) < 0)
        return -1;
    sg_manager_audit_value(m, who, "template.pull", NULL, "image", pull->image);
    return 0;
}
