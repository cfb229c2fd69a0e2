/* SPDX-License-Identifier: Apache-2.0 */
/* Templates that were built here: the list, finding, tags, the end; see built.h. */
#include "manager/built.h"

#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/str.h"
#include "manager/build.h"
#include "manager/life.h"
#include "manager/snapshot.h"
#include "manager/standby.h"
#include "manager/traits.h"

#include "base/banned.h"

static const char DEFAULT_TAG[] = "default";

/* ---- the list ---- */

static void add(struct sg_manager *m, struct sg_built *b)
{
    struct sg_built **link = &m->built;
    for (; *link; link = &(*link)->next) {
        const int way = strcmp((*link)->org->id.s, b->org->id.s);
        if (way > 0 || (way == 0 && strcmp((*link)->name, b->name) > 0))
            break;
    }
    b->next = *link;
    *link = b;
}

struct sg_built *sg_built_claim(struct sg_manager *m, struct sg_org *org, const char *name,
                                struct sg_err *err)
{
    unsigned n = 0;
    for (struct sg_built *b = m->built; b; b = b->next) {
        if (b->org == org && strcmp(b->name, name) == 0 && !b->is_going)
            return b;
        n += b->org == org;
    }
    if (sg_template_name_check(name, err) < 0)
        return NULL;
    if (sg_id_is_valid(name, 'b') || sg_id_is_valid(name, 't')) {
        (void)sg_fail(err, SG_INVALID, "%s looks like an id", sg_quote(name).s);
        return NULL;
    }
    if (n >= SG_BUILT_MAX) {
        (void)sg_fail(err, SG_EXHAUSTED, "the organisation has %d templates already", SG_BUILT_MAX);
        return NULL;
    }
    struct sg_built *b = sg_new(struct sg_built);
    b->id = sg_id_new('b');
    b->org = org;
    b->name = sg_strdup(name);
    b->created_ms = b->updated_ms = sg_manager_unix_ms();
    add(m, b);
    return b;
}

void sg_built_drop(struct sg_manager *m, struct sg_built *b)
{
    struct sg_built **link = &m->built;
    while (*link != b)
        link = &(*link)->next;
    *link = b->next;
    while (b->newest)
        sg_build_forget(m, b->newest);
    for (size_t i = 0; i < b->tag_n; i++)
        free(b->tags[i].name);
    free(b->tags);
    free(b->name);
    free(b);
}

void sg_built_free_all(struct sg_manager *m)
{
    while (m->built)
        sg_built_drop(m, m->built);
}

/* ---- finding ---- */

struct sg_built *sg_built_by_id(struct sg_manager *m, const char *id)
{
    struct sg_built *b = m->built;
    while (b && strcmp(b->id.s, id) != 0)
        b = b->next;
    return b;
}

struct sg_build *sg_build_find(struct sg_built *b, const char *id, struct sg_err *err)
{
    for (struct sg_build *one = b->newest; one; one = one->older)
        if (strcmp(one->id, id) == 0)
            return one;
    (void)sg_fail(err, SG_NOT_FOUND, "build %s not found", sg_quote(id).s);
    return NULL;
}

struct sg_build *sg_build_of(struct sg_manager *m, const struct sg_who *who, const char *id)
{
    struct sg_build *found = NULL;
    for (struct sg_built *b = m->built; b && !found; b = b->next)
        if (b->org == who->org && !b->is_going)
            found = sg_build_find(b, id, NULL);
    return found;
}

static struct sg_tag *find_tag(const struct sg_built *b, const char *name)
{
    for (size_t i = 0; i < b->tag_n; i++)
        if (strcmp(b->tags[i].name, name) == 0)
            return &b->tags[i];
    return NULL;
}

const struct sg_build *sg_built_tagged(const struct sg_built *b, const char *tag)
{
    const struct sg_tag *t = find_tag(b, tag);
    for (const struct sg_build *one = b->newest; t && one; one = one->older)
        if (strcmp(one->id, t->build) == 0)
            return one;
    return NULL;
}

static bool is_named(const struct sg_built *b, struct sg_str name)
{
    return sg_str_is(name, b->name) || sg_str_is(name, b->id.s);
}

/* B2 */
static bool may_use(const struct sg_built *b, const struct sg_who *who, struct sg_str space)
{
    if (b->is_going || !b->tag_n)
        return false;
    if (b->org == who->org &&
        (!space.n || sg_str_is(space, b->org->id.s) || sg_str_is(space, b->org->name)))
        return true;
    return b->is_public &&
           (sg_str_is(space, b->org->id.s) || (space.n && sg_str_is(space, b->org->name)));
}

struct sg_built *sg_built_find(struct sg_manager *m, const struct sg_who *who, const char *ref,
                               struct sg_build **ret_build, struct sg_err *err)
{
    const char *slash = strrchr(ref, '/'), *bare = slash ? slash + 1 : ref;
    const char *colon = strchr(bare, ':'), *tag = colon ? colon + 1 : DEFAULT_TAG;
    const struct sg_str space = { ref, slash ? (size_t)(slash - ref) : 0 };
    const struct sg_str name = { bare, colon ? (size_t)(colon - bare) : strlen(bare) };
    struct sg_built *found = NULL;
    for (struct sg_built *b = m->built; b; b = b->next)
        if (is_named(b, name) && may_use(b, who, space) && (!found || b->org == who->org))
            found = b;
    if (!found) {
        (void)sg_fail(err, SG_NOT_FOUND, "template %s not found", sg_quote_str(name).s);
        return NULL;
    }
    const struct sg_build *build = sg_built_tagged(found, tag);
    if (!build && (colon || ret_build)) {
        (void)sg_fail(err, SG_NOT_FOUND, "tag %s does not exist for template %s", sg_quote(tag).s,
                      sg_quote_str(name).s);
        return NULL;
    }
    if (ret_build)
        *ret_build = sg_build_find(found, build->id, NULL);
    return found;
}

struct sg_built *sg_built_own(struct sg_manager *m, const struct sg_who *who, const char *ref)
{
    const char *slash = strrchr(ref, '/');
    const struct sg_str name = sg_str_of(slash ? slash + 1 : ref);
    for (struct sg_built *b = m->built; b; b = b->next)
        if (b->org == who->org && !b->is_going && is_named(b, name))
            return b;
    return NULL;
}

struct sg_built *sg_built_next(struct sg_manager *m, const struct sg_who *who,
                               const struct sg_built *b)
{
    struct sg_built *one = b ? b->next : m->built;
    while (one && (one->org != who->org || one->is_going || !one->tag_n))
        one = one->next;
    return one;
}

unsigned sg_built_users(const struct sg_manager *m, const struct sg_built *b)
{
    unsigned n = 0;
    for (const struct sg_sandbox *s = m->newest; s; s = s->older)
        n += !s->is_internal && s->built && strcmp(s->built, b->id.s) == 0;
    return n;
}

void sg_built_spawned(struct sg_manager *m, const char *id)
{
    struct sg_built *b = sg_built_by_id(m, id);
    if (!b)
        return;
    b->spawns++;
    b->spawned_ms = sg_manager_unix_ms();
    sg_built_put(m, b, NULL, NULL);
}

/* ---- tags ---- */

bool sg_tag_is_fine(const char *tag)
{
    static const char some[] = "abcdefghijklmnopqrstuvwxyz0123456789-_.";
    const size_t n = strlen(tag);
    return n > 0 && n <= 64 && strspn(tag, some) == n;
}

void sg_built_set_tag(struct sg_built *b, const char *tag, const char *build)
{
    struct sg_tag *t = find_tag(b, tag);
    if (!t) {
        struct sg_tag *v = sg_alloc((b->tag_n + 1) * sizeof *v);
        if (b->tag_n)
            memcpy(v, b->tags, b->tag_n * sizeof *v);
        free(b->tags);
        b->tags = v;
        t = &v[b->tag_n++];
        *t = (struct sg_tag) { .name = sg_strdup(tag) };
    }
    (void)snprintf(t->build, sizeof t->build, "%s", build);
    t->created_ms = b->updated_ms = sg_manager_unix_ms();
}

struct change {
    struct sg_manager *m;
    char id[SG_ID_LEN + 1];
    sg_built_cb *cb;
    void *arg;
};

static void written(void *arg, const struct sg_err *err)
{
    sg_auto_free struct change *c = arg;
    struct sg_built *b = sg_built_by_id(c->m, c->id);
    struct sg_err own;
    if (!b && !err) {
        (void)sg_fail(&own, SG_NOT_FOUND, "the template was removed meanwhile");
        err = &own;
    }
    c->cb(c->arg, err ? NULL : b, err);
}

static int save(struct sg_manager *m, const struct sg_built *b, sg_built_cb *cb, void *arg)
{
    struct change *c = sg_new(struct change);
    *c = (struct change) { .m = m, .cb = cb, .arg = arg };
    memcpy(c->id, b->id.s, sizeof c->id);
    sg_built_put(m, b, written, c);
    return 0;
}

/* The caller's own, which they may change. */
static struct sg_built *to_change(struct sg_manager *m, const struct sg_who *who, const char *ref,
                                  const char *action, struct sg_err *err)
{
    sg_auto_free char *name = sg_printf("%.*s", (int)strcspn(ref, ":"), ref);
    struct sg_built *b = sg_built_own(m, who, name);
    if (!b || !b->tag_n) {
        (void)sg_fail(err, SG_NOT_FOUND, "template %s not found", sg_quote(name).s);
        return NULL;
    }
    if (sg_tenant_demand(who, SG_SCOPE_EXEC, err) < 0) {
        (void)sg_manager_denied(m, who, action, NULL, err);
        return NULL;
    }
    return b;
}

int sg_built_tag(struct sg_manager *m, const struct sg_who *who, const char *ref,
                 const char *const *tags, size_t n, sg_built_cb *cb, void *arg, struct sg_err *err)
{
    struct sg_build *build;
    struct sg_built *b = to_change(m, who, ref, "template.tag", err);
    if (!b || !sg_built_find(m, who, ref, &build, err))
        return -1;
    if (b->tag_n + n > SG_TAGS_MAX)
        return sg_fail(err, SG_EXHAUSTED, "a template has at most %d tags", SG_TAGS_MAX);
    for (size_t i = 0; i < n; i++)
        sg_built_set_tag(b, tags[i], build->id);
    sg_manager_audit_value(m, who, "template.tag", NULL, "template", b->name);
    return save(m, b, cb, arg);
}

int sg_built_untag(struct sg_manager *m, const struct sg_who *who, const char *name,
                   const char *const *tags, size_t n, sg_built_cb *cb, void *arg,
                   struct sg_err *err)
{
    struct sg_built *b = to_change(m, who, name, "template.untag", err);
    if (!b)
        return -1;
    for (size_t i = 0; i < n; i++) {
        if (strcmp(tags[i], DEFAULT_TAG) == 0)
            return sg_fail(err, SG_INVALID, "the tag 'default' cannot be removed");
        if (!find_tag(b, tags[i]))
            return sg_fail(err, SG_NOT_FOUND, "tag %s does not exist for template %s",
                           sg_quote(tags[i]).s, sg_quote(name).s);
    }
    for (size_t i = 0; i < n; i++) {
        struct sg_tag *t = find_tag(b, tags[i]);
        if (!t) /* named twice */
            continue;
        free(t->name);
        *t = b->tags[--b->tag_n];
    }
    b->updated_ms = sg_manager_unix_ms();
    sg_manager_audit_value(m, who, "template.untag", NULL, "template", b->name);
    sg_built_prune(m, b);
    return save(m, b, cb, arg);
}

int sg_built_publish(struct sg_manager *m, const struct sg_who *who, const char *ref,
                     bool is_public, sg_built_cb *cb, void *arg, struct sg_err *err)
{
    struct sg_built *b = to_change(m, who, ref, "template.publish", err);
    if (!b)
        return -1;
    b->is_public = is_public;
    b->updated_ms = sg_manager_unix_ms();
    sg_manager_audit_value(m, who, is_public ? "template.publish" : "template.unpublish", NULL,
                           "template", b->name);
    return save(m, b, cb, arg);
}

/* ---- the end ---- */

static bool is_needed(const struct sg_manager *m, const struct sg_build *b)
{
    if (b->work || b->state == SG_BUILD_WAITING)
        return true;
    for (size_t i = 0; i < b->of->tag_n; i++)
        if (strcmp(b->of->tags[i].build, b->id) == 0)
            return true;
    for (const struct sg_sandbox *s = m->newest; s; s = s->older)
        if (s->snapshot && b->snapshot && strcmp(s->snapshot, b->snapshot) == 0)
            return true;
    return false;
}

void sg_built_prune(struct sg_manager *m, struct sg_built *b)
{
    unsigned kept = 0;
    for (struct sg_build *one = b->newest, *older; one; one = older) {
        older = one->older;
        if (is_needed(m, one) || kept++ < SG_BUILDS_KEPT)
            continue;
        sg_store_remove_build(m->store, one->id, NULL, NULL);
        sg_build_forget(m, one);
    }
}

bool sg_built_is_building(const struct sg_built *b)
{
    for (const struct sg_build *one = b->newest; one; one = one->older)
        if (one->work)
            return true;
    return false;
}

bool sg_built_needs(const struct sg_manager *m, const char *snapshot)
{
    for (const struct sg_built *b = m->built; b; b = b->next)
        for (const struct sg_build *one = b->newest; one; one = one->older)
            if (strcmp(one->snapshot, snapshot) == 0)
                return true;
    return false;
}

void sg_built_forget_org(struct sg_manager *m, const struct sg_org *org)
{
    for (struct sg_built *b = m->built, *next; b; b = next) {
        next = b->next;
        if (b->org != org || b->is_going)
            continue;
        sg_store_remove_template(m->store, b->id.s, NULL, NULL);
        sg_built_drop(m, b);
    }
}

struct removal {
    struct sg_manager *m;
    struct sg_built *b;
    sg_tenant_cb *cb;
    void *arg;
};

static void removed(void *arg, const struct sg_err *err)
{
    sg_auto_free struct removal *r = arg;
    if (!r->m->is_ending && err)
        r->b->is_going = false;
    else if (!r->m->is_ending) {
        sg_built_drop(r->m, r->b);
        sg_layers_trim(r->m);
    }
    r->cb(r->arg, err);
}

int sg_built_remove(struct sg_manager *m, const struct sg_who *who, const char *ref,
                    sg_tenant_cb *cb, void *arg, struct sg_err *err)
{
    struct sg_built *b = sg_built_own(m, who, ref);
    if (!b)
        return sg_fail(err, SG_NOT_FOUND, "template %s not found", sg_quote(ref).s);
    if (sg_tenant_demand(who, SG_SCOPE_EXEC, err) < 0)
        return sg_manager_denied(m, who, "template.remove", NULL, err);
    const unsigned users = sg_built_users(m, b);
    if (users)
        return sg_fail(err, SG_CONFLICT, "%u sandboxes were made of template %s: end them first",
                       users, sg_quote(b->name).s);
    if (sg_built_is_building(b))
        return sg_fail(err, SG_CONFLICT, "template %s is being built: cancel that first",
                       sg_quote(b->name).s);
    struct removal *r = sg_new(struct removal);
    *r = (struct removal) { m, b, cb, arg };
    b->is_going = true;
    sg_standby_soon(m);
    sg_manager_audit_value(m, who, "template.remove", NULL, "template", b->name);
    sg_store_remove_template(m->store, b->id.s, sg_note_done, sg_note_new(m, removed, r));
    return 0;
}
