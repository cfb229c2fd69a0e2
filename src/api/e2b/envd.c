/* SPDX-License-Identifier: Apache-2.0 */
/* envd, the daemon that these clients expect on port 49983 of a sandbox: a table of routes. RPCs
 * are Connect with JSON: a unary one is a JSON body, a streaming one an envelope. */
#include <string.h>

#include "api/e2b/e2b.h"
#include "base/auto.h"
#include "wire/base64.h"
#include "wire/connect.h"
#include "base/banned.h"

#define P "/process.Process/"
#define F "/filesystem.Filesystem/"

/* clang-format off */
static const struct sg_envd_route routes[] = {
    { M_POST, P "Start", SG_ENVD_STREAM | SG_ENVD_HOME, sg_envd_start },
    { M_POST, P "Connect", SG_ENVD_STREAM, sg_envd_connect },
    { M_POST, P "List", SG_ENVD_UNARY, sg_envd_list },
    { M_POST, P "Update", SG_ENVD_UNARY, sg_envd_update },
    { M_POST, P "SendInput", SG_ENVD_UNARY, sg_envd_send_input },
    { M_POST, P "StreamInput", SG_ENVD_STREAM | SG_ENVD_BODY | SG_ENVD_MANY, sg_envd_stream_input },
    { M_POST, P "SendSignal", SG_ENVD_UNARY, sg_envd_send_signal },
    { M_POST, P "CloseStdin", SG_ENVD_UNARY, sg_envd_close_stdin },
    { M_GET,  "/files", SG_ENVD_OWN | SG_ENVD_HOME, sg_envd_download },
    { M_POST, "/files", SG_ENVD_OWN | SG_ENVD_HOME | SG_ENVD_BODY, sg_envd_upload },
    { M_POST, "/files/compose", SG_ENVD_JSON | SG_ENVD_HOME, sg_envd_compose },
    { M_POST, F "Stat", SG_ENVD_UNARY | SG_ENVD_HOME, sg_envd_stat },
    { M_POST, F "ListDir", SG_ENVD_UNARY | SG_ENVD_HOME, sg_envd_list_dir },
    { M_POST, F "MakeDir", SG_ENVD_UNARY | SG_ENVD_HOME, sg_envd_make_dir },
    { M_POST, F "Move", SG_ENVD_UNARY | SG_ENVD_HOME, sg_envd_move },
    { M_POST, F "Remove", SG_ENVD_UNARY | SG_ENVD_HOME, sg_envd_remove },
    { M_POST, F "WatchDir", SG_ENVD_STREAM | SG_ENVD_HOME, sg_envd_watch_dir },
    { M_POST, F "CreateWatcher", SG_ENVD_UNARY | SG_ENVD_HOME, sg_envd_create_watcher },
    { M_POST, F "GetWatcherEvents", SG_ENVD_UNARY, sg_envd_watcher_events },
    { M_POST, F "RemoveWatcher", SG_ENVD_UNARY, sg_envd_remove_watcher },
    { M_GET,  "/health", SG_ENVD_OPEN, sg_envd_health },
    { M_GET,  "/metrics", 0, sg_envd_metrics },
    { M_GET,  "/envs", 0, sg_envd_envs },
};
/* clang-format on */

const struct sg_envd_route *sg_envd_find(enum sg_method method, const char *path)
{
    if (method == M_HEAD)
        method = M_GET;
    for (size_t i = 0; i < SG_COUNT(routes); i++)
        if (routes[i].method == method && strcmp(routes[i].path, path) == 0)
            return &routes[i];
    return NULL;
}

void sg_envd_reply_nothing(struct sg_call *c)
{
    sg_reply_text(c, 200, "application/json", "{}");
}

/* ---- who asks: the user inside ---- */

/* "Authorization: Basic base64(user:)" */
static int read_user(struct sg_call *c, const char **ret, struct sg_err *err)
{
    const char *basic = sg_call_header(c, "Authorization");
    sg_auto_buf text = { 0 };
    if (!basic || strncasecmp(basic, "Basic ", 6) != 0)
        return 0;
    sg_buf_init(&text, 1024);
    if (sg_base64_decode(&text, sg_str_of(basic + 6 + strspn(basic + 6, " ")), err) < 0)
        return sg_wrap(err, "Authorization");
    const char *whole = sg_buf_cstr(&text);
    *ret = sg_arena_copy(&c->arena, whole, strcspn(whole, ":"));
    return *ret ? 0 : sg_fail(err, SG_EXHAUSTED, "no room for the call");
}

static int go(struct sg_call *c, struct sg_sandbox *s, struct sg_err *err)
{
    return sg_e2b_visit(c)->route->handle(c, s, err);
}

static int accounts_read(struct sg_call *c, const struct sg_e2b_accounts *a, struct sg_err *err)
{
    struct sg_e2b_visit *v = sg_e2b_visit(c);
    struct sg_sandbox *s = sg_e2b_visited(c, err);
    v->home = sg_e2b_home_of(c, a, v->user);
    if (!s)
        return -1;
    if (v->home)
        return go(c, s, err);
    if (v->route->flags & (SG_ENVD_OWN | SG_ENVD_JSON)) {
        (void)sg_fail(err, SG_DENIED, "error looking up user %s: no such user",
                      sg_quote(v->user).s);
        sg_e2b_error(c, 401, err);
        return 0;
    }
    return sg_fail(err, SG_NOT_FOUND, "invalid username: %s", sg_quote(v->user).s);
}

/* ---- entering ---- */

static int read_body(struct sg_call *c, struct sg_err *err)
{
    struct sg_e2b_visit *v = sg_e2b_visit(c);
    struct sg_str text = c->body;
    if (v->route->flags & SG_ENVD_STREAM) {
        struct sg_connect_frame f = { 0 };
        int got = sg_connect_take(&text, &f, err);
        if (got < 0)
            return -1;
        if (f.flags & SG_CONNECT_COMPRESSED)
            return sg_fail(err, SG_UNSUPPORTED, "compressed messages are not supported");
        text = f.data;
    }
    if (!text.n)
        text = sg_str_of("{}");
    return sg_json_parse(text, &c->arena, &v->body, err);
}

static int not_there(struct sg_call *c, struct sg_err *err)
{
    if (strchr(c->path, '.')) { /* looks like an RPC */
        c->on_error = sg_e2b_rpc_error;
        return sg_fail(err, SG_UNSUPPORTED, "no such method: %s", sg_quote(c->path).s);
    }
    return sg_fail(err, SG_NOT_FOUND, "no such path: %s", sg_quote(c->path).s);
}

int sg_envd_enter(struct sg_call *c, struct sg_sandbox *s, struct sg_err *err)
{
    struct sg_e2b_visit *v = sg_e2b_visit(c);
    if (!v->route)
        return not_there(c, err);
    const unsigned flags = v->route->flags;
    if (flags & SG_ENVD_UNARY)
        c->on_error = sg_e2b_rpc_error;
    if (flags & SG_ENVD_STREAM)
        c->on_error = sg_e2b_stream_error;
    if (flags & (SG_ENVD_UNARY | SG_ENVD_STREAM)) {
        if ((!(flags & SG_ENVD_MANY) && read_body(c, err) < 0) || read_user(c, &v->user, err) < 0)
            return -1;
    } else {
        if (flags & SG_ENVD_JSON && read_body(c, err) < 0)
            return -1;
        const char *user =
            flags & SG_ENVD_JSON ? sg_e2b_text(v->body, "username") : sg_call_query(c, "username");
        v->user = user ? user : "";
    }
    const bool is_default = !v->user[0] || (s->user && strcmp(v->user, s->user) == 0);
    v->home = s->home && s->home[0] ? s->home : "/";
    if (is_default || !(flags & SG_ENVD_HOME))
        return go(c, s, err);
    if (flags & SG_ENVD_BODY)
        sg_call_pause_body(c, true);
    return sg_e2b_read_accounts(c, s, accounts_read, err);
}

/* ---- plain routes ---- */

int sg_envd_health(struct sg_call *c, struct sg_sandbox *s, struct sg_err *err)
{
    (void)s;
    (void)err;
    sg_reply_header(c, "Cache-Control", "no-store");
    sg_reply_empty(c, 204);
    return 0;
}

int sg_envd_envs(struct sg_call *c, struct sg_sandbox *s, struct sg_err *err)
{
    (void)err;
    sg_auto_buf out;
    struct sg_json j;
    sg_buf_init(&out, SG_E2B_MAX_REPLY);
    sg_json_init(&j, &out);
    sg_json_open(&j, '{');
    for (size_t i = 0; i < s->env.n; i++)
        sg_json_put_str(&j, s->env.v[i].name, s->env.v[i].value);
    sg_json_close(&j, '}');
    sg_reply_json(c, 200, &out);
    return 0;
}
