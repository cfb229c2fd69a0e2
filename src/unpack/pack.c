/* SPDX-License-Identifier: Apache-2.0 */
/* Two writers, one in the other: the inner makes the tar archive, whose digest is the layer's name;
 * the outer packs that, which has a digest, too. */
#include "unpack/pack.h"

#include <archive.h>
#include <archive_entry.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/json.h"
#include "base/jsonr.h"
#include "digest/digest.h"
#include "image/layers.h"
#include "sys/beneath.h"

#include "base/banned.h"

enum { MAX_DEPTH = 256, COPY_BYTES = 64 << 10 };
#define LAYER_TYPE  "application/vnd.oci.image.layer.v1.tar+gzip"
#define CONFIG_TYPE "application/vnd.oci.image.config.v1+json"

struct packer {
    struct archive *tar, *packed; /* owned */
    struct archive_entry_linkresolver *links;
    struct sg_digest diff, blob;
    int out_fd, file_fd; /* borrows; owned: the layer */
    uint64_t size;       /* of the layer, packed */
    char path[PATH_MAX]; /* of the entry in hand */
    struct sg_unpack_result result;
};

static void packer_done(struct packer *k)
{
    (void)archive_write_free(k->tar);
    (void)archive_write_free(k->packed);
    archive_entry_linkresolver_free(k->links);
    sg_digest_done(&k->diff);
    sg_digest_done(&k->blob);
    sg_drop_fd(&k->file_fd);
}

static int fail_archive(struct archive *a, struct sg_err *err)
{
    return sg_fail(err, SG_INTERNAL, "pack the layer: %s",
                   sg_quote(archive_error_string(a) ? archive_error_string(a) : "?").s);
}

/* ---- the two writers ---- */

static la_ssize_t take_plain(struct archive *tar, void *arg, const void *p, size_t n)
{
    struct packer *k = arg;
    sg_digest_add(&k->diff, p, n);
    const la_ssize_t put = archive_write_data(k->packed, p, n);
    if (put < 0)
        archive_set_error(tar, archive_errno(k->packed), "%s", archive_error_string(k->packed));
    return put;
}

static la_ssize_t take_packed(struct archive *packed, void *arg, const void *p, size_t n)
{
    struct packer *k = arg;
    const ssize_t put = write(k->file_fd, p, n);
    if (put < 0) {
        archive_set_error(packed, errno, "%s", strerror(errno));
        return -1;
    }
    sg_digest_add(&k->blob, p, (size_t)put);
    k->size += (uint64_t)put;
    return put;
}

static int open_writers(struct packer *k, struct sg_err *err)
{
    k->tar = archive_write_new();
    k->packed = archive_write_new();
    k->links = archive_entry_linkresolver_new();
    struct archive_entry *whole = archive_entry_new();
    if (!k->tar || !k->packed || !k->links || !whole || sg_digest_init(&k->diff, err) < 0 ||
        sg_digest_init(&k->blob, err) < 0) {
        archive_entry_free(whole);
        return sg_fail(err, SG_EXHAUSTED, "no memory to pack with");
    }
    archive_entry_set_filetype(whole, AE_IFREG);
    archive_entry_linkresolver_set_strategy(k->links, ARCHIVE_FORMAT_TAR_PAX_RESTRICTED);
    const bool is_packed =
        archive_write_set_format_raw(k->packed) == ARCHIVE_OK &&
        archive_write_add_filter_gzip(k->packed) == ARCHIVE_OK &&
        archive_write_set_filter_option(k->packed, "gzip", "timestamp", NULL) == ARCHIVE_OK &&
        archive_write_set_filter_option(k->packed, "gzip", "compression-level", "3") ==
            ARCHIVE_OK &&
        archive_write_set_bytes_in_last_block(k->packed, 1) == ARCHIVE_OK && /* no padding */
        archive_write_open(k->packed, k, NULL, take_packed, NULL) == ARCHIVE_OK &&
        archive_write_header(k->packed, whole) == ARCHIVE_OK;
    archive_entry_free(whole);
    if (!is_packed)
        return fail_archive(k->packed, err);
    if (archive_write_set_format_pax_restricted(k->tar) != ARCHIVE_OK ||
        archive_write_open(k->tar, k, NULL, take_plain, NULL) != ARCHIVE_OK)
        return fail_archive(k->tar, err);
    return 0;
}

/* ---- entries ---- */

static int put_content(struct packer *k, int fd, uint64_t left, struct sg_err *err)
{
    char piece[COPY_BYTES];
    while (left) {
        const ssize_t n = read(fd, piece, left < sizeof piece ? (size_t)left : sizeof piece);
        if (n <= 0)
            return n < 0 ? sg_fail_sys(err, "read %s", sg_quote(k->path).s)
                         : sg_fail(err, SG_CONFLICT, "%s became shorter", sg_quote(k->path).s);
        if (archive_write_data(k->tar, piece, (size_t)n) != n)
            return fail_archive(k->tar, err);
        left -= (uint64_t)n;
    }
    return 0;
}

static int put_header(struct packer *k, struct archive_entry *e, struct sg_err *err)
{
    const int status = archive_write_header(k->tar, e);
    if (status != ARCHIVE_OK && status != ARCHIVE_WARN)
        return fail_archive(k->tar, err);
    return 0;
}

static struct archive_entry *describe(struct packer *k, const struct stat *st, const char *target,
                                      struct sg_err *err)
{
    struct archive_entry *e = archive_entry_new();
    if (!e) {
        (void)sg_fail(err, SG_EXHAUSTED, "no memory to pack with");
        return NULL;
    }
    archive_entry_copy_stat(e, st);
    archive_entry_copy_pathname(e, k->path);
    archive_entry_unset_atime(e);
    archive_entry_unset_ctime(e);
    archive_entry_unset_birthtime(e);
    if (target)
        archive_entry_copy_symlink(e, target);
    return e;
}

static int put_entry(struct packer *k, int dir_fd, const char *name, const struct stat *st,
                     struct sg_err *err)
{
    char target[PATH_MAX];
    sg_auto_fd fd = -1;
    if (S_ISLNK(st->st_mode)) {
        const ssize_t n = readlinkat(dir_fd, name, target, sizeof target - 1);
        if (n < 0)
            return sg_fail_sys(err, "read the link %s", sg_quote(k->path).s);
        target[n] = '\0';
    } else if (S_ISREG(st->st_mode)) {
        fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (fd < 0)
            return sg_fail_sys(err, "open %s", sg_quote(k->path).s);
    }
    struct archive_entry *e = describe(k, st, S_ISLNK(st->st_mode) ? target : NULL, err), *spare;
    if (!e)
        return -1;
    archive_entry_linkify(k->links, &e, &spare); /* tar keeps none back */
    const bool has_content = fd >= 0 && !archive_entry_hardlink(e);
    int done = put_header(k, e, err);
    archive_entry_free(e);
    if (done == 0 && has_content) {
        done = put_content(k, fd, (uint64_t)st->st_size, err);
        k->result.bytes += (uint64_t)st->st_size;
    }
    k->result.entries++;
    return done;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

struct names {
    char **v; /* owned */
    size_t n, cap;
};

static void names_done(struct names *names)
{
    for (size_t i = 0; i < names->n; i++)
        free(names->v[i]);
    free(names->v);
}

static int list(int dir_fd, struct names *ret, struct sg_err *err)
{
    int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    sg_auto_dir dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir) {
        sg_close_p(&fd);
        return sg_fail_sys(err, "list a directory");
    }
    for (struct dirent *d; (d = readdir(dir));) {
        if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
            continue;
        if (ret->n == ret->cap) {
            ret->cap = ret->cap ? 2 * ret->cap : 64;
            ret->v = reallocarray(ret->v, ret->cap, sizeof *ret->v);
            if (!ret->v)
                abort();
        }
        ret->v[ret->n++] = sg_strdup(d->d_name);
    }
    if (ret->n)
        qsort(ret->v, ret->n, sizeof *ret->v, by_name);
    return 0;
}

/* k->path is the directory's name with a slash at its end, or empty. */
static int put_tree(struct packer *k, int dir_fd, unsigned depth, struct sg_err *err)
{
    __attribute__((cleanup(names_done))) struct names names = { 0 };
    const size_t start = strlen(k->path);
    if (depth > MAX_DEPTH)
        return sg_fail(err, SG_EXHAUSTED, "directories are over %d deep", MAX_DEPTH);
    if (list(dir_fd, &names, err) < 0)
        return -1;
    for (size_t i = 0; i < names.n; i++, k->path[start] = '\0') {
        struct stat st;
        const int n = snprintf(k->path + start, sizeof k->path - start, "%s", names.v[i]);
        if ((size_t)n + 2 >= sizeof k->path - start)
            return sg_fail(err, SG_EXHAUSTED, "a path is too long");
        if (fstatat(dir_fd, names.v[i], &st, AT_SYMLINK_NOFOLLOW) < 0)
            return sg_fail_sys(err, "look at %s", sg_quote(k->path).s);
        if (!S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode) && !S_ISDIR(st.st_mode)) {
            k->result.skipped++;
            continue;
        }
        if (S_ISDIR(st.st_mode))
            memcpy(k->path + start + n, "/", 2);
        if (put_entry(k, dir_fd, names.v[i], &st, err) < 0)
            return -1;
        if (!S_ISDIR(st.st_mode))
            continue;
        sg_auto_fd below = sg_open_plain(dir_fd, names.v[i], O_RDONLY | O_DIRECTORY, 0);
        if (below < 0)
            return sg_fail_sys(err, "open %s", sg_quote(k->path).s);
        if (put_tree(k, below, depth + 1, err) < 0)
            return -1;
    }
    return 0;
}

/* ---- documents ---- */

static int put_document(struct packer *k, const struct sg_buf *text, struct sg_oci_hex *ret,
                        struct sg_err *err)
{
    char name[SG_PART_NAME];
    if (sg_buf_check(text, "document", err) < 0 || sg_digest_of(text->p, text->n, ret->s, err) < 0)
        return -1;
    sg_part_name(ret, name);
    sg_auto_fd fd =
        openat(k->out_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, text->p, text->n) != (ssize_t)text->n)
        return sg_fail_sys(err, "write a document of the image");
    return 0;
}

static void format_config(const struct sg_jval *run, const struct sg_oci_hex *diff,
                          struct sg_buf *out)
{
    char digest[SG_OCI_HEX + 8];
    (void)snprintf(digest, sizeof digest, "sha256:%s", diff->s);
    struct sg_json j;
    sg_json_init(&j, out);
    sg_json_open(&j, '{');
    sg_json_key(&j, "architecture");
    sg_json_str(&j, sg_oci_platform_own().arch);
    sg_json_key(&j, "os");
    sg_json_str(&j, "linux");
    sg_json_key(&j, "config");
    sg_json_put(&j, run);
    sg_json_key(&j, "rootfs");
    sg_json_open(&j, '{');
    sg_json_key(&j, "type");
    sg_json_str(&j, "layers");
    sg_json_key(&j, "diff_ids");
    sg_json_open(&j, '[');
    sg_json_str(&j, digest);
    sg_json_close(&j, ']');
    sg_json_close(&j, '}');
    sg_json_close(&j, '}');
}

static int put_documents(struct packer *k, const struct sg_jval *run, const struct sg_oci_hex *diff,
                         const struct sg_oci_hex *blob, struct sg_arena *a, struct sg_err *err)
{
    sg_auto_buf config, manifest;
    sg_buf_init(&config, SG_OCI_MAX_DOC);
    sg_buf_init(&manifest, SG_OCI_MAX_DOC);
    struct sg_oci_desc *layer = sg_arena_alloc(a, sizeof *layer);
    struct sg_oci_image *image = sg_arena_alloc(a, sizeof *image);
    struct sg_oci_config c;
    struct sg_oci_hex hex;
    if (!layer || !image)
        return sg_fail(err, SG_EXHAUSTED, "no memory to pack with");
    *layer = (struct sg_oci_desc) { .media_type = LAYER_TYPE, .hex = *blob, .size = k->size };
    struct sg_oci_doc doc = { .media_type = SG_OCI_MANIFEST_TYPE,
                              .config = { .media_type = CONFIG_TYPE },
                              .items = layer,
                              .n = 1 };
    format_config(run, diff, &config);
    if (put_document(k, &config, &doc.config.hex, err) < 0)
        return -1;
    doc.config.size = config.n;
    sg_oci_manifest_format(&doc.config, layer, 1, &manifest);
    if (put_document(k, &manifest, &hex, err) < 0 ||
        sg_oci_config_parse((struct sg_str) { (const char *)config.p, config.n }, a, &c, err) < 0 ||
        sg_oci_image_make(&doc, &c, &hex, manifest.n, a, image, err) < 0)
        return -1;
    k->result.image = image;
    return 0;
}

int sg_pack(int root_fd, int out_fd, struct sg_str config, struct sg_arena *a,
            struct sg_unpack_result *ret, struct sg_err *err)
{
    __attribute__((cleanup(packer_done))) struct packer k = { .out_fd = out_fd, .file_fd = -1 };
    const struct sg_jval *run;
    struct sg_oci_hex diff, blob;
    char name[SG_PART_NAME];
    if (sg_json_parse(config, a, &run, err) < 0)
        return -1;
    k.file_fd = openat(out_fd, "layer", O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (k.file_fd < 0)
        return sg_fail_sys(err, "write the layer");
    if (open_writers(&k, err) < 0 || put_tree(&k, root_fd, 0, err) < 0)
        return -1;
    if (archive_write_close(k.tar) != ARCHIVE_OK)
        return fail_archive(k.tar, err);
    if (archive_write_close(k.packed) != ARCHIVE_OK)
        return fail_archive(k.packed, err);
    if (sg_digest_end(&k.diff, diff.s, err) < 0 || sg_digest_end(&k.blob, blob.s, err) < 0)
        return -1;
    sg_part_name(&blob, name);
    if (renameat(out_fd, "layer", out_fd, name) < 0)
        return sg_fail_sys(err, "name the layer");
    if (put_documents(&k, run, &diff, &blob, a, err) < 0)
        return -1;
    *ret = k.result;
    return 0;
}
