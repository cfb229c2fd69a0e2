/* SPDX-License-Identifier: Apache-2.0 */
/* POST /v1/intercept: what becomes of a tool call that an agent is about to make. */
#include "manager/intercept.h"

#include "api/rest/rest.h"
#include "base/auto.h"
#include "base/banned.h"

static void put(struct sg_json *j, const char *key, const char *value)
{
    sg_json_key(j, key);
    sg_json_str(j, value);
}

static void put_sandbox(struct sg_json *j, const struct sg_intercept_result *r)
{
    put(j, "sandbox", r->sandbox->id.s);
    put(j, "root", r->root);
    put(j, "workspace", r->rules->sandbox.workspace);
    put(j, "cwd", r->cwd);
    if (*r->path)
        put(j, "path", r->path);
    put(j, "argument", (r->command ? r->command : r->input_path)->key.p);
    sg_json_key(j, "copy");
    sg_json_bool(j, r->copies);
    if (!r->command)
        return;
    sg_json_key(j, "argv");
    sg_json_open(j, '[');
    sg_json_str(j, r->rules->sandbox.shell);
    sg_json_str(j, "-c");
    sg_json_text(j, r->command->s);
    sg_json_close(j, ']');
}

static void decided(void *arg, const struct sg_intercept_result *r, const struct sg_err *err)
{
    struct sg_call *c = arg;
    sg_auto_buf out = { 0 };
    struct sg_json j;
    if (!r) {
        sg_reply_error(c, err);
        return;
    }
    sg_buf_init(&out, SG_REST_MAX_REPLY);
    sg_json_init(&j, &out);
    sg_json_open(&j, '{');
    put(&j, "action", sg_intercept_action_names[r->action]);
    if (*r->rule)
        put(&j, "rule", r->rule);
    put(&j, "reason", r->reason);
    if (r->approval)
        put(&j, "approval", r->approval->id.s);
    if (r->action == SG_INTERCEPT_SANDBOX)
        put_sandbox(&j, r);
    sg_json_key(&j, "rules");
    sg_json_open(&j, '{');
    put(&j, "source", r->rules->source);
    put(&j, "revision", r->rules->revision);
    sg_json_close(&j, '}');
    sg_json_close(&j, '}');
    sg_reply_json(c, 200, &out);
}

int sg_rest_intercept(struct sg_call *c, struct sg_err *err)
{
    static const struct sg_jfield fields[] = {
        { "tool", SG_JT_STRING, offsetof(struct sg_intercept_spec, tool), 0, 0, true },
        { "input", SG_JT_OBJECT, offsetof(struct sg_intercept_spec, input), 0, 0, false },
        { "cwd", SG_JT_STRING, offsetof(struct sg_intercept_spec, cwd), 0, 0, true },
        { "session", SG_JT_STRING, offsetof(struct sg_intercept_spec, session), 0, 0, true },
        { "resolvedPath", SG_JT_STRING, offsetof(struct sg_intercept_spec, resolved), 0, 0, false },
    };
    const struct sg_jval *body;
    struct sg_intercept_spec *spec = sg_arena_alloc(&c->arena, sizeof *spec);
    if (!spec)
        return sg_fail(err, SG_EXHAUSTED, "no room for the call");
    if (sg_call_json(c, &body, err) < 0 ||
        sg_json_read(body, fields, SG_COUNT(fields), spec, err) < 0)
        return -1;
    return sg_intercept_ask(c->manager, &c->who, spec, decided, c, err);
}
