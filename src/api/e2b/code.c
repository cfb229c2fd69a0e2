/* SPDX-License-Identifier: Apache-2.0 */
#include "api/e2b/code.h"

#include <string.h>

#include "api/code.h"
#include "api/e2b/proxy.h"
#include "api/routes.h"
#include "base/auto.h"
#include "base/banned.h"

/* ---- how this port tells errors: as plain text ---- */

static void tell_error(struct sg_call *c, int status, const struct sg_err *err)
{
    if (err->kind == SG_UNAVAILABLE && c->state && !strcmp(err->msg, "The sandbox was not found")) {
        sg_e2b_unreachable(c, sg_e2b_visit(c)->sandbox, 0);
        return;
    }
    if (err->kind == SG_UNSUPPORTED) /* a kernel that is not there is a failure to these clients */
        status = 500;
    sg_reply_text(c, status, "text/plain; charset=utf-8", err->msg);
}

/* ---- contexts ---- */

static void put_context(struct sg_json *j, const struct sg_code_context *x)
{
    sg_json_open(j, '{');
    sg_json_put_str(j, "id", x->id.s);
    sg_json_put_str(j, "language", x->language);
    sg_json_put_str(j, "cwd", x->cwd);
    sg_json_close(j, '}');
}

static void reply_null(struct sg_call *c)
{
    sg_reply_text(c, 200, "application/json", "null");
}

static void created(void *arg, struct sg_code_context *x, const struct sg_err *err)
{
    struct sg_call *c = arg;
    sg_auto_buf out = { 0 };
    struct sg_json j;
    if (!x) {
        sg_reply_error(c, err);
        return;
    }
    sg_buf_init(&out, SG_E2B_MAX_REPLY);
    sg_json_init(&j, &out);
    put_context(&j, x);
    sg_reply_json(c, 200, &out);
}

static int create(struct sg_call *c, struct sg_sandbox *s, struct sg_err *err)
{
    const struct sg_jval *body = sg_e2b_visit(c)->body;
    const struct sg_code_context_spec spec = { .language = sg_e2b_text(body, "language"),
                                               .cwd = sg_e2b_text(body, "cwd") };
    return sg_code_create(s, &c->who, &spec, created, c, err);
}

/* Those of these two languages are there from the start, as far as clients can tell. */
static int list(struct sg_call *c, struct sg_sandbox *s, struct sg_err *err)
{
    sg_auto_buf out = { 0 };
    struct sg_json j;
    if (!sg_code_default(s, &c->who, "python", err) ||
        !sg_code_default(s, &c->who, "javascript", err))
        return -1;
    sg_buf_init(&out, SG_E2B_MAX_REPLY);
    sg_json_init(&j, &out);
    sg_json_open(&j, '[');
    for (const struct sg_code_context *x = sg_code_first(s); x; x = x->next)
        put_context(&j, x);
    sg_json_close(&j, ']');
    sg_reply_json(c, 200, &out);
    return 0;
}

static struct sg_code_context *find(struct sg_sandbox *s, const char *id, struct sg_err *err)
{
    struct sg_code_context *x = sg_code_find(s, id, err);
    if (!x)
        (void)sg_fail(err, SG_NOT_FOUND, "Context %.100s not found", id);
    return x;
}

/* "/contexts/{id}[/...]" */
static struct sg_code_context *named(struct sg_call *c, struct sg_sandbox *s, struct sg_err *err)
{
    const char *id = c->path + strlen("/contexts/");
    const char *copy = sg_arena_copy(&c->arena, id, strcspn(id, "/"));
    return find(s, copy ? copy : "", err);
}

static int restart(struct sg_call *c, struct sg_sandbox *s, struct sg_err *err)
{
    struct sg_code_context *x = named(c, s, err);
    if (!x || sg_code_restart(x, &c->who, err) < 0)
        return -1;
    reply_null(c);
    return 0;
}

static int remove_context(struct sg_call *c, struct sg_sandbox *s, struct sg_err *err)
{
    struct sg_code_context *x = named(c, s, err);
    if (!x || sg_code_remove(x, &c->who, err) < 0)
        return -1;
    reply_null(c);
    return 0;
}

/* ---- code ---- */

static int check_token(struct sg_call *c)
{
    const char *wanted = sg_e2b_visit(c)->record.token;
    const char *given = sg_call_header(c, "X-Access-Token");
    if (!wanted[0] || (given && sg_e2b_is_same(given, wanted)))
        return 0;
    sg_reply_text(c, 401, "text/plain; charset=utf-8",
                  "the sandbox is secured: its access token is needed to run code");
    return -1;
}

static int execute(struct sg_call *c, struct sg_sandbox *s, struct sg_err *err)
{
    const struct sg_jval *body = sg_e2b_visit(c)->body, *code = sg_e2b_get(body, "code");
    const char *id = sg_e2b_text(body, "contextId"), *language = sg_e2b_text(body, "language");
    struct sg_pair *env = NULL;
    struct sg_code_spec spec = { 0 };
    if (check_token(c) < 0)
        return 0;
    if (!code || code->kind != SG_J_STRING)
        return sg_fail(err, SG_INVALID, "code is needed, as a text");
    if (id && language)
        return sg_fail(err, SG_INVALID, "Only one of context_id or language can be provided");
    if (sg_call_pairs(c, sg_e2b_get(body, "envVars"), "env_vars", &env, &spec.env_n, err) < 0)
        return -1;
    struct sg_code_context *x = id ? find(s, id, err) : sg_code_default(s, &c->who, language, err);
    spec.code = code->s;
    spec.env = env;
    return x ? sg_code_reply(c, x, &spec, err) : -1;
}

static int health(struct sg_call *c, struct sg_sandbox *s, struct sg_err *err)
{
    (void)s;
    (void)err;
    sg_reply_text(c, 200, "application/json", "\"OK\"");
    return 0;
}

/* ---- routes ---- */

typedef int handler(struct sg_call *c, struct sg_sandbox *s, struct sg_err *err);
static const struct {
    enum sg_method method;
    const char *path; /* '*': one segment */
    handler *handle;
} rows[] = {
    { M_GET, "/health", health },
    { M_POST, "/execute", execute },
    { M_GET, "/contexts", list },
    { M_POST, "/contexts", create },
    { M_POST, "/contexts/*/restart", restart },
    { M_DELETE, "/contexts/*", remove_context },
};

static bool fits(const char *path, const char *row)
{
    for (; *row; row++) {
        if (*row != '*') {
            if (*path++ != *row)
                return false;
            continue;
        }
        const size_t n = strcspn(path, "/");
        if (!n)
            return false;
        path += n;
    }
    return !*path;
}

/* With the whole body. */
static int handle(struct sg_call *c, struct sg_err *err)
{
    struct sg_e2b_visit *v = sg_e2b_visit(c);
    struct sg_sandbox *s = sg_e2b_visited(c, err);
    if (!s)
        return -1;
    const struct sg_str text = c->body.n ? c->body : sg_str_of("{}");
    for (size_t i = 0; i < SG_COUNT(rows); i++) {
        const bool is_method = rows[i].method == (c->method == M_HEAD ? M_GET : c->method);
        if (!is_method || !fits(c->path, rows[i].path))
            continue;
        return sg_json_parse(text, &c->arena, &v->body, err) < 0 ? -1 : rows[i].handle(c, s, err);
    }
    return sg_fail(err, SG_NOT_FOUND, "Not Found");
}

static const struct sg_route route = { M_POST, "", 0, SG_ROUTE_OPEN, handle, "Code in a sandbox" };

static void probed(void *arg, bool has_kernels, const struct sg_err *err)
{
    struct sg_call *c = arg;
    struct sg_err own = { 0 };
    struct sg_sandbox *s = err ? NULL : sg_e2b_visited(c, &own);
    if (c->is_gone) {
        sg_reply_end(c);
    } else if (!s) {
        sg_e2b_unreachable(c, sg_e2b_visit(c)->sandbox, 0);
    } else if (has_kernels) {
        c->on_error = tell_error;
        sg_call_gather_body(c, &route);
    } else if (sg_e2b_proxy(c, s, &own) < 0) {
        sg_reply_error(c, &own);
    }
}

int sg_e2b_code(struct sg_call *c, struct sg_sandbox *s, struct sg_err *err)
{
    sg_call_pause_body(c, true);
    return sg_code_probe(s, &c->who, probed, c, err);
}
