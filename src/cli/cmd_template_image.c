/* SPDX-License-Identifier: Apache-2.0 */
/* A template's root out of the layers of an image.
 *
 * Each layer that is not stored yet is unpacked in a cell of its own, which checks its digest; then
 * all are committed, and merged. Locks are held from there on until the template names them. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "cli/cmd_template.h"
#include "cli/out.h"
#include "image/kv.h"
#include "image/tree.h"
#include "base/banned.h"

enum { SUMMARY_BYTES = 16 << 10 };
static const uint64_t MAX_ENTRIES = 1000000, MAX_BYTES = UINT64_C(8) << 30;

struct layer {
    char name[SG_LAYER_NAME];
    struct sg_stage stage; /* while it is new */
    int fd;                /* once it is stored; locked */
};

struct assembly {
    const struct sg_import *in;
    const struct sg_template *host;
    const struct sg_oci_image *image;
    int store_fd, parts_fd;
    struct layer *layers;    /* owned, image->n of them */
    uint64_t entries, bytes; /* of those that were unpacked */
};

static void assembly_done(struct assembly *a)
{
    for (size_t i = 0; a->layers && i < a->image->n; i++) {
        sg_stage_done(&a->layers[i].stage);
        sg_drop_fd(&a->layers[i].fd);
    }
    free(a->layers);
}

/* ---- one layer ---- */

/* A second name for the part, so that it is still there where somebody else was faster. */
static int keep_blob(struct assembly *a, size_t i, int layer_fd, struct sg_err *err)
{
    const struct sg_oci_hex *hex = &a->image->layers[i].blob;
    char part[SG_PART_NAME], blob[SG_PART_NAME];
    sg_part_name(hex, part);
    sg_blob_name(hex, blob);
    if (linkat(a->parts_fd, part, layer_fd, blob, 0) < 0 && errno != EEXIST &&
        (errno != ENOENT || faccessat(layer_fd, blob, F_OK, AT_SYMLINK_NOFOLLOW) < 0))
        return sg_fail_sys(err, "keep the blob sha256:%.12s...", hex->s);
    (void)fchownat(layer_fd, blob, geteuid(), getegid(), AT_SYMLINK_NOFOLLOW);
    return 0;
}

static int make_tree(struct sg_stage *s, struct sg_err *err)
{
    if (mkdirat(s->fd, "tree", 0700) < 0 || fchmodat(s->fd, "tree", SG_MODE_IMPLIED, 0) < 0)
        return sg_fail_sys(err, "make a directory for the layer");
    return 0;
}

static int unpack_layer(struct assembly *a, size_t i, struct sg_progress *p, struct sg_err *err)
{
    const struct sg_oci_layer *l = &a->image->layers[i];
    struct sg_stage *s = &a->layers[i].stage;
    char part[SG_PART_NAME], entries[24], bytes[24];
    sg_part_name(&l->blob, part);
    sg_auto_fd fd = openat(a->parts_fd, part, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return sg_fail_sys(err, "open the layer sha256:%.12s...", l->blob.s);
    if (sg_stage_new(a->in->state_dir, s, err) < 0 || make_tree(s, err) < 0)
        return -1;
    (void)snprintf(entries, sizeof entries, "%llu", (unsigned long long)(MAX_ENTRIES - a->entries));
    (void)snprintf(bytes, sizeof bytes, "%llu", (unsigned long long)(MAX_BYTES - a->bytes));
    const char *flags[] = { "--layer", "--diff",      l->diff.s, "--max-entries",
                            entries,   "--max-bytes", bytes,     NULL };
    sg_auto_free char *dir = sg_printf("%s/templates/%s/tree", a->in->state_dir, s->name);
    sg_auto_free char *what = sg_printf("%s: layer %zu of %zu", a->in->name, i + 1, a->image->n);
    sg_progress_follow(p, what, fd, l->size);

    struct sg_layer_numbers n;
    sg_auto_buf summary;
    sg_auto_arena arena;
    sg_buf_init(&summary, SUMMARY_BYTES);
    sg_arena_init(&arena, SUMMARY_BYTES * 4);
    if (sg_unpack_in_cell(a->in, a->host, fd, dir, flags, &summary, err) < 0 ||
        sg_unpack_summary(&summary, &arena, &n, NULL, err) < 0 ||
        sg_layer_numbers_write(s->fd, &n, err) < 0)
        return -1;
    a->entries += n.entries < MAX_ENTRIES - a->entries ? n.entries : MAX_ENTRIES - a->entries - 1;
    a->bytes += n.bytes < MAX_BYTES - a->bytes ? n.bytes : MAX_BYTES - a->bytes - 1;
    return keep_blob(a, i, s->fd, err);
}

static bool is_before(const struct assembly *a, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (strcmp(a->layers[k].name, a->layers[i].name) == 0 &&
            strcmp(a->image->layers[k].blob.s, a->image->layers[i].blob.s) == 0)
            return true;
    return false;
}

/* One whose blob is another has to show first that it is this layer: it is unpacked like one that
 * is not there. */
static int find_layer(struct assembly *a, size_t i, struct sg_err *err)
{
    struct layer *l = &a->layers[i];
    char blob[SG_PART_NAME];
    sg_blob_name(&a->image->layers[i].blob, blob);
    sg_auto_fd fd = sg_templates_use(a->store_fd, l->name, err);
    if (fd < 0)
        return err->kind == SG_NOT_FOUND ? 0 : -1;
    if (faccessat(fd, blob, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
        return 0;
    l->fd = sg_take_fd(&fd);
    return 1;
}

/* Where the same layer is stored already, that one is as good. */
static int store_layer(struct assembly *a, size_t i, struct sg_err *err)
{
    struct layer *l = &a->layers[i];
    if (sg_stage_commit(&l->stage, l->name, false, err) == 0) {
        l->fd = sg_stage_use(&l->stage, l->name, err);
        return l->fd < 0 ? -1 : 0;
    }
    if (err->kind != SG_CONFLICT)
        return -1;
    l->fd = sg_templates_use(a->store_fd, l->name, err);
    if (l->fd < 0)
        return err->kind == SG_NOT_FOUND
                   ? sg_fail(err, SG_UNAVAILABLE, "a layer was removed meanwhile; try again")
                   : -1;
    return keep_blob(a, i, l->fd, err);
}

static int get_layers(struct assembly *a, struct sg_progress *p, size_t *ret_shared,
                      struct sg_err *err)
{
    size_t shared = 0;
    for (size_t i = 0; i < a->image->n; i++) {
        sg_layer_name(&a->image->layers[i].diff, a->in->grants_sudo, a->layers[i].name);
        if (is_before(a, i))
            continue;
        const int found = find_layer(a, i, err);
        if (found < 0 || (found == 0 && unpack_layer(a, i, p, err) < 0))
            return -1;
        shared += found > 0;
    }
    for (size_t i = 0; i < a->image->n; i++)
        if (a->layers[i].stage.name[0] && store_layer(a, i, err) < 0)
            return -1;
    *ret_shared = shared;
    return 0;
}

/* ---- the root ---- */

static int merge_layers(struct assembly *a, int root_fd, struct sg_import_result *ret,
                        struct sg_err *err)
{
    uint64_t left = MAX_ENTRIES;
    for (size_t i = 0; i < a->image->n; i++) {
        size_t k = 0; /* the same layer may be there twice: its first has the descriptor */
        while (strcmp(a->layers[k].name, a->layers[i].name) != 0)
            k++;
        struct sg_layer_numbers n;
        sg_auto_fd tree = openat(a->layers[k].fd, "tree", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (tree < 0)
            return sg_fail_sys(err, "open layer %zu", i + 1);
        if (sg_layer_numbers_read(a->layers[k].fd, &n, err) < 0 ||
            sg_layer_merge(tree, root_fd, &left, err) < 0)
            return sg_wrap(err, "layer %zu", i + 1);
        ret->numbers.entries += n.entries;
        ret->numbers.bytes += n.bytes;
        ret->numbers.skipped += n.skipped;
        ret->numbers.setuid_dropped += n.setuid_dropped;
    }
    return 0;
}

/* ---- what the image says of itself ---- */

static int check_text(const char *what, const char *text, struct sg_err *err)
{
    if (strlen(text) >= SG_KV_MAX_TEXT)
        return sg_fail(err, SG_EXHAUSTED, "%s of the image has over %d bytes: %s", what,
                       SG_KV_MAX_TEXT - 1, sg_quote(text).s);
    return 0;
}

static int take_words(const char *what, const char *const *words, struct sg_template_list *to,
                      struct sg_err *err)
{
    for (; *words; words++) {
        if (check_text(what, *words, err) < 0)
            return -1;
        sg_template_list_add(to, *words);
    }
    return 0;
}

static int take_env(struct sg_template *t, const char *const *env, struct sg_err *err)
{
    for (; *env; env++) {
        const char *equals = strchr(*env, '=');
        if (check_text("a variable", *env, err) < 0)
            return -1;
        if (!equals || equals == *env)
            continue; /* a name without a value has no meaning without a host to take it from */
        if (sg_starts_with(*env, "PATH=")) {
            free(t->path);
            t->path = sg_strdup(equals + 1);
            continue;
        }
        size_t i = 0;
        while (i < t->env_count && strncmp(t->env[i], *env, (size_t)(equals - *env) + 1) != 0)
            i++;
        if (i == SG_TEMPLATE_MAX_ENV)
            return sg_fail(err, SG_EXHAUSTED, "the image has more than %d variables",
                           SG_TEMPLATE_MAX_ENV);
        if (i < t->env_count)
            free(t->env[i]);
        else
            t->env_count++;
        t->env[i] = sg_strdup(*env);
    }
    return 0;
}

static int describe(const struct assembly *a, int root_fd, struct sg_template *t,
                    struct sg_err *err)
{
    const struct sg_oci_image *image = a->image;
    if (sg_template_read_user(t, root_fd, image->user, err) < 0 ||
        check_text("the working directory", image->workdir, err) < 0 ||
        take_env(t, image->env, err) < 0 ||
        take_words("the entrypoint", image->entrypoint, &t->entrypoint, err) < 0 ||
        take_words("the command", image->cmd, &t->cmd, err) < 0)
        return -1;
    free(t->workdir);
    t->workdir = sg_printf("%s%s", image->workdir[0] == '/' ? "" : "/", image->workdir);
    for (size_t i = 0; i < image->n; i++) {
        sg_template_list_add(&t->layers, a->layers[i].name + strlen(SG_LAYER_PREFIX));
        sg_template_list_add(&t->blobs, image->layers[i].blob.s);
    }
    t->manifest = sg_strdup(image->manifest.s);
    t->media_type = sg_strdup(image->media_type);
    t->config = sg_strdup(image->config.s);
    return 0;
}

static int keep_document(const struct assembly *a, const struct sg_oci_hex *hex, int stage_fd,
                         const char *name, struct sg_err *err)
{
    char part[SG_PART_NAME];
    sg_part_name(hex, part);
    if (linkat(a->parts_fd, part, stage_fd, name, 0) < 0)
        return sg_fail_sys(err, "keep '%s' of the image", name);
    (void)fchownat(stage_fd, name, geteuid(), getegid(), AT_SYMLINK_NOFOLLOW);
    return 0;
}

int sg_image_assemble(const struct sg_import *in, const struct sg_template *host,
                      struct sg_stage *stage, int parts_fd, const struct sg_oci_image *image,
                      struct sg_progress *p, struct sg_template *t, struct sg_import_result *ret,
                      struct sg_err *err)
{
    __attribute__((cleanup(assembly_done))) struct assembly a = {
        .in = in,
        .host = host,
        .image = image,
        .store_fd = stage->store_fd,
        .parts_fd = parts_fd,
        .layers = sg_alloc((image->n + 1) * sizeof *a.layers),
    };
    struct sg_import_result result = { .digest = image->manifest, .layers = image->n };
    for (size_t i = 0; i < image->n; i++)
        a.layers[i] = (struct layer) { .stage = { .store_fd = -1, .fd = -1 }, .fd = -1 };
    sg_auto_fd root = openat(stage->fd, "root", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (root < 0)
        return sg_fail_sys(err, "open the new root");
    if (get_layers(&a, p, &result.shared, err) < 0)
        return -1;
    sg_progress_say(p, "%s: putting %zu layers together", in->name, image->n);
    if (merge_layers(&a, root, &result, err) < 0 || describe(&a, root, t, err) < 0 ||
        keep_document(&a, &image->manifest, stage->fd, "manifest.json", err) < 0 ||
        keep_document(&a, &image->config, stage->fd, "config.json", err) < 0)
        return -1;
    *ret = result;
    return 0;
}
