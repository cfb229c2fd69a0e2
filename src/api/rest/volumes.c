/* SPDX-License-Identifier: Apache-2.0 */
/* Volumes, and those of a sandbox that is to be made. */
#include <stddef.h>

#include "api/rest/rest.h"
#include "base/auto.h"
#include "manager/volume.h"
#include "base/banned.h"

static void put_members(struct sg_json *j, struct sg_call *c, const struct sg_volume *v)
{
    sg_json_key(j, "id");
    sg_json_str(j, v->id.s);
    sg_json_key(j, "name");
    sg_json_str(j, v->name);
    sg_json_key(j, "bytes");
    sg_json_u64(j, v->bytes);
    sg_json_key(j, "sandboxes");
    sg_json_u64(j, sg_volume_users(c->manager, v));
    sg_rest_put_time(j, "createdAt", v->created_ms);
}

int sg_rest_volume_list(struct sg_call *c, struct sg_err *err)
{
    (void)err;
    sg_auto_buf out;
    struct sg_json j;
    sg_rest_open_list(&j, &out, "volumes");
    for (const struct sg_volume *v = NULL; (v = sg_volume_next(c->manager, &c->who, v));) {
        sg_json_open(&j, '{');
        put_members(&j, c, v);
        sg_json_close(&j, '}');
    }
    sg_json_close(&j, ']');
    sg_json_close(&j, '}');
    sg_reply_json(c, 200, &out);
    return 0;
}

static void reply(struct sg_call *c, int status, const struct sg_volume *v,
                  const struct sg_err *err)
{
    sg_auto_buf out = { 0 };
    struct sg_json j;
    if (!v) {
        sg_reply_error(c, err);
        return;
    }
    sg_buf_init(&out, SG_REST_MAX_REPLY);
    sg_json_init(&j, &out);
    sg_json_open(&j, '{');
    put_members(&j, c, v);
    sg_json_close(&j, '}');
    sg_reply_json(c, status, &out);
}

static void made(void *arg, const struct sg_volume *v, const struct sg_err *err)
{
    reply(arg, 201, v, err);
}

static void resized(void *arg, const struct sg_volume *v, const struct sg_err *err)
{
    reply(arg, 200, v, err);
}

struct body {
    const char *name;
    uint64_t bytes;
};
static const struct sg_jfield fields[] = {
    { "name", SG_JT_STRING, offsetof(struct body, name), 0, 0, true },
    { "bytes", SG_JT_U64, offsetof(struct body, bytes), 1, INT64_MAX, false },
};

int sg_rest_volume_create(struct sg_call *c, struct sg_err *err)
{
    struct body b = { 0 };
    const struct sg_jval *body;
    if (sg_call_json(c, &body, err) < 0 ||
        sg_json_read(body, fields, SG_COUNT(fields), &b, err) < 0)
        return -1;
    return sg_volume_create(c->manager, &c->who, b.name, b.bytes, made, c, err);
}

/* With what it holds, which the launcher knows. */
static void used(void *arg, uint64_t used_bytes, const struct sg_err *err)
{
    struct sg_call *c = arg;
    struct sg_err own;
    const struct sg_volume *v =
        sg_volume_find(c->manager, &c->who, sg_call_param(c, "volume"), &own);
    sg_auto_buf out = { 0 };
    struct sg_json j;
    if (!v) {
        sg_reply_error(c, &own);
        return;
    }
    sg_buf_init(&out, SG_REST_MAX_REPLY);
    sg_json_init(&j, &out);
    sg_json_open(&j, '{');
    put_members(&j, c, v);
    if (!err) {
        sg_json_key(&j, "usedBytes");
        sg_json_u64(&j, used_bytes);
    }
    sg_json_close(&j, '}');
    sg_reply_json(c, 200, &out);
}

int sg_rest_volume_get(struct sg_call *c, struct sg_err *err)
{
    const struct sg_volume *v =
        sg_volume_find(c->manager, &c->who, sg_call_param(c, "volume"), err);
    return v ? sg_volume_use(c->manager, v, used, c, err) : -1;
}

int sg_rest_volume_resize(struct sg_call *c, struct sg_err *err)
{
    static const struct sg_jfield size[] = {
        { "bytes", SG_JT_U64, offsetof(struct body, bytes), 1, INT64_MAX, true },
    };
    struct body b = { 0 };
    const struct sg_jval *body;
    if (sg_call_json(c, &body, err) < 0 || sg_json_read(body, size, SG_COUNT(size), &b, err) < 0)
        return -1;
    return sg_volume_resize(c->manager, &c->who, sg_call_param(c, "volume"), b.bytes, resized, c,
                            err);
}

int sg_rest_volume_remove(struct sg_call *c, struct sg_err *err)
{
    static const char *const known[] = { "force", NULL };
    bool force = false;
    if (sg_call_query_only(c, known, err) < 0 || sg_call_query_bool(c, "force", &force, err) < 0)
        return -1;
    return sg_volume_remove(c->manager, &c->who, sg_call_param(c, "volume"), force,
                            sg_rest_reply_done, c, err);
}

/* ---- of a sandbox ---- */

static const struct sg_jfield mount_fields[] = {
    { "volume", SG_JT_STRING, offsetof(struct sg_mount_spec, volume), 0, 0, true },
    { "path", SG_JT_STRING, offsetof(struct sg_mount_spec, path), 0, 0, true },
    { "readOnly", SG_JT_BOOL, offsetof(struct sg_mount_spec, is_read_only), 0, 0, false },
};

int sg_rest_mounts(struct sg_call *c, const struct sg_jval *v, struct sg_create *into,
                   struct sg_err *err)
{
    if (!v)
        return 0;
    if (v->list.n > SG_MOUNTS_MAX)
        return sg_fail(err, SG_INVALID, "a sandbox has at most %d volumes", SG_MOUNTS_MAX);
    struct sg_mount_spec *mounts = sg_arena_alloc(&c->arena, (v->list.n + 1) * sizeof *mounts);
    size_t n = 0;
    if (!mounts)
        return sg_fail(err, SG_EXHAUSTED, "no room for the call");
    for (const struct sg_jval *one = v->list.first; one; one = one->next, n++) {
        mounts[n] = (struct sg_mount_spec) { 0 };
        if (sg_json_read(one, mount_fields, SG_COUNT(mount_fields), &mounts[n], err) < 0)
            return sg_wrap(err, "mounts");
    }
    into->mounts = mounts;
    into->mounts_n = n;
    return 0;
}

void sg_rest_put_mounts(struct sg_json *j, const struct sg_sandbox *s)
{
    if (!s->mounts.n)
        return;
    sg_json_key(j, "mounts");
    sg_json_open(j, '[');
    for (size_t i = 0; i < s->mounts.n; i++) {
        sg_json_open(j, '{');
        sg_json_key(j, "volume");
        sg_json_str(j, s->mounts.v[i].volume);
        sg_json_key(j, "path");
        sg_json_str(j, s->mounts.v[i].path);
        sg_json_key(j, "readOnly");
        sg_json_bool(j, s->mounts.v[i].is_read_only);
        sg_json_close(j, '}');
    }
    sg_json_close(j, ']');
}
