/* SPDX-License-Identifier: Apache-2.0 */
#include "image/docker_word.h"

#include <ctype.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/jsonr.h"
#include "base/banned.h"

enum { WORD_MAX = 64 << 10, WORDS_MAX = 2048, NESTING_MAX = 8 };

/* ---- variables ---- */

const char *sg_docker_var(const struct sg_docker_vars *v, struct sg_str name)
{
    for (size_t i = v ? v->n : 0; i-- > 0;)
        if (sg_str_is(name, v->v[i].name) && v->v[i].value)
            return v->v[i].value;
    return NULL;
}

int sg_docker_set(struct sg_docker_vars *v, const char *name, const char *value, bool is_arg,
                  unsigned line, struct sg_err *err)
{
    if (v->n == SG_COUNT(v->v))
        return sg_fail(err, SG_INVALID, "line %u: more than %u variables", line, (unsigned)v->n);
    v->v[v->n++] = (struct sg_docker_var) { name, value, is_arg };
    return 0;
}

static int fail(const struct sg_docker_words *w, const char *why, struct sg_err *err)
{
    return sg_fail(err, SG_INVALID, "line %u: %s", w->line, why);
}

static struct sg_str name_at(const char *p)
{
    size_t n = 0;
    while (isalnum((unsigned char)p[n]) || p[n] == '_')
        n++;
    return (struct sg_str) { p, n };
}

static int expand_into(const struct sg_docker_words *w, const char *p, const char *end,
                       struct sg_buf *out, unsigned depth, struct sg_err *err);

/* "${NAME}", "${NAME:-word}", "${NAME:+word}"; `*p` is behind the brace, and then behind its end.
 */
static int expand_braces(const struct sg_docker_words *w, const char **p, const char *stop,
                         struct sg_buf *out, unsigned depth, struct sg_err *err)
{
    const struct sg_str name = name_at(*p);
    const char *at = *p + name.n, *end = at;
    for (unsigned open = 1; end < stop && open; end++)
        open += *end == '{' ? 1u : 0u, open -= *end == '}' ? 1u : 0u;
    if (!name.n || end == at || end[-1] != '}')
        return fail(w, "a '${' has no end, or no name", err);
    *p = end--;
    const char *value = sg_docker_var(w->vars, name);
    const bool is_set = value && *value;
    if (at == end) {
        if (value)
            sg_buf_add_str(out, value);
        return 0;
    }
    if (at[0] != ':' || (at[1] != '-' && at[1] != '+'))
        return fail(w, "of ${...} only ${NAME}, ${NAME:-word} and ${NAME:+word} are known", err);
    if ((at[1] == '-') == is_set) {
        if (is_set)
            sg_buf_add_str(out, value);
        return 0;
    }
    return depth == NESTING_MAX ? fail(w, "variables are nested too deep", err)
                                : expand_into(w, at + 2, end, out, depth + 1, err);
}

/* One variable, of which `*p` is at the dollar. */
static int expand_one(const struct sg_docker_words *w, const char **p, const char *end,
                      struct sg_buf *out, unsigned depth, struct sg_err *err)
{
    const char *at = *p + 1;
    if (at < end && *at == '{') {
        *p = at + 1;
        return expand_braces(w, p, end, out, depth, err);
    }
    const struct sg_str name = name_at(at);
    const char *value = sg_docker_var(w->vars, name);
    if (!name.n)
        sg_buf_add(out, "$", 1);
    else if (value)
        sg_buf_add_str(out, value);
    *p = at + name.n;
    return 0;
}

static int expand_into(const struct sg_docker_words *w, const char *p, const char *end,
                       struct sg_buf *out, unsigned depth, struct sg_err *err)
{
    while (p < end) {
        if (*p == w->escape && p + 1 < end && p[1] == '$') {
            sg_buf_add(out, "$", 1);
            p += 2;
        } else if (*p == '$') {
            if (expand_one(w, &p, end, out, depth, err) < 0)
                return -1;
        } else {
            sg_buf_add(out, p++, 1);
        }
    }
    return 0;
}

static int keep(const struct sg_docker_words *w, const struct sg_buf *b, const char **ret,
                struct sg_err *err)
{
    const char *text =
        b->has_overflowed ? NULL : sg_arena_copy(w->arena, b->n ? (const char *)b->p : "", b->n);
    if (!text)
        return fail(w, "it is too long", err);
    *ret = text;
    return 0;
}

int sg_docker_expand(const struct sg_docker_words *w, const char *text, const char **ret,
                     struct sg_err *err)
{
    sg_auto_buf out;
    sg_buf_init(&out, WORD_MAX);
    if (expand_into(w, text, text + strlen(text), &out, 0, err) < 0)
        return -1;
    return keep(w, &out, ret, err);
}

/* ---- words ---- */

/* What is in double quotes, `*p` behind the first. */
static int quoted(const struct sg_docker_words *w, const char **p, struct sg_buf *out,
                  struct sg_err *err)
{
    const char *at = *p;
    while (*at && *at != '"') {
        if (*at == w->escape && (at[1] == '"' || at[1] == w->escape || at[1] == '$')) {
            sg_buf_add(out, at + 1, 1);
            at += 2;
        } else if (*at == '$') {
            if (expand_one(w, &at, at + strlen(at), out, 0, err) < 0)
                return -1;
        } else {
            sg_buf_add(out, at++, 1);
        }
    }
    if (!*at)
        return fail(w, "a quote has no end", err);
    *p = at + 1;
    return 0;
}

int sg_docker_word(const struct sg_docker_words *w, const char **p, const char **ret,
                   struct sg_err *err)
{
    sg_auto_buf out;
    const char *at = *p + strspn(*p, " \t\n");
    sg_buf_init(&out, WORD_MAX);
    if (!*at) {
        *p = at;
        *ret = NULL;
        return 0;
    }
    while (*at && !strchr(" \t\n", *at)) {
        if (*at == '\'') {
            const char *end = strchr(at + 1, '\'');
            if (!end)
                return fail(w, "a quote has no end", err);
            sg_buf_add(&out, at + 1, (size_t)(end - at - 1));
            at = end + 1;
        } else if (*at == '"') {
            at++;
            if (quoted(w, &at, &out, err) < 0)
                return -1;
        } else if (*at == w->escape && at[1]) {
            sg_buf_add(&out, at + 1, 1);
            at += 2;
        } else if (*at == '$') {
            if (expand_one(w, &at, at + strlen(at), &out, 0, err) < 0)
                return -1;
        } else {
            sg_buf_add(&out, at++, 1);
        }
    }
    *p = at;
    return keep(w, &out, ret, err);
}

int sg_docker_split(const struct sg_docker_words *w, const char *text, const char ***ret,
                    size_t *ret_n, struct sg_err *err)
{
    const char *words[WORDS_MAX];
    size_t n = 0;
    for (const char *p = text, *one;; n++) {
        if (sg_docker_word(w, &p, &one, err) < 0)
            return -1;
        if (!one)
            break;
        if (n == WORDS_MAX)
            return fail(w, "it has too many words", err);
        words[n] = one;
    }
    const char **v = sg_arena_alloc(w->arena, (n + 1) * sizeof *v);
    if (!v)
        return fail(w, "it is too long", err);
    memcpy(v, words, n * sizeof *v);
    v[n] = NULL;
    *ret = v;
    *ret_n = n;
    return 0;
}

int sg_docker_json(const struct sg_docker_words *w, const char *text, const char ***ret,
                   size_t *ret_n, struct sg_err *err)
{
    const struct sg_jval *v;
    if (*text != '[' || sg_json_parse(sg_str_of(text), w->arena, &v, NULL) < 0 ||
        v->kind != SG_J_ARRAY)
        return 0;
    const char **list = sg_arena_alloc(w->arena, (v->list.n + 1) * sizeof *list);
    if (!list)
        return fail(w, "it is too long", err);
    size_t n = 0;
    for (const struct sg_jval *one = v->list.first; one; one = one->next) {
        if (one->kind != SG_J_STRING || strlen(one->s.p) != one->s.n)
            return fail(w, "a list in brackets holds texts", err);
        list[n++] = one->s.p;
    }
    list[n] = NULL;
    *ret = list;
    *ret_n = n;
    return 1;
}
