/* SPDX-License-Identifier: Apache-2.0 */
/* The sandbox plane: which requests are for a sandbox, for which one, and whether they may.
 *
 * A request names its sandbox by (in this order) the headers E2b-Sandbox-Id and -Port, the first
 * label of its host ("8000-<id>.domain"), the token in X-Access-Token, or the signature of a file
 * URL. The last two are for clients that send nothing else; both are as hard to guess as a key.
 *
 * A sandbox that is not there, that this door never saw, or that does not run answers 502: that is
 * how clients tell a sandbox that ended from one that misbehaves. */
#include <ctype.h>
#include <string.h>

#include "api/e2b/code.h"
#include "api/e2b/proxy.h"
#include "api/e2b/sign.h"
#include "api/routes.h"
#include "base/auto.h"
#include "base/parse.h"
#include "base/banned.h"

enum { TOKEN_SCOPES = SG_SCOPE_READ | SG_SCOPE_EXEC, RESUME_MIN_MS = 300000 };

/* ---- whose request it is ---- */

static struct sg_sandbox *find(struct sg_call *c, const char *id)
{
    const struct sg_who anybody = { .is_operator = true }; /* the token decides, not the caller */
    struct sg_err err;
    return sg_manager_find(c->manager, &anybody, id, &err);
}

static bool take_id(struct sg_e2b_visit *v, struct sg_str id)
{
    const char *dash = memchr(id.p, '-', id.n); /* old clients add "-client" */
    size_t n = dash ? (size_t)(dash - id.p) : id.n;
    if (!n || n > SG_ID_LEN)
        return false;
    memcpy(v->sandbox, id.p, n);
    v->sandbox[n] = '\0';
    return true;
}

static bool take_port(struct sg_e2b_visit *v, struct sg_str port)
{
    uint64_t number;
    if (sg_parse_u64(port, 1, UINT16_MAX, &number, NULL) < 0)
        return false;
    v->port = (uint32_t)number;
    return true;
}

enum named { NAMED_NOT, NAMED, NAMED_BADLY };

static enum named by_headers(struct sg_call *c, struct sg_e2b_visit *v)
{
    const char *id = sg_call_header(c, "E2b-Sandbox-Id");
    const char *port = sg_call_header(c, "E2b-Sandbox-Port");
    if (!id && !port)
        return NAMED_NOT;
    return id && port && take_id(v, sg_str_of(id)) && take_port(v, sg_str_of(port)) ? NAMED
                                                                                    : NAMED_BADLY;
}

/* "<port>-<id>[-...].<domain>"; an address has no dash. */
static enum named by_host(struct sg_call *c, struct sg_e2b_visit *v)
{
    const char *host = sg_call_header(c, "Host");
    if (!host || !isdigit((unsigned char)host[0]))
        return NAMED_NOT;
    size_t label = strcspn(host, ".:"), digits = strspn(host, "0123456789");
    if (digits >= label || host[digits] != '-')
        return NAMED_NOT;
    struct sg_str id = { host + digits + 1, label - digits - 1 };
    return take_id(v, id) && take_port(v, (struct sg_str) { host, digits }) ? NAMED : NAMED_BADLY;
}

/* Also where the sandbox is gone: that is then the answer, not what this path is elsewhere. */
static enum named by_token(struct sg_call *c, struct sg_e2b_visit *v)
{
    const char *token = sg_call_header(c, "X-Access-Token");
    if (!token || strlen(token) != SG_E2B_TOKEN_LEN ||
        !take_id(v, (struct sg_str) { token, SG_ID_LEN }) || !sg_id_is_valid(v->sandbox, 's'))
        return NAMED_NOT;
    v->port = SG_E2B_ENVD_PORT;
    return NAMED;
}

static enum named by_signature(struct sg_call *c, struct sg_e2b_visit *v)
{
    if (strcmp(c->path, "/files") != 0 || !sg_call_query(c, "signature"))
        return NAMED_NOT;
    const struct sg_sandbox *s = sg_e2b_find_signed(c);
    v->port = SG_E2B_ENVD_PORT;
    (void)take_id(v, sg_str_of(s ? s->id.s : "none"));
    return NAMED;
}

/* ---- refusing: after the body, so that the connection can go on ---- */

enum { MAX_DROPPED = 16 << 20 };

static void drop(struct sg_call *c, const void *p, size_t n, bool is_last)
{
    size_t *dropped = sg_e2b_visit(c)->own;
    (void)p;
    *dropped += n;
    if (is_last || *dropped > MAX_DROPPED)
        sg_e2b_unreachable(c, sg_e2b_visit(c)->sandbox, 0);
}

static void dropper_gone(struct sg_call *c)
{
    sg_reply_end(c);
}

static int refuse_missing(struct sg_call *c, struct sg_err *err)
{
    size_t *dropped = sg_arena_alloc(&c->arena, sizeof *dropped);
    if (!dropped)
        return sg_fail(err, SG_EXHAUSTED, "no room for the call");
    sg_e2b_visit(c)->own = dropped;
    c->on_body = drop;
    c->on_gone = dropper_gone;
    return 0;
}

static int refuse_badly_named(struct sg_call *c, struct sg_err *err)
{
    (void)err;
    sg_reply_text(c, 400, "text/plain", "missing header: which sandbox, and which port?");
    return 0;
}

/* ---- entering ---- */

struct sg_sandbox *sg_e2b_visited(struct sg_call *c, struct sg_err *err)
{
    struct sg_sandbox *s = find(c, sg_e2b_visit(c)->sandbox);
    if (!s || s->state != SBX_RUNNING) {
        (void)sg_fail(err, SG_UNAVAILABLE, "The sandbox was not found");
        return NULL;
    }
    return s;
}

/* By token or, where the route knows signatures, later. */
static int check_envd_token(struct sg_call *c, struct sg_err *err)
{
    struct sg_e2b_visit *v = sg_e2b_visit(c);
    const unsigned flags = v->route ? v->route->flags : 0;
    const char *token = sg_call_header(c, "X-Access-Token");
    if (!v->record.token[0] || flags & SG_ENVD_OPEN)
        return 0;
    v->is_signed = token && sg_e2b_is_same(token, v->record.token);
    if (v->is_signed || flags & SG_ENVD_OWN)
        return 0;
    c->on_error = sg_e2b_error; /* also of RPCs */
    return sg_fail(err, SG_DENIED,
                   "unauthorized access, please provide a valid access token or method signing if "
                   "supported");
}

static int enter(struct sg_call *c, struct sg_sandbox *s, struct sg_err *err)
{
    const struct sg_e2b_visit *v = sg_e2b_visit(c);
    c->who.org = s->org;
    c->who.scopes = TOKEN_SCOPES;
    if (sg_call_charge(c, s->org, err) < 0)
        return -1;
    if (v->port == SG_E2B_CODE_PORT)
        return sg_e2b_code(c, s, err);
    return v->port == SG_E2B_ENVD_PORT ? sg_envd_enter(c, s, err) : sg_e2b_proxy(c, s, err);
}

static void ignore(void *arg, struct sg_sandbox *s, const struct sg_err *err)
{
    (void)arg;
    (void)s;
    (void)err;
}

/* Whoever wakes it has at least some minutes. */
static void resumed(void *arg, struct sg_sandbox *s, const struct sg_err *err)
{
    struct sg_call *c = arg;
    struct sg_err own = { 0 };
    if (err || s->state != SBX_RUNNING) {
        sg_e2b_unreachable(c, sg_e2b_visit(c)->sandbox, 0);
        return;
    }
    const struct sg_who who = { .org = s->org, .scopes = TOKEN_SCOPES };
    if (s->expires_ms && s->expires_ms < sg_e2b_now_ms() + RESUME_MIN_MS)
        (void)sg_manager_set_timeout(s, &who, RESUME_MIN_MS, ignore, NULL, &own);
    if (enter(c, s, &own) < 0)
        sg_reply_error(c, &own);
}

static void paused(void *arg, struct sg_sandbox *s, const struct sg_err *err)
{
    struct sg_call *c = arg;
    struct sg_err own;
    const struct sg_who who = { .org = s ? s->org : NULL, .scopes = TOKEN_SCOPES };
    if (err || sg_manager_resume(s, &who, resumed, c, &own) < 0)
        sg_e2b_unreachable(c, sg_e2b_visit(c)->sandbox, 0);
}

/* Traffic wakes a paused sandbox whose creator said so, also one that is just being paused. */
static int wake(struct sg_call *c, struct sg_sandbox *s, struct sg_err *err)
{
    const struct sg_who who = { .org = s->org, .scopes = TOKEN_SCOPES };
    if (c->route->flags & SG_ROUTE_STREAM)
        sg_call_pause_body(c, true); /* its handler goes on with it */
    return s->state == SBX_PAUSING ? sg_manager_pause(s, &who, paused, c, err)
                                   : sg_manager_resume(s, &who, resumed, c, err);
}

static int visit(struct sg_call *c, struct sg_err *err)
{
    struct sg_e2b_visit *v = sg_e2b_visit(c);
    struct sg_sandbox *s = find(c, v->sandbox);
    if (!s || !sg_e2b_record(s, &c->arena, &v->record)) {
        sg_e2b_unreachable(c, v->sandbox, 0);
        return 0;
    }
    if (v->port == SG_E2B_ENVD_PORT && check_envd_token(c, err) < 0)
        return -1;
    if (v->port != SG_E2B_ENVD_PORT && !sg_e2b_proxy_may(c))
        return 0;
    /* What has no memory left is no program that waits for a request. */
    const bool may_wake = v->record.resumes && !s->paused_snapshot &&
                          (v->port != SG_E2B_ENVD_PORT || v->is_signed || !v->record.token[0]);
    if (may_wake && (s->state == SBX_PAUSING || s->state == SBX_PAUSED || s->state == SBX_RESUMING))
        return wake(c, s, err);
    if (s->state != SBX_RUNNING) {
        sg_e2b_unreachable(c, v->sandbox, 0);
        return 0;
    }
    return enter(c, s, err);
}

/* ---- the claim ---- */

static const struct sg_route missing = {
    M_GET, "", 0, SG_ROUTE_OPEN | SG_ROUTE_STREAM, refuse_missing, "A sandbox that is not there"
};
static const struct sg_route badly_named = {
    M_GET, "", 0, SG_ROUTE_OPEN, refuse_badly_named, "A request for no sandbox"
};
static const struct sg_route whole = { M_GET, "", 0, SG_ROUTE_OPEN, visit, "One sandbox" };
static const struct sg_route streamed = { M_GET, "",
                                          0,     SG_ROUTE_OPEN | SG_ROUTE_STREAM,
                                          visit, "One sandbox, with a body in pieces" };

/* ---- pages of other origins, which browsers ask about first ---- */

static void permit_origins(struct sg_call *c)
{
    if (!sg_call_header(c, "Origin"))
        return;
    sg_reply_header(c, "Access-Control-Allow-Origin", "*");
    sg_reply_header(c, "Access-Control-Expose-Headers",
                    "X-Next-Token, X-Total-Running, Retry-After, Location, Cache-Control, "
                    "X-Content-Type-Options");
}

static int answer_preflight(struct sg_call *c, struct sg_err *err)
{
    const char *headers = sg_call_header(c, "Access-Control-Request-Headers");
    (void)err;
    sg_reply_header(c, "Access-Control-Allow-Methods", "HEAD, GET, POST, PUT, PATCH, DELETE");
    sg_reply_header(c, "Access-Control-Allow-Headers", headers ? headers : "*");
    sg_reply_header(c, "Access-Control-Max-Age", "7200");
    sg_reply_empty(c, 204);
    return 0;
}

static const struct sg_route preflight = {
    M_OPTIONS, "", 0, SG_ROUTE_OPEN, answer_preflight, "What other origins may ask"
};

static bool is_preflight(const struct sg_call *c)
{
    return c->method == M_OPTIONS && sg_call_header(c, "Access-Control-Request-Method");
}

/* First segments of the control plane. */
static bool is_control(const char *path)
{
    static const char *const roots[] = { "sandboxes", "v2",        "v3",
                                         "templates", "snapshots", "volumes",
                                         "secrets",   "teams",     "volumecontent" };
    size_t n = strcspn(path + 1, "/");
    for (size_t i = 0; i < SG_COUNT(roots); i++)
        if (sg_str_is((struct sg_str) { path + 1, n }, roots[i]))
            return true;
    return false;
}

const struct sg_route *sg_e2b_claim(struct sg_call *c)
{
    struct sg_e2b_visit v = { .user = "", .home = "" };
    enum named named = by_headers(c, &v);
    if (named == NAMED_NOT)
        named = by_host(c, &v);
    if (named == NAMED_NOT)
        named = by_token(c, &v);
    if (named == NAMED_NOT)
        named = by_signature(c, &v);
    if (named == NAMED_NOT) {
        if (c->path[0] != '/' || !is_control(c->path))
            return NULL;
        c->on_error = sg_e2b_error;
        permit_origins(c);
        return is_preflight(c) ? &preflight : NULL;
    }
    struct sg_e2b_visit *kept = sg_arena_alloc(&c->arena, sizeof *kept);
    if (!kept || named == NAMED_BADLY)
        return &badly_named;
    c->state = kept;
    c->on_error = sg_e2b_error;
    const struct sg_sandbox *s = find(c, v.sandbox);
    if (v.port == SG_E2B_ENVD_PORT) {
        v.route = sg_envd_find(c->method, c->path);
        permit_origins(c);
    }
    *kept = v;
    if (v.port == SG_E2B_ENVD_PORT && is_preflight(c))
        return &preflight;
    if (!s || !s->door)
        return &missing;
    return v.port != SG_E2B_ENVD_PORT || (v.route && v.route->flags & SG_ENVD_BODY) ? &streamed
                                                                                    : &whole;
}
