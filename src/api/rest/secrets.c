/* SPDX-License-Identifier: Apache-2.0 */
/* Secrets: what goes in as `value` is in no reply. */
#include <stddef.h>

#include "api/rest/rest.h"
#include "base/auto.h"
#include "manager/secret.h"
#include "base/banned.h"

static void put_secret(struct sg_json *j, const struct sg_call *c, const struct sg_secret *s)
{
    sg_json_open(j, '{');
    sg_json_key(j, "id");
    sg_json_str(j, s->id.s);
    sg_json_key(j, "name");
    sg_json_str(j, s->name);
    sg_json_key(j, "version");
    sg_json_u64(j, s->version);
    sg_json_key(j, "metadata");
    sg_json_open(j, '{');
    for (size_t i = 0; i < s->metadata.n; i++) {
        sg_json_key(j, s->metadata.v[i].name);
        sg_json_str(j, s->metadata.v[i].value);
    }
    sg_json_close(j, '}');
    sg_json_key(j, "hosts");
    sg_json_open(j, '[');
    for (size_t i = 0; i < s->hosts.n; i++)
        sg_json_str(j, s->hosts.v[i].text);
    sg_json_close(j, ']');
    sg_json_key(j, "plainHttp");
    sg_json_bool(j, s->hosts.allows_plain);
    sg_json_key(j, "stale");
    sg_json_bool(j, sg_secret_is_stale(c->manager, s));
    sg_rest_put_time(j, "createdAt", s->created_ms);
    sg_rest_put_time(j, "updatedAt", s->updated_ms);
    sg_json_close(j, '}');
}

static void reply(void *arg, const struct sg_secret *s, const struct sg_err *err)
{
    struct sg_call *c = arg;
    sg_auto_buf out = { 0 };
    struct sg_json j;
    if (!s) {
        sg_reply_error(c, err);
        return;
    }
    sg_buf_init(&out, SG_REST_MAX_REPLY);
    sg_json_init(&j, &out);
    put_secret(&j, c, s);
    sg_reply_json(c, 200, &out);
}

int sg_rest_secret_list(struct sg_call *c, struct sg_err *err)
{
    (void)err;
    sg_auto_buf out;
    struct sg_json j;
    const struct sg_secret *s = NULL;
    sg_rest_open_list(&j, &out, "secrets");
    while ((s = sg_secret_after(c->manager, &c->who, s ? s->name : NULL)))
        put_secret(&j, c, s);
    sg_json_close(&j, ']');
    sg_json_close(&j, '}');
    sg_reply_json(c, 200, &out);
    return 0;
}

int sg_rest_secret_get(struct sg_call *c, struct sg_err *err)
{
    const struct sg_secret *s =
        sg_secret_find(c->manager, &c->who, sg_call_param(c, "secret"), err);
    if (!s)
        return -1;
    reply(c, s, NULL);
    return 0;
}

struct body {
    const char *value;
    const struct sg_jval *metadata, *hosts;
    bool plain_http;
};
static const struct sg_jfield fields[] = {
    { "value", SG_JT_STRING, offsetof(struct body, value), 0, 0, true },
    { "metadata", SG_JT_OBJECT, offsetof(struct body, metadata), 0, 0, false },
    { "hosts", SG_JT_ARRAY, offsetof(struct body, hosts), 0, 0, false },
    { "plainHttp", SG_JT_BOOL, offsetof(struct body, plain_http), 0, 0, false },
};

static int read_hosts(struct sg_call *c, const struct sg_jval *v, struct sg_secret_spec *into,
                      struct sg_err *err)
{
    if (!v)
        return 0;
    char **hosts = sg_arena_alloc(&c->arena, (v->list.n + 1) * sizeof *hosts);
    if (!hosts)
        return sg_fail(err, SG_EXHAUSTED, "hosts is too large");
    size_t n = 0;
    for (const struct sg_jval *one = v->list.first; one; one = one->next, n++) {
        hosts[n] = one->kind == SG_J_STRING ? sg_arena_copy(&c->arena, one->s.p, one->s.n) : NULL;
        if (!hosts[n])
            return sg_fail(err, SG_INVALID, "hosts must be a list of texts");
    }
    into->hosts = hosts;
    into->hosts_n = n;
    return 0;
}

int sg_rest_secret_set(struct sg_call *c, struct sg_err *err)
{
    struct body b = { 0 };
    struct sg_pair *metadata = NULL;
    struct sg_secret_spec spec = { .name = sg_call_param(c, "secret") };
    const struct sg_jval *body;
    if (sg_call_json(c, &body, err) < 0 ||
        sg_json_read(body, fields, SG_COUNT(fields), &b, err) < 0 ||
        sg_call_pairs(c, b.metadata, "metadata", &metadata, &spec.metadata_n, err) < 0 ||
        read_hosts(c, b.hosts, &spec, err) < 0)
        return -1;
    spec.allows_plain = b.plain_http;
    spec.value = sg_str_of(b.value);
    spec.metadata = metadata;
    spec.has_metadata = b.metadata;
    const int got = sg_secret_set(c->manager, &c->who, &spec, reply, c, err);
    sg_call_wipe(c, spec.value);
    return got;
}

int sg_rest_secret_remove(struct sg_call *c, struct sg_err *err)
{
    return sg_secret_remove(c->manager, &c->who, sg_call_param(c, "secret"), sg_rest_reply_done, c,
                            err);
}
