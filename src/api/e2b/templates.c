/* SPDX-License-Identifier: Apache-2.0 */
/* Templates and teams, as this API lists them. Those that were built through it (builds.c) are the
 * organisation's own: found, tagged, published and removed here. Those of the server are
 * everybody's and are changed on its command line; each has one build. */
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

#include "api/e2b/e2b.h"
#include "base/auto.h"
#include "manager/built.h"
#include "base/banned.h"

/* ---- one of the server's ---- */

struct build_id {
    char s[37];
};

/* A UUID, the same for the same template: clients keep it. */
static struct build_id build_of(const char *name)
{
    uint8_t h[EVP_MAX_MD_SIZE] = { 0 };
    struct build_id id;
    (void)EVP_Digest(name, strlen(name), h, NULL, EVP_sha256(), NULL);
    (void)snprintf(id.s, sizeof id.s,
                   "%02x%02x%02x%02x-%02x%02x-4%01x%02x-8%01x%02x-%02x%02x%02x%02x%02x%02x", h[0],
                   h[1], h[2], h[3], h[4], h[5], h[6] & 15, h[7], h[8] & 15, h[9], h[10], h[11],
                   h[12], h[13], h[14], h[15]);
    return id;
}

/* What is known of either kind. */
struct shown {
    const char *id, *name, *build;
    bool is_public;
    int64_t created_ms, updated_ms, spawned_ms;
    uint64_t spawns, builds;
    struct sg_sandbox_limits limits;
    const struct sg_built *own; /* NULL: the server's */
};

static struct sg_sandbox_limits size_of(struct sg_call *c, const struct sg_build *b)
{
    struct sg_sandbox_limits l = sg_manager_options(c->manager)->defaults;
    if (b && b->limits.cpu_milli)
        l.cpu_milli = b->limits.cpu_milli;
    if (b && b->limits.mem_bytes)
        l.mem_bytes = b->limits.mem_bytes;
    return l;
}

static struct shown show_own(struct sg_call *c, const struct sg_built *t)
{
    const struct sg_build *b = sg_built_tagged(t, "default");
    struct shown s = {
        .id = t->id.s,
        .name = t->name,
        .build = b ? b->id : t->tags[0].build,
        .is_public = t->is_public,
        .created_ms = t->created_ms,
        .updated_ms = t->updated_ms,
        .spawned_ms = t->spawned_ms,
        .spawns = t->spawns,
        .limits = size_of(c, b),
        .own = t,
    };
    for (const struct sg_build *one = t->newest; one; one = one->older)
        s.builds++;
    return s;
}

static struct shown show_server(struct sg_call *c, const char *name, const struct build_id *id)
{
    return (struct shown) { .id = name,
                            .name = name,
                            .build = id->s,
                            .is_public = true,
                            .builds = 1,
                            .limits = size_of(c, NULL) };
}

/* ---- as it is told ---- */

static void put_names(struct sg_json *j, const char *key, const char *name)
{
    sg_json_key(j, key);
    sg_json_open(j, '[');
    sg_json_str(j, name);
    sg_json_close(j, ']');
}

static void put_common(struct sg_json *j, const struct shown *s)
{
    sg_json_put_str(j, "templateID", s->id);
    sg_json_put_bool(j, "public", s->is_public);
    put_names(j, "aliases", s->name);
    put_names(j, "names", s->name);
    sg_e2b_put_time(j, "createdAt", s->created_ms);
    sg_e2b_put_time(j, "updatedAt", s->updated_ms);
    if (s->spawned_ms) {
        sg_e2b_put_time(j, "lastSpawnedAt", s->spawned_ms);
    } else {
        sg_json_key(j, "lastSpawnedAt");
        sg_json_null(j);
    }
    sg_json_put_u64(j, "spawnCount", s->spawns);
}

static void put_size(struct sg_json *j, const struct sg_sandbox_limits *l)
{
    sg_json_put_u64(j, "cpuCount", l->cpu_milli ? (l->cpu_milli + 999) / 1000 : 1);
    sg_json_put_u64(j, "memoryMB", l->mem_bytes >> 20);
    sg_json_put_u64(j, "diskSizeMB", l->disk_bytes >> 20);
    sg_json_put_str(j, "envdVersion", SG_E2B_ENVD_VERSION);
}

static void put_template(struct sg_json *j, struct sg_call *c, const struct shown *s)
{
    (void)c;
    sg_json_open(j, '{');
    put_common(j, s);
    put_size(j, &s->limits);
    sg_json_put_str(j, "buildID", s->build);
    sg_json_put_u64(j, "buildCount", s->builds);
    sg_json_put_str(j, "buildStatus", "ready");
    sg_json_key(j, "createdBy");
    sg_json_null(j);
    sg_json_close(j, '}');
}

static void put_build(struct sg_json *j, struct sg_call *c, const struct sg_build *b)
{
    const struct sg_sandbox_limits size = size_of(c, b);
    const bool is_over = b->state == SG_BUILD_READY || b->state == SG_BUILD_ERROR;
    sg_json_open(j, '{');
    sg_json_put_str(j, "buildID", b->id);
    sg_json_put_str(j, "status", sg_build_state_name(b->state));
    sg_e2b_put_time(j, "createdAt", b->created_ms);
    sg_e2b_put_time(j, "updatedAt", b->updated_ms);
    if (is_over)
        sg_e2b_put_time(j, "finishedAt", b->updated_ms);
    put_size(j, &size);
    sg_json_close(j, '}');
}

static void put_detail(struct sg_json *j, struct sg_call *c, const struct shown *s)
{
    struct sg_build only = { .state = SG_BUILD_READY };
    (void)snprintf(only.id, sizeof only.id, "%s", s->build);
    sg_json_open(j, '{');
    put_common(j, s);
    sg_json_key(j, "builds");
    sg_json_open(j, '[');
    for (const struct sg_build *b = s->own ? s->own->newest : &only; b; b = b->older)
        put_build(j, c, b);
    sg_json_close(j, ']');
    sg_json_close(j, '}');
}

static void put_alias(struct sg_json *j, struct sg_call *c, const struct shown *s)
{
    (void)c;
    sg_json_open(j, '{');
    sg_json_put_str(j, "templateID", s->id);
    sg_json_put_bool(j, "public", s->is_public);
    sg_json_close(j, '}');
}

static void put_tags(struct sg_json *j, struct sg_call *c, const struct shown *s)
{
    struct sg_tag only = { .name = (char *)(uintptr_t) "default" };
    const struct sg_tag *tags = s->own ? s->own->tags : &only;
    (void)c;
    (void)snprintf(only.build, sizeof only.build, "%s", s->build);
    sg_json_open(j, '[');
    for (size_t i = 0; i < (s->own ? s->own->tag_n : 1); i++) {
        sg_json_open(j, '{');
        sg_json_put_str(j, "tag", tags[i].name);
        sg_json_put_str(j, "buildID", tags[i].build);
        sg_e2b_put_time(j, "createdAt", tags[i].created_ms);
        sg_json_close(j, '}');
    }
    sg_json_close(j, ']');
}

/* ---- asking for them: the own ones are at hand, the server's are asked for ---- */

typedef void put_fn(struct sg_json *j, struct sg_call *c, const struct shown *s);
struct asking {
    struct sg_call *call;
    const char *name; /* NULL: all */
    put_fn *put;      /* NULL: it is to be changed */
};

static void refuse(struct sg_call *c, const char *name, bool is_there)
{
    struct sg_err err;
    if (is_there)
        (void)sg_fail(&err, SG_UNSUPPORTED,
                      "template %s is the server's: it is changed by 'sandglass template' there",
                      sg_quote(name).s);
    else
        (void)sg_fail(&err, SG_NOT_FOUND, "template %s not found", sg_quote(name).s);
    sg_reply_error(c, &err);
}

/* A template of the same name as one of the server's is the one that a create takes. */
static void put_all(struct sg_json *j, struct sg_call *c, const char *const *names, size_t n)
{
    sg_json_open(j, '[');
    for (const struct sg_built *t = NULL; (t = sg_built_next(c->manager, &c->who, t));) {
        const struct shown s = show_own(c, t);
        put_template(j, c, &s);
    }
    for (size_t i = 0; i < n; i++) {
        if (sg_built_find(c->manager, &c->who, names[i], NULL, NULL))
            continue;
        const struct build_id id = build_of(names[i]);
        const struct shown s = show_server(c, names[i], &id);
        put_template(j, c, &s);
    }
    sg_json_close(j, ']');
}

static void answered(void *arg, const char *const *names, size_t n, const struct sg_err *err)
{
    struct asking *a = arg;
    struct sg_call *c = a->call;
    bool is_found = false;
    sg_auto_buf out = { 0 };
    struct sg_json j;
    if (err) {
        sg_reply_error(c, err);
        return;
    }
    sg_buf_init(&out, SG_E2B_MAX_REPLY);
    sg_json_init(&j, &out);
    for (size_t i = 0; a->name && i < n; i++)
        is_found |= strcmp(a->name, names[i]) == 0;
    if (!a->name) {
        put_all(&j, c, names, n);
    } else if (is_found && a->put) {
        const struct build_id id = build_of(a->name);
        const struct shown s = show_server(c, a->name, &id);
        a->put(&j, c, &s);
    } else {
        refuse(c, a->name, is_found);
        return;
    }
    sg_reply_json(c, 200, &out);
}

static int ask_server(struct sg_call *c, const char *name, put_fn *put, struct sg_err *err)
{
    struct asking *a = sg_arena_alloc(&c->arena, sizeof *a);
    const char *slash = name ? strrchr(name, '/') : NULL;
    if (!a)
        return sg_fail(err, SG_EXHAUSTED, "no room for the call");
    *a = (struct asking) { c, slash ? slash + 1 : name, put };
    return sg_manager_templates(c->manager, answered, a, err);
}

static int ask(struct sg_call *c, put_fn *put, struct sg_err *err)
{
    const char *name = sg_e2b_template_name(c, sg_call_param(c, "id"), err);
    if (!name)
        return -1;
    const struct sg_built *t = sg_built_find(c->manager, &c->who, name, NULL, NULL);
    if (!t)
        return ask_server(c, name, put, err);
    sg_auto_buf out;
    struct sg_json j;
    sg_buf_init(&out, SG_E2B_MAX_REPLY);
    sg_json_init(&j, &out);
    const struct shown s = show_own(c, t);
    put(&j, c, &s);
    sg_reply_json(c, 200, &out);
    return 0;
}

int sg_e2b_template_list(struct sg_call *c, struct sg_err *err)
{
    return ask_server(c, NULL, NULL, err);
}

int sg_e2b_template_get(struct sg_call *c, struct sg_err *err)
{
    return ask(c, put_detail, err);
}

int sg_e2b_template_alias(struct sg_call *c, struct sg_err *err)
{
    return ask(c, put_alias, err);
}

int sg_e2b_template_tags(struct sg_call *c, struct sg_err *err)
{
    return ask(c, put_tags, err);
}

/* ---- changing ---- */

static void published(void *arg, struct sg_built *t, const struct sg_err *err)
{
    struct sg_call *c = arg;
    if (err) {
        sg_reply_error(c, err);
        return;
    }
    sg_auto_buf out;
    struct sg_json j;
    sg_buf_init(&out, 4096);
    sg_json_init(&j, &out);
    sg_json_open(&j, '{');
    put_names(&j, "names", t->name);
    sg_json_close(&j, '}');
    sg_reply_json(c, 200, &out);
}

int sg_e2b_template_change(struct sg_call *c, struct sg_err *err)
{
    const struct sg_jval *body;
    const char *name = sg_e2b_template_name(c, sg_call_param(c, "id"), err);
    if (!name || sg_call_json(c, &body, err) < 0)
        return -1;
    const struct sg_built *t = sg_built_own(c->manager, &c->who, name);
    if (!t || !t->tag_n)
        return ask_server(c, name, NULL, err);
    return sg_built_publish(c->manager, &c->who, name, sg_e2b_bool(body, "public", t->is_public),
                            published, c, err);
}

static void removed(void *arg, const struct sg_err *err)
{
    if (err)
        sg_reply_error(arg, err);
    else
        sg_reply_empty(arg, 204);
}

int sg_e2b_template_remove(struct sg_call *c, struct sg_err *err)
{
    int ret;
    const char *name = sg_e2b_template_name(c, sg_call_param(c, "id"), err);
    if (!name)
        return -1;
    const struct sg_built *t = sg_built_own(c->manager, &c->who, name);
    if (!t && sg_e2b_snapshot_delete(c, &ret, err))
        return ret;
    if (!t)
        return ask_server(c, name, NULL, err);
    if (sg_built_remove(c->manager, &c->who, name, removed, c, err) == 0)
        return 0;
    if (err->kind == SG_CONFLICT) /* 400, as clients know it */
        err->kind = SG_INVALID;
    return -1;
}

/* ---- tags ---- */

struct tagging {
    struct sg_call *call;
    const char *const *tags;
    size_t n;
    const char *target;
};

static int read_tags(struct sg_call *c, const struct sg_jval *body, struct tagging *ret,
                     struct sg_err *err)
{
    const struct sg_jval *list = sg_e2b_get(body, "tags");
    if (!list || list->kind != SG_J_ARRAY || !list->list.n)
        return sg_fail(err, SG_INVALID, "tags must be a list of at least one");
    const char **v = sg_arena_alloc(&c->arena, list->list.n * sizeof *v);
    if (!v)
        return sg_fail(err, SG_EXHAUSTED, "no room for the call");
    for (const struct sg_jval *t = list->list.first; t; t = t->next) {
        if (t->kind != SG_J_STRING || !sg_tag_is_fine(t->s.p))
            return sg_fail(err, SG_INVALID, "a tag is made of a-z, 0-9, -, _ and .");
        v[ret->n++] = t->s.p;
    }
    ret->tags = v;
    return 0;
}

static void tagged(void *arg, struct sg_built *t, const struct sg_err *err)
{
    struct tagging *g = arg;
    struct sg_call *c = g->call;
    if (err) {
        sg_reply_error(c, err);
        return;
    }
    const struct sg_build *b = sg_built_tagged(t, g->tags[0]);
    sg_auto_buf out;
    struct sg_json j;
    sg_buf_init(&out, SG_E2B_MAX_REPLY);
    sg_json_init(&j, &out);
    sg_json_open(&j, '{');
    sg_json_put_str(&j, "buildID", b ? b->id : "");
    sg_json_key(&j, "tags");
    sg_json_open(&j, '[');
    for (size_t i = 0; i < g->n; i++)
        sg_json_str(&j, g->tags[i]);
    sg_json_close(&j, ']');
    sg_json_close(&j, '}');
    sg_reply_json(c, 201, &out);
}

static struct tagging *begin_tags(struct sg_call *c, const struct sg_jval **ret_body,
                                  struct sg_err *err)
{
    struct tagging *g = sg_arena_alloc(&c->arena, sizeof *g);
    if (!g) {
        (void)sg_fail(err, SG_EXHAUSTED, "no room for the call");
        return NULL;
    }
    *g = (struct tagging) { .call = c };
    return sg_call_json(c, ret_body, err) < 0 ? NULL : g;
}

int sg_e2b_tag(struct sg_call *c, struct sg_err *err)
{
    const struct sg_jval *body;
    struct tagging *g = begin_tags(c, &body, err);
    if (!g)
        return -1;
    const char *target = sg_e2b_text(body, "target"), *colon = target ? strchr(target, ':') : NULL;
    if (!target || !*target || colon == target || (colon && !colon[1]))
        return sg_fail(err, SG_INVALID, "target must be NAME or NAME:TAG");
    if (read_tags(c, body, g, err) < 0 || !(g->target = sg_e2b_template_name(c, target, err)))
        return -1;
    sg_auto_free char *name = sg_printf("%.*s", (int)strcspn(g->target, ":"), g->target);
    if (!sg_built_own(c->manager, &c->who, name))
        return ask_server(c, sg_arena_copy(&c->arena, name, strlen(name)), NULL, err);
    return sg_built_tag(c->manager, &c->who, g->target, g->tags, g->n, tagged, g, err);
}

static void untagged(void *arg, struct sg_built *t, const struct sg_err *err)
{
    (void)t;
    removed(((struct tagging *)arg)->call, err);
}

int sg_e2b_untag(struct sg_call *c, struct sg_err *err)
{
    const struct sg_jval *body;
    struct tagging *g = begin_tags(c, &body, err);
    if (!g)
        return -1;
    const char *name = sg_e2b_text(body, "name");
    if (!name || !*name || strchr(name, ':'))
        return sg_fail(err, SG_INVALID, "name must be that of a template, without a tag");
    if (read_tags(c, body, g, err) < 0 || !(g->target = sg_e2b_template_name(c, name, err)))
        return -1;
    for (size_t i = 0; i < g->n; i++)
        if (strcmp(g->tags[i], "default") == 0)
            return sg_fail(err, SG_INVALID, "the tag 'default' cannot be removed");
    if (!sg_built_own(c->manager, &c->who, g->target))
        return ask_server(c, g->target, NULL, err);
    return sg_built_untag(c->manager, &c->who, g->target, g->tags, g->n, untagged, g, err);
}

/* ---- teams: one, the organisation of the key ---- */

int sg_e2b_teams(struct sg_call *c, struct sg_err *err)
{
    (void)err;
    sg_auto_buf out;
    struct sg_json j;
    sg_buf_init(&out, 4096);
    sg_json_init(&j, &out);
    sg_json_open(&j, '[');
    sg_json_open(&j, '{');
    sg_json_put_str(&j, "teamID", c->who.org->id.s);
    sg_json_put_str(&j, "name", c->who.org->name);
    sg_json_put_str(&j, "apiKey", "");
    sg_json_put_bool(&j, "isDefault", true);
    sg_json_close(&j, '}');
    sg_json_close(&j, ']');
    sg_reply_json(c, 200, &out);
    return 0;
}
