/* SPDX-License-Identifier: Apache-2.0 */
#include "image/meta.h"

#include <inttypes.h>

#include "base/auto.h"
#include "base/parse.h"
#include "image/kv.h"

#include "base/banned.h"

enum { MAX_LIST = 1024 };
enum field_type { FIELD_TEXT, FIELD_BOOL, FIELD_NUMBER };

static const struct field {
    const char *key;
    enum field_type type;
    size_t offset;
} fields[] = {
    { "user", FIELD_TEXT, offsetof(struct sg_template, user) },
    { "home", FIELD_TEXT, offsetof(struct sg_template, home) },
    { "workdir", FIELD_TEXT, offsetof(struct sg_template, workdir) },
    { "path", FIELD_TEXT, offsetof(struct sg_template, path) },
    { "origin", FIELD_TEXT, offsetof(struct sg_template, origin) },
    { "digest", FIELD_TEXT, offsetof(struct sg_template, digest) },
    { "sudo", FIELD_BOOL, offsetof(struct sg_template, grants_sudo) },
    { "idmapped", FIELD_BOOL, offsetof(struct sg_template, is_idmapped) },
    { "bytes", FIELD_NUMBER, offsetof(struct sg_template, bytes) },
    { "entries", FIELD_NUMBER, offsetof(struct sg_template, entries) },
    { "reference", FIELD_TEXT, offsetof(struct sg_template, reference) },
    { "manifest", FIELD_TEXT, offsetof(struct sg_template, manifest) },
    { "media_type", FIELD_TEXT, offsetof(struct sg_template, media_type) },
    { "config", FIELD_TEXT, offsetof(struct sg_template, config) },
};

static const struct {
    const char *key;
    size_t offset;
} lists[] = {
    { "entrypoint", offsetof(struct sg_template, entrypoint) },
    { "cmd", offsetof(struct sg_template, cmd) },
    { "layers", offsetof(struct sg_template, layers) },
    { "blobs", offsetof(struct sg_template, blobs) },
};

static const struct field *find_field(const char *key)
{
    for (size_t i = 0; i < SG_COUNT(fields); i++)
        if (strcmp(fields[i].key, key) == 0)
            return &fields[i];
    return NULL;
}

static int set_field(void *at, const struct field *f, const struct sg_kv *kv, struct sg_err *err)
{
    bool is_true = strcmp(kv->text, "true") == 0;
    switch (f->type) {
    case FIELD_TEXT:
        if (!kv->is_quoted)
            break;
        free(*(char **)at);
        *(char **)at = sg_strdup(kv->text);
        return 0;
    case FIELD_BOOL:
        if (kv->is_quoted || (!is_true && strcmp(kv->text, "false") != 0))
            break;
        *(bool *)at = is_true;
        return 0;
    case FIELD_NUMBER:
        if (kv->is_quoted)
            break;
        return sg_parse_u64(sg_str_of(kv->text), 0, UINT64_MAX, at, err);
    }
    return sg_fail(err, SG_INVALID, "%s:%u: wrong type of value for '%s'", kv->what, kv->line,
                   kv->key);
}

static int add_env(struct sg_template *t, const struct sg_kv *kv, struct sg_err *err)
{
    if (!kv->is_quoted || !strchr(kv->text, '=') || kv->text[0] == '=')
        return sg_fail(err, SG_INVALID, "%s:%u: env needs \"NAME=value\"", kv->what, kv->line);
    if (t->env_count == SG_TEMPLATE_MAX_ENV)
        return sg_fail(err, SG_EXHAUSTED, "%s:%u: more than %d variables", kv->what, kv->line,
                       SG_TEMPLATE_MAX_ENV);
    t->env[t->env_count++] = sg_strdup(kv->text);
    return 0;
}

/* 1: it was of a list. */
static int add_to_list(struct sg_template *t, const struct sg_kv *kv, struct sg_err *err)
{
    for (size_t i = 0; i < SG_COUNT(lists); i++) {
        struct sg_template_list *list = (void *)((char *)t + lists[i].offset);
        if (strcmp(lists[i].key, kv->key) != 0)
            continue;
        if (!kv->is_quoted || list->n == MAX_LIST)
            return sg_fail(err, SG_INVALID, "%s:%u: '%s' has texts, %d at most", kv->what, kv->line,
                           kv->key, MAX_LIST);
        sg_template_list_add(list, kv->text);
        return 1;
    }
    return 0;
}

static void clear_env(struct sg_template *t)
{
    while (t->env_count)
        free(t->env[--t->env_count]);
}

int sg_meta_parse(struct sg_template *t, struct sg_str text, const char *what, struct sg_err *err)
{
    struct sg_kv kv;
    sg_kv_init(&kv, text, what);
    bool has_env = false; /* the first one replaces the defaults */
    for (;;) {
        int got = sg_kv_next(&kv, err);
        if (got <= 0)
            return got;
        if (strcmp(kv.key, "env") == 0) {
            if (!has_env)
                clear_env(t);
            has_env = true;
            if (add_env(t, &kv, err) < 0)
                return -1;
            continue;
        }
        const int is_listed = add_to_list(t, &kv, err);
        if (is_listed < 0)
            return -1;
        if (is_listed)
            continue;
        const struct field *f = find_field(kv.key);
        if (!f)
            return sg_fail(err, SG_INVALID, "%s:%u: unknown key '%s'", what, kv.line, kv.key);
        if (set_field((char *)t + f->offset, f, &kv, err) < 0)
            return -1;
    }
}

void sg_meta_format(const struct sg_template *t, struct sg_buf *out)
{
    for (size_t i = 0; i < SG_COUNT(fields); i++) {
        const void *at = (const char *)t + fields[i].offset;
        char number[24];
        switch (fields[i].type) {
        case FIELD_TEXT:
            if (*(char *const *)at)
                sg_kv_add_text(out, fields[i].key, *(char *const *)at);
            break;
        case FIELD_BOOL:
            sg_kv_add_word(out, fields[i].key, *(const bool *)at ? "true" : "false");
            break;
        case FIELD_NUMBER:
            (void)snprintf(number, sizeof number, "%" PRIu64, *(const uint64_t *)at);
            sg_kv_add_word(out, fields[i].key, number);
            break;
        }
    }
    sg_kv_add_list(out, "env", t->env, t->env_count);
    for (size_t i = 0; i < SG_COUNT(lists); i++) {
        const struct sg_template_list *list = (const void *)((const char *)t + lists[i].offset);
        if (list->n)
            sg_kv_add_list(out, lists[i].key, list->v, list->n);
    }
}
