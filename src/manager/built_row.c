/* SPDX-License-Identifier: Apache-2.0 */
/* Templates that were built and their builds, as rows and back; and the log of a build. */
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/str.h"
#include "manager/build_internal.h"
#include "manager/built.h"
#include "manager/life.h"
#include "manager/traits.h"

#include "base/banned.h"

enum {
    DETAIL_MAX = 1 << 20,
    LINES_MAX = 20000, /* of one build's log: past either the middle is left out */
    LOG_BYTES_MAX = 4 << 20,
    LOGS_BYTES_MAX = 64 << 20, /* of an organisation, in memory */
    WAITING_MAX = 100,
    WAITING_MS = 3600000,
    STORED_LOG_MAX = 16 << 20,
};

static const char *const state_names[] = { "waiting", "building", "ready", "error" };
static const char *const level_names[] = { "debug", "info", "warn", "error" };

const char *sg_build_state_name(enum sg_build_state s)
{
    return state_names[s];
}

const char *sg_build_level_name(enum sg_build_level l)
{
    return level_names[l];
}

/* ---- a build ---- */

struct sg_build *sg_build_new(struct sg_built *of, const char *id)
{
    struct sg_build *b = sg_new(struct sg_build);
    (void)snprintf(b->id, sizeof b->id, "%s", id);
    b->of = of;
    b->base = sg_strdup("");
    b->snapshot = sg_strdup("");
    b->created_ms = b->updated_ms = sg_manager_unix_ms();
    b->older = of->newest;
    of->newest = b;
    return b;
}

static void free_texts(char **v)
{
    for (size_t i = 0; v && v[i]; i++)
        free(v[i]);
    free(v);
}

static void drop_log(struct sg_build *b)
{
    for (size_t i = 0; i < b->log_n; i++)
        free(b->log[i].text);
    free(b->log);
    b->log = NULL;
    b->log_n = b->log_room = b->log_bytes = 0;
}

void sg_build_forget(struct sg_manager *m, struct sg_build *b)
{
    struct sg_build **link = &b->of->newest;
    (void)m;
    while (*link != b)
        link = &(*link)->older;
    *link = b->older;
    sg_build_tell(b);
    drop_log(b);
    free_texts(b->tags);
    free(b->base);
    free(b->snapshot);
    free(b->reason);
    free(b->reason_step);
    sg_traits_done(&b->traits);
    free(b);
}

/* What does not fit is counted: the beginning and, by the state, the end of it are known. */
void sg_build_add_line(struct sg_build *b, enum sg_build_level level, const char *step,
                       struct sg_str text)
{
    if ((b->log_n >= LINES_MAX || b->log_bytes + text.n > LOG_BYTES_MAX) &&
        level != SG_BUILD_FAILED) {
        b->log_dropped++;
        return;
    }
    if (b->log_n == b->log_room) {
        const size_t room = b->log_room ? 2 * b->log_room : 64;
        struct sg_build_line *v = sg_alloc(room * sizeof *v);
        if (b->log_n)
            memcpy(v, b->log, b->log_n * sizeof *v);
        free(b->log);
        b->log = v;
        b->log_room = room;
    }
    struct sg_build_line *line = &b->log[b->log_n++];
    sg_auto_buf safe; /* programs print anything; clients read JSON */
    sg_buf_init(&safe, 4 * text.n + 1);
    for (size_t i = 0; i < text.n;) {
        const size_t width = sg_plain_width(text.p + i, text.n - i);
        const char c = text.p[i];
        if (width)
            sg_buf_add(&safe, text.p + i, width);
        else if (c == '\'' || c == '\\' || c == '"' || c == '\t')
            sg_buf_add(&safe, &c, 1);
        i += width ? width : 1;
    }
    *line = (struct sg_build_line) { .at_ms = sg_manager_unix_ms(), .level = level };
    (void)snprintf(line->step, sizeof line->step, "%s", step);
    line->text = sg_strdup(sg_buf_cstr(&safe));
    b->log_bytes += safe.n;
}

/* The one that ended longest ago and still has a log; what all take, in `*ret_bytes`. */
static struct sg_build *oldest_log(struct sg_manager *m, const struct sg_org *org,
                                   size_t *ret_bytes)
{
    struct sg_build *found = NULL;
    *ret_bytes = 0;
    for (struct sg_built *t = m->built; t; t = t->next)
        for (struct sg_build *b = t->org == org ? t->newest : NULL; b; b = b->older) {
            *ret_bytes += b->log_bytes + b->log_room * sizeof *b->log;
            if (!b->work && b->log_n > 1 && (!found || b->updated_ms < found->updated_ms))
                found = b;
        }
    return found;
}

int sg_built_bound(struct sg_manager *m, const struct sg_org *org, struct sg_err *err)
{
    static const char note[] = "the log was removed: others of the organisation needed its room";
    const int64_t before_ms = sg_manager_unix_ms() - WAITING_MS;
    struct sg_build *b;
    unsigned waiting = 0;
    size_t bytes;
    while ((b = oldest_log(m, org, &bytes)) && bytes > LOGS_BYTES_MAX) {
        drop_log(b);
        sg_build_add_line(b, SG_BUILD_INFO, "", sg_str_of(note));
        sg_build_put(m, b, NULL, NULL);
    }
    for (struct sg_built *t = m->built; t; t = t->next)
        for (struct sg_build *one = t->org == org ? t->newest : NULL, *older; one; one = older) {
            older = one->older;
            if (one->state != SG_BUILD_WAITING)
                continue;
            waiting++;
            if (one->created_ms > before_ms)
                continue;
            waiting--;
            sg_store_remove_build(m->store, one->id, NULL, NULL);
            sg_build_forget(m, one);
        }
    return waiting < WAITING_MAX
               ? 0
               : sg_fail(err, SG_EXHAUSTED, "%u builds of the organisation wait to be begun",
                         waiting);
}

/* ---- out ---- */

static void put_text(struct sg_json *j, const char *key, const char *value)
{
    sg_json_key(j, key);
    sg_json_str(j, value);
}

static void put_u64(struct sg_json *j, const char *key, uint64_t value)
{
    sg_json_key(j, key);
    sg_json_u64(j, value);
}

void sg_built_put(struct sg_manager *m, const struct sg_built *b,
                  void (*done)(void *arg, const struct sg_err *err), void *arg)
{
    sg_auto_buf out;
    struct sg_json j;
    sg_buf_init(&out, DETAIL_MAX);
    sg_json_init(&j, &out);
    sg_json_open(&j, '{');
    sg_json_key(&j, "public");
    sg_json_bool(&j, b->is_public);
    put_u64(&j, "spawns", b->spawns);
    put_u64(&j, "spawnedMs", (uint64_t)b->spawned_ms);
    sg_json_key(&j, "tags");
    sg_json_open(&j, '[');
    for (size_t i = 0; i < b->tag_n; i++) {
        sg_json_open(&j, '{');
        put_text(&j, "tag", b->tags[i].name);
        put_text(&j, "build", b->tags[i].build);
        put_u64(&j, "createdMs", (uint64_t)b->tags[i].created_ms);
        sg_json_close(&j, '}');
    }
    sg_json_close(&j, ']');
    sg_json_close(&j, '}');
    const struct sg_template_row row = {
        .id = b->id.s,
        .org = b->org->id.s,
        .name = b->name,
        .detail = sg_buf_cstr(&out),
        .created_ms = b->created_ms,
        .updated_ms = b->updated_ms,
    };
    sg_store_put_template(m->store, &row, done ? SG_STORE_FULL : SG_STORE_NORMAL,
                          done ? sg_note_done : NULL, done ? sg_note_new(m, done, arg) : NULL);
}

static void put_log(struct sg_buf *out, const struct sg_build *b)
{
    struct sg_json j;
    sg_json_init(&j, out);
    sg_json_open(&j, '[');
    for (size_t i = 0; i < b->log_n; i++) {
        const struct sg_build_line *line = &b->log[i];
        sg_json_open(&j, '{');
        put_u64(&j, "atMs", (uint64_t)line->at_ms);
        put_u64(&j, "level", line->level);
        put_text(&j, "step", line->step);
        put_text(&j, "text", line->text);
        sg_json_close(&j, '}');
    }
    sg_json_close(&j, ']');
}

static void put_detail(struct sg_buf *out, const struct sg_build *b)
{
    struct sg_json j;
    sg_json_init(&j, out);
    sg_json_open(&j, '{');
    put_u64(&j, "memoryBytes", b->limits.mem_bytes);
    put_u64(&j, "cpuMilli", b->limits.cpu_milli);
    put_text(&j, "base", b->base);
    put_text(&j, "snapshot", b->snapshot);
    put_text(&j, "proof", b->proof);
    put_text(&j, "reason", b->reason);
    put_text(&j, "reasonStep", b->reason_step);
    sg_json_key(&j, "traits");
    sg_traits_put(&j, &b->traits);
    sg_json_key(&j, "tags");
    sg_json_open(&j, '[');
    for (size_t i = 0; b->tags && b->tags[i]; i++)
        sg_json_str(&j, b->tags[i]);
    sg_json_close(&j, ']');
    sg_json_close(&j, '}');
}

void sg_build_put(struct sg_manager *m, const struct sg_build *b,
                  void (*done)(void *arg, const struct sg_err *err), void *arg)
{
    sg_auto_buf detail, log;
    sg_buf_init(&detail, DETAIL_MAX);
    sg_buf_init(&log, STORED_LOG_MAX);
    put_detail(&detail, b);
    if (!b->work)
        put_log(&log, b);
    const struct sg_build_row row = {
        .id = b->id,
        .template = b->of->id.s,
        .state = state_names[b->state],
        .detail = sg_buf_cstr(&detail),
        .log = log.has_overflowed ? "[]" : sg_buf_cstr(&log),
        .created_ms = b->created_ms,
        .updated_ms = b->updated_ms,
    };
    sg_store_put_build(m->store, &row, done ? SG_STORE_FULL : SG_STORE_NORMAL,
                       done ? sg_note_done : NULL, done ? sg_note_new(m, done, arg) : NULL);
}

/* ---- in ---- */

static const char *text(const struct sg_jval *v, const char *key)
{
    const struct sg_jval *one = sg_json_get(v, key);
    return one && one->kind == SG_J_STRING ? one->s.p : NULL;
}

static uint64_t number(const struct sg_jval *v, const char *key)
{
    const struct sg_jval *one = sg_json_get(v, key);
    return one && one->kind == SG_J_UINT ? one->u : 0;
}

static const struct sg_jval *list(const struct sg_jval *v)
{
    return v && v->kind == SG_J_ARRAY ? v->list.first : NULL;
}

static bool load_template(void *arg, const struct sg_template_row *r)
{
    struct sg_manager *m = arg;
    struct sg_org *org = r->org ? sg_map_find(&m->orgs, r->org) : NULL;
    sg_auto_arena a;
    const struct sg_jval *v;
    sg_arena_init(&a, 4 * DETAIL_MAX);
    if (!org || !r->name || !r->detail || !sg_id_is_valid(r->id, 'b') ||
        sg_json_parse(sg_str_of(r->detail), &a, &v, NULL) < 0)
        return true;
    struct sg_built *b = sg_built_claim(m, org, r->name, NULL);
    if (!b)
        return true;
    memcpy(b->id.s, r->id, sizeof b->id.s);
    const struct sg_jval *is_public = sg_json_get(v, "public");
    b->is_public = is_public && is_public->kind == SG_J_BOOL && is_public->b;
    b->spawns = number(v, "spawns");
    b->spawned_ms = (int64_t)number(v, "spawnedMs");
    for (const struct sg_jval *t = list(sg_json_get(v, "tags")); t; t = t->next) {
        if (!text(t, "tag") || !text(t, "build"))
            continue;
        sg_built_set_tag(b, text(t, "tag"), text(t, "build"));
        b->tags[b->tag_n - 1].created_ms = (int64_t)number(t, "createdMs");
    }
    b->created_ms = r->created_ms;
    b->updated_ms = r->updated_ms;
    return true;
}

static void load_log(struct sg_build *b, const char *json)
{
    sg_auto_arena a;
    const struct sg_jval *v;
    sg_arena_init(&a, (size_t)4 * STORED_LOG_MAX);
    if (!json || sg_json_parse(sg_str_of(json), &a, &v, NULL) < 0)
        return;
    for (const struct sg_jval *one = list(v); one; one = one->next) {
        const char *line = text(one, "text"), *step = text(one, "step");
        const uint64_t level = number(one, "level");
        if (!line || level > SG_BUILD_FAILED)
            continue;
        sg_build_add_line(b, (enum sg_build_level)level, step ? step : "", sg_str_of(line));
        b->log[b->log_n - 1].at_ms = (int64_t)number(one, "atMs");
    }
}

static void load_tags(struct sg_build *b, const struct sg_jval *v)
{
    size_t n = 0;
    if (!v || v->kind != SG_J_ARRAY)
        return;
    b->tags = sg_alloc((v->list.n + 1) * sizeof *b->tags);
    for (const struct sg_jval *t = v->list.first; t; t = t->next)
        if (t->kind == SG_J_STRING)
            b->tags[n++] = sg_strdup(t->s.p);
}

/* B1: what a restart interrupted has failed. */
static void fail_interrupted(struct sg_manager *m, struct sg_build *b)
{
    b->state = SG_BUILD_ERROR;
    b->reason = sg_strdup("the service was restarted while it was being built; build it again");
    sg_build_add_line(b, SG_BUILD_FAILED, "", sg_str_of(b->reason));
    b->updated_ms = sg_manager_unix_ms();
    sg_build_put(m, b, NULL, NULL);
}

static bool load_build(void *arg, const struct sg_build_row *r)
{
    struct sg_manager *m = arg;
    struct sg_built *of = m->built;
    sg_auto_arena a;
    const struct sg_jval *v;
    while (of && r->template && strcmp(of->id.s, r->template) != 0)
        of = of->next;
    sg_arena_init(&a, 4 * DETAIL_MAX);
    if (!of || !r->template || !r->state || !r->detail || strlen(r->id) != SG_BUILD_ID_LEN ||
        sg_json_parse(sg_str_of(r->detail), &a, &v, NULL) < 0)
        return true;
    struct sg_build *b = sg_build_new(of, r->id);
    b->limits.mem_bytes = number(v, "memoryBytes");
    b->limits.cpu_milli = number(v, "cpuMilli");
    sg_traits_read(sg_json_get(v, "traits"), &b->traits);
    free(b->base);
    free(b->snapshot);
    b->base = sg_strdup(text(v, "base") ? text(v, "base") : "");
    b->snapshot = sg_strdup(text(v, "snapshot") ? text(v, "snapshot") : "");
    (void)snprintf(b->proof, sizeof b->proof, "%s", text(v, "proof") ? text(v, "proof") : "");
    sg_traits_set(&b->reason, text(v, "reason"));
    sg_traits_set(&b->reason_step, text(v, "reasonStep"));
    load_tags(b, sg_json_get(v, "tags"));
    b->created_ms = r->created_ms;
    b->updated_ms = r->updated_ms;
    load_log(b, r->log);
    for (unsigned i = 0; i < SG_COUNT(state_names); i++)
        if (strcmp(state_names[i], r->state) == 0)
            b->state = (enum sg_build_state)i;
    if (b->state == SG_BUILD_BUILDING)
        fail_interrupted(m, b);
    return true;
}

int sg_built_load(struct sg_manager *m, struct sg_err *err)
{
    if (sg_store_each_template(m->store, load_template, m, err) < 0 ||
        sg_store_each_build(m->store, load_build, m, err) < 0)
        return sg_wrap(err, "load the templates that were built");
    return 0;
}
