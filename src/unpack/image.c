/* SPDX-License-Identifier: Apache-2.0 */
/* An archive that holds an image: an OCI layout, or what `docker save` writes.
 *
 * It is a stream, and what tells which files matter may come last. So each file is written down
 * under a number while its digest is taken; when all are there, the documents say which of them are
 * the image, those are renamed to what they are (sha256-<digest>), and the others go. Nothing is
 * believed: a file is the blob of a name only where its digest is. */
#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/str.h"
#include "image/layers.h"
#include "unpack/unpack_internal.h"

#include "base/banned.h"

enum { MAX_PARTS = 8192, MAX_NESTED = 4, NUMBERED = 24 };

struct part {
    const char *name;
    const char *link; /* the name that it stands for; NULL: it is a file itself */
    uint64_t size;
    struct sg_oci_hex hex;
    unsigned number;
    bool is_kept;
};

struct taken {
    struct sg_unpack_job *job;
    struct sg_arena *a;
    struct part *parts;
    unsigned n;
};

bool sg_image_is_first(const char *path)
{
    static const char *const names[] = { "blobs", "oci-layout", "index.json", "manifest.json",
                                         "repositories" };
    const struct sg_str first = { path, strcspn(path, "/") };
    for (size_t i = 0; i < SG_COUNT(names); i++)
        if (sg_str_is(first, names[i]))
            return true;
    return sg_oci_is_hex((struct sg_str) { path, strcspn(path, "/.") });
}

static void numbered(char ret[NUMBERED], unsigned number)
{
    (void)snprintf(ret, NUMBERED, "part-%u", number);
}

static int no_memory(struct sg_err *err)
{
    return sg_fail(err, SG_EXHAUSTED, "the archive describes too much");
}

/* ---- files ---- */

static struct part *find(struct taken *t, const char *name)
{
    for (int hops = 0; hops < 2; hops++) {
        struct part *p = NULL;
        for (unsigned i = 0; i < t->n && !p; i++)
            if (strcmp(t->parts[i].name, name) == 0)
                p = &t->parts[i];
        if (!p || !p->link)
            return p;
        name = p->link;
    }
    return NULL; /* a link to a link */
}

static int take_file(struct taken *t, struct archive_entry *e, struct part *p, struct sg_err *err)
{
    char name[NUMBERED];
    numbered(name, p->number);
    sg_auto_digest digest = { NULL };
    sg_auto_fd fd = openat(t->job->out.root_fd, name,
                           O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return sg_fail_sys(err, "write %s", t->job->last);
    p->size = (uint64_t)(archive_entry_size(e) > 0 ? archive_entry_size(e) : 0);
    if (sg_digest_init(&digest, err) < 0 || sg_unpack_content(t->job, e, fd, &digest, err) < 0)
        return -1;
    return sg_digest_end(&digest, p->hex.s, err);
}

/* `docker save` says with a link that two layers are the same: "../<other>/layer.tar". */
static int take_link(struct taken *t, const char *target, struct part *p, struct sg_err *err)
{
    struct sg_entry_name plain;
    const bool is_beside = sg_starts_with(target, "../");
    if (sg_entry_name_parse(is_beside ? target + 3 : target, 2, &plain, err) < 0)
        return sg_wrap(err, "entry %s is a link", t->job->last);
    p->link = sg_arena_copy(t->a, plain.path, strlen(plain.path));
    return p->link ? 0 : no_memory(err);
}

static int take_entry(struct taken *t, struct archive_entry *e, const struct sg_entry_name *name,
                      struct sg_err *err)
{
    const char *hard = archive_entry_hardlink(e), *soft = archive_entry_symlink(e);
    const bool is_file = archive_entry_filetype(e) == AE_IFREG;
    if (!hard && archive_entry_filetype(e) == AE_IFDIR)
        return 0;
    if (!hard && !is_file && !soft)
        return sg_fail(err, SG_INVALID, "entry %s has no business in an image", t->job->last);
    if (find(t, name->path))
        return sg_fail(err, SG_INVALID, "entry %s appears twice", t->job->last);
    if (t->n == MAX_PARTS)
        return sg_fail(err, SG_EXHAUSTED, "the archive has more than %d files and is no image",
                       MAX_PARTS);
    struct part *p = &t->parts[t->n];
    *p = (struct part) { .name = sg_arena_copy(t->a, name->path, strlen(name->path)),
                         .number = t->n };
    if (!p->name)
        return no_memory(err);
    if (hard || soft ? take_link(t, hard ? hard : soft, p, err) < 0 : take_file(t, e, p, err) < 0)
        return -1;
    t->n++;
    return 0;
}

static int read_part(struct taken *t, const struct part *p, struct sg_str *ret, struct sg_err *err)
{
    char name[NUMBERED];
    numbered(name, p->number);
    sg_auto_fd fd = openat(t->job->out.root_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    sg_auto_buf text;
    sg_buf_init(&text, SG_OCI_MAX_DOC);
    if (fd < 0)
        return sg_fail_sys(err, "read %s", sg_quote(p->name).s);
    if (sg_buf_read_fd(&text, fd, p->name, err) < 0)
        return -1;
    const char *copy = sg_arena_copy(t->a, text.n ? (const char *)text.p : "", text.n);
    if (!copy)
        return no_memory(err);
    *ret = (struct sg_str) { copy, text.n };
    return 0;
}

/* ---- documents ---- */

static int find_blob(struct taken *t, const struct sg_oci_desc *d, struct part **ret,
                     struct sg_err *err)
{
    char name[SG_OCI_HEX + 16];
    (void)snprintf(name, sizeof name, "blobs/sha256/%s", d->hex.s);
    struct part *p = find(t, name);
    if (!p)
        return sg_fail(err, SG_INVALID,
                       "the archive lacks the blob sha256:%.12s... that its image names", d->hex.s);
    if (strcmp(p->hex.s, d->hex.s) != 0 || p->size != d->size)
        return sg_fail(err, SG_INVALID,
                       "the content of blob sha256:%.12s... is another: sha256:%.12s...", d->hex.s,
                       p->hex.s);
    p->is_kept = true;
    *ret = p;
    return 0;
}

static int read_config(struct taken *t, const struct part *p, struct sg_oci_config *ret,
                       struct sg_err *err)
{
    struct sg_str text;
    if (read_part(t, p, &text, err) < 0 || sg_oci_config_parse(text, t->a, ret, err) < 0)
        return sg_wrap(err, "the image's configuration");
    return 0;
}

static int describe(struct taken *t, const struct sg_oci_doc *doc,
                    const struct sg_oci_config *config, const struct sg_oci_hex *manifest,
                    uint64_t manifest_size, struct sg_err *err)
{
    struct sg_oci_image *image = sg_arena_alloc(t->a, sizeof *image);
    if (!image)
        return no_memory(err);
    if (sg_oci_config_check(config, t->job->options->platform, doc->n, err) < 0 ||
        sg_oci_image_make(doc, config, manifest, manifest_size, t->a, image, err) < 0)
        return -1;
    t->job->result.image = image;
    return 0;
}

/* An index may lead to another: one per platform below one per name. */
static int resolve_layout(struct taken *t, const struct part *index, struct sg_err *err)
{
    const char *name = t->job->options->image;
    const struct part *at = index;
    struct sg_oci_doc doc;
    for (int nested = 0;; nested++) {
        struct sg_str text;
        const struct sg_oci_desc *chosen;
        struct part *next;
        if (read_part(t, at, &text, err) < 0 || sg_oci_doc_parse(text, t->a, &doc, err) < 0)
            return sg_wrap(err, "%s", sg_quote(at->name).s);
        if (!doc.is_index)
            break;
        if (nested == MAX_NESTED)
            return sg_fail(err, SG_INVALID, "indexes lead to indexes and to no image");
        if (sg_oci_index_choose(&doc, t->job->options->platform, name, &chosen, err) < 0 ||
            find_blob(t, chosen, &next, err) < 0)
            return -1;
        name = NULL;
        next->is_kept = false;
        at = next;
    }
    struct part *manifest = find(t, at->name), *config;
    struct sg_oci_config c;
    if (find_blob(t, &doc.config, &config, err) < 0 || read_config(t, config, &c, err) < 0)
        return -1;
    for (size_t i = 0; i < doc.n; i++) {
        struct part *layer;
        if (find_blob(t, &doc.items[i], &layer, err) < 0)
            return -1;
    }
    manifest->is_kept = true;
    return describe(t, &doc, &c, &manifest->hex, manifest->size, err);
}

/* ---- docker save ---- */

/* By its first bytes, as `docker load` does it. */
static const char *layer_type(struct taken *t, const struct part *p)
{
    char name[NUMBERED];
    unsigned char b[4] = { 0 };
    numbered(name, p->number);
    sg_auto_fd fd = openat(t->job->out.root_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    (void)!read(fd, b, sizeof b);
    if (b[0] == 0x1f && b[1] == 0x8b)
        return "application/vnd.oci.image.layer.v1.tar+gzip";
    if (b[0] == 0x28 && b[1] == 0xb5 && b[2] == 0x2f && b[3] == 0xfd)
        return "application/vnd.oci.image.layer.v1.tar+zstd";
    return "application/vnd.oci.image.layer.v1.tar";
}

static int write_manifest(struct taken *t, const struct sg_oci_doc *doc, struct sg_oci_hex *ret,
                          uint64_t *ret_size, struct sg_err *err)
{
    sg_auto_buf text;
    char name[SG_PART_NAME];
    sg_buf_init(&text, SG_OCI_MAX_DOC);
    sg_oci_manifest_format(&doc->config, doc->items, doc->n, &text);
    if (sg_buf_check(&text, "manifest", err) < 0 || sg_digest_of(text.p, text.n, ret->s, err) < 0)
        return -1;
    sg_part_name(ret, name);
    sg_auto_fd fd = openat(t->job->out.root_fd, name,
                           O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, text.p, text.n) != (ssize_t)text.n)
        return sg_fail_sys(err, "write the manifest");
    *ret_size = text.n;
    return 0;
}

static int find_named(struct taken *t, const char *name, struct part **ret, struct sg_err *err)
{
    *ret = find(t, name);
    if (!*ret)
        return sg_fail(err, SG_INVALID, "the archive lacks %s, which its image names",
                       sg_quote(name).s);
    (*ret)->is_kept = true;
    return 0;
}

static int resolve_saved(struct taken *t, const struct part *list, struct sg_err *err)
{
    struct sg_str text;
    struct sg_oci_saved saved;
    struct sg_oci_config c;
    struct part *p;
    if (read_part(t, list, &text, err) < 0 ||
        sg_oci_saved_parse(text, t->job->options->image, t->a, &saved, err) < 0)
        return sg_wrap(err, "'manifest.json'");
    if (find_named(t, saved.config, &p, err) < 0 || read_config(t, p, &c, err) < 0)
        return -1;
    struct sg_oci_doc doc = {
        .media_type = SG_OCI_MANIFEST_TYPE,
        .config = { .media_type = "application/vnd.oci.image.config.v1+json",
                    .hex = p->hex,
                    .size = p->size },
        .items = sg_arena_alloc(t->a, (saved.n + 1) * sizeof *doc.items),
        .n = saved.n,
    };
    if (!doc.items)
        return no_memory(err);
    for (size_t i = 0; i < saved.n; i++) {
        if (find_named(t, saved.layers[i], &p, err) < 0)
            return -1;
        doc.items[i] =
            (struct sg_oci_desc) { .media_type = layer_type(t, p), .hex = p->hex, .size = p->size };
    }
    struct sg_oci_hex manifest;
    uint64_t size;
    if (write_manifest(t, &doc, &manifest, &size, err) < 0)
        return -1;
    return describe(t, &doc, &c, &manifest, size, err);
}

/* ---- all of it ---- */

static int settle(struct taken *t, struct sg_err *err)
{
    const int dir = t->job->out.root_fd;
    for (unsigned i = 0; i < t->n; i++) {
        const struct part *p = &t->parts[i];
        char from[NUMBERED], to[SG_PART_NAME];
        numbered(from, p->number);
        sg_part_name(&p->hex, to);
        if (!p->link && (p->is_kept ? renameat(dir, from, dir, to) : unlinkat(dir, from, 0)) < 0)
            return sg_fail_sys(err, "name %s", sg_quote(p->name).s);
    }
    return 0;
}

int sg_image_take(struct sg_unpack_job *job, struct archive_entry *e,
                  const struct sg_entry_name *name, struct sg_err *err)
{
    struct taken t = { .job = job, .a = job->options->arena };
    t.parts = sg_arena_alloc(t.a, MAX_PARTS * sizeof *t.parts);
    if (!t.parts)
        return no_memory(err);
    struct sg_entry_name at = *name;
    int more = 1;
    for (; more > 0; more = sg_unpack_next(job, &e, &at, err))
        if (take_entry(&t, e, &at, err) < 0)
            return -1;
    if (more < 0)
        return -1;
    const struct part *index = find(&t, "index.json"), *saved = find(&t, "manifest.json");
    if (!index && !saved)
        return sg_fail(err, SG_INVALID,
                       "the archive is truncated: it has neither 'index.json' nor 'manifest.json'");
    if ((index ? resolve_layout(&t, index, err) : resolve_saved(&t, saved, err)) < 0)
        return -1;
    return settle(&t, err);
}
