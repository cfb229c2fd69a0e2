/* SPDX-License-Identifier: Apache-2.0 */
#include "image/recipe.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/utsname.h>

#include "base/auto.h"
#include "base/hash.h"
#include "image/kv.h"
#include "image/meta.h"

#include "base/banned.h"

enum { MAX_FILE = 256 * 1024, MAX_DEPTH = 4 };

static const struct {
    const char *key;
    size_t items, count;
} lists[] = {
    { "packages", offsetof(struct sg_recipe, packages), offsetof(struct sg_recipe, package_count) },
    { "exclude", offsetof(struct sg_recipe, exclude), offsetof(struct sg_recipe, exclude_count) },
    { "include", offsetof(struct sg_recipe, include), offsetof(struct sg_recipe, include_count) },
    { "files", offsetof(struct sg_recipe, files), offsetof(struct sg_recipe, file_count) },
};

static const struct {
    const char *key;
    size_t text;
} texts[] = {
    { "suite", offsetof(struct sg_recipe, suite) },
    { "variant", offsetof(struct sg_recipe, variant) },
    { "from", offsetof(struct sg_recipe, from) },
    { "finish", offsetof(struct sg_recipe, finish) },
    { "writes", offsetof(struct sg_recipe, writes) },
};

void sg_recipe_done(struct sg_recipe *r)
{
    for (size_t i = 0; i < SG_COUNT(texts); i++)
        free(*(char **)(void *)((char *)r + texts[i].text));
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

static int read_files(const struct sg_recipe *r, int dir_fd, struct sg_buf *text, uint64_t *digest,
                      struct sg_err *err)
{
    for (size_t i = 0; i < r->file_count; i++)
        if (read_part(dir_fd, r->files[i], text, digest, err) < 0)
            return -1;
    return 0;
}

static int put_before(struct sg_recipe *r, struct sg_recipe *lower, size_t items, size_t count,
                      struct sg_err *err)
{
    char **own = (char **)(void *)((char *)r + items);
    char **lent = (char **)(void *)((char *)lower + items);
    size_t *own_count = (size_t *)(void *)((char *)r + count);
    size_t *lent_count = (size_t *)(void *)((char *)lower + count);
    if (*own_count + *lent_count > SG_RECIPE_MAX_ITEMS)
        return sg_fail(err, SG_EXHAUSTED, "recipe.toml: more than %d values with those of '%s'",
                       SG_RECIPE_MAX_ITEMS, r->from);
    memmove(own + *lent_count, own, *own_count * sizeof *own);
    memcpy(own, lent, *lent_count * sizeof *own);
    *own_count += *lent_count;
    *lent_count = 0;
    return 0;
}

/* What `r` does not say itself is as in the recipe that it stands on; its lists come after that
 * one's. Their files are each their own: setup.sh calls the other. */
static int stand_on(struct sg_recipe *r, int dir_fd, unsigned depth, struct sg_buf *text,
                    uint64_t *digest, struct sg_err *err)
{
    if (depth == MAX_DEPTH)
        return sg_fail(err, SG_INVALID, "recipe.toml: '%s' stands on too many others, or on itself",
                       r->from);
    if (sg_template_check_name(r->from, err) < 0)
        return -1;
    sg_auto_free char *path = sg_printf("../%s", r->from);
    sg_auto_fd lower_fd = openat(dir_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (lower_fd < 0)
        return sg_fail_sys(err, "open '%s'", path);
    sg_auto_recipe lower = { .defaults.lock_fd = -1 };
    if (read_part(lower_fd, "setup.sh", text, digest, err) < 0 ||
        read_part(lower_fd, "recipe.toml", text, digest, err) < 0 ||
        parse(&lower, (struct sg_str) { (const char *)text->p, text->n }, err) < 0 ||
        read_files(&lower, lower_fd, text, digest, err) < 0 ||
        (lower.from && stand_on(&lower, lower_fd, depth + 1, text, digest, err) < 0))
        return -1;
    for (size_t i = 0; i < SG_COUNT(texts); i++) {
        char **own = (char **)(void *)((char *)r + texts[i].text);
        char **lent = (char **)(void *)((char *)&lower + texts[i].text);
        if (!*own)
            *own = sg_take_ptr(lent);
    }
    for (size_t i = 0; i < SG_COUNT(lists); i++)
        if (lists[i].items != offsetof(struct sg_recipe, files) &&
            put_before(r, &lower, lists[i].items, lists[i].count, err) < 0)
            return -1;
    return 0;
}

static int load(struct sg_recipe *r, int dir_fd, const char *suite, struct sg_err *err)
{
    sg_auto_buf text;
    sg_buf_init(&text, MAX_FILE);
    uint64_t digest = SG_HASH_START;
    if (read_part(dir_fd, "recipe.toml", &text, &digest, err) < 0 ||
        parse(r, (struct sg_str) { (const char *)text.p, text.n }, err) < 0 ||
        (r->from && stand_on(r, dir_fd, 0, &text, &digest, err) < 0) ||
        read_files(r, dir_fd, &text, &digest, err) < 0)
        return -1;
    if (!r->suite || !r->variant || r->package_count == 0)
        return sg_fail(err, SG_INVALID, "recipe.toml: needs suite, variant and packages");
    if (!r->finish != !r->writes || (r->finish && (r->finish[0] != '/' || r->writes[0] != '/')))
        return sg_fail(err, SG_INVALID, "recipe.toml: finish and writes are two paths inside");
    if (read_part(dir_fd, "template.toml", &text, &digest, err) < 0 ||
        sg_meta_parse(&r->defaults, (struct sg_str) { (const char *)text.p, text.n },
                      "template.toml", err) < 0 ||
        read_part(dir_fd, "setup.sh", &text, &digest, err) < 0)
        return -1;
    if (suite) {
        free(r->suite);
        r->suite = sg_strdup(suite);
    }
    digest = sg_hash_add(digest, r->suite, strlen(r->suite));
    struct utsname kernel;
    if (r->finish && uname(&kernel) == 0) { /* what runs may leave behind what is for it only */
        digest = sg_hash_add(digest, kernel.release, strlen(kernel.release));
        digest = sg_hash_add(digest, kernel.version, strlen(kernel.version));
    }
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
