/* SPDX-License-Identifier: Apache-2.0 */
#include "image/recipe.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>

#include "base/auto.h"
#include "base/hash.h"
#include "image/kv.h"
#include "image/meta.h"

#include "base/banned.h"

enum { MAX_FILE = 256 * 1024 };

static const struct {
    const char *key;
    size_t items, count;
} lists[] = {
    { "packages", offsetof(struct sg_recipe, packages), offsetof(struct sg_recipe, package_count) },
    { "exclude", offsetof(struct sg_recipe, exclude), offsetof(struct sg_recipe, exclude_count) },
    { "include", offsetof(struct sg_recipe, include), offsetof(struct sg_recipe, include_count) },
};

static const struct {
    const char *key;
    size_t text;
} texts[] = {
    { "suite", offsetof(struct sg_recipe, suite) },
    { "variant", offsetof(struct sg_recipe, variant) },
};

void sg_recipe_done(struct sg_recipe *r)
{
    free(r->suite);
    free(r->variant);
    for (size_t i = 0; i < SG_COUNT(lists); i++) {
        char **items = (char **)(void *)((char *)r + lists[i].items);
        size_t *count = (size_t *)(void *)((char *)r + lists[i].count);
        while (*count)
            free(items[--*count]);
    }
    sg_template_done(&r->defaults);
    *r = (struct sg_recipe) { .defaults.lock_fd = -1 };
}

/* Values become arguments of a program: one that looks like an option is a mistake. */
static int take(struct sg_recipe *r, const struct sg_kv *kv, struct sg_err *err)
{
    if (!kv->is_quoted || kv->text[0] == '-' || kv->text[0] == '\0')
        return sg_fail(err, SG_INVALID, "%s:%u: bad value for '%s'", kv->what, kv->line, kv->key);
    for (size_t i = 0; i < SG_COUNT(texts); i++)
        if (strcmp(kv->key, texts[i].key) == 0) {
            char **at = (char **)(void *)((char *)r + texts[i].text);
            free(*at);
            *at = sg_strdup(kv->text);
            return 0;
        }
    for (size_t i = 0; i < SG_COUNT(lists); i++) {
        if (strcmp(kv->key, lists[i].key) != 0)
            continue;
        size_t *count = (size_t *)(void *)((char *)r + lists[i].count);
        if (*count == SG_RECIPE_MAX_ITEMS)
            return sg_fail(err, SG_EXHAUSTED, "%s:%u: more than %d values", kv->what, kv->line,
                           SG_RECIPE_MAX_ITEMS);
        ((char **)(void *)((char *)r + lists[i].items))[(*count)++] = sg_strdup(kv->text);
        return 0;
    }
    return sg_fail(err, SG_INVALID, "%s:%u: unknown key '%s'", kv->what, kv->line, kv->key);
}

static int parse(struct sg_recipe *r, struct sg_str text, struct sg_err *err)
{
    struct sg_kv kv;
    sg_kv_init(&kv, text, "recipe.toml");
    int got;
    while ((got = sg_kv_next(&kv, err)) > 0)
        if (take(r, &kv, err) < 0)
            return -1;
    if (got < 0)
        return -1;
    if (!r->suite || !r->variant || r->package_count == 0)
        return sg_fail(err, SG_INVALID, "recipe.toml: needs suite, variant and packages");
    return 0;
}

static int read_part(int dir_fd, const char *name, struct sg_buf *out, uint64_t *digest,
                     struct sg_err *err)
{
    sg_auto_fd fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return sg_fail_sys(err, "open '%s'", name);
    sg_buf_clear(out);
    if (sg_buf_read_fd(out, fd, name, err) < 0)
        return -1;
    *digest = sg_hash_add(*digest, out->p, out->n);
    return 0;
}

static int load(struct sg_recipe *r, int dir_fd, const char *suite, struct sg_err *err)
{
    sg_auto_buf text;
    sg_buf_init(&text, MAX_FILE);
    uint64_t digest = SG_HASH_START;
    if (read_part(dir_fd, "recipe.toml", &text, &digest, err) < 0 ||
        parse(r, (struct sg_str) { (const char *)text.p, text.n }, err) < 0 ||
        read_part(dir_fd, "template.toml", &text, &digest, err) < 0 ||
        sg_meta_parse(&r->defaults, (struct sg_str) { (const char *)text.p, text.n },
                      "template.toml", err) < 0 ||
        read_part(dir_fd, "setup.sh", &text, &digest, err) < 0)
        return -1;
    if (suite) {
        free(r->suite);
        r->suite = sg_strdup(suite);
    }
    digest = sg_hash_add(digest, r->suite, strlen(r->suite));
    (void)snprintf(r->digest, sizeof r->digest, "%016" PRIx64, digest);
    return 0;
}

int sg_recipe_load(const char *dir, const char *name, const char *suite, struct sg_recipe *ret,
                   struct sg_err *err)
{
    sg_auto_fd fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return sg_fail(err, SG_NOT_FOUND, "no recipe for a template %s", sg_quote(name).s);
    sg_auto_recipe r = { .defaults.lock_fd = -1 };
    sg_template_init(&r.defaults, name);
    if (load(&r, fd, suite, err) < 0)
        return sg_wrap(err, "recipe of template '%s'", name);
    *ret = r;
    r = (struct sg_recipe) { .defaults.lock_fd = -1 };
    return 0;
}
