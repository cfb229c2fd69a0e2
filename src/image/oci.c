/* SPDX-License-Identifier: Apache-2.0 */
/* Members are taken by hand and not by a table: tables refuse what they do not know, and these
 * documents are meant to be extended by others. */
#include "image/oci.h"

#include <string.h>

#include "base/auto.h"
#include "base/json.h"
#include "base/jsonr.h"
#include "image/oci_internal.h"

#include "base/banned.h"

bool sg_oci_is_hex(struct sg_str text)
{
    if (text.n != SG_OCI_HEX)
        return false;
    for (size_t i = 0; i < text.n; i++)
        if (!(text.p[i] >= '0' && text.p[i] <= '9') && !(text.p[i] >= 'a' && text.p[i] <= 'f'))
            return false;
    return true;
}

int sg_oci_digest_parse(struct sg_str text, struct sg_oci_hex *ret, struct sg_err *err)
{
    static const char name[] = "sha256:";
    const size_t n = sizeof name - 1;
    if (text.n > 7 && memcmp(text.p, "sha512:", 7) == 0)
        return sg_fail(err, SG_UNSUPPORTED, "digest %s is not SHA-256", sg_quote_str(text).s);
    if (text.n < n || memcmp(text.p, name, n) != 0 ||
        !sg_oci_is_hex((struct sg_str) { text.p + n, text.n - n }))
        return sg_fail(err, SG_INVALID, "%s is not a digest: sha256: and 64 hexadecimal digits",
                       sg_quote_str(text).s);
    memcpy(ret->s, text.p + n, SG_OCI_HEX);
    ret->s[SG_OCI_HEX] = '\0';
    return 0;
}

/* ---- members ---- */

const struct sg_jval *sg_oci_member(const struct sg_jval *v, const char *key)
{
    const struct sg_jval *m = sg_json_get(v, key);
    return m && m->kind != SG_J_NULL ? m : NULL; /* Go writes what is not there as null */
}

int sg_oci_text(const struct sg_jval *v, const char *key, const char **ret, struct sg_err *err)
{
    const struct sg_jval *m = sg_oci_member(v, key);
    if (m && (m->kind != SG_J_STRING || strlen(m->s.p) != m->s.n))
        return sg_fail(err, SG_INVALID, "'%s' is not a text", key);
    *ret = m ? m->s.p : "";
    return 0;
}

int sg_oci_number(const struct sg_jval *v, const char *key, uint64_t *ret, struct sg_err *err)
{
    const struct sg_jval *m = sg_oci_member(v, key);
    if (!m || m->kind != SG_J_UINT || m->u > INT64_MAX)
        return sg_fail(err, SG_INVALID, "'%s' is not a number of bytes", key);
    *ret = m->u;
    return 0;
}

int sg_oci_array(const struct sg_jval *v, const char *key, size_t max, const struct sg_jval **ret,
                 size_t *ret_n, struct sg_err *err)
{
    const struct sg_jval *m = sg_oci_member(v, key);
    if (m && m->kind != SG_J_ARRAY)
        return sg_fail(err, SG_INVALID, "'%s' is not a list", key);
    if (m && m->list.n > max)
        return sg_fail(err, SG_EXHAUSTED, "'%s' has more than %zu members", key, max);
    *ret = m ? m->list.first : NULL;
    *ret_n = m ? m->list.n : 0;
    return 0;
}

int sg_oci_no_memory(struct sg_err *err)
{
    return sg_fail(err, SG_EXHAUSTED, "the description of the image is too large");
}

int sg_oci_words(const struct sg_jval *v, const char *key, struct sg_arena *a, const char ***ret,
                 struct sg_err *err)
{
    const struct sg_jval *m;
    size_t n;
    if (sg_oci_array(v, key, SG_OCI_MAX_WORDS, &m, &n, err) < 0)
        return -1;
    const char **words = sg_arena_alloc(a, (n + 1) * sizeof *words);
    if (!words)
        return sg_oci_no_memory(err);
    for (size_t i = 0; m; m = m->next, i++) {
        if (m->kind != SG_J_STRING || strlen(m->s.p) != m->s.n)
            return sg_fail(err, SG_INVALID, "'%s' has a member that is not a text", key);
        words[i] = m->s.p;
    }
    *ret = words;
    return 0;
}

int sg_oci_hex_of(const struct sg_jval *v, const char *key, struct sg_oci_hex *ret,
                  struct sg_err *err)
{
    const char *text;
    if (sg_oci_text(v, key, &text, err) < 0 || sg_oci_digest_parse(sg_str_of(text), ret, err) < 0)
        return sg_wrap(err, "'%s'", key);
    return 0;
}

static int parse(struct sg_str text, struct sg_arena *a, const struct sg_jval **ret,
                 struct sg_err *err)
{
    if (text.n > SG_OCI_MAX_DOC)
        return sg_fail(err, SG_EXHAUSTED, "it has more than %d bytes", SG_OCI_MAX_DOC);
    return sg_json_parse(text, a, ret, err);
}

/* ---- platforms ---- */

struct sg_oci_platform sg_oci_platform_own(void)
{
#if defined(__x86_64__)
    return (struct sg_oci_platform) { "linux", "amd64", NULL };
#elif defined(__aarch64__)
    return (struct sg_oci_platform) { "linux", "arm64", NULL };
#elif defined(__riscv) && __riscv_xlen == 64
    return (struct sg_oci_platform) { "linux", "riscv64", NULL };
#else
#error "how do images call this machine?"
#endif
}

int sg_oci_platform_parse(const char *text, struct sg_arena *a, struct sg_oci_platform *ret,
                          struct sg_err *err)
{
    const char *part[3] = { NULL };
    size_t n = 0;
    for (const char *p = text; n < 3; n++) {
        const size_t length = strcspn(p, "/");
        part[n] = sg_arena_copy(a, p, length);
        if (!part[n])
            return sg_oci_no_memory(err);
        if (!length)
            break;
        p += length;
        if (!*p++) {
            n++;
            p = NULL;
            *ret = n == 1 ? (struct sg_oci_platform) { "linux", part[0], NULL }
                          : (struct sg_oci_platform) { part[0], part[1], part[2] };
            return 0;
        }
    }
    return sg_fail(err, SG_INVALID, "%s is no platform, as linux/amd64 is", sg_quote(text).s);
}

static bool is_text(const char *a, const char *b)
{
    return strcmp(a ? a : "", b ? b : "") == 0;
}

/* An image that says nothing of a variant is for all of them; so is a wish that names none. */
static bool fits(const struct sg_oci_platform *has, const struct sg_oci_platform *wanted)
{
    return is_text(has->os, wanted->os) && is_text(has->arch, wanted->arch) &&
           (!wanted->variant || !has->variant || !*has->variant ||
            strcmp(has->variant, wanted->variant) == 0);
}

static int platform_of(const struct sg_jval *v, struct sg_oci_platform *ret, struct sg_err *err)
{
    const struct sg_jval *p = sg_oci_member(v, "platform");
    *ret = (struct sg_oci_platform) { 0 };
    if (!p)
        return 0;
    if (sg_oci_text(p, "os", &ret->os, err) < 0 ||
        sg_oci_text(p, "architecture", &ret->arch, err) < 0 ||
        sg_oci_text(p, "variant", &ret->variant, err) < 0)
        return sg_wrap(err, "'platform'");
    return 0;
}

/* ---- index and manifest ---- */

static int desc_of(const struct sg_jval *v, struct sg_oci_desc *ret, struct sg_err *err)
{
    static const char *const names[] = { "org.opencontainers.image.ref.name",
                                         "io.containerd.image.name" };
    if (v->kind != SG_J_OBJECT)
        return sg_fail(err, SG_INVALID, "a descriptor is not an object");
    if (sg_oci_text(v, "mediaType", &ret->media_type, err) < 0 ||
        sg_oci_hex_of(v, "digest", &ret->hex, err) < 0 ||
        sg_oci_number(v, "size", &ret->size, err) < 0 || platform_of(v, &ret->platform, err) < 0)
        return -1;
    const struct sg_jval *notes = sg_oci_member(v, "annotations");
    for (size_t i = 0; i < SG_COUNT(names); i++) {
        const struct sg_jval *m = sg_oci_member(notes, names[i]);
        ret->names[i] = m && m->kind == SG_J_STRING && *m->s.p ? m->s.p : NULL;
    }
    return 0;
}

static int descs_of(const struct sg_jval *v, const char *key, size_t max, struct sg_arena *a,
                    struct sg_oci_doc *ret, struct sg_err *err)
{
    const struct sg_jval *m;
    if (sg_oci_array(v, key, max, &m, &ret->n, err) < 0)
        return -1;
    ret->items = sg_arena_alloc(a, (ret->n + 1) * sizeof *ret->items);
    if (!ret->items)
        return sg_oci_no_memory(err);
    for (size_t i = 0; m; m = m->next, i++)
        if (desc_of(m, &ret->items[i], err) < 0)
            return sg_wrap(err, "'%s', member %zu", key, i);
    return 0;
}

/* What a layer can be: a tar archive, plain, by gzip or by zstd. */
static int check_layer(const struct sg_oci_desc *d, struct sg_err *err)
{
    static const char *const known[] = {
        "application/vnd.oci.image.layer.v1.tar",
        "application/vnd.oci.image.layer.v1.tar+gzip",
        "application/vnd.oci.image.layer.v1.tar+zstd",
        "application/vnd.docker.image.rootfs.diff.tar",
        "application/vnd.docker.image.rootfs.diff.tar.gzip",
        "application/vnd.docker.image.rootfs.diff.tar.zstd",
    };
    for (size_t i = 0; i < SG_COUNT(known); i++)
        if (strcmp(d->media_type, known[i]) == 0)
            return 0;
    return sg_fail(err, SG_UNSUPPORTED, "a layer is of type %s, which is not a layer of files",
                   sg_quote(d->media_type).s);
}

static int read_manifest(const struct sg_jval *v, struct sg_arena *a, struct sg_oci_doc *ret,
                         struct sg_err *err)
{
    const struct sg_jval *config = sg_oci_member(v, "config");
    if (!config)
        return sg_fail(err, SG_INVALID, "'config' is missing: it is neither index nor manifest");
    if (desc_of(config, &ret->config, err) < 0)
        return sg_wrap(err, "'config'");
    if (ret->config.size > SG_OCI_MAX_DOC)
        return sg_fail(err, SG_EXHAUSTED, "the configuration has more than %d bytes",
                       SG_OCI_MAX_DOC);
    if (descs_of(v, "layers", SG_OCI_MAX_LAYERS, a, ret, err) < 0)
        return -1;
    for (size_t i = 0; i < ret->n; i++)
        if (check_layer(&ret->items[i], err) < 0)
            return -1;
    return 0;
}

int sg_oci_doc_parse(struct sg_str text, struct sg_arena *a, struct sg_oci_doc *ret,
                     struct sg_err *err)
{
    const struct sg_jval *v;
    struct sg_oci_doc doc = { 0 };
    uint64_t version;
    if (parse(text, a, &v, err) < 0)
        return -1;
    if (v->kind != SG_J_OBJECT)
        return sg_fail(err, SG_INVALID, "it is not an object");
    if (sg_oci_number(v, "schemaVersion", &version, err) < 0 || version != 2)
        return sg_fail(err, SG_UNSUPPORTED,
                       "it is not of schema 2: images of that age have to be pushed anew");
    if (sg_oci_text(v, "mediaType", &doc.media_type, err) < 0)
        return -1;
    doc.is_index = sg_oci_member(v, "manifests") != NULL;
    if (doc.is_index ? descs_of(v, "manifests", SG_OCI_MAX_IMAGES, a, &doc, err) < 0
                     : read_manifest(v, a, &doc, err) < 0)
        return -1;
    *ret = doc;
    return 0;
}

/* "app:1" of "docker.io/library/app:1", or the whole. */
static bool is_called(const struct sg_oci_desc *d, const char *name)
{
    for (size_t i = 0; i < SG_COUNT(d->names); i++) {
        const char *has = d->names[i];
        const size_t n = has ? strlen(has) : 0, wanted = strlen(name);
        if (has && n >= wanted && strcmp(has + n - wanted, name) == 0 &&
            (n == wanted || has[n - wanted - 1] == '/'))
            return true;
    }
    return false;
}

static int fail_choice(const struct sg_oci_doc *index, const struct sg_oci_platform *platform,
                       const char *name, bool is_many, struct sg_err *err)
{
    sg_auto_buf list;
    sg_buf_init(&list, 120);
    for (size_t i = 0; i < index->n; i++) {
        const struct sg_oci_desc *d = &index->items[i];
        const char *called = d->names[1] ? d->names[1] : d->names[0];
        sg_buf_add_str(&list, i ? ", " : "");
        if (is_many || name)
            sg_buf_add_str(&list, called ? sg_quote(called).s : "one without a name");
        else
            sg_buf_addf(&list, "%.20s/%.20s", d->platform.os ? d->platform.os : "?",
                        d->platform.arch ? d->platform.arch : "?");
    }
    if (is_many)
        return sg_fail(err, SG_INVALID, "there is more than one image; choose with --image: %s",
                       sg_buf_cstr(&list));
    return sg_fail(err, SG_NOT_FOUND, "no image %s%s%s/%s; there is: %s",
                   name ? sg_quote(name).s : "", name ? " for " : "for ", platform->os,
                   platform->arch, sg_buf_cstr(&list));
}

int sg_oci_index_choose(const struct sg_oci_doc *index, const struct sg_oci_platform *platform,
                        const char *name, const struct sg_oci_desc **ret, struct sg_err *err)
{
    const struct sg_oci_desc *found = NULL;
    bool is_many = false;
    for (size_t i = 0; i < index->n; i++) {
        const struct sg_oci_desc *d = &index->items[i];
        const bool is_for_us = !d->platform.os || fits(&d->platform, platform);
        if (!is_for_us || (name && !is_called(d, name)))
            continue;
        /* A platform has one image in a list; where nothing is said, each may be another. */
        is_many |= found && !name && !d->platform.os && strcmp(found->hex.s, d->hex.s) != 0;
        found = found ? found : d;
    }
    if (!found || is_many)
        return fail_choice(index, platform, name, is_many, err);
    *ret = found;
    return 0;
}

/* ---- docker save ---- */

static bool has_tag(const struct sg_jval *image, const char *name)
{
    const struct sg_jval *tags = sg_oci_member(image, "RepoTags");
    const struct sg_jval *m = tags && tags->kind == SG_J_ARRAY ? tags->list.first : NULL;
    for (; m; m = m->next)
        if (m->kind == SG_J_STRING &&
            is_called(&(struct sg_oci_desc) { .names = { m->s.p } }, name))
            return true;
    return false;
}

int sg_oci_saved_parse(struct sg_str text, const char *name, struct sg_arena *a,
                       struct sg_oci_saved *ret, struct sg_err *err)
{
    const struct sg_jval *v, *found = NULL;
    if (parse(text, a, &v, err) < 0)
        return -1;
    if (v->kind != SG_J_ARRAY || !v->list.n)
        return sg_fail(err, SG_INVALID, "it is not a list of images");
    for (const struct sg_jval *m = v->list.first; m; m = m->next)
        if (!found && (!name || has_tag(m, name)))
            found = m;
    if (!found)
        return sg_fail(err, SG_NOT_FOUND, "it has no image %s", sg_quote(name).s);
    if (!name && v->list.n > 1)
        return sg_fail(err, SG_INVALID, "it has %zu images; choose one of their tags with --image",
                       v->list.n);
    struct sg_oci_saved saved = { 0 };
    if (sg_oci_text(found, "Config", &saved.config, err) < 0 ||
        sg_oci_words(found, "Layers", a, &saved.layers, err) < 0)
        return -1;
    while (saved.layers[saved.n])
        saved.n++;
    if (!*saved.config || saved.n > SG_OCI_MAX_LAYERS)
        return sg_fail(err, SG_INVALID, "it names no configuration, or over %d layers",
                       SG_OCI_MAX_LAYERS);
    *ret = saved;
    return 0;
}

/* ---- configuration ---- */

static int diffs_of(const struct sg_jval *v, struct sg_arena *a, struct sg_oci_config *ret,
                    struct sg_err *err)
{
    const struct sg_jval *m;
    if (sg_oci_array(sg_oci_member(v, "rootfs"), "diff_ids", SG_OCI_MAX_LAYERS, &m, &ret->n, err) <
        0)
        return -1;
    ret->diffs = sg_arena_alloc(a, (ret->n + 1) * sizeof *ret->diffs);
    if (!ret->diffs)
        return sg_oci_no_memory(err);
    for (size_t i = 0; m; m = m->next, i++)
        if (m->kind != SG_J_STRING || sg_oci_digest_parse(m->s, &ret->diffs[i], err) < 0)
            return sg_fail(err, SG_INVALID, "'diff_ids' has a member that is no SHA-256 digest");
    return 0;
}

int sg_oci_config_parse(struct sg_str text, struct sg_arena *a, struct sg_oci_config *ret,
                        struct sg_err *err)
{
    const struct sg_jval *v;
    struct sg_oci_config c = { 0 };
    if (parse(text, a, &v, err) < 0)
        return -1;
    if (v->kind != SG_J_OBJECT)
        return sg_fail(err, SG_INVALID, "it is not an object");
    const struct sg_jval *run = sg_oci_member(v, "config");
    if (sg_oci_text(v, "os", &c.platform.os, err) < 0 ||
        sg_oci_text(v, "architecture", &c.platform.arch, err) < 0 ||
        sg_oci_text(v, "variant", &c.platform.variant, err) < 0 || diffs_of(v, a, &c, err) < 0 ||
        sg_oci_text(run, "User", &c.user, err) < 0 ||
        sg_oci_text(run, "WorkingDir", &c.workdir, err) < 0 ||
        sg_oci_words(run, "Env", a, &c.env, err) < 0 ||
        sg_oci_words(run, "Entrypoint", a, &c.entrypoint, err) < 0 ||
        sg_oci_words(run, "Cmd", a, &c.cmd, err) < 0)
        return -1;
    *ret = c;
    return 0;
}

int sg_oci_config_check(const struct sg_oci_config *c, const struct sg_oci_platform *platform,
                        size_t layers, struct sg_err *err)
{
    if (c->n != layers)
        return sg_fail(err, SG_INVALID, "the manifest has %zu layers, the configuration %zu",
                       layers, c->n);
    if (!fits(&c->platform, platform))
        return sg_fail(err, SG_DENIED, "the image is for %.20s/%.20s, wanted is %s/%s",
                       *c->platform.os ? c->platform.os : "?",
                       *c->platform.arch ? c->platform.arch : "?", platform->os, platform->arch);
    return 0;
}
