/* SPDX-License-Identifier: Apache-2.0 */
/* Builds of templates, as these clients ask for them: a build is made, its files are sent
 * (build_files.c), its steps are given, and its state and log are asked for until it is over. */
#include <stdlib.h>
#include <string.h>

#include "api/e2b/e2b.h"
#include "api/e2b/network.h"
#include "base/auto.h"
#include "manager/build.h"
#include "base/banned.h"

enum { LINES_MAX = 100, ARGS_MAX = 1000 };

/* ---- a new one ---- */

static void put_texts(struct sg_json *j, const char *key, char *const *v)
{
    sg_json_key(j, key);
    sg_json_open(j, '[');
    for (size_t i = 0; v && v[i]; i++)
        sg_json_str(j, v[i]);
    sg_json_close(j, ']');
}

static void reply_created(struct sg_call *c, const struct sg_build *b)
{
    char *const names[] = { b->of->name, NULL };
    sg_auto_buf out;
    struct sg_json j;
    sg_buf_init(&out, SG_E2B_MAX_REPLY);
    sg_json_init(&j, &out);
    sg_json_open(&j, '{');
    sg_json_put_str(&j, "templateID", b->of->id.s);
    sg_json_put_str(&j, "buildID", b->id);
    sg_json_put_bool(&j, "public", b->of->is_public);
    put_texts(&j, "names", names);
    put_texts(&j, "aliases", names);
    put_texts(&j, "tags", b->tags);
    sg_json_close(&j, '}');
    sg_reply_json(c, 202, &out);
}

/* A tag in the name is one of the tags. */
static int read_tags(struct sg_call *c, const struct sg_jval *body, const char *in_name,
                     const char *const **ret, struct sg_err *err)
{
    const struct sg_jval *list = sg_e2b_get(body, "tags");
    const size_t n = list && list->kind == SG_J_ARRAY ? list->list.n : 0;
    const char **v = sg_arena_alloc(&c->arena, (n + 2) * sizeof *v);
    size_t at = 0;
    if (!v)
        return sg_fail(err, SG_EXHAUSTED, "no room for the call");
    if (in_name)
        v[at++] = in_name;
    for (const struct sg_jval *t = n ? list->list.first : NULL; t; t = t->next) {
        if (t->kind != SG_J_STRING)
            return sg_fail(err, SG_INVALID, "tags must be texts");
        if (!in_name || strcmp(in_name, t->s.p) != 0)
            v[at++] = t->s.p;
    }
    v[at] = NULL;
    *ret = v;
    return 0;
}

static int read_size(const struct sg_jval *body, struct sg_sandbox_limits *ret, struct sg_err *err)
{
    const uint64_t cpus = sg_e2b_u64(body, "cpuCount", 0), mem = sg_e2b_u64(body, "memoryMB", 0);
    if (cpus > 1024 || mem > 1u << 24)
        return sg_fail(err, SG_INVALID, "cpuCount or memoryMB is too large");
    *ret = (struct sg_sandbox_limits) { .cpu_milli = cpus * 1000, .mem_bytes = mem << 20 };
    return 0;
}

int sg_e2b_build_create(struct sg_call *c, struct sg_err *err)
{
    const struct sg_jval *body;
    const char *const *tags;
    struct sg_sandbox_limits limits;
    struct sg_build *b;
    if (sg_call_json(c, &body, err) < 0)
        return -1;
    const char *name = sg_e2b_text(body, "name");
    if (!name || !*name)
        name = sg_e2b_text(body, "alias");
    if (!name || !*name)
        return sg_fail(err, SG_INVALID, "the template needs a name");
    if (!(name = sg_e2b_template_name(c, name, err)))
        return -1;
    const char *slash = strrchr(name, '/');
    char *bare =
        sg_arena_copy(&c->arena, slash ? slash + 1 : name, strlen(slash ? slash + 1 : name));
    if (!bare)
        return sg_fail(err, SG_EXHAUSTED, "no room for the call");
    char *colon = strchr(bare, ':');
    if (colon)
        *colon = '\0';
    if (read_tags(c, body, colon ? colon + 1 : NULL, &tags, err) < 0 ||
        read_size(body, &limits, err) < 0 ||
        sg_build_create(c->manager, &c->who, bare, tags, &limits, &b, err) < 0)
        return -1;
    reply_created(c, b);
    return 0;
}

static struct sg_build *find(struct sg_call *c, struct sg_err *err)
{
    const char *name = sg_e2b_template_name(c, sg_call_param(c, "id"), err);
    struct sg_built *t = name ? sg_built_own(c->manager, &c->who, name) : NULL;
    if (t)
        return sg_build_find(t, sg_call_param(c, "build"), err);
    if (name)
        (void)sg_fail(err, SG_NOT_FOUND, "template %s not found", sg_quote(name).s);
    return NULL;
}

/* ---- what is to be done ---- */

static int read_args(struct sg_call *c, const struct sg_jval *v, struct sg_step *s,
                     struct sg_err *err)
{
    const struct sg_jval *list = sg_e2b_get(v, "args");
    const size_t n = list && list->kind == SG_J_ARRAY ? list->list.n : 0;
    const char **args = sg_arena_alloc(&c->arena, (n + 3) * sizeof *args);
    if (n > ARGS_MAX || !args)
        return sg_fail(err, SG_INVALID, "a step has more than %d arguments", ARGS_MAX);
    for (const struct sg_jval *a = n ? list->list.first : NULL; a; a = a->next) {
        if (a->kind != SG_J_STRING || strlen(a->s.p) != a->s.n)
            return sg_fail(err, SG_INVALID, "the arguments of a step are texts");
        args[s->n++] = a->s.p;
    }
    s->args = args;
    return 0;
}

/* Arguments of COPY: source, destination, owner, mode; of RUN: command, user. */
static int read_step(struct sg_call *c, const struct sg_jval *v, struct sg_step *s,
                     struct sg_err *err)
{
    const char *type = sg_e2b_text(v, "type");
    unsigned kind = 0;
    while (type && kind < SG_STEP_KIND_COUNT && strcmp(type, sg_step_names[kind]) != 0)
        kind++;
    if (!type || kind == SG_STEP_KIND_COUNT)
        return sg_fail(err, SG_INVALID, "a step is RUN, COPY, ENV, WORKDIR or USER, not %s",
                       sg_quote(type ? type : "").s);
    *s = (struct sg_step) { .kind = (enum sg_step_kind)kind };
    if (read_args(c, v, s, err) < 0)
        return -1;
    s->is_forced = sg_e2b_bool(v, "force", false);
    s->files = sg_e2b_text(v, "filesHash");
    if (kind == SG_STEP_RUN && s->n == 2) {
        s->user = s->args[1];
        s->n = 1;
    }
    if (kind == SG_STEP_COPY && s->n > 2) {
        s->user = s->args[2];
        s->mode = s->n > 3 && s->args[3][0] ? s->args[3] : NULL;
        s->n = 2;
    }
    return 0;
}

static int read_spec(struct sg_call *c, const struct sg_jval *body, struct sg_stage *stage,
                     struct sg_build_spec *spec, struct sg_err *err)
{
    const char *image = sg_e2b_text(body, "fromImage"), *name = sg_e2b_text(body, "fromTemplate");
    const struct sg_jval *list = sg_e2b_get(body, "steps");
    const size_t n = list && list->kind == SG_J_ARRAY ? list->list.n : 0;
    if (!image == !name)
        return sg_fail(err, SG_INVALID, "one of fromImage and fromTemplate is needed");
    if (n > SG_STEPS_MAX)
        return sg_fail(err, SG_INVALID, "a build has at most %d steps", SG_STEPS_MAX);
    if (sg_e2b_get(body, "fromImageRegistry"))
        return sg_fail(err, SG_UNSUPPORTED,
                       "images of a registry with a password are imported on the server first");
    struct sg_step *steps = sg_arena_alloc(&c->arena, (n + 1) * sizeof *steps);
    if (!steps)
        return sg_fail(err, SG_EXHAUSTED, "no room for the call");
    size_t at = 0;
    for (const struct sg_jval *v = n ? list->list.first : NULL; v; v = v->next)
        if (read_step(c, v, &steps[at++], err) < 0)
            return -1;
    if (name && !(name = sg_e2b_template_name(c, name, err)))
        return -1;
    *stage = (struct sg_stage) {
        .kind = name ? SG_FROM_TEMPLATE : SG_FROM_IMAGE,
        .from = name ? name : image,
        .steps = steps,
        .n = n,
    };
    *spec = (struct sg_build_spec) {
        .stages = stage,
        .n = 1,
        .start = sg_e2b_text(body, "startCmd"),
        .ready = sg_e2b_text(body, "readyCmd"),
        .is_forced = sg_e2b_bool(body, "force", false),
    };
    return 0;
}

/* The sandbox of a build has the network that sandboxes of this door have. */
int sg_e2b_build_start(struct sg_call *c, struct sg_err *err)
{
    const struct sg_jval *body;
    const struct sg_e2b_record usual = { 0 };
    struct sg_stage stage;
    struct sg_build_spec spec;
    struct sg_policy network;
    struct sg_build *b = find(c, err);
    if (!b || sg_call_json(c, &body, err) < 0 || read_spec(c, body, &stage, &spec, err) < 0)
        return -1;
    if (sg_e2b_network_policy(c, NULL, &usual, &network, err) < 0)
        return -1;
    spec.network = &network;
    const int got = sg_build_start(c->manager, &c->who, b, &spec, err);
    sg_policy_done(&network);
    if (got == 0)
        sg_reply_empty(c, 202);
    return got;
}

/* ---- how it is doing ---- */

static void put_line(struct sg_json *j, const struct sg_build_line *line)
{
    sg_json_open(j, '{');
    sg_e2b_put_time(j, "timestamp", line->at_ms);
    sg_json_put_str(j, "level", sg_build_level_name(line->level));
    sg_json_put_str(j, "message", line->text);
    if (line->step[0])
        sg_json_put_str(j, "step", line->step);
    sg_json_close(j, '}');
}

static int least_level(struct sg_call *c, unsigned *ret, struct sg_err *err)
{
    const char *level = sg_call_query(c, "level");
    *ret = SG_BUILD_DEBUG;
    while (level && *ret <= SG_BUILD_FAILED &&
           strcmp(level, sg_build_level_name((enum sg_build_level) * ret)) != 0)
        ++*ret;
    return *ret > SG_BUILD_FAILED ? sg_fail(err, SG_INVALID, "level is debug, info, warn or error")
                                  : 0;
}

int sg_e2b_build_status(struct sg_call *c, struct sg_err *err)
{
    uint64_t offset = 0, limit = LINES_MAX;
    unsigned least;
    const struct sg_build *b = find(c, err);
    if (!b || sg_call_query_u64(c, "logsOffset", 0, UINT32_MAX, &offset, err) < 0 ||
        sg_call_query_u64(c, "limit", 0, LINES_MAX, &limit, err) < 0 ||
        least_level(c, &least, err) < 0)
        return -1;
    sg_auto_buf out;
    struct sg_json j;
    sg_buf_init(&out, SG_E2B_MAX_REPLY);
    sg_json_init(&j, &out);
    sg_json_open(&j, '{');
    sg_json_put_str(&j, "templateID", b->of->id.s);
    sg_json_put_str(&j, "buildID", b->id);
    sg_json_put_str(&j, "status", sg_build_state_name(b->state));
    sg_json_key(&j, "logEntries");
    sg_json_open(&j, '[');
    for (size_t i = offset; i < b->log_n && i - offset < limit; i++)
        if (b->log[i].level >= least)
            put_line(&j, &b->log[i]);
    sg_json_close(&j, ']');
    sg_json_key(&j, "logs");
    sg_json_open(&j, '[');
    sg_json_close(&j, ']');
    if (b->state == SG_BUILD_ERROR) {
        sg_json_key(&j, "reason");
        sg_json_open(&j, '{');
        sg_json_put_str(&j, "message", b->reason ? b->reason : "");
        if (b->reason_step)
            sg_json_put_str(&j, "step", b->reason_step);
        sg_json_close(&j, '}');
    }
    sg_json_close(&j, '}');
    sg_reply_json(c, 200, &out);
    return 0;
}

int sg_e2b_build_logs(struct sg_call *c, struct sg_err *err)
{
    uint64_t cursor = 0, limit = LINES_MAX;
    unsigned least;
    const char *direction = sg_call_query(c, "direction");
    const bool is_backward = direction && strcmp(direction, "backward") == 0;
    const struct sg_build *b = find(c, err);
    if (!b || sg_call_query_u64(c, "cursor", 0, INT64_MAX, &cursor, err) < 0 ||
        sg_call_query_u64(c, "limit", 0, LINES_MAX, &limit, err) < 0 ||
        least_level(c, &least, err) < 0)
        return -1;
    sg_auto_buf out;
    struct sg_json j;
    sg_buf_init(&out, SG_E2B_MAX_REPLY);
    sg_json_init(&j, &out);
    sg_json_open(&j, '{');
    sg_json_key(&j, "logs");
    sg_json_open(&j, '[');
    for (size_t i = 0; i < b->log_n && limit; i++) {
        const struct sg_build_line *line = &b->log[is_backward ? b->log_n - 1 - i : i];
        const bool is_past =
            is_backward ? cursor && line->at_ms > (int64_t)cursor : line->at_ms < (int64_t)cursor;
        if (is_past || line->level < least)
            continue;
        put_line(&j, line);
        limit--;
    }
    sg_json_close(&j, ']');
    sg_json_close(&j, '}');
    sg_reply_json(c, 200, &out);
    return 0;
}
