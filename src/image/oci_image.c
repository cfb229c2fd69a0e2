/* SPDX-License-Identifier: Apache-2.0 */
/* Documents that we write: manifests, and what our own programs tell each other. The reader of the
 * latter trusts its writer no more than anybody: it had strangers' bytes in its hands. */
#include <stdio.h>

#include "base/json.h"
#include "image/oci_internal.h"

#include "base/banned.h"

static void put_digest(struct sg_json *j, const char *key, const struct sg_oci_hex *hex)
{
    char text[SG_OCI_HEX + 8];
    (void)snprintf(text, sizeof text, "sha256:%s", hex->s);
    sg_json_key(j, key);
    sg_json_str(j, text);
}

static void put_desc(struct sg_json *j, const struct sg_oci_desc *d)
{
    sg_json_open(j, '{');
    sg_json_key(j, "mediaType");
    sg_json_str(j, d->media_type);
    put_digest(j, "digest", &d->hex);
    sg_json_key(j, "size");
    sg_json_u64(j, d->size);
    sg_json_close(j, '}');
}

void sg_oci_manifest_format(const struct sg_oci_desc *config, const struct sg_oci_desc *layers,
                            size_t n, struct sg_buf *out)
{
    struct sg_json j;
    sg_json_init(&j, out);
    sg_json_open(&j, '{');
    sg_json_key(&j, "schemaVersion");
    sg_json_u64(&j, 2);
    sg_json_key(&j, "mediaType");
    sg_json_str(&j, SG_OCI_MANIFEST_TYPE);
    sg_json_key(&j, "config");
    put_desc(&j, config);
    sg_json_key(&j, "layers");
    sg_json_open(&j, '[');
    for (size_t i = 0; i < n; i++)
        put_desc(&j, &layers[i]);
    sg_json_close(&j, ']');
    sg_json_close(&j, '}');
}

int sg_oci_image_make(const struct sg_oci_doc *doc, const struct sg_oci_config *config,
                      const struct sg_oci_hex *manifest, uint64_t manifest_size, struct sg_arena *a,
                      struct sg_oci_image *ret, struct sg_err *err)
{
    struct sg_oci_layer *layers = sg_arena_alloc(a, (doc->n + 1) * sizeof *layers);
    if (!layers)
        return sg_oci_no_memory(err);
    for (size_t i = 0; i < doc->n; i++)
        layers[i] = (struct sg_oci_layer) { .diff = config->diffs[i],
                                            .blob = doc->items[i].hex,
                                            .size = doc->items[i].size,
                                            .media_type = doc->items[i].media_type };
    *ret = (struct sg_oci_image) {
        .manifest = *manifest,
        .config = doc->config.hex,
        .manifest_size = manifest_size,
        .config_size = doc->config.size,
        .media_type = *doc->media_type ? doc->media_type : SG_OCI_MANIFEST_TYPE,
        .layers = layers,
        .n = doc->n,
        .arch = config->platform.arch,
        .user = config->user,
        .workdir = config->workdir,
        .env = config->env,
        .entrypoint = config->entrypoint,
        .cmd = config->cmd,
    };
    return 0;
}

void sg_oci_image_format(const struct sg_oci_image *image, struct sg_json *j)
{
    sg_json_open(j, '{');
    put_digest(j, "manifest", &image->manifest);
    sg_json_put_u64(j, "manifestSize", image->manifest_size);
    sg_json_put_str(j, "mediaType", image->media_type);
    put_digest(j, "config", &image->config);
    sg_json_put_u64(j, "configSize", image->config_size);
    sg_json_key(j, "layers");
    sg_json_open(j, '[');
    for (size_t i = 0; i < image->n; i++) {
        sg_json_open(j, '{');
        put_digest(j, "diff", &image->layers[i].diff);
        put_digest(j, "blob", &image->layers[i].blob);
        sg_json_put_u64(j, "size", image->layers[i].size);
        sg_json_put_str(j, "mediaType", image->layers[i].media_type);
        sg_json_close(j, '}');
    }
    sg_json_close(j, ']');
    sg_json_put_str(j, "architecture", image->arch);
    sg_json_put_str(j, "user", image->user);
    sg_json_put_str(j, "workdir", image->workdir);
    sg_json_put_strs(j, "env", image->env);
    sg_json_put_strs(j, "entrypoint", image->entrypoint);
    sg_json_put_strs(j, "cmd", image->cmd);
    sg_json_close(j, '}');
}

int sg_oci_image_parse(const struct sg_jval *v, struct sg_arena *a, struct sg_oci_image *ret,
                       struct sg_err *err)
{
    struct sg_oci_image i = { 0 };
    const struct sg_jval *m;
    if (sg_oci_hex_of(v, "manifest", &i.manifest, err) < 0 ||
        sg_oci_number(v, "manifestSize", &i.manifest_size, err) < 0 ||
        sg_oci_text(v, "mediaType", &i.media_type, err) < 0 ||
        sg_oci_hex_of(v, "config", &i.config, err) < 0 ||
        sg_oci_number(v, "configSize", &i.config_size, err) < 0 ||
        sg_oci_array(v, "layers", SG_OCI_MAX_LAYERS, &m, &i.n, err) < 0 ||
        sg_oci_text(v, "architecture", &i.arch, err) < 0 ||
        sg_oci_text(v, "user", &i.user, err) < 0 ||
        sg_oci_text(v, "workdir", &i.workdir, err) < 0 ||
        sg_oci_words(v, "env", a, &i.env, err) < 0 ||
        sg_oci_words(v, "entrypoint", a, &i.entrypoint, err) < 0 ||
        sg_oci_words(v, "cmd", a, &i.cmd, err) < 0)
        return -1;
    i.layers = sg_arena_alloc(a, (i.n + 1) * sizeof *i.layers);
    if (!i.layers)
        return sg_oci_no_memory(err);
    for (size_t k = 0; m; m = m->next, k++)
        if (sg_oci_hex_of(m, "diff", &i.layers[k].diff, err) < 0 ||
            sg_oci_hex_of(m, "blob", &i.layers[k].blob, err) < 0 ||
            sg_oci_number(m, "size", &i.layers[k].size, err) < 0 ||
            sg_oci_text(m, "mediaType", &i.layers[k].media_type, err) < 0)
            return -1;
    *ret = i;
    return 0;
}
