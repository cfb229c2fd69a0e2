/* SPDX-License-Identifier: Apache-2.0 */
/* Ports of a sandbox: opened to visitors, signed for some of them, and connected to by those who
 * may use the sandbox anyway. Visitors name port and sandbox by the first label of their host,
 * "8080-<id>.domain"; who is turned away is answered as if there were no such sandbox, by whoever
 * answers for that. */
#include <ctype.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

#include "api/reach.h"
#include "api/rest/rest.h"
#include "api/routes.h"
#include "base/auto.h"
#include "base/parse.h"
#include "manager/preview.h"
#include "base/banned.h"

#define TOKEN    "sandglass_token"
#define TIME_MAX (UINT64_C(10) * 366 * 24 * 3600 * 1000)
enum { VISITOR_SCOPES = SG_SCOPE_READ | SG_SCOPE_EXEC };

static int read_port(struct sg_call *c, uint16_t *ret, struct sg_err *err)
{
    uint64_t port;
    if (sg_parse_u64(sg_str_of(sg_call_param(c, "port")), 1, UINT16_MAX, &port, err) < 0)
        return sg_wrap(err, "port");
    *ret = (uint16_t)port;
    return 0;
}

/* ---- what is open ---- */

/* Below the server's domain; without one below localhost, which is this machine by every name. */
static const char *url_of(struct sg_call *c, const struct sg_sandbox *s, uint16_t port)
{
    const char *domain = sg_call_domain(c), *origin = sg_call_origin(c);
    const char *scheme = sg_starts_with(origin, "https:") ? "https" : "http";
    const char *colon = strrchr(origin, ':');
    const bool has_port = !domain && colon && isdigit((unsigned char)colon[1]);
    const char *text =
        sg_arena_printf(&c->arena, "%s://%u-%s.%s%s/", scheme, (unsigned)port, s->id.s,
                        domain ? domain : "localhost", has_port ? colon : "");
    return text ? text : "";
}

static void put_port(struct sg_json *j, struct sg_call *c, const struct sg_sandbox *s,
                     const struct sg_preview *p)
{
    sg_json_open(j, '{');
    sg_json_key(j, "port");
    sg_json_u64(j, p->port);
    sg_json_key(j, "access");
    sg_json_str(j, p->is_public ? "public" : "token");
    sg_json_key(j, "url");
    sg_json_str(j, url_of(c, s, p->port));
    sg_json_close(j, '}');
}

int sg_rest_port_list(struct sg_call *c, struct sg_err *err)
{
    const struct sg_sandbox *s = sg_rest_sandbox(c, err);
    sg_auto_buf out;
    struct sg_json j;
    sg_rest_open_list(&j, &out, "ports");
    if (!s)
        return -1;
    for (size_t i = 0; i < s->preview_n; i++)
        put_port(&j, c, s, &s->previews[i]);
    sg_json_close(&j, ']');
    sg_json_close(&j, '}');
    sg_reply_json(c, 200, &out);
    return 0;
}

static void opened(void *arg, struct sg_sandbox *s, const struct sg_err *err)
{
    struct sg_call *c = arg;
    uint16_t port;
    struct sg_err own = { 0 };
    const struct sg_preview *p =
        err || read_port(c, &port, &own) < 0 ? NULL : sg_preview_find(s, port);
    sg_auto_buf out;
    struct sg_json j;
    sg_buf_init(&out, SG_REST_MAX_REPLY);
    sg_json_init(&j, &out);
    if (!p) {
        (void)sg_fail(&own, SG_CONFLICT, "the port was closed meanwhile");
        sg_reply_error(c, err ? err : &own);
        return;
    }
    put_port(&j, c, s, p);
    sg_reply_json(c, 200, &out);
}

int sg_rest_port_open(struct sg_call *c, struct sg_err *err)
{
    struct body {
        const char *access;
    } b = { .access = "token" };
    static const struct sg_jfield fields[] = {
        { "access", SG_JT_STRING, offsetof(struct body, access), 0, 0, false },
    };
    const struct sg_jval *body;
    uint16_t port;
    struct sg_sandbox *s = sg_rest_sandbox(c, err);
    if (!s || read_port(c, &port, err) < 0 || sg_call_json(c, &body, err) < 0 ||
        sg_json_read(body, fields, SG_COUNT(fields), &b, err) < 0)
        return -1;
    const bool is_public = strcmp(b.access, "public") == 0;
    if (!is_public && strcmp(b.access, "token") != 0)
        return sg_fail(err, SG_INVALID, "access is public or token, not %s", sg_quote(b.access).s);
    return sg_manager_open_port(s, &c->who, port, is_public, opened, c, err);
}

static void closed(void *arg, struct sg_sandbox *s, const struct sg_err *err)
{
    (void)s;
    if (err)
        sg_reply_error(arg, err);
    else
        sg_reply_empty(arg, 204);
}

int sg_rest_port_close(struct sg_call *c, struct sg_err *err)
{
    uint16_t port;
    struct sg_sandbox *s = sg_rest_sandbox(c, err);
    if (!s || read_port(c, &port, err) < 0)
        return -1;
    return sg_manager_close_port(s, &c->who, port, closed, c, err);
}

int sg_rest_port_sign(struct sg_call *c, struct sg_err *err)
{
    struct body {
        uint64_t expires_ms;
    } b = { 0 };
    static const struct sg_jfield fields[] = {
        { "expiresInMs", SG_JT_U64, offsetof(struct body, expires_ms), 0, TIME_MAX, false },
    };
    const struct sg_jval *body;
    char token[SG_PREVIEW_TOKEN];
    uint16_t port;
    struct sg_sandbox *s = sg_rest_sandbox(c, err);
    if (!s || read_port(c, &port, err) < 0 || sg_call_json(c, &body, err) < 0 ||
        sg_json_read(body, fields, SG_COUNT(fields), &b, err) < 0)
        return -1;
    const uint64_t until_s = b.expires_ms ? (uint64_t)time(NULL) + (b.expires_ms + 999) / 1000 : 0;
    if (sg_manager_sign_port(s, &c->who, port, until_s, token, err) < 0)
        return -1;
    sg_auto_buf out;
    struct sg_json j;
    sg_buf_init(&out, SG_REST_MAX_REPLY);
    sg_json_init(&j, &out);
    sg_json_open(&j, '{');
    sg_json_key(&j, "token");
    sg_json_str(&j, token);
    sg_json_key(&j, "url");
    const char *url = sg_arena_printf(&c->arena, "%s?" TOKEN "=%s", url_of(c, s, port), token);
    sg_json_str(&j, url ? url : "");
    sg_rest_put_time(&j, "expiresAt", (int64_t)until_s * 1000);
    sg_json_close(&j, '}');
    sg_reply_json(c, 200, &out);
    return 0;
}

/* ---- a connection as it is ---- */

static void unreachable(struct sg_call *c, bool is_port)
{
    struct sg_err err = { 0 };
    (void)sg_fail(&err, SG_UNAVAILABLE, "nobody answers at port %s%s", sg_call_param(c, "port"),
                  is_port ? "" : ": the sandbox does not run");
    sg_reply_error(c, &err);
}

int sg_rest_port_connect(struct sg_call *c, struct sg_err *err)
{
    struct sg_reach_options o = { .is_tunnel = true, .failed = unreachable };
    uint16_t port;
    struct sg_sandbox *s = sg_rest_sandbox(c, err);
    const char *upgrade = sg_call_header(c, "Upgrade");
    if (!s || read_port(c, &port, err) < 0)
        return -1;
    if (!upgrade || strcmp(upgrade, "tcp") != 0)
        return sg_fail(err, SG_INVALID, "this takes 'Connection: Upgrade' and 'Upgrade: tcp'");
    o.port = port;
    return sg_call_reach(c, s, &o, err);
}

/* ---- visitors ---- */

struct guest { /* in the call's arena */
    struct sg_sandbox *s;
    uint16_t port;
};

static void nobody_there(struct sg_call *c, bool is_port)
{
    (void)is_port;
    sg_reply_text(c, 502, "text/plain", "Nobody answers at this port of the sandbox.\n");
}

static int visit(struct sg_call *c, struct sg_err *err)
{
    const struct guest *g = c->state;
    const struct sg_reach_options o = { .port = g->port,
                                        .is_visitor = true,
                                        .failed = nobody_there };
    const char *token = sg_call_query(c, TOKEN);
    c->who.org = g->s->org;
    c->who.scopes = VISITOR_SCOPES;
    if (sg_call_charge(c, g->s->org, err) < 0)
        return -1;
    if (token) { /* what the page asks for next has no token in its address */
        const char *cookie =
            sg_arena_printf(&c->arena, TOKEN "=%s; Path=/; HttpOnly; SameSite=Lax", token);
        if (cookie)
            sg_reply_header(c, "Set-Cookie", cookie);
    }
    return sg_call_reach(c, g->s, &o, err);
}

/* "a=b; sandglass_token=x" */
static const char *cookie_of(struct sg_call *c)
{
    const char *text = sg_call_header(c, "Cookie");
    const char *at = text ? strstr(text, TOKEN "=") : NULL;
    if (!at || (at != text && at[-1] != ' ' && at[-1] != ';'))
        return NULL;
    at += strlen(TOKEN "=");
    return sg_arena_copy(&c->arena, at, strcspn(at, "; "));
}

static const char *token_of(struct sg_call *c)
{
    const char *token = sg_call_header(c, "X-Sandglass-Token");
    if (!token)
        token = sg_call_query(c, TOKEN);
    return token ? token : cookie_of(c);
}

const struct sg_route *sg_port_claim(struct sg_call *c)
{
    static const struct sg_route route = { M_GET, "",
                                           0,     SG_ROUTE_OPEN | SG_ROUTE_STREAM,
                                           visit, "A port that is open to visitors" };
    const char *host = sg_call_header(c, "Host");
    const size_t label = host ? strcspn(host, ".:") : 0;
    const size_t digits = host ? strspn(host, "0123456789") : 0;
    char id[SG_ID_LEN + 1];
    uint64_t port;
    if (!digits || label != digits + 1 + SG_ID_LEN || host[digits] != '-' ||
        sg_parse_u64((struct sg_str) { host, digits }, 1, UINT16_MAX, &port, NULL) < 0)
        return NULL;
    memcpy(id, host + digits + 1, SG_ID_LEN);
    id[SG_ID_LEN] = '\0';
    struct sg_sandbox *s = sg_manager_visit_port(c->manager, id, (uint16_t)port, token_of(c));
    struct guest *g = s ? sg_arena_alloc(&c->arena, sizeof *g) : NULL;
    if (!g)
        return NULL;
    *g = (struct guest) { s, (uint16_t)port };
    c->state = g;
    return &route;
}
