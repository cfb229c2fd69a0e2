/* SPDX-License-Identifier: Apache-2.0 */
/* Policies that lie above those of sandboxes (net/policy.h, P4): of an organisation, and of a
 * template. They are the operator's. A sandbox that is made without a word about its network takes
 * that of its template, or else of its organisation, as it is then; whatever it has, it stays
 * within both, from the moment on in which they change. */
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/json.h"
#include "base/jsonr.h"
#include "manager/life.h"
#include "manager/net.h"

#include "base/banned.h"

enum { TEXT_MAX = 512 << 10 };

struct layer {
    char *id; /* owned: "org:<id>", "template:<name>" */
    struct sg_policy policy;
};

static const char *const kinds[SG_LAYER_COUNT] = {
    [SG_LAYER_TEMPLATE] = "template", [SG_LAYER_ORG] = "org"
};
static const char *const words[SG_LAYER_COUNT] = {
    [SG_LAYER_TEMPLATE] = "template", [SG_LAYER_ORG] = "organisation"
};

static char *id_of(enum sg_net_layer kind, const char *name)
{
    return sg_printf("%s:%s", kinds[kind], name);
}

static const char *name_of(const struct sg_sandbox *s, enum sg_net_layer kind)
{
    return kind == SG_LAYER_ORG ? s->org->id.s : s->template;
}

const struct sg_policy *sg_netlayer_find(const struct sg_manager *m, enum sg_net_layer kind,
                                         const char *name)
{
    sg_auto_free char *id = id_of(kind, name);
    const struct layer *l = sg_map_find(&m->netlayers, id);
    return l ? &l->policy : NULL;
}

const struct sg_policy *sg_netlayer_default(const struct sg_manager *m, const struct sg_org *org,
                                            const char *template)
{
    const struct sg_policy *p = sg_netlayer_find(m, SG_LAYER_TEMPLATE, template);
    return p ? p : sg_netlayer_find(m, SG_LAYER_ORG, org->id.s);
}

void sg_netlayer_stack(const struct sg_sandbox *s, struct sg_policy ret[SG_LAYER_COUNT],
                       uint32_t *ret_mask)
{
    const struct sg_policy *above = NULL;
    *ret_mask = 0;
    for (unsigned i = SG_LAYER_COUNT; i-- > SG_LAYER_OWN + 1;) {
        const struct sg_policy *p = sg_netlayer_find(s->manager, i, name_of(s, i));
        if (!p)
            continue;
        ret[i] = *p;
        ret[i].above = above;
        ret[i].layer = words[i];
        above = &ret[i];
        *ret_mask |= 1u << i;
    }
    ret[SG_LAYER_OWN] = s->network;
    ret[SG_LAYER_OWN].above = above;
}

/* ---- rows ---- */

static void drop(struct layer *l)
{
    sg_policy_done(&l->policy);
    free(l->id);
    free(l);
}

/* Takes the policy's lists; without one it is removed. */
static void set(struct sg_manager *m, const char *id, const struct sg_policy *p)
{
    struct layer *old = sg_map_find(&m->netlayers, id);
    if (old) {
        (void)sg_map_remove(&m->netlayers, old->id);
        drop(old);
    }
    if (!p)
        return;
    struct layer *l = sg_new(struct layer);
    l->id = sg_strdup(id);
    l->policy = *p;
    sg_map_put(&m->netlayers, l->id, l);
}

static bool load_one(void *arg, const struct sg_netpolicy_row *r)
{
    sg_auto_arena a;
    const struct sg_jval *v;
    struct sg_policy p = { .mode = SG_MODE_NONE };
    struct sg_err err = { 0 };
    sg_arena_init(&a, TEXT_MAX);
    /* One that cannot be read allows nothing: it was there to forbid something. */
    if (sg_json_parse(sg_str_of(r->policy), &a, &v, &err) == 0)
        (void)sg_net_read(v, &p, &err);
    set(arg, r->id, &p);
    return true;
}

int sg_netlayer_load(struct sg_manager *m, struct sg_err *err)
{
    sg_map_init(&m->netlayers);
    if (sg_store_each_netpolicy(m->store, load_one, m, err) < 0)
        return sg_wrap(err, "load the networks' policies");
    return 0;
}

void sg_netlayer_free(struct sg_manager *m)
{
    size_t cursor = 0;
    for (struct layer *l; (l = sg_map_next(&m->netlayers, &cursor));)
        drop(l);
    sg_map_done(&m->netlayers);
}

/* ---- changing ---- */

struct change {
    struct sg_manager *m;
    enum sg_net_layer kind;
    char *name; /* owned */
    struct sg_policy policy;
    bool is_removal;
    sg_netlayer_cb *cb;
    void *arg;
};

static void stored(void *arg, const struct sg_err *err)
{
    struct change *c = arg;
    sg_auto_free char *id = id_of(c->kind, c->name);
    if (err) {
        sg_policy_done(&c->policy);
    } else {
        set(c->m, id, c->is_removal ? NULL : &c->policy);
        for (struct sg_sandbox *s = c->m->oldest; s; s = s->newer)
            if (strcmp(name_of(s, c->kind), c->name) == 0)
                sg_net_tell(s);
    }
    c->cb(c->arg, err ? NULL : sg_netlayer_find(c->m, c->kind, c->name), err);
    free(c->name);
    free(c);
}

static void put_row(struct change *c, const char *id)
{
    sg_auto_buf text;
    struct sg_json j;
    sg_buf_init(&text, TEXT_MAX);
    sg_json_init(&j, &text);
    sg_net_put(&j, &c->policy);
    const struct sg_netpolicy_row row = { id, sg_buf_cstr(&text) };
    sg_store_put_netpolicy(c->m->store, &row, sg_note_done, sg_note_new(c->m, stored, c));
}

int sg_manager_set_netlayer(struct sg_manager *m, const struct sg_who *who, enum sg_net_layer kind,
                            const char *name, const struct sg_policy *p, sg_netlayer_cb *cb,
                            void *arg, struct sg_err *err)
{
    if (!who->is_operator) {
        (void)sg_fail(err, SG_DENIED, "only the machine's operator sets this");
        return sg_manager_denied(m, who, "network.policy", NULL, err);
    }
    if (kind == SG_LAYER_ORG && !sg_org_find(m, who, name, err))
        return -1;
    if ((p && sg_policy_check(p, err) < 0))
        return -1;
    if (p && p->learns)
        return sg_fail(err, SG_INVALID, "learn is for the policy of a sandbox");
    if (p && p->egress.address)
        return sg_fail(err, SG_INVALID, "egressProxy is for the policy of a sandbox");
    if (p && p->networks.n)
        return sg_fail(err, SG_INVALID, "networks are for the policy of a sandbox");
    struct change *c = sg_new(struct change);
    *c = (struct change) { m, kind, sg_strdup(name), { 0 }, !p, cb, arg };
    if (p)
        sg_net_copy(&c->policy, p);
    sg_auto_free char *id = id_of(kind, name);
    sg_manager_audit_value(m, who, p ? "network.policy.set" : "network.policy.removed", NULL, "of",
                           id);
    if (p)
        put_row(c, id);
    else
        sg_store_remove_netpolicy(m->store, id, sg_note_done, sg_note_new(m, stored, c));
    return 0;
}
