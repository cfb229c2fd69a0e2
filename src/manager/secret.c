/* SPDX-License-Identifier: Apache-2.0 */
/* Finding secrets, and their rows. One list in order: organisations have a few, and are asked for
 * them seldom. */
#include "manager/secret.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/auto.h"
#include "manager/life.h"
#include "seal/seal.h"

#include "base/banned.h"

/* ---- the list ---- */

static int order(const struct sg_org *org, const char *name, const struct sg_secret *s)
{
    int way = strcmp(org->id.s, s->org->id.s);
    return way ? way : strcasecmp(name, s->name);
}

void sg_secret_add(struct sg_manager *m, struct sg_secret *s)
{
    struct sg_secret **link = &m->secrets;
    while (*link && order(s->org, s->name, *link) > 0)
        link = &(*link)->next;
    s->next = *link;
    *link = s;
    s->refs = 1;
}

void sg_secret_unref(struct sg_secret *s)
{
    if (--s->refs)
        return;
    sg_pairs_done(&s->metadata);
    sg_binding_done(&s->hosts);
    free(s->name);
    free(s->sealed);
    free(s);
}

void sg_secret_drop(struct sg_manager *m, struct sg_secret *s)
{
    struct sg_secret **link = &m->secrets;
    while (*link && *link != s)
        link = &(*link)->next;
    if (!*link)
        return;
    *link = s->next;
    s->is_gone = true;
    sg_secret_unref(s);
}

struct sg_secret *sg_secret_named(struct sg_manager *m, const struct sg_org *org, const char *which)
{
    const bool is_id = sg_id_is_valid(which, 'c');
    for (struct sg_secret *s = m->secrets; s; s = s->next)
        if (s->org == org && (is_id ? strcmp(s->id.s, which) : strcasecmp(s->name, which)) == 0)
            return s;
    return NULL;
}

const struct sg_secret *sg_secret_find(struct sg_manager *m, const struct sg_who *who,
                                       const char *which, struct sg_err *err)
{
    const struct sg_secret *s = sg_secret_named(m, who->org, which);
    if (s && !s->is_new)
        return s;
    (void)sg_fail(err, SG_NOT_FOUND, "secret %s not found", sg_quote(which).s);
    return NULL;
}

const struct sg_secret *sg_secret_after(struct sg_manager *m, const struct sg_who *who,
                                        const char *after)
{
    for (const struct sg_secret *s = m->secrets; s; s = s->next)
        if (s->org == who->org && !s->is_new && (!after || strcasecmp(s->name, after) > 0))
            return s;
    return NULL;
}

bool sg_secret_is_stale(const struct sg_manager *m, const struct sg_secret *s)
{
    return !m->o.seal_to || !sg_seal_is_for(s->sealed, m->o.seal_to);
}

char *sg_secret_context(const struct sg_org *org, const struct sg_id *id, uint64_t version)
{
    return sg_printf("%s/%s/%" PRIu64, org->id.s, id->s, version);
}

/* ---- rows ---- */

static void read_metadata(const char *text, struct sg_pairs *to)
{
    sg_auto_arena a;
    const struct sg_jval *v;
    struct sg_err err;
    sg_arena_init(&a, 256 << 10);
    if (text && sg_json_parse(sg_str_of(text), &a, &v, &err) == 0)
        sg_pairs_read(v, to);
}

struct bound_row {
    const struct sg_jval *hosts;
    bool allows_plain;
};
static const struct sg_jfield bound_fields[] = {
    { "hosts", SG_JT_ARRAY, offsetof(struct bound_row, hosts), 0, 0, true },
    { "plain", SG_JT_BOOL, offsetof(struct bound_row, allows_plain), 0, 0, false },
};

/* What is wrong in it makes another context: the box stays shut. */
static void read_hosts(const char *text, struct sg_binding *to)
{
    sg_auto_arena a;
    const struct sg_jval *v;
    struct bound_row r = { 0 };
    sg_arena_init(&a, 256 << 10);
    if (!text || sg_json_parse(sg_str_of(text), &a, &v, NULL) < 0 ||
        sg_json_read(v, bound_fields, SG_COUNT(bound_fields), &r, NULL) < 0)
        return;
    to->allows_plain = r.allows_plain;
    for (const struct sg_jval *one = r.hosts->list.first; one; one = one->next)
        if (one->kind == SG_J_STRING)
            (void)sg_binding_add(to, one->s, NULL);
}

static bool load_one(void *arg, const struct sg_secret_row *r)
{
    struct sg_manager *m = arg;
    struct sg_org *org = r->org ? sg_map_find(&m->orgs, r->org) : NULL;

    if (!sg_id_is_valid(r->id, 'c'))
        return true;
    if (!org || !r->name || !r->sealed) { /* the organisation's end was cut short */
        sg_store_remove_secret(m->store, r->id, NULL, NULL);
        return true;
    }
    struct sg_secret *s = sg_new(struct sg_secret);
    memcpy(s->id.s, r->id, sizeof s->id.s);
    s->org = org;
    s->name = sg_strdup(r->name);
    s->sealed = sg_strdup(r->sealed);
    s->version = s->asked = (uint64_t)r->version;
    s->created_ms = r->created_ms;
    s->updated_ms = r->updated_ms;
    read_metadata(r->metadata, &s->metadata);
    read_hosts(r->binding, &s->hosts);
    sg_secret_add(m, s);
    return true;
}

int sg_secret_load(struct sg_manager *m, struct sg_err *err)
{
    if (sg_store_each_secret(m->store, load_one, m, err) < 0)
        return sg_wrap(err, "load the secrets");
    return 0;
}

void sg_secret_free_all(struct sg_manager *m)
{
    while (m->secrets)
        sg_secret_drop(m, m->secrets);
}

void sg_secret_forget_all(struct sg_manager *m, const struct sg_org *o)
{
    for (struct sg_secret *s = m->secrets, *next; s; s = next) {
        next = s->next;
        if (s->org != o)
            continue;
        sg_store_remove_secret(m->store, s->id.s, NULL, NULL);
        sg_secret_drop(m, s);
    }
}
