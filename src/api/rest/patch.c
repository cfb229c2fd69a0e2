/* SPDX-License-Identifier: Apache-2.0 */
/* PATCH of a sandbox: up to three changes, one after the other; the first that fails is the reply.
 */
#include <stddef.h>

#include "api/rest/rest.h"
#include "base/auto.h"
#include "base/banned.h"

struct patch {
    struct sg_call *call;
    bool has_limits, has_metadata, has_timeout;
    struct sg_sandbox_limits limits;
    struct sg_pair *metadata;
    size_t metadata_n;
    uint64_t timeout_ms;
};

struct body {
    const struct sg_jval *limits, *metadata;
    uint64_t timeout_ms;
};
static const struct sg_jfield fields[] = {
    { "limits", SG_JT_OBJECT, offsetof(struct body, limits), 0, 0, false },
    { "metadata", SG_JT_OBJECT, offsetof(struct body, metadata), 0, 0, false },
    { "timeoutMs", SG_JT_U64, offsetof(struct body, timeout_ms), 0, UINT64_MAX / 1000000, false },
};

static int next_change(struct patch *p, struct sg_sandbox *s, struct sg_err *err);

static void changed(void *arg, struct sg_sandbox *s, const struct sg_err *err)
{
    struct patch *p = arg;
    struct sg_err own;
    if (!s)
        sg_reply_error(p->call, err);
    else if (next_change(p, s, &own) < 0)
        sg_reply_error(p->call, &own);
}

static int next_change(struct patch *p, struct sg_sandbox *s, struct sg_err *err)
{
    const struct sg_who *who = &p->call->who;
    if (p->has_limits) {
        p->has_limits = false;
        return sg_manager_set_limits(s, who, &p->limits, changed, p, err);
    }
    if (p->has_metadata) {
        p->has_metadata = false;
        return sg_manager_set_metadata(s, who, p->metadata, p->metadata_n, changed, p, err);
    }
    if (p->has_timeout) {
        p->has_timeout = false;
        return sg_manager_set_timeout(s, who, p->timeout_ms, changed, p, err);
    }
    sg_rest_reply_sandbox(p->call, s, NULL);
    return 0;
}

int sg_rest_sandbox_patch(struct sg_call *c, struct sg_err *err)
{
    struct body b = { .timeout_ms = UINT64_MAX };
    const struct sg_jval *body;
    struct sg_sandbox *s = sg_rest_sandbox(c, err);
    struct patch *p = sg_arena_alloc(&c->arena, sizeof *p);
    if (!s || sg_call_json(c, &body, err) < 0 ||
        sg_json_read(body, fields, SG_COUNT(fields), &b, err) < 0)
        return -1;
    if (!p)
        return sg_fail(err, SG_EXHAUSTED, "no room for the call");
    *p = (struct patch) { .call = c,
                          .has_limits = b.limits,
                          .has_metadata = b.metadata,
                          .has_timeout = b.timeout_ms != UINT64_MAX,
                          .timeout_ms = b.timeout_ms };
    if (sg_rest_limits(b.limits, &p->limits, err) < 0 ||
        sg_call_pairs(c, b.metadata, "metadata", &p->metadata, &p->metadata_n, err) < 0)
        return -1;
    return next_change(p, s, err);
}
