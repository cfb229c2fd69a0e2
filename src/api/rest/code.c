/* SPDX-License-Identifier: Apache-2.0 */
/* Code and contexts. An execution is answered in one piece, or, with ?stream=1, event by event. */
#include <stddef.h>
#include <string.h>

#include "api/code.h"
#include "api/rest/rest.h"
#include "base/auto.h"
#include "base/banned.h"

/* ---- contexts ---- */

static void put_context(struct sg_json *j, const struct sg_code_context *x)
{
    sg_json_open(j, '{');
    sg_json_key(j, "id");
    sg_json_str(j, x->id.s);
    sg_json_key(j, "language");
    sg_json_str(j, x->language);
    sg_json_key(j, "cwd");
    sg_json_str(j, x->cwd);
    sg_json_key(j, "default");
    sg_json_bool(j, x->is_default);
    sg_json_key(j, "busy");
    sg_json_bool(j, sg_code_is_busy(x));
    sg_json_key(j, "executions");
    sg_json_u64(j, x->runs);
    sg_rest_put_time(j, "createdAt", x->created_ms);
    sg_json_close(j, '}');
}

static void reply_context(struct sg_call *c, int status, const struct sg_code_context *x)
{
    sg_auto_buf out;
    struct sg_json j;
    sg_buf_init(&out, SG_REST_MAX_REPLY);
    sg_json_init(&j, &out);
    put_context(&j, x);
    sg_reply_json(c, status, &out);
}

/* The context of {context} in the sandbox of {id}, or NULL. */
static struct sg_code_context *find_context(struct sg_call *c, struct sg_err *err)
{
    struct sg_sandbox *s = sg_rest_sandbox(c, err);
    return s ? sg_code_find(s, sg_call_param(c, "context"), err) : NULL;
}

int sg_rest_context_list(struct sg_call *c, struct sg_err *err)
{
    struct sg_sandbox *s = sg_rest_sandbox(c, err);
    sg_auto_buf out = { 0 };
    struct sg_json j;
    if (!s)
        return -1;
    sg_rest_open_list(&j, &out, "contexts");
    for (const struct sg_code_context *x = sg_code_first(s); x; x = x->next)
        put_context(&j, x);
    sg_json_close(&j, ']');
    sg_json_close(&j, '}');
    sg_reply_json(c, 200, &out);
    return 0;
}

static void created(void *arg, struct sg_code_context *x, const struct sg_err *err)
{
    if (x)
        reply_context(arg, 201, x);
    else
        sg_reply_error(arg, err);
}

int sg_rest_context_create(struct sg_call *c, struct sg_err *err)
{
    struct body {
        const char *language, *cwd;
        const struct sg_jval *env;
    } b = { 0 };
    static const struct sg_jfield fields[] = {
        { "language", SG_JT_STRING, offsetof(struct body, language), 0, 0, false },
        { "cwd", SG_JT_STRING, offsetof(struct body, cwd), 0, 0, false },
        { "env", SG_JT_OBJECT, offsetof(struct body, env), 0, 0, false },
    };
    const struct sg_jval *v;
    struct sg_sandbox *s = sg_rest_sandbox(c, err);
    struct sg_code_context_spec spec = { 0 };
    struct sg_pair *env = NULL;
    if (!s || sg_call_json(c, &v, err) < 0 ||
        sg_json_read(v, fields, SG_COUNT(fields), &b, err) < 0 ||
        sg_call_pairs(c, b.env, "env", &env, &spec.env_n, err) < 0)
        return -1;
    spec.language = b.language;
    spec.cwd = b.cwd;
    spec.env = env;
    return sg_code_create(s, &c->who, &spec, created, c, err);
}

int sg_rest_context_get(struct sg_call *c, struct sg_err *err)
{
    const struct sg_code_context *x = find_context(c, err);
    if (!x)
        return -1;
    reply_context(c, 200, x);
    return 0;
}

int sg_rest_context_remove(struct sg_call *c, struct sg_err *err)
{
    struct sg_code_context *x = find_context(c, err);
    if (!x || sg_code_remove(x, &c->who, err) < 0)
        return -1;
    sg_reply_empty(c, 204);
    return 0;
}

int sg_rest_context_restart(struct sg_call *c, struct sg_err *err)
{
    struct sg_code_context *x = find_context(c, err);
    if (!x || sg_code_restart(x, &c->who, err) < 0)
        return -1;
    reply_context(c, 200, x);
    return 0;
}

int sg_rest_context_interrupt(struct sg_call *c, struct sg_err *err)
{
    struct sg_code_context *x = find_context(c, err);
    if (!x || sg_code_interrupt(x, &c->who, err) < 0)
        return -1;
    sg_reply_empty(c, 204);
    return 0;
}

int sg_rest_code_attach(struct sg_call *c, struct sg_err *err)
{
    struct sg_code_context *x = find_context(c, err);
    return x ? sg_code_reply_again(c, x, sg_call_param(c, "run"), err) : -1;
}

/* ---- code ---- */

struct body {
    const char *language, *context;
    const struct sg_jval *code, *env;
    uint64_t timeout_ms;
};
#define AT(f) offsetof(struct body, f)
static const struct sg_jfield fields[] = {
    { "code", SG_JT_VALUE, AT(code), 0, 0, true },
    { "language", SG_JT_STRING, AT(language), 0, 0, false },
    { "context", SG_JT_STRING, AT(context), 0, 0, false },
    { "env", SG_JT_OBJECT, AT(env), 0, 0, false },
    { "timeoutMs", SG_JT_U64, AT(timeout_ms), 0, UINT32_MAX, false },
};
#undef AT

int sg_rest_code_run(struct sg_call *c, struct sg_err *err)
{
    static const char *const known[] = { "stream", NULL };
    struct sg_sandbox *s = sg_rest_sandbox(c, err);
    struct body b = { 0 };
    struct sg_code_spec spec = { 0 };
    struct sg_pair *env = NULL;
    const struct sg_jval *v;
    bool streams = false;
    if (!s || sg_call_query_only(c, known, err) < 0 ||
        sg_call_query_bool(c, "stream", &streams, err) < 0 || sg_call_json(c, &v, err) < 0 ||
        sg_json_read(v, fields, SG_COUNT(fields), &b, err) < 0 ||
        sg_call_pairs(c, b.env, "env", &env, &spec.env_n, err) < 0)
        return -1;
    if (b.code->kind != SG_J_STRING)
        return sg_fail(err, SG_INVALID, "code is a text");
    if (b.context && b.language)
        return sg_fail(err, SG_INVALID, "a context has its language: name one of the two");
    struct sg_code_context *x =
        b.context ? sg_code_find(s, b.context, err) : sg_code_default(s, &c->who, b.language, err);
    spec.code = b.code->s;
    spec.env = env;
    spec.timeout_ms = b.timeout_ms;
    if (!x)
        return -1;
    return streams ? sg_code_reply(c, x, &spec, err) : sg_rest_code_collect(c, x, &spec, err);
}
