/* SPDX-License-Identifier: Apache-2.0 */
/* Secrets, as this API has them: the name or the id in the path, pages by name. */
#include <string.h>

#include "api/e2b/e2b.h"
#include "base/auto.h"
#include "manager/secret.h"
#include "base/banned.h"

enum { PAGE_MAX = 100 };

static void put_secret(struct sg_json *j, const struct sg_secret *s)
{
    sg_json_open(j, '{');
    sg_json_put_str(j, "secretID", s->id.s);
    sg_json_put_str(j, "name", s->name);
    sg_json_put_u64(j, "currentVersion", s->version);
    sg_e2b_put_pairs(j, "metadata", &s->metadata);
    sg_e2b_put_time(j, "createdAt", s->created_ms);
    sg_e2b_put_time(j, "updatedAt", s->updated_ms);
    sg_json_close(j, '}');
}

static void reply(struct sg_call *c, int status, const struct sg_secret *s,
                  const struct sg_err *err)
{
    sg_auto_buf out = { 0 };
    struct sg_json j;
    if (!s) {
        sg_reply_error(c, err);
        return;
    }
    sg_buf_init(&out, SG_E2B_MAX_REPLY);
    sg_json_init(&j, &out);
    put_secret(&j, s);
    sg_reply_json(c, status, &out);
}

static void made(void *arg, const struct sg_secret *s, const struct sg_err *err)
{
    reply(arg, 201, s, err);
}

static void changed(void *arg, const struct sg_secret *s, const struct sg_err *err)
{
    reply(arg, 200, s, err);
}

static int read_spec(struct sg_call *c, struct sg_secret_spec *ret, struct sg_err *err)
{
    const struct sg_jval *body;
    struct sg_pair *metadata = NULL;
    if (sg_call_json(c, &body, err) < 0)
        return -1;
    const char *value = sg_e2b_text(body, "value");
    const struct sg_jval *pairs = sg_e2b_get(body, "metadata");
    if (!value)
        return sg_fail(err, SG_INVALID, "value is missing, or no text");
    if (sg_call_pairs(c, pairs, "metadata", &metadata, &ret->metadata_n, err) < 0)
        return -1;
    ret->name = sg_e2b_text(body, "name");
    ret->value = sg_str_of(value);
    ret->metadata = metadata;
    ret->has_metadata = pairs;
    return 0;
}

int sg_e2b_secret_create(struct sg_call *c, struct sg_err *err)
{
    struct sg_secret_spec spec = { 0 };
    if (read_spec(c, &spec, err) < 0)
        return -1;
    const int got = spec.name ? sg_secret_create(c->manager, &c->who, &spec, made, c, err)
                              : sg_fail(err, SG_INVALID, "name is missing, or no text");
    sg_call_wipe(c, spec.value);
    return got;
}

int sg_e2b_secret_update(struct sg_call *c, struct sg_err *err)
{
    struct sg_secret_spec spec = { 0 };
    if (read_spec(c, &spec, err) < 0)
        return -1;
    const int got =
        sg_secret_update(c->manager, &c->who, sg_call_param(c, "id"), &spec, changed, c, err);
    sg_call_wipe(c, spec.value);
    return got;
}

int sg_e2b_secret_get(struct sg_call *c, struct sg_err *err)
{
    const struct sg_secret *s = sg_secret_find(c->manager, &c->who, sg_call_param(c, "id"), err);
    if (!s)
        return -1;
    reply(c, 200, s, NULL);
    return 0;
}

/* The token of the next page is the id of this one's last: names may hold anything. */
int sg_e2b_secret_list(struct sg_call *c, struct sg_err *err)
{
    uint64_t limit = PAGE_MAX;
    const char *token = sg_call_query(c, "nextToken");
    const struct sg_secret *last = NULL;
    if (sg_call_query_u64(c, "limit", 1, PAGE_MAX, &limit, err) < 0)
        return -1;
    if (token && *token) {
        last = sg_secret_find(c->manager, &c->who, token, err);
        if (!last)
            return sg_fail(err, SG_INVALID, "nextToken is not one of ours any more");
    }
    sg_auto_buf out;
    struct sg_json j;
    sg_buf_init(&out, SG_E2B_MAX_REPLY);
    sg_json_init(&j, &out);
    sg_json_open(&j, '[');
    const struct sg_secret *s = sg_secret_after(c->manager, &c->who, last ? last->name : NULL);
    for (; s && limit; limit--) {
        put_secret(&j, s);
        last = s;
        s = sg_secret_after(c->manager, &c->who, s->name);
    }
    sg_json_close(&j, ']');
    if (s && last)
        sg_reply_header(c, "X-Next-Token", last->id.s);
    sg_reply_json(c, 200, &out);
    return 0;
}

static void removed(void *arg, const struct sg_err *err)
{
    struct sg_call *c = arg;
    if (err)
        sg_reply_error(c, err);
    else
        sg_reply_empty(c, 204);
}

int sg_e2b_secret_remove(struct sg_call *c, struct sg_err *err)
{
    return sg_secret_remove(c->manager, &c->who, sg_call_param(c, "id"), removed, c, err);
}
