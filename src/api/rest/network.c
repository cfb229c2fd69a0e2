/* SPDX-License-Identifier: Apache-2.0 */
/* A sandbox's network: its policy, why something would be decided, and what was. */
#include <string.h>

#include "api/rest/rest.h"
#include "base/auto.h"
#include "manager/net.h"
#include "store/store.h"
#include "base/banned.h"

enum { PAGE_DEFAULT = 100, PAGE_MAX = 1000 };

static void reply_policy(struct sg_call *c, const struct sg_policy *p)
{
    sg_auto_buf out;
    struct sg_json j;
    sg_buf_init(&out, SG_REST_MAX_REPLY);
    sg_json_init(&j, &out);
    sg_net_put(&j, p);
    sg_reply_json(c, 200, &out);
}

int sg_rest_network_get(struct sg_call *c, struct sg_err *err)
{
    struct sg_sandbox *s = sg_rest_sandbox(c, err);
    if (!s)
        return -1;
    reply_policy(c, &s->network);
    return 0;
}

static void changed(void *arg, struct sg_sandbox *s, const struct sg_err *err)
{
    if (err)
        sg_reply_error(arg, err);
    else
        reply_policy(arg, &s->network);
}

int sg_rest_read_network(struct sg_call *c, const struct sg_jval *v, struct sg_policy *ret,
                         struct sg_err *err)
{
    const struct sg_jval *password = sg_json_get(sg_json_get(v, "egressProxy"), "password");
    const int got = sg_net_ask(c->manager, &c->who, v, ret, err);
    if (password && password->kind == SG_J_STRING)
        sg_call_wipe(c, password->s);
    return got;
}

int sg_rest_network_put(struct sg_call *c, struct sg_err *err)
{
    const struct sg_jval *body;
    struct sg_policy p;
    struct sg_sandbox *s = sg_rest_sandbox(c, err);
    if (!s || sg_call_json(c, &body, err) < 0 || sg_rest_read_network(c, body, &p, err) < 0)
        return -1;
    int got = sg_manager_set_network(s, &c->who, &p, changed, c, err);
    sg_policy_done(&p);
    return got;
}

/* ---- what lies above those of sandboxes ---- */

static void layer_changed(void *arg, const struct sg_policy *p, const struct sg_err *err)
{
    if (err)
        sg_reply_error(arg, err);
    else if (p)
        reply_policy(arg, p);
    else
        sg_reply_empty(arg, 204);
}

/* Of a path /v1/orgs/{org}/network or /v1/templates/{template}/network. */
static const char *layer_of(struct sg_call *c, enum sg_net_layer *ret, struct sg_err *err)
{
    const char *org = sg_call_param(c, "org"); /* "": the path has none */
    *ret = org[0] ? SG_LAYER_ORG : SG_LAYER_TEMPLATE;
    if (!org[0])
        return sg_call_param(c, "template");
    return sg_org_find(c->manager, &c->who, org, err) ? org : NULL;
}

int sg_rest_netlayer_get(struct sg_call *c, struct sg_err *err)
{
    enum sg_net_layer kind;
    const char *name = layer_of(c, &kind, err);
    if (!name)
        return -1;
    const struct sg_policy *p = sg_netlayer_find(c->manager, kind, name);
    if (!p)
        return sg_fail(err, SG_NOT_FOUND, "%s has no network policy of its own", sg_quote(name).s);
    reply_policy(c, p);
    return 0;
}

int sg_rest_netlayer_put(struct sg_call *c, struct sg_err *err)
{
    const struct sg_jval *body;
    struct sg_policy p;
    enum sg_net_layer kind;
    const char *name = layer_of(c, &kind, err);
    if (!name || sg_call_json(c, &body, err) < 0 || sg_rest_read_network(c, body, &p, err) < 0)
        return -1;
    int got = sg_manager_set_netlayer(c->manager, &c->who, kind, name, &p, layer_changed, c, err);
    sg_policy_done(&p);
    return got;
}

int sg_rest_netlayer_remove(struct sg_call *c, struct sg_err *err)
{
    enum sg_net_layer kind;
    const char *name = layer_of(c, &kind, err);
    if (!name)
        return -1;
    return sg_manager_set_netlayer(c->manager, &c->who, kind, name, NULL, layer_changed, c, err);
}

int sg_rest_network_explain(struct sg_call *c, struct sg_err *err)
{
    static const char *const known[] = { "to", NULL };
    struct sg_netverdict v;
    struct sg_sandbox *s = sg_rest_sandbox(c, err);
    const char *to = sg_call_query(c, "to");
    if (!s || sg_call_query_only(c, known, err) < 0)
        return -1;
    if (!to)
        return sg_fail(err, SG_INVALID, "the query needs to=HOST:PORT");
    if (sg_manager_net_explain(s, &c->who, to, &v, err) < 0)
        return -1;
    sg_auto_buf out;
    struct sg_json j;
    sg_buf_init(&out, SG_REST_MAX_REPLY);
    sg_json_init(&j, &out);
    sg_json_open(&j, '{');
    sg_json_put_str(&j, "to", to);
    sg_json_key(&j, "allowed");
    sg_json_bool(&j, v.is_allowed);
    sg_json_put_str(&j, "rule", v.rule);
    sg_json_close(&j, '}');
    sg_reply_json(c, 200, &out);
    return 0;
}

int sg_rest_network_learned(struct sg_call *c, struct sg_err *err)
{
    struct sg_policy p;
    struct sg_sandbox *s = sg_rest_sandbox(c, err);
    if (!s || sg_manager_net_learned(s, &c->who, &p, err) < 0)
        return -1;
    reply_policy(c, &p);
    sg_policy_done(&p);
    return 0;
}

/* ---- what was decided ---- */

struct listing {
    struct sg_json j;
    int64_t last;
};

static bool put_one(void *arg, const struct sg_connection_row *r)
{
    struct listing *l = arg;
    struct sg_json *j = &l->j;
    sg_json_open(j, '{');
    sg_json_put_i64(j, "seq", r->seq);
    sg_rest_put_time(j, "at", r->at_ms);
    sg_json_put_str(j, "verdict", r->verdict);
    sg_json_put_str(j, "protocol", r->protocol);
    sg_json_put_str(j, "name", r->name);
    sg_json_put_str(j, "address", r->address);
    sg_json_put_i64(j, "port", r->port);
    sg_json_put_str(j, "rule", r->rule);
    sg_json_put_i64(j, "bytesOut", r->bytes_out);
    sg_json_put_i64(j, "bytesIn", r->bytes_in);
    sg_json_put_i64(j, "durationMs", r->duration_ms);
    sg_json_put_i64(j, "skipped", r->skipped);
    sg_json_close(j, '}');
    l->last = r->seq;
    return true;
}

int sg_rest_connections(struct sg_call *c, struct sg_err *err)
{
    static const char *const known[] = { "after", "limit", NULL };
    uint64_t after = 0, limit = PAGE_DEFAULT;
    struct sg_sandbox *s = sg_rest_sandbox(c, err);
    if (!s || sg_call_query_only(c, known, err) < 0 ||
        sg_call_query_u64(c, "after", 0, INT64_MAX, &after, err) < 0 ||
        sg_call_query_u64(c, "limit", 1, PAGE_MAX, &limit, err) < 0)
        return -1;
    sg_auto_buf out;
    struct listing l = { .last = (int64_t)after };
    sg_rest_open_list(&l.j, &out, "connections");
    if (sg_manager_connections(s, &c->who, (int64_t)after, (unsigned)limit, put_one, &l, err) < 0)
        return -1;
    sg_json_close(&l.j, ']');
    sg_json_put_i64(&l.j, "next", l.last);
    sg_json_close(&l.j, '}');
    sg_reply_json(c, 200, &out);
    return 0;
}
