/* SPDX-License-Identifier: Apache-2.0 */
/* How this door tells errors. Clients act on `code`: on the control plane and for plain routes of
 * envd it is the status as a number, for RPCs the name of one of Connect's codes. */
#include <errno.h>
#include <string.h>

#include "api/e2b/e2b.h"
#include "api/routes.h"
#include "base/auto.h"
#include "base/log.h"
#include "wire/connect.h"
#include "base/banned.h"

enum { MAX_ERROR = 8 << 10 };

/* What strangers can ask for fills no log. */
static void log_failure(const struct sg_call *c, int status, const struct sg_err *err)
{
    if (status >= 500 && err->kind >= SG_TIMEOUT)
        sg_log(status == 500 ? SG_LOG_ERROR : SG_LOG_WARN, "request failed", SG_KV("path", c->path),
               SG_KV("cause", err->msg), SG_KV("where", err->where),
               SG_KV("request", c->who.request_id));
}

void sg_e2b_error(struct sg_call *c, int status, const struct sg_err *err)
{
    sg_auto_buf out;
    struct sg_json j;
    if (status == 501) /* what is not there is a wrong request to these clients */
        status = 400;
    log_failure(c, status, err);
    const bool is_control = c->route && !(c->route->flags & SG_ROUTE_OPEN);
    if (status == 429 && is_control) /* clients try again by it */
        sg_reply_header(c, "Retry-After", "1");
    sg_buf_init(&out, MAX_ERROR);
    sg_json_init(&j, &out);
    sg_json_open(&j, '{');
    sg_json_put_u64(&j, "code", (uint64_t)status);
    sg_json_put_str(&j, "message", err->msg);
    sg_json_close(&j, '}');
    sg_reply_bytes(c, status, "application/json", out.p, out.n);
}

/* ---- RPCs ---- */

static const char *const codes[SG_KIND_COUNT] = {
    [SG_OK] = "unknown",
    [SG_INVALID] = "invalid_argument",
    [SG_NOT_FOUND] = "not_found",
    [SG_CONFLICT] = "failed_precondition",
    [SG_DENIED] = "permission_denied",
    [SG_EXHAUSTED] = "resource_exhausted",
    [SG_UNSUPPORTED] = "unimplemented",
    [SG_TIMEOUT] = "deadline_exceeded",
    [SG_UNAVAILABLE] = "unavailable",
    [SG_INTERNAL] = "internal",
};

static const struct {
    const char *code;
    int status;
} statuses[] = {
    { "invalid_argument", 400 },   { "failed_precondition", 400 }, { "not_found", 404 },
    { "already_exists", 409 },     { "permission_denied", 403 },   { "unauthenticated", 401 },
    { "resource_exhausted", 429 }, { "unimplemented", 501 },       { "unavailable", 503 },
    { "deadline_exceeded", 504 },
};

static bool is_unknown_user(const struct sg_err *err)
{
    return !err->sys && (strstr(err->msg, "no user ") || strstr(err->msg, "invalid username"));
}

static const char *rpc_code(const struct sg_call *c, const struct sg_err *err)
{
    const struct sg_e2b_visit *v = sg_e2b_visit(c);
    if (v && v->code)
        return v->code;
    if (err->sys == EEXIST)
        return "already_exists";
    if (err->sys == ENOTDIR || err->sys == EISDIR)
        return "invalid_argument";
    if ((err->kind == SG_NOT_FOUND || err->kind == SG_DENIED) && is_unknown_user(err))
        return "unauthenticated";
    return codes[err->kind];
}

static void put_error(struct sg_json *j, const char *code, const char *message)
{
    sg_json_open(j, '{');
    sg_json_put_str(j, "code", code);
    sg_json_put_str(j, "message", message);
    sg_json_close(j, '}');
}

void sg_e2b_rpc_error(struct sg_call *c, int status, const struct sg_err *err)
{
    const char *code = rpc_code(c, err);
    sg_auto_buf out;
    struct sg_json j;
    status = 500;
    for (size_t i = 0; i < SG_COUNT(statuses); i++)
        if (strcmp(statuses[i].code, code) == 0)
            status = statuses[i].status;
    log_failure(c, status, err);
    sg_buf_init(&out, MAX_ERROR);
    sg_json_init(&j, &out);
    put_error(&j, code, err->msg);
    sg_reply_bytes(c, status, "application/json", out.p, out.n);
}

void sg_e2b_put_end(struct sg_buf *out, const char *code, const char *message)
{
    size_t mark = sg_connect_open(out);
    struct sg_json j;
    sg_json_init(&j, out);
    sg_json_open(&j, '{');
    if (code) {
        sg_json_key(&j, "error");
        put_error(&j, code, message);
    }
    sg_json_close(&j, '}');
    sg_connect_close(out, mark, SG_CONNECT_END);
}

void sg_e2b_stream_error(struct sg_call *c, int status, const struct sg_err *err)
{
    sg_auto_buf out;
    log_failure(c, status, err);
    sg_buf_init(&out, MAX_ERROR);
    sg_e2b_put_end(&out, rpc_code(c, err), err->msg);
    sg_reply_bytes(c, 200, "application/connect+json", out.p, out.n);
}

/* ---- in front of a sandbox ---- */

void sg_e2b_unreachable(struct sg_call *c, const char *sandbox, uint32_t port)
{
    sg_auto_buf out;
    struct sg_json j;
    sg_buf_init(&out, MAX_ERROR);
    sg_json_init(&j, &out);
    sg_json_open(&j, '{');
    sg_json_put_str(&j, "sandboxId", sandbox);
    sg_json_put_str(&j, "message",
                    port ? "The sandbox is running but port is not open"
                         : "The sandbox was not found");
    if (port)
        sg_json_put_u64(&j, "port", port);
    sg_json_put_u64(&j, "code", 502);
    sg_json_close(&j, '}');
    sg_reply_bytes(c, 502, "application/json", out.p, out.n);
}
