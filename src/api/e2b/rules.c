/* SPDX-License-Identifier: Apache-2.0 */
/* Rules of the network settings: headers that the gate adds to requests for a host.
 *
 *     {"api.example.com": [{"transform": {"headers": {"Authorization": "Bearer
 * ${e2b.secrets.key}"}}}]}
 *
 * One rule for a host. They open nothing: what may be reached is said elsewhere. */
#include <string.h>

#include "api/e2b/network.h"
#include "base/banned.h"

static int one_host(struct sg_call *c, const struct sg_jval *host, struct sg_e2b_rules *r,
                    size_t cap, struct sg_err *err)
{
    const struct sg_jval *rule = host->kind == SG_J_ARRAY ? host->list.first : NULL;
    const char *name = sg_arena_copy(&c->arena, host->key.p, host->key.n);
    if (host->kind != SG_J_ARRAY || host->list.n > 1 || (rule && rule->kind != SG_J_OBJECT))
        return sg_fail(err, SG_INVALID, "network.rules: %s must be a list of one rule",
                       sg_quote_str(host->key).s);
    const struct sg_jval *transform = rule ? sg_e2b_get(rule, "transform") : NULL;
    const struct sg_jval *headers = transform ? sg_e2b_get(transform, "headers") : NULL;
    struct sg_pair *pairs = NULL;
    size_t n = 0;
    if (sg_call_pairs(c, headers, "headers", &pairs, &n, err) < 0)
        return sg_wrap(err, "network.rules");
    if (r->n + n > cap || !name)
        return sg_fail(err, SG_INVALID, "network.rules has too many headers");
    for (size_t i = 0; i < n; i++)
        r->v[r->n++] = (struct sg_cred_field_spec) { name, pairs[i].name, pairs[i].value };
    return 0;
}

int sg_e2b_rules_read(struct sg_call *c, const struct sg_jval *network, struct sg_e2b_rules *ret,
                      struct sg_err *err)
{
    const size_t cap = (size_t)SG_CRED_HOSTS * SG_CRED_FIELDS;
    const struct sg_jval *rules = network ? sg_e2b_get(network, "rules") : NULL;
    *ret = (struct sg_e2b_rules) { 0 };
    if (!rules)
        return 0;
    if (rules->kind != SG_J_OBJECT)
        return sg_fail(err, SG_INVALID, "network.rules must be an object");
    ret->v = sg_arena_alloc(&c->arena, cap * sizeof *ret->v);
    if (!ret->v)
        return sg_fail(err, SG_EXHAUSTED, "no room for the call");
    for (const struct sg_jval *host = rules->list.first; host; host = host->next)
        if (one_host(c, host, ret, cap, err) < 0)
            return -1;
    return 0;
}

int sg_e2b_rules_creds(struct sg_call *c, const struct sg_jval *network, struct sg_cred_set *ret,
                       struct sg_err *err)
{
    struct sg_e2b_rules r;
    if (sg_e2b_rules_read(c, network, &r, err) < 0)
        return -1;
    const struct sg_cred_spec spec = { .fields = r.v, .field_n = r.n };
    if (sg_creds_read(c->manager, &c->who, &spec, ret, err) == 0)
        return 0;
    if (err->kind == SG_NOT_FOUND) /* clients take that for a sandbox or a template that is gone */
        err->kind = SG_INVALID;
    return sg_wrap(err, "network.rules");
}
