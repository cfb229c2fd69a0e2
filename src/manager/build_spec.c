/* SPDX-License-Identifier: Apache-2.0 */
/* What is to be built: the rules for it, what it stands on, who watches it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/auto.h"
#include "base/str.h"
#include "manager/build_internal.h"
#include "manager/life.h"
#include "manager/snapshot.h"
#include "manager/traits.h"
#include "manager/upload.h"

#include "base/banned.h"

enum { TEXT_MAX = 64 << 10, MEM_MIN_MIB = 64 };

/* ---- a copy ---- */

static const char *copy_text(struct sg_arena *a, const char *text, bool *is_short)
{
    const char *to = text ? sg_arena_copy(a, text, strlen(text)) : NULL;
    *is_short |= text && !to;
    return to;
}

static const char *const *copy_texts(struct sg_arena *a, const char *const *v, size_t n,
                                     bool *is_short)
{
    const char **to = v ? sg_arena_alloc(a, (n + 1) * sizeof *to) : NULL;
    *is_short |= v && !to;
    for (size_t i = 0; to && i < n; i++)
        to[i] = copy_text(a, v[i], is_short);
    if (to)
        to[n] = NULL;
    return to;
}

static size_t count(const char *const *v)
{
    size_t n = 0;
    while (v && v[n])
        n++;
    return n;
}

static struct sg_step *copy_steps(struct sg_arena *a, const struct sg_stage *s, bool *is_short)
{
    struct sg_step *to = sg_arena_alloc(a, (s->n + 1) * sizeof *to);
    *is_short |= !to;
    for (size_t i = 0; to && i < s->n; i++) {
        const struct sg_step *from = &s->steps[i];
        to[i] = *from;
        to[i].args = copy_texts(a, from->args, from->n, is_short);
        to[i].user = copy_text(a, from->user, is_short);
        to[i].mode = copy_text(a, from->mode, is_short);
        to[i].files = copy_text(a, from->files, is_short);
        to[i].shell = copy_texts(a, from->shell, count(from->shell), is_short);
    }
    return to;
}

static int copy(struct sg_arena *a, const struct sg_build_spec *from, struct sg_build_spec *ret,
                struct sg_err *err)
{
    bool is_short = false;
    struct sg_stage *stages = sg_arena_alloc(a, from->n * sizeof *stages);
    for (size_t i = 0; stages && i < from->n; i++) {
        stages[i] = from->stages[i];
        stages[i].from = copy_text(a, from->stages[i].from, &is_short);
        stages[i].steps = copy_steps(a, &from->stages[i], &is_short);
    }
    *ret = *from;
    ret->stages = stages;
    ret->start = from->start && *from->start ? copy_text(a, from->start, &is_short) : NULL;
    ret->ready = from->ready && *from->ready ? copy_text(a, from->ready, &is_short) : NULL;
    ret->network = NULL;
    if (!stages || is_short)
        return sg_fail(err, SG_EXHAUSTED, "what is to be built is described by over %d bytes",
                       SG_BUILD_SPEC_MAX);
    return 0;
}

/* ---- rules ---- */

static int refuse(size_t step, const char *what, struct sg_err *err)
{
    return sg_fail(err, SG_INVALID, "step %u: %s", (unsigned)step + 1, what);
}

static int check_copy(const struct sg_step *s, size_t stage, size_t step, struct sg_err *err)
{
    if (s->n != 2 || !s->args[1][0])
        return refuse(step, "COPY needs a source and a destination", err);
    if (s->stage > stage)
        return refuse(step, "COPY takes from a stage that comes before", err);
    if (!s->stage && (!s->files || !sg_upload_is_name(s->files)))
        return refuse(step, "COPY needs filesHash, 64 hex digits", err);
    if (s->mode && (strspn(s->mode, "01234567") != strlen(s->mode) || strlen(s->mode) > 4))
        return refuse(step, "the mode of COPY is octal, as 0755", err);
    return 0;
}

static int check_env(const struct sg_step *s, size_t step, struct sg_err *err)
{
    if (!s->n || s->n % 2)
        return refuse(step, "ENV needs pairs of a name and a value", err);
    for (size_t i = 0; i < s->n; i += 2)
        if (!s->args[i][0] || strchr(s->args[i], '='))
            return refuse(step, "ENV has a name that none can be", err);
    return 0;
}

static int check_step(const struct sg_step *s, size_t stage, size_t step, struct sg_err *err)
{
    for (size_t i = 0; i < s->n; i++)
        if (strlen(s->args[i]) > TEXT_MAX)
            return refuse(step, "it is over 64 KiB", err);
    if (s->kind == SG_STEP_COPY)
        return check_copy(s, stage, step, err);
    if (s->kind == SG_STEP_ENV)
        return check_env(s, step, err);
    if (s->n != 1 || (s->kind == SG_STEP_RUN && !s->args[0][0]))
        return refuse(step, "it needs one argument", err);
    return 0;
}

int sg_build_spec_copy(struct sg_arena *a, const struct sg_build_spec *from,
                       struct sg_build_spec *ret, struct sg_err *err)
{
    size_t all = 0;
    if (from->n < 1 || from->n > SG_STAGES_MAX)
        return sg_fail(err, SG_INVALID, "a build has 1 to %d stages", SG_STAGES_MAX);
    for (size_t i = 0; i < from->n; i++) {
        const struct sg_stage *s = &from->stages[i];
        if (s->kind == SG_FROM_STAGE ? s->stage < 1 || s->stage > i : !s->from || !*s->from)
            return sg_fail(err, SG_INVALID, "stage %u stands on nothing", (unsigned)i + 1);
        all += s->n;
        for (size_t k = 0; k < s->n; k++)
            if (check_step(&s->steps[k], i, k, err) < 0)
                return -1;
    }
    if (all > SG_STEPS_MAX)
        return sg_fail(err, SG_INVALID, "a build has at most %d steps", SG_STEPS_MAX);
    return copy(a, from, ret, err);
}

/* ---- what it stands on ---- */

void sg_ground_done(struct sg_ground *g)
{
    free(g->base);
    free(g->snapshot);
    sg_traits_done(&g->traits);
    *g = (struct sg_ground) { 0 };
}

/* Images by the names that clients ask for, where a template of ours is what they mean. Others are
 * those that the server has as a template of that name. */
static const struct {
    const char *image, *template;
} images[] = {
    { "e2bdev/base", "base" },
    { "e2bdev/code-interpreter", "code-interpreter-v1" },
};

static int find_image(const char *ref, struct sg_ground *ret, struct sg_err *err)
{
    const char *name = ref;
    static const char *const prefixes[] = { "docker.io/", "library/" };
    for (size_t i = 0; i < SG_COUNT(prefixes); i++)
        if (sg_starts_with(name, prefixes[i]))
            name += strlen(prefixes[i]);
    const struct sg_str bare = { name, strcspn(name, ":@") };
    for (size_t i = 0; i < SG_COUNT(images); i++)
        if (sg_str_is(bare, images[i].image)) {
            ret->base = sg_strdup(images[i].template);
            return 0;
        }
    sg_auto_free char *template = sg_printf("%.*s", (int)bare.n, bare.p);
    const char *tag = name + bare.n;
    if (sg_template_name_check(template, NULL) < 0 || (*tag && strcmp(tag, ":latest") != 0))
        return sg_fail(
            err, SG_NOT_FOUND,
            "image %s is not on this server: make it a template there (sandglass template "
            "pull, or build --pull), and build from that; 'base' is there",
            sg_quote(ref).s);
    ret->base = sg_take_ptr(&template);
    return 0;
}

static int find_template(struct sg_manager *m, const struct sg_who *who, const char *ref,
                         struct sg_ground *ret, struct sg_err *err)
{
    struct sg_build *build;
    if (sg_built_find(m, who, ref, &build, NULL)) {
        ret->base = sg_strdup(build->base);
        ret->snapshot = build->snapshot[0] ? sg_strdup(build->snapshot) : NULL;
        sg_traits_copy(&ret->traits, &build->traits);
        return 0;
    }
    const struct sg_snapshot *t = sg_snapshot_find(m, who, ref, NULL);
    if (t) {
        ret->base = sg_strdup(t->template);
        ret->snapshot = sg_strdup(t->id.s);
        sg_traits_copy(&ret->traits, &t->traits);
        return 0;
    }
    if (sg_template_name_check(ref, err) < 0)
        return sg_fail(err, SG_NOT_FOUND, "template %s not found", sg_quote(ref).s);
    ret->base = sg_strdup(ref);
    return 0;
}

int sg_ground_find(struct sg_manager *m, const struct sg_who *who, enum sg_from kind,
                   const char *ref, struct sg_ground *ret, struct sg_err *err)
{
    struct sg_ground g = { 0 };
    const int got =
        kind == SG_FROM_IMAGE ? find_image(ref, &g, err) : find_template(m, who, ref, &g, err);
    if (got < 0 || sg_template_permitted(who, g.base, g.snapshot != NULL, err) < 0) {
        sg_ground_done(&g);
        return -1;
    }
    *ret = g;
    return 0;
}

/* ---- a new one ---- */

/* A UUID of version 4. */
static int new_id(char ret[SG_BUILD_ID_LEN + 1], struct sg_err *err)
{
    uint8_t h[16];
    if (getrandom(h, sizeof h, 0) != (ssize_t)sizeof h)
        return sg_fail_sys(err, "get random bytes");
    (void)snprintf(ret, SG_BUILD_ID_LEN + 1,
                   "%02x%02x%02x%02x-%02x%02x-4%01x%02x-8%01x%02x-%02x%02x%02x%02x%02x%02x", h[0],
                   h[1], h[2], h[3], h[4], h[5], h[6] & 15, h[7], h[8] & 15, h[9], h[10], h[11],
                   h[12], h[13], h[14], h[15]);
    return 0;
}

static int check_tags(const char *const *tags, struct sg_err *err)
{
    for (size_t i = 0; tags[i]; i++) {
        if (i >= SG_TAGS_MAX)
            return sg_fail(err, SG_INVALID, "a build has at most %d tags", SG_TAGS_MAX);
        if (!sg_tag_is_fine(tags[i]))
            return sg_fail(err, SG_INVALID, "tag %s is not made of a-z, 0-9, -, _ and .",
                           sg_quote(tags[i]).s);
    }
    return 0;
}

int sg_build_create(struct sg_manager *m, const struct sg_who *who, const char *name,
                    const char *const *tags, const struct sg_sandbox_limits *limits,
                    struct sg_build **ret, struct sg_err *err)
{
    static const char *const usual[] = { "default", NULL };
    struct sg_sandbox_limits fitting = *limits;
    char id[SG_BUILD_ID_LEN + 1];
    if (!m->is_ready || m->is_ending)
        return sg_fail(err, SG_UNAVAILABLE, "the service is %s",
                       m->is_ending ? "ending" : "starting");
    if (sg_tenant_demand(who, SG_SCOPE_EXEC, err) < 0)
        return sg_manager_denied(m, who, "template.build", NULL, err);
    if (limits->mem_bytes && limits->mem_bytes < (uint64_t)MEM_MIN_MIB << 20)
        return sg_fail(err, SG_INVALID, "a template needs at least %d MiB of memory", MEM_MIN_MIB);
    tags = tags && tags[0] ? tags : usual;
    if (sg_quota_fits(m, &fitting, err) < 0 || check_tags(tags, err) < 0 || new_id(id, err) < 0)
        return -1;
    struct sg_built *t =
        sg_built_bound(m, who->org, err) < 0 ? NULL : sg_built_claim(m, who->org, name, err);
    if (!t)
        return -1;
    struct sg_build *b = sg_build_new(t, id);
    b->limits = *limits;
    b->tags = sg_alloc((count(tags) + 1) * sizeof *b->tags);
    for (size_t i = 0; tags[i]; i++)
        b->tags[i] = sg_strdup(tags[i]);
    sg_built_put(m, t, NULL, NULL);
    sg_build_put(m, b, NULL, NULL);
    *ret = b;
    return 0;
}

/* ---- who watches ---- */

void sg_build_watch(struct sg_build *b, struct sg_build_watch *w)
{
    w->next = b->watches;
    w->link = &b->watches;
    if (w->next)
        w->next->link = &w->next;
    b->watches = w;
}

void sg_build_unwatch(struct sg_build_watch *w)
{
    if (!w->link)
        return;
    *w->link = w->next;
    if (w->next)
        w->next->link = w->link;
    w->link = NULL;
}

void sg_build_tell(struct sg_build *b)
{
    while (b->watches) {
        struct sg_build_watch *w = b->watches;
        sg_build_unwatch(w);
        w->changed(w);
    }
}
