/* SPDX-License-Identifier: Apache-2.0 */
/* Templates and teams, as this API lists them. Templates are made and removed on the server's own
 * command line; here they can be found. */
#include <string.h>

#include "api/e2b/e2b.h"
#include "base/auto.h"
#include "base/banned.h"

static const char NO_BUILD[] = "00000000-0000-0000-0000-000000000000";

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
    sg_e2b_put_str(j, "buildID", NO_BUILD);
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
    sg_e2b_put_str(j, "buildID", NO_BUILD);
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
    (void)name;
    sg_json_open(j, '[');
    sg_json_open(j, '{');
    sg_e2b_put_str(j, "tag", "default");
    sg_e2b_put_str(j, "buildID", NO_BUILD);
    sg_e2b_put_time(j, "createdAt", 0);
    sg_json_close(j, '}');
    sg_json_close(j, ']');
}

/* ---- asking for them ---- */

struct asking {
    struct sg_call *call;
    const char *name; /* NULL: all */
    void (*put)(struct sg_json *j, struct sg_call *c, const char *name);
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
        sg_reply_json(c, 200, &out);
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
               void (*put)(struct sg_json *j, struct sg_call *c, const char *name),
               struct sg_err *err)
{
    struct asking *a = sg_arena_alloc(&c->arena, sizeof *a);
    if (!a)
        return sg_fail(err, SG_EXHAUSTED, "no room for the call");
    *a = (struct asking) { c, name, put };
    if (name) { /* "[namespace/]name[:tag]" */
        const char *slash = strrchr(name, '/');
        name = slash ? slash + 1 : name;
        a->name = sg_arena_copy(&c->arena, name, strcspn(name, ":"));
        if (!a->name)
            return sg_fail(err, SG_EXHAUSTED, "no room for the call");
    }
    return sg_manager_templates(c->manager, answered, a, err);
}

int sg_e2b_template_list(struct sg_call *c, struct sg_err *err)
{
    return ask(c, NULL, put_template, err);
}

int sg_e2b_template_get(struct sg_call *c, struct sg_err *err)
{
    return ask(c, sg_call_param(c, "id"), put_detail, err);
}

int sg_e2b_template_alias(struct sg_call *c, struct sg_err *err)
{
    return ask(c, sg_call_param(c, "id"), put_alias, err);
}

int sg_e2b_template_tags(struct sg_call *c, struct sg_err *err)
{
    return ask(c, sg_call_param(c, "id"), put_tags, err);
}

/* Deleting and changing: 404 for what is not there, and the reason for what is. */
int sg_e2b_template_change(struct sg_call *c, struct sg_err *err)
{
    return ask(c, sg_call_param(c, "id"), NULL, err);
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
