/* SPDX-License-Identifier: Apache-2.0 */
/* Organisations. Only the machine's operator makes, changes and removes them; a caller sees its
 * own, and another's is not there. The default one has a fixed id, is made at the first start and
 * cannot be removed: the operator's own calls are its. */
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/jsonr.h"
#include "base/str.h"
#include "manager/budget.h"
#include "manager/build.h"
#include "manager/life.h"
#include "manager/snapshot.h"
#include "manager/volume.h"

#include "base/banned.h"

#define DEFAULT_ID "odefault000000000000"

/* ---- rows ---- */

#define QUOTA(key, field)                                                                          \
    {                                                                                              \
        key, SG_JT_U64, offsetof(struct sg_quota, field), 0, UINT64_MAX, false                     \
    }
static const struct sg_jfield quota_fields[] = {
    QUOTA("sandboxes", sandboxes),
    QUOTA("memoryBytes", mem_bytes),
    QUOTA("cpuMilli", cpu_milli),
    QUOTA("diskBytes", disk_bytes),
    QUOTA("createsPerSecond", creates_per_s),
};

static void put_row(struct sg_manager *m, const struct sg_org *o, const struct sg_quota *quota,
                    const struct sg_budget *budget, const char *name, sg_store_done *done,
                    void *arg)
{
    sg_auto_buf text;
    struct sg_json j;

    sg_buf_init(&text, 4096);
    sg_json_init(&j, &text);
    sg_json_open(&j, '{');
    for (size_t i = 0; i < SG_COUNT(quota_fields); i++) {
        sg_json_key(&j, quota_fields[i].key);
        sg_json_u64(
            &j, *(const uint64_t *)(const void *)((const char *)quota + quota_fields[i].offset));
    }
    sg_json_close(&j, '}');
    sg_auto_free char *budget_text = sg_budget_text(budget);
    struct sg_org_row row = { .id = o->id.s,
                              .name = name,
                              .quota = sg_buf_cstr(&text),
                              .budget = budget_text,
                              .created_ms = o->created_ms };
    sg_store_put_org(m->store, &row, SG_STORE_FULL, done, arg);
}

static bool load_one(void *arg, const struct sg_org_row *r)
{
    struct sg_manager *m = arg;
    sg_auto_arena a;
    const struct sg_jval *v;
    struct sg_err err;

    sg_arena_init(&a, 64 << 10);
    if (!sg_id_is_valid(r->id, 'o'))
        return true;
    struct sg_org *o = sg_new(struct sg_org);
    memcpy(o->id.s, r->id, sizeof o->id.s);
    o->name = sg_strdup(r->name ? r->name : "");
    o->created_ms = r->created_ms;
    if (!r->quota || sg_json_parse(sg_str_of(r->quota), &a, &v, &err) < 0 ||
        sg_json_read(v, quota_fields, SG_COUNT(quota_fields), &o->quota, &err) < 0)
        o->quota = m->o.default_quota;
    sg_budget_load(r->budget, &o->budget);
    sg_map_put(&m->orgs, o->id.s, o);
    return true;
}

int sg_org_load(struct sg_manager *m, struct sg_err *err)
{
    if (sg_store_each_org(m->store, load_one, m, err) < 0)
        return sg_wrap(err, "load the organisations");
    size_t cursor = 0;
    for (struct sg_org *o; (o = sg_map_next(&m->orgs, &cursor));)
        if (o->budget.pico)
            sg_budget_begin(m, o);
    m->default_org = sg_map_find(&m->orgs, DEFAULT_ID);
    if (m->default_org)
        return 0;
    struct sg_org *o = sg_new(struct sg_org);
    (void)snprintf(o->id.s, sizeof o->id.s, "%s", DEFAULT_ID);
    o->name = sg_strdup("default");
    o->quota = m->o.default_quota;
    o->created_ms = sg_manager_unix_ms();
    sg_map_put(&m->orgs, o->id.s, o);
    m->default_org = o;
    put_row(m, o, &o->quota, &o->budget, o->name, NULL, NULL);
    return 0;
}

void sg_org_free(struct sg_org *o)
{
    if (!o)
        return;
    free(o->name);
    free(o);
}

/* ---- finding ---- */

static bool is_visible(const struct sg_org *o, const struct sg_who *who)
{
    return who->is_operator || o == who->org;
}

static struct sg_org *find(struct sg_manager *m, const struct sg_who *who, const char *id,
                           struct sg_err *err)
{
    struct sg_org *o = sg_map_find(&m->orgs, id);

    if (!o || !is_visible(o, who)) {
        (void)sg_fail(err, SG_NOT_FOUND, "no organisation %s", sg_quote(id).s);
        return NULL;
    }
    return o;
}

const struct sg_org *sg_org_find(struct sg_manager *m, const struct sg_who *who, const char *id,
                                 struct sg_err *err)
{
    return find(m, who, id, err);
}

const struct sg_org *sg_org_next(struct sg_manager *m, const struct sg_who *who, size_t *cursor)
{
    const struct sg_org *o;

    while ((o = sg_map_next(&m->orgs, cursor))) {
        if (is_visible(o, who))
            return o;
    }
    return NULL;
}

/* ---- changing ---- */

/* A change on its way to the disk: the memory follows when it is there. */
struct change {
    struct sg_manager *m;
    struct sg_org *org;
    char *name; /* owned; NULL: stays */
    struct sg_quota quota;
    struct sg_budget budget;
    bool is_new;
    sg_org_cb *cb;
    void *arg;
};

static void stored(void *arg, const struct sg_err *err)
{
    struct change *c = arg;
    struct sg_org *o = c->org;

    if (!err) {
        if (c->name) {
            free(o->name);
            o->name = sg_take_ptr(&c->name);
        }
        o->quota = c->quota;
        o->budget = c->budget;
        if (o->budget.pico && !c->is_new)
            sg_budget_begin(c->m, o);
        if (c->is_new)
            sg_map_put(&c->m->orgs, o->id.s, o);
        sg_events_add(c->m, o, NULL, c->is_new ? "org.created" : "org.changed", NULL);
    }
    if (c->cb)
        c->cb(c->arg, err ? NULL : o, err);
    if (err && c->is_new)
        sg_org_free(o);
    free(c->name);
    free(c);
}

static void store(struct sg_manager *m, struct change *c)
{
    put_row(m, c->org, &c->quota, &c->budget, c->name ? c->name : c->org->name, sg_note_done,
            sg_note_new(m, stored, c));
}

static int check(struct sg_manager *m, const struct sg_org *self, const char *name,
                 const struct sg_quota *quota, struct sg_err *err)
{
    size_t cursor = 0;

    if (quota && quota->creates_per_s > SG_RATE_MAX)
        return sg_fail(err, SG_INVALID, "createsPerSecond must be at most %d", SG_RATE_MAX);
    if (!name)
        return 0;
    if (!sg_tenant_name_is_fine(name))
        return sg_fail(err, SG_INVALID, "%s is no name for an organisation", sg_quote(name).s);
    for (const struct sg_org *o; (o = sg_map_next(&m->orgs, &cursor));) {
        if (o != self && strcmp(o->name, name) == 0)
            return sg_fail(err, SG_CONFLICT, "there is an organisation %s", sg_quote(name).s);
    }
    return 0;
}

static int demand_operator(struct sg_manager *m, const struct sg_who *who, const char *action,
                           struct sg_err *err)
{
    if (who->is_operator)
        return sg_tenant_demand(who, SG_SCOPE_ADMIN, err);
    (void)sg_fail(err, SG_DENIED, "only the machine's operator may change organisations");
    return sg_manager_denied(m, who, action, NULL, err);
}

int sg_org_create(struct sg_manager *m, const struct sg_who *who, const char *name,
                  const struct sg_quota *quota, sg_org_cb *cb, void *arg, struct sg_err *err)
{
    if (demand_operator(m, who, "org.create", err) < 0 || check(m, NULL, name, quota, err) < 0)
        return -1;
    struct change *c = sg_new(struct change);
    *c = (struct change) { .m = m, .is_new = true, .cb = cb, .arg = arg };
    c->org = sg_new(struct sg_org);
    c->org->id = sg_id_new('o');
    c->org->name = sg_strdup(name);
    c->org->created_ms = sg_manager_unix_ms();
    c->quota = quota ? *quota : m->o.default_quota;
    sg_manager_audit_value(m, who, "org.create", NULL, "org", c->org->id.s);
    store(m, c);
    return 0;
}

int sg_org_change(struct sg_manager *m, const struct sg_who *who, const char *id, const char *name,
                  const struct sg_quota *quota, sg_org_cb *cb, void *arg, struct sg_err *err)
{
    struct sg_org *o = find(m, who, id, err);

    if (!o || demand_operator(m, who, "org.change", err) < 0 || check(m, o, name, quota, err) < 0)
        return -1;
    struct change *c = sg_new(struct change);
    *c = (struct change) { .m = m, .org = o, .cb = cb, .arg = arg };
    c->name = name ? sg_strdup(name) : NULL;
    c->quota = quota ? *quota : o->quota;
    c->budget = o->budget;
    sg_manager_audit_value(m, who, "org.change", NULL, "org", o->id.s);
    store(m, c);
    return 0;
}

int sg_org_set_budget(struct sg_manager *m, const struct sg_who *who, const char *id,
                      const struct sg_budget *b, sg_org_cb *cb, void *arg, struct sg_err *err)
{
    struct sg_org *o = find(m, who, id, err);

    if (!o || demand_operator(m, who, "budget.set", err) < 0)
        return -1;
    struct change *c = sg_new(struct change);
    *c = (struct change) { .m = m, .org = o, .quota = o->quota, .cb = cb, .arg = arg };
    if (b)
        c->budget = *b;
    sg_auto_free char *detail = sg_budget_text(&c->budget);
    sg_manager_audit_of(m, who, o, c->budget.pico ? "budget.set" : "budget.remove", detail);
    store(m, c);
    return 0;
}

/* ---- removing ---- */

struct removal {
    struct sg_manager *m;
    struct sg_org *org;
    sg_tenant_cb *cb;
    void *arg;
};

static void removed(void *arg, const struct sg_err *err)
{
    struct removal *r = arg;

    if (r->cb)
        r->cb(r->arg, err);
    free(r);
}

int sg_org_remove(struct sg_manager *m, const struct sg_who *who, const char *id, sg_tenant_cb *cb,
                  void *arg, struct sg_err *err)
{
    struct sg_org *o = find(m, who, id, err);

    if (!o || demand_operator(m, who, "org.remove", err) < 0)
        return -1;
    if (o == m->default_org)
        return sg_fail(err, SG_CONFLICT, "the default organisation cannot be removed");
    for (const struct sg_sandbox *s = m->newest; s; s = s->older) {
        if (s->org == o && !s->is_internal)
            return sg_fail(err, SG_CONFLICT, "the organisation has sandboxes; destroy them first");
        for (const struct sg_snapshot *t = m->newest_snapshot; t; t = t->older)
            if (t->org == o && !t->layer[0])
                return sg_fail(err, SG_CONFLICT,
                               "the organisation has snapshots; remove them first");
    }
    for (const struct sg_volume *v = m->volumes; v; v = v->next)
        if (v->org == o)
            return sg_fail(err, SG_CONFLICT, "the organisation has volumes; remove them first");
    for (const struct sg_built *b = m->built; b; b = b->next)
        if (b->org == o && (b->tag_n || sg_built_is_building(b)))
            return sg_fail(err, SG_CONFLICT, "the organisation has templates; remove them first");
    sg_built_forget_org(m, o);
    sg_layers_forget_org(m, o);
    struct removal *r = sg_new(struct removal);
    *r = (struct removal) { m, o, cb, arg };
    /* At once: no call may come through its keys from here on. */
    sg_key_forget_all(m, o);
    sg_secret_forget_all(m, o);
    (void)sg_map_remove(&m->orgs, o->id.s);
    o->next_dead = m->dead_orgs;
    m->dead_orgs = o;
    sg_manager_audit_value(m, who, "org.remove", NULL, "org", o->id.s);
    sg_events_add(m, o, NULL, "org.removed", NULL);
    sg_store_remove_org(m->store, o->id.s, sg_note_done, sg_note_new(m, removed, r));
    return 0;
}
