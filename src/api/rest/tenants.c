/* SPDX-License-Identifier: Apache-2.0 */
/* Organisations and keys. */
#include <stddef.h>
#include <string.h>

#include "api/rest/rest.h"
#include "base/auto.h"
#include "base/banned.h"

static const struct {
    unsigned bit;
    const char *name;
} scope_names[] = { { SG_SCOPE_READ, "read" },
                    { SG_SCOPE_EXEC, "exec" },
                    { SG_SCOPE_ADMIN, "admin" } };

static void put_scopes(struct sg_json *j, unsigned scopes)
{
    sg_json_key(j, "scopes");
    sg_json_open(j, '[');
    for (size_t i = 0; i < SG_COUNT(scope_names); i++)
        if (scopes & scope_names[i].bit)
            sg_json_str(j, scope_names[i].name);
    sg_json_close(j, ']');
}

/* ---- keys ---- */

static void put_key(struct sg_json *j, const struct sg_key *k, const char *secret)
{
    sg_json_open(j, '{');
    sg_json_key(j, "id");
    sg_json_str(j, k->id.s);
    sg_json_key(j, "org");
    sg_json_str(j, k->org->id.s);
    sg_json_key(j, "name");
    sg_json_str(j, k->name);
    sg_json_key(j, "shown");
    sg_json_str(j, k->shown);
    put_scopes(j, k->scopes);
    sg_json_key(j, "templates");
    sg_json_open(j, '[');
    for (char **t = k->templates; t && *t; t++)
        sg_json_str(j, *t);
    sg_json_close(j, ']');
    sg_json_key(j, "ratePerSecond");
    sg_json_u64(j, k->rate_per_s);
    sg_rest_put_time(j, "createdAt", k->created_ms);
    sg_rest_put_time(j, "expiresAt", k->expires_ms);
    sg_rest_put_time(j, "revokedAt", k->revoked_ms);
    if (secret) {
        sg_json_key(j, "key");
        sg_json_str(j, secret);
    }
    sg_json_close(j, '}');
}

int sg_rest_key_list(struct sg_call *c, struct sg_err *err)
{
    (void)err;
    sg_auto_buf out;
    struct sg_json j;
    sg_rest_open_list(&j, &out, "keys");
    size_t cursor = 0;
    for (const struct sg_key *k; (k = sg_key_next(c->manager, &c->who, &cursor));)
        put_key(&j, k, NULL);
    sg_json_close(&j, ']');
    sg_json_close(&j, '}');
    sg_reply_json(c, 200, &out);
    return 0;
}

struct key_body {
    const char *name, *org, *expires_at;
    const struct sg_jval *scopes, *templates;
    uint64_t rate_per_s;
};
#define AT(f) offsetof(struct key_body, f)
static const struct sg_jfield key_fields[] = {
    { "name", SG_JT_STRING, AT(name), 0, 0, true },
    { "org", SG_JT_STRING, AT(org), 0, 0, false },
    { "scopes", SG_JT_ARRAY, AT(scopes), 0, 0, false },
    { "templates", SG_JT_ARRAY, AT(templates), 0, 0, false },
    { "expiresAt", SG_JT_STRING, AT(expires_at), 0, 0, false },
    { "ratePerSecond", SG_JT_U64, AT(rate_per_s), 0, 1000000, false },
};
#undef AT

static int read_scopes(struct sg_call *c, const struct sg_jval *v, unsigned *ret,
                       struct sg_err *err)
{
    const char **names = NULL;
    if (sg_rest_strings(c, v, "scopes", &names, err) < 0)
        return -1;
    for (; names && *names; names++) {
        size_t i = 0;
        while (i < SG_COUNT(scope_names) && strcmp(*names, scope_names[i].name) != 0)
            i++;
        if (i == SG_COUNT(scope_names))
            return sg_fail(err, SG_INVALID, "scopes are read, exec and admin, not %s",
                           sg_quote(*names).s);
        *ret |= scope_names[i].bit;
    }
    return 0;
}

static void key_made(void *arg, const struct sg_key *k, const char *secret,
                     const struct sg_err *err)
{
    struct sg_call *c = arg;
    if (!k) {
        sg_reply_error(c, err);
        return;
    }
    sg_auto_buf out;
    sg_buf_init(&out, SG_REST_MAX_REPLY);
    struct sg_json j;
    sg_json_init(&j, &out);
    put_key(&j, k, secret);
    sg_reply_json(c, 201, &out);
}

int sg_rest_key_create(struct sg_call *c, struct sg_err *err)
{
    struct key_body b = { 0 };
    struct sg_key_spec spec = { 0 };
    const char **templates = NULL;
    const struct sg_jval *body;
    if (sg_call_json(c, &body, err) < 0 ||
        sg_json_read(body, key_fields, SG_COUNT(key_fields), &b, err) < 0 ||
        read_scopes(c, b.scopes, &spec.scopes, err) < 0 ||
        sg_rest_strings(c, b.templates, "templates", &templates, err) < 0 ||
        (b.expires_at && sg_rest_time(b.expires_at, &spec.expires_ms, err) < 0))
        return -1;
    spec.name = b.name;
    spec.org = b.org;
    spec.templates = templates && templates[0] ? templates : NULL;
    spec.rate_per_s = b.rate_per_s;
    if (!b.scopes) /* what most programs need; administration is asked for by name */
        spec.scopes = SG_SCOPE_READ | SG_SCOPE_EXEC;
    return sg_key_create(c->manager, &c->who, &spec, key_made, c, err);
}

int sg_rest_key_revoke(struct sg_call *c, struct sg_err *err)
{
    return sg_key_revoke(c->manager, &c->who, sg_call_param(c, "key"), sg_rest_reply_done, c, err);
}

/* ---- organisations ---- */

static void put_amounts(struct sg_json *j, const char *key, uint64_t sandboxes, uint64_t mem_bytes,
                        uint64_t cpu_milli, uint64_t disk_bytes)
{
    sg_json_key(j, key);
    sg_json_open(j, '{');
    sg_json_key(j, "sandboxes");
    sg_json_u64(j, sandboxes);
    sg_json_key(j, "memoryBytes");
    sg_json_u64(j, mem_bytes);
    sg_json_key(j, "cpus");
    sg_json_milli(j, cpu_milli);
    sg_json_key(j, "diskBytes");
    sg_json_u64(j, disk_bytes);
}

static void put_org(struct sg_json *j, const struct sg_org *o)
{
    const struct sg_quota *q = &o->quota;
    sg_json_open(j, '{');
    sg_json_key(j, "id");
    sg_json_str(j, o->id.s);
    sg_json_key(j, "name");
    sg_json_str(j, o->name);
    put_amounts(j, "quota", q->sandboxes, q->mem_bytes, q->cpu_milli, q->disk_bytes);
    sg_json_key(j, "createsPerSecond");
    sg_json_u64(j, q->creates_per_s);
    sg_json_close(j, '}');
    put_amounts(j, "inUse", o->sandboxes, o->mem_bytes, o->cpu_milli, o->disk_bytes);
    sg_json_close(j, '}');
    sg_rest_put_time(j, "createdAt", o->created_ms);
    sg_json_close(j, '}');
}

static void reply_org(struct sg_call *c, int status, const struct sg_org *o,
                      const struct sg_err *err)
{
    if (!o) {
        sg_reply_error(c, err);
        return;
    }
    sg_auto_buf out;
    sg_buf_init(&out, SG_REST_MAX_REPLY);
    struct sg_json j;
    sg_json_init(&j, &out);
    put_org(&j, o);
    sg_reply_json(c, status, &out);
}

int sg_rest_org_list(struct sg_call *c, struct sg_err *err)
{
    (void)err;
    sg_auto_buf out;
    struct sg_json j;
    sg_rest_open_list(&j, &out, "orgs");
    size_t cursor = 0;
    for (const struct sg_org *o; (o = sg_org_next(c->manager, &c->who, &cursor));)
        put_org(&j, o);
    sg_json_close(&j, ']');
    sg_json_close(&j, '}');
    sg_reply_json(c, 200, &out);
    return 0;
}

int sg_rest_org_get(struct sg_call *c, struct sg_err *err)
{
    const struct sg_org *o = sg_org_find(c->manager, &c->who, sg_call_param(c, "org"), err);
    if (!o)
        return -1;
    reply_org(c, 200, o, NULL);
    return 0;
}

struct org_body {
    const char *name;
    const struct sg_jval *quota;
};
static const struct sg_jfield org_fields[] = {
    { "name", SG_JT_STRING, offsetof(struct org_body, name), 0, 0, false },
    { "quota", SG_JT_OBJECT, offsetof(struct org_body, quota), 0, 0, false },
};
#define AT(f) offsetof(struct sg_quota, f)
static const struct sg_jfield quota_fields[] = {
    { "sandboxes", SG_JT_U64, AT(sandboxes), 0, UINT64_MAX, false },
    { "memoryBytes", SG_JT_U64, AT(mem_bytes), 0, UINT64_MAX, false },
    { "cpus", SG_JT_MILLI, AT(cpu_milli), 0, UINT64_MAX, false },
    { "diskBytes", SG_JT_U64, AT(disk_bytes), 0, UINT64_MAX, false },
    { "createsPerSecond", SG_JT_U64, AT(creates_per_s), 0, 1000000, false },
};
#undef AT

/* `quota` holds what stays where the body says nothing. */
static int read_org(struct sg_call *c, struct org_body *b, struct sg_quota *quota,
                    struct sg_err *err)
{
    const struct sg_jval *body;
    if (sg_call_json(c, &body, err) < 0 ||
        sg_json_read(body, org_fields, SG_COUNT(org_fields), b, err) < 0)
        return -1;
    if (b->quota && sg_json_read(b->quota, quota_fields, SG_COUNT(quota_fields), quota, err) < 0)
        return sg_wrap(err, "quota");
    return 0;
}

static void org_made(void *arg, const struct sg_org *o, const struct sg_err *err)
{
    reply_org(arg, 201, o, err);
}

static void org_changed(void *arg, const struct sg_org *o, const struct sg_err *err)
{
    reply_org(arg, 200, o, err);
}

int sg_rest_org_create(struct sg_call *c, struct sg_err *err)
{
    struct org_body b = { 0 };
    struct sg_quota quota = sg_manager_options(c->manager)->default_quota;
    if (read_org(c, &b, &quota, err) < 0)
        return -1;
    if (!b.name || !*b.name)
        return sg_fail(err, SG_INVALID, "an organisation needs a name");
    return sg_org_create(c->manager, &c->who, b.name, &quota, org_made, c, err);
}

int sg_rest_org_change(struct sg_call *c, struct sg_err *err)
{
    struct org_body b = { 0 };
    const char *id = sg_call_param(c, "org");
    const struct sg_org *o = sg_org_find(c->manager, &c->who, id, err);
    if (!o)
        return -1;
    struct sg_quota quota = o->quota;
    if (read_org(c, &b, &quota, err) < 0)
        return -1;
    return sg_org_change(c->manager, &c->who, id, b.name ? b.name : o->name, &quota, org_changed, c,
                         err);
}

int sg_rest_org_remove(struct sg_call *c, struct sg_err *err)
{
    return sg_org_remove(c->manager, &c->who, sg_call_param(c, "org"), sg_rest_reply_done, c, err);
}

int sg_rest_whoami(struct sg_call *c, struct sg_err *err)
{
    (void)err;
    sg_auto_buf out;
    sg_buf_init(&out, SG_REST_MAX_REPLY);
    struct sg_json j;
    sg_json_init(&j, &out);
    sg_json_open(&j, '{');
    sg_json_key(&j, "org");
    put_org(&j, c->who.org);
    if (c->who.key) {
        sg_json_key(&j, "key");
        put_key(&j, c->who.key, NULL);
    }
    put_scopes(&j, c->who.scopes);
    sg_json_key(&j, "operator");
    sg_json_bool(&j, c->who.is_operator);
    sg_json_close(&j, '}');
    sg_reply_json(c, 200, &out);
    return 0;
}
