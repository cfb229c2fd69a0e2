/* SPDX-License-Identifier: Apache-2.0 */
/* `sandglass template export`: a template as an archive that other tools read: an OCI layout, with
 * the manifest.json of `docker save` beside, so that `docker load` of any age takes it.
 *
 * The layout is put together in a stage of the store, of hard links, and goes with it. A template
 * that came as an image leaves with the bytes, and so the digests, that it came with. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/json.h"
#include "base/jsonr.h"
#include "cli/cmd_template.h"
#include "cli/out.h"
#include "cli/run.h"
#include "cli/tar.h"
#include "base/banned.h"

enum { DOCUMENT_BYTES = 1 << 20, BLOB_PATH = 13 + SG_OCI_HEX + 1 };

/* ---- names in a layout ---- */

static void blob_path(const struct sg_oci_hex *hex, char ret[BLOB_PATH])
{
    (void)snprintf(ret, BLOB_PATH, "blobs/sha256/%s", hex->s);
}

static int add_blob(struct sg_leaving *l, int from_fd, const char *name,
                    const struct sg_oci_hex *hex, struct sg_err *err)
{
    char path[BLOB_PATH];
    blob_path(hex, path);
    if (linkat(from_fd, name, l->dir_fd, path, 0) == 0)
        l->blobs[l->n++] = *hex;
    else if (errno != EEXIST) /* two layers may be the same */
        return sg_fail_sys(err, "take the blob sha256:%.12s...", hex->s);
    return 0;
}

static int put_file(struct sg_leaving *l, const char *name, const struct sg_buf *text,
                    struct sg_err *err)
{
    if (sg_buf_check(text, name, err) < 0)
        return -1;
    sg_auto_fd fd = openat(l->dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0)
        return sg_fail_sys(err, "write '%s'", name);
    return sg_out_write(fd, text->p, text->n, err);
}

/* ---- documents ---- */

static void put_pair(struct sg_json *j, const char *key, const char *text)
{
    sg_json_key(j, key);
    sg_json_str(j, text);
}

static int put_index(struct sg_leaving *l, const char *reference, struct sg_err *err)
{
    sg_auto_free char *digest = sg_printf("sha256:%s", l->image.manifest.s);
    const struct sg_oci_platform own = sg_oci_platform_own();
    sg_auto_buf text;
    sg_buf_init(&text, DOCUMENT_BYTES);
    struct sg_json j;
    sg_json_init(&j, &text);
    sg_json_open(&j, '{');
    sg_json_key(&j, "schemaVersion");
    sg_json_u64(&j, 2);
    put_pair(&j, "mediaType", SG_OCI_INDEX_TYPE);
    sg_json_key(&j, "manifests");
    sg_json_open(&j, '[');
    sg_json_open(&j, '{');
    put_pair(&j, "mediaType", l->image.media_type);
    put_pair(&j, "digest", digest);
    sg_json_key(&j, "size");
    sg_json_u64(&j, l->image.manifest_size);
    sg_json_key(&j, "platform");
    sg_json_open(&j, '{');
    put_pair(&j, "architecture", l->image.arch ? l->image.arch : own.arch);
    put_pair(&j, "os", "linux");
    sg_json_close(&j, '}');
    sg_json_key(&j, "annotations");
    sg_json_open(&j, '{');
    put_pair(&j, "org.opencontainers.image.ref.name", reference);
    sg_json_close(&j, '}');
    sg_json_close(&j, '}');
    sg_json_close(&j, ']');
    sg_json_close(&j, '}');
    return put_file(l, "index.json", &text, err);
}

static int put_docker_list(struct sg_leaving *l, const char *reference, struct sg_err *err)
{
    char path[BLOB_PATH];
    sg_auto_buf text;
    sg_buf_init(&text, DOCUMENT_BYTES);
    struct sg_json j;
    sg_json_init(&j, &text);
    sg_json_open(&j, '[');
    sg_json_open(&j, '{');
    blob_path(&l->image.config, path);
    put_pair(&j, "Config", path);
    sg_json_key(&j, "RepoTags");
    sg_json_open(&j, '[');
    sg_json_str(&j, reference);
    sg_json_close(&j, ']');
    sg_json_key(&j, "Layers");
    sg_json_open(&j, '[');
    for (size_t i = 0; i < l->image.n; i++) {
        blob_path(&l->image.layers[i].blob, path);
        sg_json_str(&j, path);
    }
    sg_json_close(&j, ']');
    sg_json_close(&j, '}');
    sg_json_close(&j, ']');
    return put_file(l, "manifest.json", &text, err);
}

/* ---- where its parts come from ---- */

static int take_hex(const char *text, struct sg_oci_hex *ret, struct sg_err *err)
{
    if (!text || !sg_oci_is_hex(sg_str_of(text)))
        return sg_fail(err, SG_INVALID, "its 'template.toml' has a digest that is none");
    memcpy(ret->s, text, sizeof ret->s);
    return 0;
}

static int size_of(int dir_fd, const char *name, uint64_t *ret, struct sg_err *err)
{
    struct stat st;
    if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return sg_fail_sys(err, "look at '%s'", name);
    *ret = (uint64_t)st.st_size;
    return 0;
}

/* A template that came as an image. */
static int take_image(struct sg_leaving *l, const struct sg_template *t, struct sg_err *err)
{
    struct sg_oci_image *image = &l->image;
    if (take_hex(t->manifest, &image->manifest, err) < 0 ||
        take_hex(t->config, &image->config, err) < 0 ||
        size_of(t->lock_fd, "manifest.json", &image->manifest_size, err) < 0)
        return -1;
    if (t->layers.n != t->blobs.n)
        return sg_fail(err, SG_INVALID, "its 'template.toml' has layers without blobs");
    image->media_type = t->media_type;
    image->n = t->layers.n;
    image->layers = sg_arena_alloc(&l->arena, (image->n + 1) * sizeof *image->layers);
    l->blobs = sg_arena_alloc(&l->arena, (image->n + 2) * sizeof *l->blobs);
    if (!image->layers || !l->blobs)
        return sg_fail(err, SG_EXHAUSTED, "it has too many layers");
    for (size_t i = 0; i < image->n; i++) {
        struct sg_oci_hex *hex = &image->layers[i].blob;
        char blob[SG_PART_NAME];
        if (take_hex(t->blobs.v[i], hex, err) < 0)
            return -1;
        sg_blob_name(hex, blob);
        sg_auto_free char *path = sg_printf(SG_LAYER_PREFIX "%s/%s", t->layers.v[i], blob);
        if (add_blob(l, l->stage.store_fd, path, hex, err) < 0)
            return -1;
    }
    if (add_blob(l, t->lock_fd, "config.json", &image->config, err) < 0)
        return -1;
    return add_blob(l, t->lock_fd, "manifest.json", &image->manifest, err);
}

static int write_config(const struct sg_template *t, struct sg_err *err)
{
    sg_auto_free char *path = sg_printf("PATH=%s", t->path);
    sg_auto_buf text;
    sg_buf_init(&text, DOCUMENT_BYTES);
    struct sg_json j;
    sg_json_init(&j, &text);
    sg_json_open(&j, '{');
    put_pair(&j, "User", t->user);
    put_pair(&j, "WorkingDir", t->workdir);
    sg_json_key(&j, "Env");
    sg_json_open(&j, '[');
    sg_json_str(&j, path);
    for (size_t i = 0; i < t->env_count; i++)
        sg_json_str(&j, t->env[i]);
    sg_json_close(&j, ']');
    sg_json_close(&j, '}');
    sg_auto_fd fd = memfd_create("config", MFD_CLOEXEC);
    if (fd < 0 || sg_out_write(fd, text.p, text.n, err) < 0 || lseek(fd, 0, SEEK_SET) < 0)
        return sg_fail_sys(err, "write the configuration");
    return sg_take_fd(&fd);
}

/* Any other template: its root is packed, in a cell. */
static int make_image(struct sg_leaving *l, const char *state_dir, const struct sg_template *t,
                      struct sg_progress *p, struct sg_err *err)
{
    const struct sg_import as = { .name = t->name, .origin = "template" };
    sg_auto_template host = { .lock_fd = -1 };
    sg_auto_fd config = write_config(t, err);
    sg_auto_free char *dir = sg_printf("%s/templates/%s/parts", state_dir, l->stage.name);
    sg_auto_buf summary;
    sg_buf_init(&summary, DOCUMENT_BYTES);
    struct sg_layer_numbers n;
    const struct sg_jval *described;
    if (config < 0 || sg_template_open(state_dir, "host", &host, err) < 0)
        return -1;
    if (mkdirat(l->stage.fd, "parts", 0700) < 0)
        return sg_fail_sys(err, "make a directory for the image");
    sg_progress_say(p, "%s: packing", t->name);
    if (sg_pack_in_cell(&as, &host, config, t->layer, dir, &summary, err) < 0 ||
        sg_unpack_summary(&summary, &l->arena, &n, &described, err) < 0 ||
        sg_oci_image_parse(described, &l->arena, &l->image, err) < 0)
        return -1;
    sg_auto_fd parts = openat(l->stage.fd, "parts", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    l->blobs = sg_arena_alloc(&l->arena, (l->image.n + 2) * sizeof *l->blobs);
    if (parts < 0 || !l->blobs)
        return sg_fail_sys(err, "open the parts of the image");
    char part[SG_PART_NAME];
    for (size_t i = 0; i < l->image.n; i++) {
        sg_part_name(&l->image.layers[i].blob, part);
        if (add_blob(l, parts, part, &l->image.layers[i].blob, err) < 0)
            return -1;
    }
    sg_part_name(&l->image.config, part);
    if (add_blob(l, parts, part, &l->image.config, err) < 0)
        return -1;
    sg_part_name(&l->image.manifest, part);
    return add_blob(l, parts, part, &l->image.manifest, err);
}

static int open_layout(struct sg_leaving *l, struct sg_err *err)
{
    if (mkdirat(l->stage.fd, "layout", 0755) == 0)
        l->dir_fd = openat(l->stage.fd, "layout", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (l->dir_fd < 0 || mkdirat(l->dir_fd, "blobs", 0755) < 0 ||
        mkdirat(l->dir_fd, "blobs/sha256", 0755) < 0)
        return sg_fail_sys(err, "make a directory for the image");
    return 0;
}

int sg_leaving_of(struct sg_leaving *l, const char *state_dir, const struct sg_template *t,
                  const char *reference, struct sg_progress *p, struct sg_err *err)
{
    *l = (struct sg_leaving) { .stage = { .store_fd = -1, .fd = -1 }, .dir_fd = -1 };
    sg_arena_init(&l->arena, SG_OCI_ARENA);
    if (sg_stage_new(state_dir, &l->stage, err) < 0 || open_layout(l, err) < 0)
        return -1;
    if (t->manifest ? take_image(l, t, err) < 0 : make_image(l, state_dir, t, p, err) < 0)
        return sg_wrap(err, "template '%s'", t->name);
    sg_auto_buf version;
    sg_buf_init(&version, 64);
    sg_buf_add_str(&version, "{\"imageLayoutVersion\":\"1.0.0\"}");
    if (put_file(l, "oci-layout", &version, err) < 0 || put_index(l, reference, err) < 0)
        return -1;
    return put_docker_list(l, reference, err);
}

int sg_leaving_make(struct sg_leaving *l, const struct sg_cli *cli, const char *name,
                    const char *reference, struct sg_progress *p, struct sg_err *err)
{
    const char *state_dir = cli->config.state_dir;
    bool is_rootless;
    sg_auto_template t = { .lock_fd = -1 };
    *l = (struct sg_leaving) { .stage = { .store_fd = -1, .fd = -1 }, .dir_fd = -1 };
    if (strcmp(name, "host") == 0)
        return sg_fail(err, SG_INVALID, "'host' is the machine itself; it does not leave it");
    if (sg_template_check_name(name, err) < 0 || sg_run_prepare(&is_rootless, err) < 0 ||
        sg_template_open(state_dir, name, &t, err) < 0)
        return -1;
    return sg_leaving_of(l, state_dir, &t, reference, p, err);
}

void sg_leaving_done(struct sg_leaving *l)
{
    sg_drop_fd(&l->dir_fd);
    sg_stage_done(&l->stage);
    sg_arena_done(&l->arena);
}

/* ---- the command ---- */

static int put_bytes(void *arg, const void *p, size_t n, struct sg_err *err)
{
    return sg_out_write(*(int *)arg, p, n, err);
}

int sg_leaving_write(struct sg_leaving *l, int fd, struct sg_err *err)
{
    static const char *const first[] = { "oci-layout", "index.json", "manifest.json", "blobs",
                                         "blobs/sha256" };
    const size_t n = SG_COUNT(first) + l->n;
    sg_auto_free struct sg_tar_item *items = sg_alloc(n * sizeof *items);
    sg_auto_free char(*paths)[BLOB_PATH] = sg_alloc((l->n + 1) * sizeof *paths);
    for (size_t i = 0; i < SG_COUNT(first); i++)
        items[i] = (struct sg_tar_item) { first[i], first[i] };
    for (size_t i = 0; i < l->n; i++) {
        blob_path(&l->blobs[i], paths[i]);
        items[SG_COUNT(first) + i] = (struct sg_tar_item) { paths[i], paths[i] };
    }
    struct sg_tar_count count = { 0 };
    return sg_tar_pack_items(l->dir_fd, items, n, put_bytes, &fd, &count, err);
}

/* By another name first: what is there already stays whole until the new one is. */
static int write_file(struct sg_leaving *l, const char *path, bool replaces, struct sg_err *err)
{
    if (strcmp(path, "-") == 0) {
        if (isatty(STDOUT_FILENO))
            return sg_fail(err, SG_INVALID, "an archive is nothing for a terminal; name a file");
        return sg_leaving_write(l, STDOUT_FILENO, err);
    }
    if (!replaces && access(path, F_OK) == 0)
        return sg_fail(err, SG_CONFLICT, "%s exists; --force replaces it", sg_quote(path).s);
    sg_auto_free char *aside = sg_printf("%s.part-%d", path, (int)getpid());
    sg_auto_fd fd = open(aside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0)
        return sg_fail_sys(err, "write %s", sg_quote(path).s);
    int done = sg_leaving_write(l, fd, err);
    if (done == 0 && (fsync(fd) < 0 || rename(aside, path) < 0))
        done = sg_fail_sys(err, "write %s", sg_quote(path).s);
    if (done < 0)
        (void)unlink(aside);
    return done;
}

static int print(const struct sg_cli *cli, const struct sg_leaving *l, const char *name,
                 const char *path)
{
    if (strcmp(path, "-") == 0)
        return SG_EXIT_OK;
    sg_auto_free char *digest = sg_printf("sha256:%s", l->image.manifest.s);
    sg_auto_buf out;
    sg_buf_init(&out, DOCUMENT_BYTES);
    struct sg_json j;
    sg_json_init(&j, &out);
    if (cli->config.json) {
        sg_json_open(&j, '{');
        put_pair(&j, "name", name);
        put_pair(&j, "file", path);
        put_pair(&j, "digest", digest);
        sg_json_close(&j, '}');
        sg_buf_add_str(&out, "\n");
    } else {
        sg_buf_addf(&out, "%s\n", digest);
    }
    return sg_cli_print(&out);
}

int sg_cmd_template_export(struct sg_cli *cli)
{
    struct sg_err err;
    const char *name = cli->args[0], *path = cli->args[1];
    sg_auto_free char *reference = sg_printf("%s:latest", name);
    sg_auto_progress progress;
    sg_progress_init(&progress, cli);
    sg_auto_leaving l;
    if (sg_leaving_make(&l, cli, name, reference, &progress, &err) < 0 ||
        write_file(&l, path, cli->config.force, &err) < 0)
        return sg_cli_fail(cli, &err);
    return print(cli, &l, name, path);
}
