/* SPDX-License-Identifier: Apache-2.0 */
/* Volumes, as this API has them. Their files are in volume_content.c. */
#include <string.h>

#include "api/e2b/e2b.h"
#include "base/auto.h"
#include "manager/volume.h"
#include "base/banned.h"

static void put_volume(struct sg_json *j, struct sg_call *c, const struct sg_volume *v,
                       bool has_token)
{
    sg_json_open(j, '{');
    sg_json_put_str(j, "volumeID", v->id.s);
    sg_json_put_str(j, "name", v->name);
    if (has_token) {
        sg_json_put_str(j, "token", v->token);
        if (sg_call_domain(c))
            sg_json_put_str(j, "domain", sg_call_domain(c));
    }
    sg_json_close(j, '}');
}

static void reply(struct sg_call *c, int status, const struct sg_volume *v)
{
    sg_auto_buf out;
    struct sg_json j;
    sg_buf_init(&out, SG_E2B_MAX_REPLY);
    sg_json_init(&j, &out);
    put_volume(&j, c, v, true);
    sg_reply_json(c, status, &out);
}

static void made(void *arg, const struct sg_volume *v, const struct sg_err *err)
{
    if (v)
        reply(arg, 201, v);
    else
        sg_reply_error(arg, err);
}

int sg_e2b_volume_create(struct sg_call *c, struct sg_err *err)
{
    const struct sg_jval *body;
    if (sg_call_json(c, &body, err) < 0)
        return -1;
    const char *name = sg_e2b_text(body, "name");
    if (!name)
        return sg_fail(err, SG_INVALID, "name is missing, or no text");
    return sg_volume_create(c->manager, &c->who, name, 0, made, c, err);
}

int sg_e2b_volume_list(struct sg_call *c, struct sg_err *err)
{
    (void)err;
    sg_auto_buf out;
    struct sg_json j;
    sg_buf_init(&out, SG_E2B_MAX_REPLY);
    sg_json_init(&j, &out);
    sg_json_open(&j, '[');
    for (const struct sg_volume *v = NULL; (v = sg_volume_next(c->manager, &c->who, v));)
        put_volume(&j, c, v, false);
    sg_json_close(&j, ']');
    sg_reply_json(c, 200, &out);
    return 0;
}

int sg_e2b_volume_get(struct sg_call *c, struct sg_err *err)
{
    const struct sg_volume *v = sg_volume_find(c->manager, &c->who, sg_call_param(c, "id"), err);
    if (!v)
        return -1;
    reply(c, 200, v);
    return 0;
}

static void removed(void *arg, const struct sg_err *err)
{
    if (err)
        sg_reply_error(arg, err);
    else
        sg_reply_empty(arg, 204);
}

int sg_e2b_volume_remove(struct sg_call *c, struct sg_err *err)
{
    return sg_volume_remove(c->manager, &c->who, sg_call_param(c, "id"), false, removed, c, err);
}

/* [{name, path}] of a create. */
int sg_e2b_read_mounts(struct sg_call *c, const struct sg_jval *v, struct sg_create *into,
                       struct sg_err *err)
{
    if (!v)
        return 0;
    struct sg_mount_spec *mounts = v->kind == SG_J_ARRAY && v->list.n <= SG_MOUNTS_MAX
                                       ? sg_arena_alloc(&c->arena, (v->list.n + 1) * sizeof *mounts)
                                       : NULL;
    if (!mounts)
        return sg_fail(err, SG_INVALID, "volumeMounts is a list of at most %d", SG_MOUNTS_MAX);
    size_t n = 0;
    for (const struct sg_jval *one = v->list.first; one; one = one->next, n++) {
        mounts[n] = (struct sg_mount_spec) { .volume = sg_e2b_text(one, "name"),
                                             .path = sg_e2b_text(one, "path") };
        if (!mounts[n].volume || !mounts[n].path)
            return sg_fail(err, SG_INVALID, "each of volumeMounts has a name and a path");
    }
    into->mounts = mounts;
    into->mounts_n = n;
    return 0;
}

void sg_e2b_put_mounts(struct sg_json *j, const struct sg_sandbox *s)
{
    const struct sg_who us = { .org = s->org };
    if (!s->mounts.n)
        return;
    sg_json_key(j, "volumeMounts");
    sg_json_open(j, '[');
    for (size_t i = 0; i < s->mounts.n; i++) {
        const struct sg_volume *v = sg_volume_find(s->manager, &us, s->mounts.v[i].volume, NULL);
        sg_json_open(j, '{');
        sg_json_put_str(j, "name", v ? v->name : s->mounts.v[i].volume);
        sg_json_put_str(j, "path", s->mounts.v[i].path);
        sg_json_close(j, '}');
    }
    sg_json_close(j, ']');
}
