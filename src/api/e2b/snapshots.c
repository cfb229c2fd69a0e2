/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots and forks over the control plane. A snapshot is a template here: it is found, used and
 * removed as one, by "<id>:default" or "<organisation>/<name>:<tag>". */
#include <limits.h>
#include <string.h>

#include "api/e2b/e2b.h"
#include "base/auto.h"
#include "manager/snapshot.h"
#include "base/banned.h"

enum { PAGE_MAX = 100, FORKS_DEFAULT = 1 };

static void put_snapshot(struct sg_json *j, const struct sg_snapshot *t)
{
    sg_auto_free char *name = *t->name ? sg_printf("%s/%s", t->org->id.s, t->name) : NULL;
    sg_auto_free char *id =
        name ? sg_printf("%s:%s", name, t->tag) : sg_printf("%s:default", t->id.s);
    sg_json_open(j, '{');
    sg_json_put_str(j, "snapshotID", id);
    sg_json_key(j, "names");
    sg_json_open(j, '[');
    if (name)
        sg_json_str(j, name);
    sg_json_close(j, ']');
    sg_json_close(j, '}');
}

static void snapped(void *arg, struct sg_snapshot *t, const struct sg_err *err)
{
    struct sg_call *c = arg;
    if (err) {
        sg_reply_error(c, err);
        return;
    }
    sg_auto_buf out;
    struct sg_json j;
    sg_buf_init(&out, SG_E2B_MAX_REPLY);
    sg_json_init(&j, &out);
    put_snapshot(&j, t);
    sg_reply_json(c, 201, &out);
}

/* "name" or "name:tag", in small letters. */
static int split(struct sg_call *c, const char *text, const char **ret_name, const char **ret_tag,
                 struct sg_err *err)
{
    char *name = sg_arena_copy(&c->arena, text, strlen(text));
    if (!name)
        return sg_fail(err, SG_EXHAUSTED, "no room for the call");
    for (char *p = name; *p; p++)
        if (*p >= 'A' && *p <= 'Z')
            *p = (char)(*p + ('a' - 'A'));
    char *colon = strchr(name, ':');
    if (colon)
        *colon = '\0';
    *ret_name = name;
    *ret_tag = colon ? colon + 1 : NULL;
    return 0;
}

int sg_e2b_snapshot_create(struct sg_call *c, struct sg_err *err)
{
    const struct sg_jval *body;
    struct sg_sandbox *s = sg_e2b_sandbox(c, err);
    if (!s || sg_call_json(c, &body, err) < 0)
        return -1;
    const char *text = sg_e2b_text(body, "name"), *name = NULL, *tag = NULL;
    if (text && *text && split(c, text, &name, &tag, err) < 0)
        return -1;
    return sg_manager_snapshot(s, &c->who, name, tag, snapped, c, err);
}

/* A bare name stands for any tag, and may have the organisation before it. */
static bool matches(const struct sg_snapshot *t, const char *sandbox, const char *name)
{
    const char *slash = name ? strrchr(name, '/') : NULL;
    const char *bare = slash ? slash + 1 : name;
    const size_t n = bare ? strcspn(bare, ":") : 0;
    if (sandbox && strcmp(t->sandbox, sandbox) != 0)
        return false;
    if (!bare || strncmp(t->id.s, bare, n) == 0)
        return !bare || n == strlen(t->id.s);
    return strlen(t->name) == n && strncmp(t->name, bare, n) == 0 &&
           (!bare[n] || strcmp(t->tag, bare + n + 1) == 0);
}

/* The token of the next page is the id of the last one of this. */
int sg_e2b_snapshot_list(struct sg_call *c, struct sg_err *err)
{
    const char *sandbox = sg_call_query(c, "sandboxID"), *name = sg_call_query(c, "name"),
               *after = sg_call_query(c, "nextToken");
    uint64_t limit = PAGE_MAX;
    if (sg_call_query_u64(c, "limit", 1, PAGE_MAX, &limit, err) < 0)
        return -1;
    sg_auto_buf out;
    struct sg_json j;
    sg_buf_init(&out, SG_E2B_MAX_REPLY);
    sg_json_init(&j, &out);
    sg_json_open(&j, '[');
    bool is_on = !after || !*after;
    const struct sg_snapshot *last = NULL, *t = NULL;
    while ((t = sg_snapshot_next(c->manager, &c->who, t))) {
        if (is_on && matches(t, sandbox, name)) {
            if (limit-- == 0)
                break;
            put_snapshot(&j, t);
            last = t;
        }
        is_on |= after && strcmp(t->id.s, after) == 0;
    }
    sg_json_close(&j, ']');
    if (t && last)
        sg_reply_header(c, "X-Next-Token", last->id.s);
    sg_reply_json(c, 200, &out);
    return 0;
}

static void removed(void *arg, const struct sg_err *err)
{
    if (err)
        sg_reply_error(arg, err);
    else
        sg_reply_empty(arg, 204);
}

bool sg_e2b_snapshot_delete(struct sg_call *c, int *ret, struct sg_err *err)
{
    struct sg_snapshot *t = sg_snapshot_find(c->manager, &c->who, sg_call_param(c, "id"), NULL);
    if (!t)
        return false;
    *ret = sg_snapshot_users(c->manager, t)
               ? sg_fail(err, SG_INVALID, "sandboxes that were made of the snapshot still exist")
               : sg_snapshot_remove(c->manager, &c->who, t, false, removed, c, err);
    return true;
}

/* ---- fork ---- */

static void put_forked(struct sg_json *j, struct sg_call *c, const struct sg_forked *f)
{
    sg_json_open(j, '{');
    sg_json_key(j, f->s ? "sandbox" : "error");
    sg_json_open(j, '{');
    if (f->s) {
        sg_e2b_put_sandbox(j, c, f->s);
    } else {
        sg_json_put_u64(j, "code", f->err.kind == SG_EXHAUSTED ? 429 : 500);
        sg_json_put_str(j, "message", f->err.msg);
    }
    sg_json_close(j, '}');
    sg_json_close(j, '}');
}

static void forked(void *arg, const struct sg_forked *v, unsigned n, const struct sg_err *err)
{
    struct sg_call *c = arg;
    if (err) {
        sg_reply_error(c, err);
        return;
    }
    sg_auto_buf out;
    struct sg_json j;
    sg_buf_init(&out, SG_E2B_MAX_REPLY);
    sg_json_init(&j, &out);
    sg_json_open(&j, '[');
    for (unsigned i = 0; i < n; i++)
        put_forked(&j, c, &v[i]);
    sg_json_close(&j, ']');
    sg_reply_json(c, 201, &out);
}

/* The same settings, with tokens of its own. */
static char *fresh_record(struct sg_call *c, const struct sg_e2b_record *of)
{
    char token[SG_E2B_TOKEN_LEN + 1], traffic[SG_E2B_TOKEN_LEN + 1];
    struct sg_e2b_record r = *of;
    sg_e2b_secret(token);
    sg_e2b_secret(traffic);
    r.token = of->token[0] ? token : "";
    r.traffic = of->traffic[0] ? traffic : "";
    return sg_e2b_record_text(&c->arena, &r);
}

int sg_e2b_fork(struct sg_call *c, struct sg_err *err)
{
    const struct sg_jval *body;
    struct sg_e2b_record record;
    const char *doors[SG_FORKS_MAX];
    struct sg_sandbox *s = sg_e2b_sandbox(c, err);
    if (!s || sg_call_json(c, &body, err) < 0)
        return -1;
    const struct sg_jval *asked = sg_e2b_get(body, "count");
    const uint64_t count = sg_e2b_u64(body, "count", FORKS_DEFAULT);
    const uint64_t seconds = sg_e2b_u64(body, "timeout", 0);
    if ((asked && asked->kind != SG_J_UINT) || count < 1 || count > SG_FORKS_MAX)
        return sg_fail(err, SG_INVALID, "count must be 1 to %d", SG_FORKS_MAX);
    const bool is_ours = sg_e2b_record(s, &c->arena, &record);
    for (uint64_t i = 0; i < count; i++)
        if (is_ours && !(doors[i] = fresh_record(c, &record)))
            return sg_fail(err, SG_EXHAUSTED, "no room for the call");
    const struct sg_fork f = { .count = (unsigned)count,
                               .timeout_ms = seconds ? seconds * 1000 : UINT64_MAX,
                               .checkpoint_every = UINT_MAX,
                               .doors = is_ours ? doors : NULL };
    return sg_manager_fork(s, &c->who, &f, forked, c, err);
}
