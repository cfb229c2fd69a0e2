/* SPDX-License-Identifier: Apache-2.0 */
/* Templates and teams, as this API lists them. Templates are made and removed on the server's own
 * command line; here they can be found. */
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

#include "api/e2b/e2b.h"
#include "base/auto.h"
#include "base/banned.h"

/* ---- builds: there is one of each template, the one that is there ---- */

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

/* ---- one ---- */

static void put_names(struct sg_json *j, const char *key, const char *name)
{
    sg_json_key(j, key);
    sg_json_open(j, '[');
    sg_json_str(j, name);
    sg_json_close(j, ']');
}

static void put_common(struct sg_json *j, const char *name)
{
    sg_e2b_put_str(j, "templateID", name);
    sg_e2b_put_bool(j, "public", true);
    put_names(j, "aliases", name);
    put_names(j, "names", name);
    sg_e2b_put_time(j, "createdAt", 0);
    sg_e2b_put_time(j, "updatedAt", 0);
    sg_json_key(j, "lastSpawnedAt");
    sg_json_null(j);
    sg_e2b_put_u64(j, "spawnCount", 0);
}

static void put_size(struct sg_json *j, const struct sg_sandbox_limits *l)
{
    sg_e2b_put_u64(j, "cpuCount", l->cpu_milli ? (l->cpu_milli + 999) / 1000 : 1);
    sg_e2b_put_u64(j, "memoryMB", l->mem_bytes >> 20);
    sg_e2b_put_u64(j, "diskSizeMB", l->disk_bytes >> 20);
    sg_e2b_put_str(j, "envdVersion", SG_E2B_ENVD_VERSION);
}

static void put_template(struct sg_json *j, struct sg_call *c, const char *name)
{
    sg_json_open(j, '{');
    put_common(j, name);
    put_size(j, &sg_manager_options(c->manager)->defaults);
    sg_e2b_put_str(j, "buildID", build_of(name).s);
    sg_e2b_put_u64(j, "buildCount", 1);
    sg_e2b_put_str(j, "buildStatus", "ready");
    sg_json_key(j, "createdBy");
    sg_json_null(j);
    sg_json_close(j, '}');
}

static void put_detail(struct sg_json *j, struct sg_call *c, const char *name)
{
    sg_json_open(j, '{');
    put_common(j, name);
    sg_json_key(j, "builds");
    sg_json_open(j, '[');
    sg_json_open(j, '{');
    sg_e2b_put_str(j, "buildID", build_of(name).s);
    sg_e2b_put_str(j, "status", "ready");
    sg_e2b_put_time(j, "createdAt", 0);
    sg_e2b_put_time(j, "updatedAt", 0);
    put_size(j, &sg_manager_options(c->manager)->defaults);
    sg_json_close(j, '}');
    sg_json_close(j, ']');
    sg_json_close(j, '}');
}

static void put_alias(struct sg_json *j, struct sg_call *c, const char *name)
{
    (void)c;
    sg_json_open(j, '{');
    sg_e2b_put_str(j, "templateID", name);
    sg_e2b_put_bool(j, "public", true);
    sg_json_close(j, '}');
}

static void put_tags(struct sg_json *j, struct sg_call *c, const char *name)
{
    (void)c;
    sg_json_open(j, '[');
    sg_json_open(j, '{');
    sg_e2b_put_str(j, "tag", "default");
    sg_e2b_put_str(j, "buildID", build_of(name).s);
    sg_e2b_put_time(j, "createdAt", 0);
    sg_json_close(j, '}');
    sg_json_close(j, ']');
}

/* ---- asking for them ---- */

struct asking {
    struct sg_call *call;
    const char *name; /* NULL: all */
    void (*put)(struct sg_json *j, struct sg_call *c, const char *name);
    int status;
};

static void answered(void *arg, const char *const *names, size_t n, const struct sg_err *err)
{
    struct asking *a = arg;
    struct sg_call *c = a->call;
    struct sg_err own;
    bool is_found = !a->name;
    sg_auto_buf out = { 0 };
    struct sg_json j;
    if (err) {
        sg_reply_error(c, err);
        return;
    }
    sg_buf_init(&out, SG_E2B_MAX_REPLY);
    sg_json_init(&j, &out);
    if (!a->name)
        sg_json_open(&j, '[');
    for (size_t i = 0; i < n; i++) {
        if (a->name && strcmp(a->name, names[i]) != 0)
            continue;
        is_found = true;
        if (a->put)
            a->put(&j, c, names[i]);
    }
    if (!a->name)
        sg_json_close(&j, ']');
    if (is_found && a->put) {
        sg_reply_json(c, a->status, &out);
        return;
    }
    if (is_found)
        (void)sg_fail(&own, SG_UNSUPPORTED,
                      "templates are changed on the server: see 'sandglass template'");
    else
        (void)sg_fail(&own, SG_NOT_FOUND, "template %s not found", sg_quote(a->name).s);
    sg_reply_error(c, &own);
}

static int ask(struct sg_call *c, const char *name,
               void (*put)(struct sg_json *j, struct sg_call *c, const char *name), int status,
               struct sg_err *err)
{
    struct asking *a = sg_arena_alloc(&c->arena, sizeof *a);
    if (!a)
        return sg_fail(err, SG_EXHAUSTED, "no room for the call");
    *a = (struct asking) { c, name, put, status };
    if (name && !(a->name = sg_e2b_template_name(c, name, err)))
        return -1;
    return sg_manager_templates(c->manager, answered, a, err);
}

int sg_e2b_template_list(struct sg_call *c, struct sg_err *err)
{
    return ask(c, NULL, put_template, 200, err);
}

int sg_e2b_template_get(struct sg_call *c, struct sg_err *err)
{
    return ask(c, sg_call_param(c, "id"), put_detail, 200, err);
}

int sg_e2b_template_alias(struct sg_call *c, struct sg_err *err)
{
    return ask(c, sg_call_param(c, "id"), put_alias, 200, err);
}

int sg_e2b_template_tags(struct sg_call *c, struct sg_err *err)
{
    return ask(c, sg_call_param(c, "id"), put_tags, 200, err);
}

/* Deleting and changing: 404 for what is not there, and the reason for what is. */
int sg_e2b_template_change(struct sg_call *c, struct sg_err *err)
{
    int ret;
    if (c->method == M_DELETE && sg_e2b_snapshot_delete(c, &ret, err))
        return ret;
    return ask(c, sg_call_param(c, "id"), NULL, 0, err);
}

/* ---- tags: there is one, of the one build ---- */

static bool is_tag(const struct sg_jval *v)
{
    static const char some[] = "abcdefghijklmnopqrstuvwxyz0123456789-_.";
    return v->kind == SG_J_STRING && v->s.n && strspn(v->s.p, some) == v->s.n;
}

/* 1: all are the default one; 0: there is another. */
static int read_tags(const struct sg_jval *body, const char **ret_other, struct sg_err *err)
{
    const struct sg_jval *tags = sg_e2b_get(body, "tags");
    int result = 1;
    if (!tags || tags->kind != SG_J_ARRAY || !tags->list.n)
        return sg_fail(err, SG_INVALID, "tags must be a list of at least one");
    for (const struct sg_jval *v = tags->list.first; v; v = v->next) {
        if (!is_tag(v))
            return sg_fail(err, SG_INVALID, "a tag is made of a-z, 0-9, -, _ and .");
        if (!sg_str_is(v->s, "default")) {
            *ret_other = v->s.p;
            result = 0;
        }
    }
    return result;
}

static void put_tagged(struct sg_json *j, struct sg_call *c, const char *name)
{
    (void)c;
    sg_json_open(j, '{');
    sg_e2b_put_str(j, "buildID", build_of(name).s);
    put_names(j, "tags", "default");
    sg_json_close(j, '}');
}

/* What is there already can be set again; a second tag would need a second build. */
int sg_e2b_tag(struct sg_call *c, struct sg_err *err)
{
    const struct sg_jval *body;
    const char *other = NULL;
    if (sg_call_json(c, &body, err) < 0)
        return -1;
    const char *target = sg_e2b_text(body, "target"), *colon = target ? strchr(target, ':') : NULL;
    if (!target || !*target || colon == target || (colon && !colon[1]))
        return sg_fail(err, SG_INVALID, "target must be NAME or NAME:TAG");
    const int got = read_tags(body, &other, err);
    if (got < 0)
        return -1;
    return ask(c, target, got ? put_tagged : NULL, 201, err);
}

struct untagging {
    struct sg_call *call;
    const char *name, *tag;
};

static void untag(void *arg, const char *const *names, size_t n, const struct sg_err *err)
{
    struct untagging *u = arg;
    struct sg_err own;
    bool is_there = false;
    for (size_t i = 0; i < n; i++)
        is_there |= strcmp(names[i], u->name) == 0;
    if (!err && is_there)
        (void)sg_fail(&own, SG_NOT_FOUND, "tag %s does not exist for template %s",
                      sg_quote(u->tag).s, sg_quote(u->name).s);
    else if (!err)
        (void)sg_fail(&own, SG_NOT_FOUND, "template %s not found", sg_quote(u->name).s);
    sg_reply_error(u->call, err ? err : &own);
}

int sg_e2b_untag(struct sg_call *c, struct sg_err *err)
{
    const struct sg_jval *body;
    struct untagging *u = sg_arena_alloc(&c->arena, sizeof *u);
    if (!u)
        return sg_fail(err, SG_EXHAUSTED, "no room for the call");
    if (sg_call_json(c, &body, err) < 0)
        return -1;
    const char *name = sg_e2b_text(body, "name");
    *u = (struct untagging) { .call = c };
    if (!name || !*name || strchr(name, ':'))
        return sg_fail(err, SG_INVALID, "name must be that of a template, without a tag");
    const int got = read_tags(body, &u->tag, err);
    if (got > 0)
        return sg_fail(err, SG_INVALID, "the tag 'default' cannot be removed");
    if (got < 0 || !(u->name = sg_e2b_template_name(c, name, err)))
        return -1;
    return sg_manager_templates(c->manager, untag, u, err);
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
    sg_e2b_put_str(&j, "teamID", c->who.org->id.s);
    sg_e2b_put_str(&j, "name", c->who.org->name);
    sg_e2b_put_str(&j, "apiKey", "");
    sg_e2b_put_bool(&j, "isDefault", true);
    sg_json_close(&j, '}');
    sg_json_close(&j, ']');
    sg_reply_json(c, 200, &out);
    return 0;
}
