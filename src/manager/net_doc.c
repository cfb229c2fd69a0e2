/* SPDX-License-Identifier: Apache-2.0 */
/* A policy as JSON, and back. */
#include <stddef.h>
#include <string.h>

#include "base/auto.h"
#include "base/json.h"
#include "base/jsonr.h"
#include "manager/net.h"

#include "base/banned.h"

struct doc {
    const char *mode;
    const struct sg_jval *allow, *deny, *networks;
    const struct sg_jval *name, *egress;
    bool learns, allow_first;
    uint64_t mbps, max_bytes, max_connections, connections_per_s;
};

#define AT(f) offsetof(struct doc, f)
static const struct sg_jfield fields[] = {
    { "mode", SG_JT_STRING, AT(mode), 0, 0, false },
    { "allow", SG_JT_ARRAY, AT(allow), 0, 0, false },
    { "deny", SG_JT_ARRAY, AT(deny), 0, 0, false },
    { "networks", SG_JT_ARRAY, AT(networks), 0, 0, false },
    { "name", SG_JT_VALUE, AT(name), 0, 0, false },
    { "egressProxy", SG_JT_OBJECT, AT(egress), 0, 0, false },
    { "learn", SG_JT_BOOL, AT(learns), 0, 0, false },
    { "allowFirst", SG_JT_BOOL, AT(allow_first), 0, 0, false },
    { "mbps", SG_JT_U64, AT(mbps), 0, SG_POLICY_MBPS_MAX, false },
    { "maxBytes", SG_JT_U64, AT(max_bytes), 0, UINT64_MAX / 2, false },
    { "maxConnections", SG_JT_U64, AT(max_connections), 0, 1000000, false },
    { "connectionsPerSecond", SG_JT_U64, AT(connections_per_s), 0, 1000000, false },
};
#undef AT

static int read_rules(const struct sg_jval *v, struct sg_netrules *to, struct sg_err *err)
{
    for (const struct sg_jval *one = v ? v->list.first : NULL; one; one = one->next) {
        if (one->kind != SG_J_STRING)
            return sg_fail(err, SG_INVALID, "a rule is a text, as \"example.com:443\"");
        if (sg_netrules_add(to, one->s, err) < 0)
            return -1;
    }
    return 0;
}

static int read_networks(const struct doc *d, struct sg_netnames *to, struct sg_err *err)
{
    for (const struct sg_jval *one = d->networks ? d->networks->list.first : NULL; one;
         one = one->next) {
        if (one->kind != SG_J_STRING)
            return sg_fail(err, SG_INVALID, "a private network is a text, as \"team\"");
        if (sg_netnames_add(to, one->s, err) < 0)
            return -1;
    }
    if (!d->name)
        return 0;
    if (d->name->kind != SG_J_STRING || !to->n)
        return sg_fail(err, SG_INVALID,
                       "name is what it is called on its networks: a text, beside "
                       "\"networks\"");
    return sg_netnames_call(to, d->name->s, err);
}

static int fill(const struct doc *d, struct sg_policy *p, struct sg_err *err)
{
    p->learns = d->learns;
    p->allow_first = d->allow_first;
    p->mbps = d->mbps;
    p->max_bytes = d->max_bytes;
    p->max_connections = d->max_connections;
    p->connections_per_s = d->connections_per_s;
    if (read_rules(d->allow, &p->allow, err) < 0 || read_rules(d->deny, &p->deny, err) < 0 ||
        read_networks(d, &p->networks, err) < 0)
        return -1;
    /* Rules without a mode are meant: they would say nothing in any other. */
    p->mode = p->allow.n || p->learns ? SG_MODE_FILTERED : SG_MODE_NONE;
    if (d->mode && sg_net_mode_parse(d->mode, &p->mode, err) < 0)
        return -1;
    return sg_policy_check(p, err);
}

/* `m` NULL: of a row. */
static int read_doc(struct sg_manager *m, const struct sg_who *who, const struct sg_jval *v,
                    struct sg_policy *ret, struct sg_err *err)
{
    struct doc d = { 0 };
    struct sg_policy p = { 0 };
    int got = 0;
    if (v->kind == SG_J_STRING && !memchr(v->s.p, 0, v->s.n))
        d.mode = v->s.p;
    else
        got = sg_json_read(v, fields, SG_COUNT(fields), &d, err);
    if (got == 0 && d.egress)
        got = m ? sg_net_egress_ask(m, who, d.egress, &p.egress, err)
                : sg_net_egress_load(d.egress, &p.egress, err);
    if (got == 0)
        got = fill(&d, &p, err);
    if (got < 0) {
        sg_policy_done(&p);
        return sg_wrap(err, "network");
    }
    *ret = p;
    return 0;
}

int sg_net_read(const struct sg_jval *v, struct sg_policy *ret, struct sg_err *err)
{
    return read_doc(NULL, NULL, v, ret, err);
}

int sg_net_ask(struct sg_manager *m, const struct sg_who *who, const struct sg_jval *v,
               struct sg_policy *ret, struct sg_err *err)
{
    return read_doc(m, who, v, ret, err);
}

static void put_rules(struct sg_json *j, const char *key, const struct sg_netrules *r)
{
    sg_json_key(j, key);
    sg_json_open(j, '[');
    for (size_t i = 0; i < r->n; i++)
        sg_json_str(j, r->v[i].text);
    sg_json_close(j, ']');
}

static void put(struct sg_json *j, const struct sg_policy *p, bool is_row)
{
    const struct {
        const char *key;
        uint64_t value;
    } limits[] = {
        { "mbps", p->mbps },
        { "maxBytes", p->max_bytes },
        { "maxConnections", p->max_connections },
        { "connectionsPerSecond", p->connections_per_s },
    };
    sg_json_open(j, '{');
    sg_json_key(j, "mode");
    sg_json_str(j, sg_net_mode_name(p->mode));
    put_rules(j, "allow", &p->allow);
    put_rules(j, "deny", &p->deny);
    if (p->networks.n) {
        sg_json_key(j, "networks");
        sg_json_open(j, '[');
        for (size_t i = 0; i < p->networks.n; i++)
            sg_json_str(j, p->networks.v[i]);
        sg_json_close(j, ']');
    }
    if (p->networks.own) {
        sg_json_key(j, "name");
        sg_json_str(j, p->networks.own);
    }
    if (p->egress.address)
        sg_net_egress_put(j, &p->egress, is_row);
    if (p->learns) {
        sg_json_key(j, "learn");
        sg_json_bool(j, true);
    }
    if (p->allow_first) {
        sg_json_key(j, "allowFirst");
        sg_json_bool(j, true);
    }
    for (size_t i = 0; i < SG_COUNT(limits); i++)
        if (limits[i].value) {
            sg_json_key(j, limits[i].key);
            sg_json_u64(j, limits[i].value);
        }
    sg_json_close(j, '}');
}

void sg_net_put(struct sg_json *j, const struct sg_policy *p)
{
    put(j, p, false);
}

void sg_net_put_row(struct sg_json *j, const struct sg_policy *p)
{
    put(j, p, true);
}

static void copy_rules(struct sg_netrules *to, const struct sg_netrules *from)
{
    for (size_t i = 0; i < from->n; i++)
        (void)sg_netrules_add(to, sg_str_of(from->v[i].text), NULL); /* it was parsed once */
}

void sg_net_copy(struct sg_policy *to, const struct sg_policy *from)
{
    *to = *from;
    to->allow = to->deny = (struct sg_netrules) { 0 };
    to->above = NULL;
    to->layer = NULL;
    copy_rules(&to->allow, &from->allow);
    copy_rules(&to->deny, &from->deny);
    sg_netnames_copy(&to->networks, &from->networks);
    sg_egress_copy(&to->egress, &from->egress);
}
