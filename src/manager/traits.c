/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/traits.h"

#include <stddef.h>
#include <string.h>

#include "base/auto.h"
#include "manager/life.h"

#include "base/banned.h"

static const struct {
    const char *key;
    size_t at;
} texts[] = {
    { "user", offsetof(struct sg_traits, user) },
    { "home", offsetof(struct sg_traits, home) },
    { "workdir", offsetof(struct sg_traits, workdir) },
    { "start", offsetof(struct sg_traits, start) },
    { "ready", offsetof(struct sg_traits, ready) },
};

static char **text_of(struct sg_traits *t, size_t i)
{
    return (char **)(void *)((char *)t + texts[i].at);
}

static const char *text_in(const struct sg_traits *t, size_t i)
{
    return *(char *const *)(const void *)((const char *)t + texts[i].at);
}

void sg_traits_set(char **to, const char *value)
{
    char *now = value && *value ? sg_strdup(value) : NULL;
    free(*to);
    *to = now;
}

void sg_traits_copy(struct sg_traits *to, const struct sg_traits *from)
{
    *to = (struct sg_traits) { 0 };
    for (size_t i = 0; i < SG_COUNT(texts); i++)
        sg_traits_set(text_of(to, i), text_in(from, i));
    sg_pairs_copy(&to->env, from->env.v, from->env.n);
}

void sg_traits_done(struct sg_traits *t)
{
    for (size_t i = 0; i < SG_COUNT(texts); i++)
        free(*text_of(t, i));
    sg_pairs_done(&t->env);
    *t = (struct sg_traits) { 0 };
}

bool sg_traits_is_empty(const struct sg_traits *t)
{
    for (size_t i = 0; i < SG_COUNT(texts); i++)
        if (text_in(t, i))
            return false;
    return t->env.n == 0;
}

void sg_traits_set_env(struct sg_traits *t, const char *name, const char *value)
{
    for (size_t i = 0; i < t->env.n; i++) {
        if (strcmp(t->env.v[i].name, name) != 0)
            continue;
        free(t->env.v[i].value);
        t->env.v[i].value = sg_strdup(value);
        return;
    }
    struct sg_pair *v = sg_alloc((t->env.n + 1) * sizeof *v);
    if (t->env.n)
        memcpy(v, t->env.v, t->env.n * sizeof *v);
    v[t->env.n] = (struct sg_pair) { sg_strdup(name), sg_strdup(value) };
    free(t->env.v);
    t->env.v = v;
    t->env.n++;
}

void sg_traits_put(struct sg_json *j, const struct sg_traits *t)
{
    sg_json_open(j, '{');
    for (size_t i = 0; i < SG_COUNT(texts); i++) {
        if (!text_in(t, i))
            continue;
        sg_json_key(j, texts[i].key);
        sg_json_str(j, text_in(t, i));
    }
    sg_json_key(j, "env");
    sg_pairs_write(j, &t->env);
    sg_json_close(j, '}');
}

void sg_traits_read(const struct sg_jval *v, struct sg_traits *to)
{
    for (size_t i = 0; i < SG_COUNT(texts); i++) {
        const struct sg_jval *one = sg_json_get(v, texts[i].key);
        if (one && one->kind == SG_J_STRING)
            sg_traits_set(text_of(to, i), one->s.p);
    }
    const struct sg_jval *env = sg_json_get(v, "env");
    if (env) {
        sg_pairs_done(&to->env);
        sg_pairs_read(env, &to->env);
    }
}

static void replace(char **to, const char *value)
{
    if (!value)
        return;
    free(*to);
    *to = sg_strdup(value);
}

void sg_traits_apply(struct sg_sandbox *s)
{
    const struct sg_traits *t = &s->traits;
    if (t->user) { /* another's directory is not where it begins */
        replace(&s->home, t->home ? t->home : "");
        replace(&s->workdir, t->home ? t->home : "");
    }
    replace(&s->user, t->user);
    replace(&s->workdir, t->workdir);
}
