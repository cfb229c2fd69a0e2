/* SPDX-License-Identifier: Apache-2.0 */
/* The documents of container images: OCI's index, manifest and configuration, Docker's second
 * schema of the same, and the manifest.json of `docker save`. Bytes to structs and back; what they
 * name is fetched, checked and unpacked elsewhere.
 *
 * All of it comes from strangers. Members that are not known are passed over, as the specification
 * asks; those that are used have the type and the bounds that are said here, or it is SG_INVALID.
 * Results live in the arena. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

enum {
    SG_OCI_HEX = 64,
    SG_OCI_MAX_LAYERS = 256,
    SG_OCI_MAX_IMAGES = 1024,
    SG_OCI_MAX_WORDS = 1024,
    SG_OCI_MAX_DOC = 4 << 20,
    SG_OCI_ARENA = 64 << 20,
};

#define SG_OCI_MANIFEST_TYPE "application/vnd.oci.image.manifest.v1+json"
#define SG_OCI_INDEX_TYPE    "application/vnd.oci.image.index.v1+json"

struct sg_oci_hex {
    char s[SG_OCI_HEX + 1]; /* of SHA-256, lower case */
};

/* "sha256:<hex>"; another algorithm is SG_UNSUPPORTED. */
int sg_oci_digest_parse(struct sg_str text, struct sg_oci_hex *ret, struct sg_err *err);
bool sg_oci_is_hex(struct sg_str text);

struct sg_oci_platform {
    const char *os, *arch, *variant; /* "linux", "amd64", ""; NULL: not said */
};

/* "linux/arm64/v8", or "arm64" of Linux. */
int sg_oci_platform_parse(const char *text, struct sg_arena *a, struct sg_oci_platform *ret,
                          struct sg_err *err);
struct sg_oci_platform sg_oci_platform_own(void);

struct sg_oci_desc {
    const char *media_type; /* "" where none is said */
    struct sg_oci_hex hex;
    uint64_t size;
    struct sg_oci_platform platform;
    const char *names[2]; /* an index: what the image is called; NULL: nothing */
};

/* An index (or list): `items` are manifests. A manifest: they are layers. */
struct sg_oci_doc {
    bool is_index;
    const char *media_type;
    struct sg_oci_desc config;
    struct sg_oci_desc *items;
    size_t n;
};

int sg_oci_doc_parse(struct sg_str text, struct sg_arena *a, struct sg_oci_doc *ret,
                     struct sg_err *err);

/* The one for the platform; `name` NULL: there must be only one of that. SG_NOT_FOUND says what
 * there is. Attestations and the like (platform "unknown") are no images. */
int sg_oci_index_choose(const struct sg_oci_doc *index, const struct sg_oci_platform *platform,
                        const char *name, const struct sg_oci_desc **ret, struct sg_err *err);

/* `docker save`: one image of it. */
struct sg_oci_saved {
    const char *config;  /* a path in the archive */
    const char **layers; /* the same */
    size_t n;
};
int sg_oci_saved_parse(struct sg_str text, const char *name, struct sg_arena *a,
                       struct sg_oci_saved *ret, struct sg_err *err);

struct sg_oci_config {
    struct sg_oci_platform platform;
    const char *user, *workdir;            /* "" where not said */
    const char **env, **entrypoint, **cmd; /* NULL-terminated, never NULL */
    struct sg_oci_hex *diffs;              /* of layers as they are without compression */
    size_t n;
};
int sg_oci_config_parse(struct sg_str text, struct sg_arena *a, struct sg_oci_config *ret,
                        struct sg_err *err);
/* Whether it can run there and has as many layers as its manifest. */
int sg_oci_config_check(const struct sg_oci_config *c, const struct sg_oci_platform *platform,
                        size_t layers, struct sg_err *err);

/* A manifest in OCI's words. */
void sg_oci_manifest_format(const struct sg_oci_desc *config, const struct sg_oci_desc *layers,
                            size_t n, struct sg_buf *out);

/* ---- what one of our programs tells another of an image whose parts it has laid down ---- */

/* The parts are files "sha256-<hex>". */
struct sg_oci_image {
    struct sg_oci_hex manifest, config;
    uint64_t manifest_size, config_size;
    const char *media_type; /* of the manifest */
    struct sg_oci_layer {
        struct sg_oci_hex diff, blob;
        uint64_t size;
        const char *media_type;
    } * layers;
    size_t n;
    const char *arch, *user, *workdir;
    const char **env, **entrypoint, **cmd;
};
struct sg_json;
struct sg_jval;
void sg_oci_image_format(const struct sg_oci_image *image, struct sg_json *j);
int sg_oci_image_parse(const struct sg_jval *v, struct sg_arena *a, struct sg_oci_image *ret,
                       struct sg_err *err);
/* Of its two documents. `manifest` is the digest of the first. */
int sg_oci_image_make(const struct sg_oci_doc *doc, const struct sg_oci_config *config,
                      const struct sg_oci_hex *manifest, uint64_t manifest_size, struct sg_arena *a,
                      struct sg_oci_image *ret, struct sg_err *err);
