/* SPDX-License-Identifier: Apache-2.0 */
/* Builds of templates: stages of steps, files for them, how they are doing, their end. */
#include <stddef.h>
#include <string.h>

#include "api/rest/rest.h"
#include "base/auto.h"
#include "manager/build.h"
#include "manager/net.h"
#include "manager/upload.h"
#include "base/banned.h"

enum { LINES_MAX = 1000, WAIT_MAX_MS = 60000 };

static void put_str(struct sg_json *j, const char *key, const char *value)
{
    if (!value || !*value)
        return;
    sg_json_key(j, key);
    sg_json_str(j, value);
}

/* ---- one ---- */

static void put_line(struct sg_json *j, const struct sg_build_line *line)
{
    sg_json_open(j, '{');
    sg_rest_put_time(j, "at", line->at_ms);
    put_str(j, "level", sg_build_level_name(line->level));
    put_str(j, "step", line->step);
    sg_json_key(j, "text");
    sg_json_str(j, line->text);
    sg_json_close(j, '}');
}

void sg_rest_reply_build(struct sg_call *c, int status, const struct sg_build *b, uint64_t offset)
{
    sg_auto_buf out;
    struct sg_json j;
    size_t i = offset < b->log_n ? (size_t)offset : b->log_n;
    sg_buf_init(&out, SG_REST_MAX_REPLY);
    sg_json_init(&j, &out);
    sg_json_open(&j, '{');
    put_str(&j, "id", b->id);
    put_str(&j, "template", b->of->id.s);
    put_str(&j, "name", b->of->name);
    put_str(&j, "state", sg_build_state_name(b->state));
    put_str(&j, "error", b->reason);
    put_str(&j, "failedStep", b->reason_step);
    sg_rest_put_time(&j, "createdAt", b->created_ms);
    sg_rest_put_time(&j, "updatedAt", b->updated_ms);
    sg_json_key(&j, "log");
    sg_json_open(&j, '[');
    for (const size_t end = i + LINES_MAX; i < b->log_n && i < end; i++)
        put_line(&j, &b->log[i]);
    sg_json_close(&j, ']');
    sg_json_key(&j, "nextOffset");
    sg_json_u64(&j, i);
    sg_json_close(&j, '}');
    sg_reply_json(c, status, &out);
}

static struct sg_build *find(struct sg_call *c, struct sg_err *err)
{
    struct sg_build *b = sg_build_of(c->manager, &c->who, sg_call_param(c, "build"));
    if (!b)
        (void)sg_fail(err, SG_NOT_FOUND, "no build %s", sg_quote(sg_call_param(c, "build")).s);
    return b;
}

/* Waits until there is more than `offset`, or it is over, or the time is. */
struct waiting {
    struct sg_call *call;
    struct sg_build_watch watch;
    struct sg_timer timer;
    char build[SG_BUILD_ID_LEN + 1];
    uint64_t offset;
};

static void answer(struct waiting *w)
{
    struct sg_call *c = w->call;
    struct sg_err err;
    sg_build_unwatch(&w->watch);
    sg_timer_stop(sg_manager_loop(c->manager), &w->timer);
    c->on_gone = NULL;
    const struct sg_build *b = sg_build_of(c->manager, &c->who, w->build);
    if (b) {
        sg_rest_reply_build(c, 200, b, w->offset);
        return;
    }
    (void)sg_fail(&err, SG_NOT_FOUND, "the build was removed");
    sg_reply_error(c, &err);
}

static void changed(struct sg_build_watch *watch)
{
    answer(SG_OWNER(watch, struct waiting, watch));
}

static void time_over(struct sg_timer *t, uint64_t now_ns)
{
    (void)now_ns;
    answer(SG_OWNER(t, struct waiting, timer));
}

static void caller_gone(struct sg_call *c)
{
    struct waiting *w = c->state;
    sg_build_unwatch(&w->watch);
    sg_timer_stop(sg_manager_loop(c->manager), &w->timer);
    sg_reply_end(c);
}

int sg_rest_build_get(struct sg_call *c, struct sg_err *err)
{
    static const char *const known[] = { "offset", "waitMs", NULL };
    uint64_t offset = 0, wait_ms = 0;
    struct sg_loop *l = sg_manager_loop(c->manager);
    struct sg_build *b = NULL;
    if (sg_call_query_only(c, known, err) < 0 || !(b = find(c, err)) ||
        sg_call_query_u64(c, "offset", 0, UINT32_MAX, &offset, err) < 0 ||
        sg_call_query_u64(c, "waitMs", 0, WAIT_MAX_MS, &wait_ms, err) < 0)
        return -1;
    if (!wait_ms || b->log_n > offset || b->state == SG_BUILD_READY || b->state == SG_BUILD_ERROR) {
        sg_rest_reply_build(c, 200, b, offset);
        return 0;
    }
    struct waiting *w = sg_arena_alloc(&c->arena, sizeof *w);
    if (!w)
        return sg_fail(err, SG_EXHAUSTED, "no room for the call");
    *w = (struct waiting) { .call = c, .offset = offset };
    (void)snprintf(w->build, sizeof w->build, "%s", b->id);
    w->watch.changed = changed;
    w->timer.fire = time_over;
    sg_build_watch(b, &w->watch);
    sg_timer_set(l, &w->timer, sg_loop_now(l) + wait_ms * 1000000);
    c->state = w;
    c->on_gone = caller_gone;
    return 0;
}

int sg_rest_build_cancel(struct sg_call *c, struct sg_err *err)
{
    struct sg_build *b = find(c, err);
    if (!b || sg_build_cancel(c->manager, &c->who, b, err) < 0)
        return -1;
    sg_reply_empty(c, 204);
    return 0;
}

/* ---- what is to be built ---- */

struct step_body {
    const char *type, *user, *mode, *files;
    const struct sg_jval *args, *shell;
    uint64_t stage;
    bool force;
};
struct stage_body {
    const char *template, *image;
    uint64_t stage;
    const struct sg_jval *steps;
};
struct body {
    const char *name, *start, *ready;
    const struct sg_jval *tags, *stages, *limits, *network;
    bool force, dockerfile;
};

static int read_step(struct sg_call *c, const struct sg_jval *v, struct sg_step *ret,
                     struct sg_err *err)
{
#define AT(f) offsetof(struct step_body, f)
    static const struct sg_jfield fields[] = {
        { "type", SG_JT_STRING, AT(type), 0, 0, true },
        { "args", SG_JT_ARRAY, AT(args), 0, 0, true },
        { "user", SG_JT_STRING, AT(user), 0, 0, false },
        { "mode", SG_JT_STRING, AT(mode), 0, 0, false },
        { "files", SG_JT_STRING, AT(files), 0, 0, false },
        { "stage", SG_JT_U64, AT(stage), 1, SG_STAGES_MAX, false },
        { "shell", SG_JT_ARRAY, AT(shell), 0, 0, false },
        { "force", SG_JT_BOOL, AT(force), 0, 0, false },
    };
#undef AT
    struct step_body b = { 0 };
    const char **args = NULL, **shell = NULL;
    unsigned kind = 0;
    if (sg_json_read(v, fields, SG_COUNT(fields), &b, err) < 0 ||
        sg_rest_strings(c, b.args, "args", &args, err) < 0 ||
        sg_rest_strings(c, b.shell, "shell", &shell, err) < 0)
        return -1;
    while (kind < SG_STEP_KIND_COUNT && strcmp(b.type, sg_step_names[kind]) != 0)
        kind++;
    if (kind == SG_STEP_KIND_COUNT)
        return sg_fail(err, SG_INVALID, "a step is RUN, COPY, ENV, WORKDIR or USER, not %s",
                       sg_quote(b.type).s);
    *ret = (struct sg_step) {
        .kind = (enum sg_step_kind)kind,
        .args = args,
        .n = b.args->list.n,
        .user = b.user,
        .mode = b.mode,
        .files = b.files,
        .stage = (unsigned)b.stage,
        .shell = shell && shell[0] ? shell : NULL,
        .is_forced = b.force,
    };
    return 0;
}

static int read_stage(struct sg_call *c, const struct sg_jval *v, struct sg_stage *ret,
                      struct sg_err *err)
{
#define AT(f) offsetof(struct stage_body, f)
    static const struct sg_jfield fields[] = {
        { "template", SG_JT_STRING, AT(template), 0, 0, false },
        { "image", SG_JT_STRING, AT(image), 0, 0, false },
        { "stage", SG_JT_U64, AT(stage), 1, SG_STAGES_MAX, false },
        { "steps", SG_JT_ARRAY, AT(steps), 0, 0, false },
    };
#undef AT
    struct stage_body b = { 0 };
    if (sg_json_read(v, fields, SG_COUNT(fields), &b, err) < 0)
        return -1;
    if (!!b.template + !!b.image + !!b.stage != 1)
        return sg_fail(err, SG_INVALID, "a stage stands on one of template, image and stage");
    const size_t n = b.steps ? b.steps->list.n : 0;
    struct sg_step *steps = sg_arena_alloc(&c->arena, (n + 1) * sizeof *steps);
    if (n > SG_STEPS_MAX || !steps)
        return sg_fail(err, SG_INVALID, "a build has at most %d steps", SG_STEPS_MAX);
    size_t at = 0;
    for (const struct sg_jval *one = n ? b.steps->list.first : NULL; one; one = one->next)
        if (read_step(c, one, &steps[at++], err) < 0)
            return -1;
    *ret = (struct sg_stage) {
        .kind = b.stage   ? SG_FROM_STAGE
                : b.image ? SG_FROM_IMAGE
                          : SG_FROM_TEMPLATE,
        .from = b.image ? b.image : b.template,
        .stage = (unsigned)b.stage,
        .steps = steps,
        .n = n,
    };
    return 0;
}

static int read_stages(struct sg_call *c, const struct sg_jval *v, struct sg_build_spec *spec,
                       struct sg_err *err)
{
    const size_t n = v->list.n;
    struct sg_stage *stages = sg_arena_alloc(&c->arena, (n + 1) * sizeof *stages);
    if (n < 1 || n > SG_STAGES_MAX || !stages)
        return sg_fail(err, SG_INVALID, "a build has 1 to %d stages", SG_STAGES_MAX);
    size_t at = 0;
    for (const struct sg_jval *one = v->list.first; one; one = one->next)
        if (read_stage(c, one, &stages[at++], err) < 0)
            return -1;
    spec->stages = stages;
    spec->n = n;
    return 0;
}

static int read_body(struct sg_call *c, struct body *b, struct sg_err *err)
{
#define AT(f) offsetof(struct body, f)
    static const struct sg_jfield fields[] = {
        { "name", SG_JT_STRING, AT(name), 0, 0, true },
        { "tags", SG_JT_ARRAY, AT(tags), 0, 0, false },
        { "stages", SG_JT_ARRAY, AT(stages), 0, 0, true },
        { "start", SG_JT_STRING, AT(start), 0, 0, false },
        { "ready", SG_JT_STRING, AT(ready), 0, 0, false },
        { "limits", SG_JT_OBJECT, AT(limits), 0, 0, false },
        { "network", SG_JT_VALUE, AT(network), 0, 0, false },
        { "force", SG_JT_BOOL, AT(force), 0, 0, false },
        { "asDockerfile", SG_JT_BOOL, AT(dockerfile), 0, 0, false },
    };
#undef AT
    const struct sg_jval *v;
    return sg_call_json(c, &v, err) < 0 ? -1 : sg_json_read(v, fields, SG_COUNT(fields), b, err);
}

int sg_rest_build_create(struct sg_call *c, struct sg_err *err)
{
    struct body b = { 0 };
    const char **tags = NULL;
    struct sg_sandbox_limits limits = { 0 };
    struct sg_policy network = { 0 };
    struct sg_build *build = NULL;
    if (read_body(c, &b, err) < 0)
        return -1;
    struct sg_build_spec spec = {
        .start = b.start,
        .ready = b.ready,
        .is_forced = b.force,
        .is_roots = b.dockerfile,
        .network = &network,
    };
    if (sg_rest_strings(c, b.tags, "tags", &tags, err) < 0 ||
        read_stages(c, b.stages, &spec, err) < 0 ||
        (b.limits && sg_rest_limits(b.limits, &limits, err) < 0) ||
        (b.network && sg_rest_read_network(c, b.network, &network, err) < 0))
        return -1;
    const int got = sg_build_begin(c->manager, &c->who, b.name, tags, &limits, &spec, &build, err);
    sg_policy_done(&network);
    if (got == 0)
        sg_rest_reply_build(c, 202, build, 0);
    return got;
}

/* ---- files for it ---- */

static void kept(void *arg, const char *hash, const struct sg_err *err)
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
    put_str(&j, "files", hash);
    sg_json_close(&j, '}');
    sg_reply_json(c, 201, &out);
}

static void take_piece(struct sg_call *c, const void *p, size_t n, bool is_last)
{
    struct sg_upload *u = c->state;
    struct sg_err err = { 0 };
    const int got = sg_upload_add(u, p, n, &err);
    if (got == 0 && !is_last)
        return;
    c->on_gone = NULL;
    sg_call_pause_body(c, true);
    if (got == 0) {
        sg_upload_finish(u, kept, c);
        return;
    }
    sg_upload_drop(u);
    sg_reply_error(c, &err);
}

static void sender_gone(struct sg_call *c)
{
    sg_upload_drop(c->state);
    sg_reply_end(c);
}

int sg_rest_build_files(struct sg_call *c, struct sg_err *err)
{
    struct sg_upload *u = sg_upload_new(c->manager, c->who.org, NULL, err);
    if (!u)
        return -1;
    c->state = u;
    c->on_body = take_piece;
    c->on_gone = sender_gone;
    return 0;
}

int sg_rest_template_remove(struct sg_call *c, struct sg_err *err)
{
    return sg_built_remove(c->manager, &c->who, sg_call_param(c, "template"), sg_rest_reply_done, c,
                           err);
}
