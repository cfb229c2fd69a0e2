/* SPDX-License-Identifier: Apache-2.0 */
/* An image into a directory: its manifest, its configuration and its layers as "sha256-<hex>".
 *
 * P1. A file has that name when all of it is there and has that digest, and never before: until
 * then it is "sha256-<hex>.part", which the next pull goes on with. P2. Whoever fetches a blob has
 * it locked; another who wants it waits, and finds it done. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/json.h"
#include "image/layers.h"
#include "registry/registry.h"
#include "base/banned.h"

enum { TRIES = 5, MAX_NESTED = 4, TICK_NS = 200000000, COPY_BYTES = 256 << 10 };
enum { PART_FILE = SG_PART_NAME + 8 };
static const uint64_t MAX_BYTES = UINT64_C(8) << 30; /* as of what an import unpacks */
#define PARTS_DIR "/state"

static const char manifest_types[] = SG_OCI_MANIFEST_TYPE
    ", " SG_OCI_INDEX_TYPE ", application/vnd.docker.distribution.manifest.v2+json"
    ", application/vnd.docker.distribution.manifest.list.v2+json";

struct pull {
    struct sg_registry *r;
    struct sg_arena *a;
    int dir_fd;
    uint64_t done, total;
    uint64_t told_ns;
};

static void tell(struct pull *p, bool is_last)
{
    const uint64_t now = sg_now_ns();
    if (!is_last && now - p->told_ns < TICK_NS)
        return;
    p->told_ns = now;
    sg_registry_progress(p->done, p->total);
}

/* What is to become `name`, locked. It may be there by now: by us, or by whom we waited for. */
static int open_part(struct pull *p, const char *name, uint64_t size, char part[PART_FILE],
                     bool *ret_is_there, struct sg_err *err)
{
    struct stat st;
    (void)snprintf(part, PART_FILE, "%s.part", name);
    sg_auto_fd fd = openat(p->dir_fd, part, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0 || flock(fd, LOCK_EX) < 0)
        return sg_fail_sys(err, "write '%s'", part);
    *ret_is_there = fstatat(p->dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
                    (uint64_t)st.st_size == size; /* P1 */
    if (*ret_is_there)
        (void)unlinkat(p->dir_fd, part, 0);
    return sg_take_fd(&fd);
}

/* ---- documents ---- */

static int take_text(void *arg, const void *p, size_t n)
{
    struct sg_buf *text = arg;
    sg_buf_add(text, p, n);
    return text->has_overflowed ? -1 : 0;
}

static int lay_down(struct pull *p, const struct sg_oci_hex *hex, const struct sg_buf *text,
                    struct sg_err *err)
{
    char name[SG_PART_NAME], part[PART_FILE];
    bool is_there;
    sg_part_name(hex, name);
    sg_auto_fd fd = open_part(p, name, text->n, part, &is_there, err);
    if (fd < 0)
        return -1;
    if (!is_there && (ftruncate(fd, 0) < 0 || pwrite(fd, text->p, text->n, 0) != (ssize_t)text->n ||
                      renameat(p->dir_fd, part, p->dir_fd, name) < 0))
        return sg_fail_sys(err, "write '%s'", name);
    return 0;
}

/* A document by what it is called, or by its digest, which it then has. Laid down as well. */
static int fetch_document(struct pull *p, const char *path, const char *accept, const char *wanted,
                          struct sg_str *ret, struct sg_oci_hex *ret_hex, struct sg_err *err)
{
    sg_auto_buf text;
    sg_buf_init(&text, SG_OCI_MAX_DOC);
    sg_auto_free struct sg_call *c = sg_new(struct sg_call);
    *c = (struct sg_call) { .method = "GET",
                            .url = path,
                            .accept = accept,
                            .body_fd = -1,
                            .take = take_text,
                            .arg = &text };
    if (sg_registry_call(p->r, c, err) < 0)
        return text.has_overflowed
                   ? sg_fail(err, SG_EXHAUSTED, "it has more than %d bytes", SG_OCI_MAX_DOC)
                   : -1;
    if (sg_digest_of(text.p, text.n, ret_hex->s, err) < 0)
        return -1;
    const char *said = sg_starts_with(c->digest, "sha256:") ? c->digest + 7 : "";
    const char *must = *wanted ? wanted : said;
    if (*must && strcmp(must, ret_hex->s) != 0)
        return sg_fail(err, SG_INVALID,
                       "digest mismatch: it is sha256:%.12s..., not sha256:%.12s...", ret_hex->s,
                       must);
    if (lay_down(p, ret_hex, &text, err) < 0)
        return -1;
    const char *copy = sg_arena_copy(p->a, text.n ? (const char *)text.p : "", text.n);
    if (!copy)
        return sg_fail(err, SG_EXHAUSTED, "the image describes too much");
    *ret = (struct sg_str) { copy, text.n };
    return 0;
}

static int find_manifest(struct pull *p, const struct sg_oci_platform *platform,
                         struct sg_oci_doc *ret, struct sg_oci_hex *ret_hex, uint64_t *ret_size,
                         struct sg_err *err)
{
    const struct sg_registry_request *q = p->r->request;
    const char *wanted = q->hex;
    for (int nested = 0; nested < MAX_NESTED; nested++) {
        struct sg_str text;
        const struct sg_oci_desc *chosen;
        sg_auto_free char *path = sg_printf("%s/manifests/%s%s", q->repository,
                                            *wanted ? "sha256:" : "", *wanted ? wanted : q->tag);
        if (fetch_document(p, path, manifest_types, wanted, &text, ret_hex, err) < 0)
            return sg_wrap(err, "the manifest");
        if (sg_oci_doc_parse(text, p->a, ret, err) < 0)
            return sg_wrap(err, "the manifest");
        *ret_size = text.n;
        if (!ret->is_index)
            return 0;
        char name[SG_PART_NAME];
        sg_part_name(ret_hex, name);
        (void)unlinkat(p->dir_fd, name, 0); /* a list is no part of the image */
        if (sg_oci_index_choose(ret, platform, NULL, &chosen, err) < 0)
            return -1;
        wanted = chosen->hex.s;
    }
    return sg_fail(err, SG_INVALID, "indexes lead to indexes and to no image");
}

/* ---- blobs ---- */

struct blob {
    struct pull *p;
    const struct sg_oci_desc *desc;
    int fd; /* the part */
    uint64_t size;
    struct sg_digest digest;
    struct sg_call *call;
    struct sg_err *err;
};

static int restart(struct blob *b)
{
    sg_digest_done(&b->digest);
    b->p->done -= b->size;
    b->size = 0;
    return ftruncate(b->fd, 0) < 0 ? sg_fail_sys(b->err, "write a layer")
                                   : sg_digest_init(&b->digest, b->err);
}

static int take_bytes(void *arg, const void *p, size_t n)
{
    struct blob *b = arg;
    if (b->call->from && b->call->is_whole) { /* it sends all of it again */
        b->call->from = 0;
        if (restart(b) < 0)
            return -1;
    }
    if (n > b->desc->size - b->size)
        return sg_fail(b->err, SG_INVALID, "blob sha256:%.12s... is longer than its manifest says",
                       b->desc->hex.s);
    for (size_t done = 0; done < n;) {
        const ssize_t put =
            pwrite(b->fd, (const char *)p + done, n - done, (off_t)(b->size + done));
        if (put < 0)
            return sg_fail_sys(b->err, "write a layer");
        done += (size_t)put;
    }
    sg_digest_add(&b->digest, p, n);
    b->size += n;
    b->p->done += n;
    tell(b->p, false);
    return 0;
}

/* What an earlier pull left counts, and is read for the digest. */
static int read_part(struct blob *b)
{
    static char piece[COPY_BYTES];
    struct stat st;
    if (sg_digest_init(&b->digest, b->err) < 0)
        return -1;
    if (fstat(b->fd, &st) < 0)
        return sg_fail_sys(b->err, "look at a part of a layer");
    if ((uint64_t)st.st_size > b->desc->size)
        return restart(b);
    while (b->size < (uint64_t)st.st_size) {
        const ssize_t n = pread(b->fd, piece, sizeof piece, (off_t)b->size);
        if (n <= 0)
            return sg_fail_sys(b->err, "read a part of a layer");
        sg_digest_add(&b->digest, piece, (size_t)n);
        b->size += (uint64_t)n;
        b->p->done += (uint64_t)n;
    }
    return 0;
}

static int fetch_rest(struct blob *b)
{
    const struct sg_registry_request *q = b->p->r->request;
    sg_auto_free char *path = sg_printf("%s/blobs/sha256:%s", q->repository, b->desc->hex.s);
    sg_auto_free struct sg_call *c = sg_new(struct sg_call);
    for (int tries = 0; b->size < b->desc->size; tries++) {
        const uint64_t before = b->size;
        *c = (struct sg_call) { .method = "GET",
                                .url = path,
                                .body_fd = -1,
                                .from = b->size,
                                .take = take_bytes,
                                .arg = b };
        b->call = c;
        if (sg_registry_call(b->p->r, c, b->err) == 0 && b->size == b->desc->size)
            return 0;
        if (b->size > before)
            tries = 0; /* it goes on */
        if (!c->was_cut && b->size == before)
            return c->status >= 200 && c->status < 300
                       ? sg_fail(b->err, SG_INVALID,
                                 "blob sha256:%.12s... is shorter than it should be",
                                 b->desc->hex.s)
                       : -1;
        if (tries == TRIES)
            return -1;
        const struct timespec pause = { .tv_nsec = 300000000L };
        (void)nanosleep(&pause, NULL);
    }
    return 0;
}

static int finish(struct blob *b, const char *part, const char *name)
{
    struct sg_oci_hex got;
    if (sg_digest_end(&b->digest, got.s, b->err) < 0)
        return -1;
    if (strcmp(got.s, b->desc->hex.s) != 0) {
        (void)unlinkat(b->p->dir_fd, part, 0);
        return sg_fail(b->err, SG_INVALID,
                       "digest mismatch: a blob is sha256:%.12s..., not sha256:%.12s...", got.s,
                       b->desc->hex.s);
    }
    if (fsync(b->fd) < 0 || renameat(b->p->dir_fd, part, b->p->dir_fd, name) < 0)
        return sg_fail_sys(b->err, "name a layer");
    return 0;
}

static void blob_done(struct blob *b)
{
    sg_digest_done(&b->digest);
    sg_drop_fd(&b->fd);
}

static int fetch_blob(struct pull *p, const struct sg_oci_desc *d, struct sg_err *err)
{
    __attribute__((cleanup(blob_done))) struct blob b = { .p = p, .desc = d, .fd = -1, .err = err };
    char name[SG_PART_NAME], part[PART_FILE];
    bool is_there;
    sg_part_name(&d->hex, name);
    b.fd = open_part(p, name, d->size, part, &is_there, err);
    if (b.fd < 0)
        return -1;
    if (is_there) {
        p->done += d->size;
        return 0;
    }
    if (read_part(&b) < 0 || fetch_rest(&b) < 0)
        return -1;
    return finish(&b, part, name);
}

static bool is_there(const struct sg_registry_request *q, const struct sg_oci_hex *hex)
{
    for (size_t i = 0; i < q->have_count; i++)
        if (strcmp(q->have[i].s, hex->s) == 0)
            return true;
    return false;
}

static int fetch_layers(struct pull *p, const struct sg_oci_doc *doc, struct sg_err *err)
{
    for (size_t i = 0; i < doc->n; i++)
        if (!is_there(p->r->request, &doc->items[i].hex) &&
            (__builtin_add_overflow(p->total, doc->items[i].size, &p->total) ||
             p->total > MAX_BYTES))
            return sg_fail(err, SG_EXHAUSTED, "the layers have more than %" PRIu64 " bytes",
                           MAX_BYTES);
    for (size_t i = 0; i < doc->n; i++)
        if (!is_there(p->r->request, &doc->items[i].hex) && fetch_blob(p, &doc->items[i], err) < 0)
            return sg_wrap(err, "layer %zu of %zu", i + 1, doc->n);
    tell(p, true);
    return 0;
}

static int print_image(const struct sg_oci_image *image, struct sg_err *err)
{
    sg_auto_buf out;
    sg_buf_init(&out, SG_OCI_MAX_DOC);
    struct sg_json j;
    sg_json_init(&j, &out);
    sg_json_open(&j, '{');
    sg_json_key(&j, "image");
    sg_oci_image_format(image, &j);
    sg_json_close(&j, '}');
    sg_buf_add_str(&out, "\n");
    if (sg_buf_check(&out, "description of the image", err) < 0)
        return -1;
    return fwrite(out.p, 1, out.n, stdout) == out.n && fflush(stdout) == 0
               ? 0
               : sg_fail_sys(err, "say what there is");
}

static int pull(struct pull *p, struct sg_err *err)
{
    const struct sg_registry_request *q = p->r->request;
    struct sg_oci_platform platform = sg_oci_platform_own();
    struct sg_oci_doc doc;
    struct sg_oci_config config;
    struct sg_oci_image image;
    struct sg_oci_hex manifest, hex;
    struct sg_str text;
    uint64_t size;
    if ((*q->platform && sg_oci_platform_parse(q->platform, p->a, &platform, err) < 0) ||
        find_manifest(p, &platform, &doc, &manifest, &size, err) < 0)
        return -1;
    sg_auto_free char *path = sg_printf("%s/blobs/sha256:%s", q->repository, doc.config.hex.s);
    if (fetch_document(p, path, NULL, doc.config.hex.s, &text, &hex, err) < 0 ||
        sg_oci_config_parse(text, p->a, &config, err) < 0)
        return sg_wrap(err, "the image's configuration");
    if (sg_oci_config_check(&config, &platform, doc.n, err) < 0 ||
        sg_oci_image_make(&doc, &config, &manifest, size, p->a, &image, err) < 0 ||
        fetch_layers(p, &doc, err) < 0)
        return -1;
    return print_image(&image, err);
}

int sg_registry_pull(struct sg_registry *r, struct sg_err *err)
{
    sg_auto_arena a;
    sg_arena_init(&a, SG_OCI_ARENA);
    sg_auto_fd dir = open(PARTS_DIR, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return sg_fail_sys(err, "open the directory for parts");
    struct pull p = { .r = r, .a = &a, .dir_fd = dir };
    return pull(&p, err);
}
