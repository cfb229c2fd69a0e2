/* SPDX-License-Identifier: Apache-2.0 */
/* libarchive decodes, writer.c writes: libarchive's own disk writer is not used, because it
 * resolves names by path. ARCHIVE_WARN counts as success throughout; it is what a name outside of
 * the locale's character set gives, and a loop that took only ARCHIVE_OK would end early in
 * silence. */
#include "unpack/unpack.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/str.h"
#include "image/layers.h"
#include "image/root.h"
#include "unpack/unpack_internal.h"

#include "base/banned.h"

enum { MAX_ID = 65535 };

struct sg_unpack_options sg_unpack_defaults(void)
{
    return (struct sg_unpack_options) {
        .max_entries = 1000000,
        .max_bytes = UINT64_C(8) << 30,
        .max_ratio = 200,
        .ratio_free_bytes = UINT64_C(64) << 20,
        .max_depth = 128,
    };
}

static bool is_fine(int status)
{
    return status == ARCHIVE_OK || status == ARCHIVE_WARN;
}

static int fail_archive(const struct sg_unpack_job *job, struct sg_err *err)
{
    return sg_source_fail(&job->in, job->last, err);
}

/* A bomb shows in either number: content, or the decoded stream (headers, skipped entries). */
static int check_ratio(const struct sg_unpack_job *job, uint64_t unpacked, struct sg_err *err)
{
    uint64_t packed = sg_source_packed(&job->in), stream = sg_source_stream(&job->in);
    uint64_t larger = unpacked > stream ? unpacked : stream;
    if (larger > job->options->ratio_free_bytes &&
        larger / (packed ? packed : 1) > job->options->max_ratio)
        return sg_fail(err, SG_EXHAUSTED,
                       "entry %s unpacks to more than %" PRIu64 " times its size in the archive",
                       job->last, job->options->max_ratio);
    return 0;
}

static void note_skipped(struct sg_unpack_job *job)
{
    if (job->result.skipped++ == 0)
        memcpy(job->result.first_skipped, job->last, sizeof job->last);
}

static int write_at(int fd, const void *p, size_t n, int64_t offset)
{
    for (size_t done = 0; done < n;) {
        ssize_t put = pwrite(fd, (const char *)p + done, n - done, offset + (int64_t)done);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return -1;
        done += (size_t)put;
    }
    return 0;
}

static int fail_holes(const struct sg_unpack_job *job, struct sg_err *err)
{
    return sg_fail(err, SG_INVALID, "entry %s has holes, and a blob has none", job->last);
}

/* Blocks come with offsets, so the holes of a sparse file stay holes on disk. What has a digest has
 * none: it would be that of another content. */
static int copy_content(struct sg_unpack_job *job, int fd, uint64_t size, struct sg_digest *digest,
                        struct sg_err *err)
{
    uint64_t at = 0;
    for (;;) {
        const void *block;
        size_t n;
        int64_t offset;
        int status = archive_read_data_block(job->in.tar, &block, &n, &offset);
        if (status == ARCHIVE_EOF)
            break;
        if (!is_fine(status))
            return fail_archive(job, err);
        if (offset < 0 || (uint64_t)offset > size || n > size - (uint64_t)offset)
            return sg_fail(err, SG_INVALID, "entry %s has more content than it says", job->last);
        if (check_ratio(job, job->result.bytes + (uint64_t)offset + n, err) < 0)
            return -1;
        if (write_at(fd, block, n, offset) < 0)
            return sg_fail_sys(err, "write %s", job->last);
        if (digest && (uint64_t)offset != at)
            return fail_holes(job, err);
        if (digest)
            sg_digest_add(digest, block, n);
        at = (uint64_t)offset + n;
    }
    if (digest && at != size)
        return fail_holes(job, err);
    if (ftruncate(fd, (off_t)size) < 0)
        return sg_fail_sys(err, "write %s", job->last);
    job->result.bytes += size;
    return check_ratio(job, job->result.bytes, err);
}

int sg_unpack_content(struct sg_unpack_job *job, struct archive_entry *e, int fd,
                      struct sg_digest *digest, struct sg_err *err)
{
    int64_t size = archive_entry_size(e);
    uint64_t left = job->options->max_bytes - job->result.bytes;
    if (size < 0 || (uint64_t)size > left)
        return sg_fail(err, SG_EXHAUSTED, "entry %s takes the content over %" PRIu64 " bytes",
                       job->last, job->options->max_bytes);
    return copy_content(job, fd, (uint64_t)size, digest, err);
}

static int add_file(struct sg_unpack_job *job, struct archive_entry *e,
                    const struct sg_entry_name *name, const struct sg_node *node,
                    struct sg_err *err)
{
    sg_auto_fd fd = sg_writer_create(&job->out, name, err);
    if (fd < 0 || sg_unpack_content(job, e, fd, NULL, err) < 0)
        return -1;
    return sg_writer_finish(&job->out, fd, name, node, err);
}

static int add_dir(struct sg_unpack_job *job, struct archive_entry *e,
                   const struct sg_entry_name *name, const struct sg_node *node, struct sg_err *err)
{
    (void)e;
    return sg_writer_dir(&job->out, name, node, err);
}

static int add_symlink(struct sg_unpack_job *job, struct archive_entry *e,
                       const struct sg_entry_name *name, const struct sg_node *node,
                       struct sg_err *err)
{
    const char *target = archive_entry_symlink(e);
    if (!target)
        target = archive_entry_symlink_utf8(e);
    if (!target || !target[0])
        return sg_fail(err, SG_INVALID, "entry %s is a link to nothing", job->last);
    return sg_writer_symlink(&job->out, name, target, node, err);
}

static int add_device(struct sg_unpack_job *job, struct archive_entry *e,
                      const struct sg_entry_name *name, const struct sg_node *node,
                      struct sg_err *err)
{
    (void)e, (void)node;
    /* Root archives commonly carry a /dev; every cell brings its own, so nobody misses it. */
    if (!job->options->skips_devices && !sg_starts_with(name->path, "dev/"))
        return sg_fail(err, SG_INVALID, "entry %s is a device node", job->last);
    note_skipped(job);
    return 0;
}

static int add_nothing(struct sg_unpack_job *job, struct archive_entry *e,
                       const struct sg_entry_name *name, const struct sg_node *node,
                       struct sg_err *err)
{
    (void)e, (void)name, (void)node, (void)err;
    note_skipped(job);
    return 0;
}

static const struct kind {
    mode_t type;
    int (*add)(struct sg_unpack_job *, struct archive_entry *, const struct sg_entry_name *,
               const struct sg_node *, struct sg_err *);
} kinds[] = {
    { AE_IFREG, add_file },    { AE_IFDIR, add_dir },      { AE_IFLNK, add_symlink },
    { AE_IFCHR, add_device },  { AE_IFBLK, add_device }, /* a whiteout is a character device */
    { AE_IFIFO, add_nothing }, { AE_IFSOCK, add_nothing },
};

static int add_hardlink(struct sg_unpack_job *job, const char *raw_target,
                        const struct sg_entry_name *name, struct sg_err *err)
{
    struct sg_entry_name target;
    if (sg_entry_name_parse(raw_target, job->options->max_depth, &target, err) < 0)
        return sg_wrap(err, "entry %s is a link", job->last);
    return sg_writer_hardlink(&job->out, name, &target, err);
}

static int read_node(struct sg_unpack_job *job, struct archive_entry *e, struct sg_node *ret,
                     struct sg_err *err)
{
    int64_t uid = archive_entry_uid(e), gid = archive_entry_gid(e);
    if (!job->options->is_one_user && (uid < 0 || uid > MAX_ID || gid < 0 || gid > MAX_ID))
        return sg_fail(err, SG_INVALID, "entry %s has owner %" PRId64 ":%" PRId64 ", not 0 to %d",
                       job->last, uid, gid, MAX_ID);
    mode_t perm = archive_entry_perm(e);
    if (archive_entry_filetype(e) != AE_IFDIR && (perm & 06000) && !job->options->keeps_setuid) {
        perm &= (mode_t)~06000;
        job->result.setuid_dropped++;
    }
    long nsec = archive_entry_mtime_nsec(e);
    *ret = (struct sg_node) {
        .perm = perm & 07777,
        .uid = (uid_t)uid,
        .gid = (gid_t)gid,
        .mtime = { archive_entry_mtime(e), nsec >= 0 && nsec < 1000000000 ? nsec : 0 },
    };
    return 0;
}

/* In a layer, a name that begins with .wh. takes something away from the layers below, and nothing
 * else may have one: merged, it would be a file to some and an order to others. */
static int check_whiteout(struct sg_unpack_job *job, struct archive_entry *e,
                          const struct sg_entry_name *name, bool *ret_is_skipped,
                          struct sg_err *err)
{
    const char *leaf = name->path;
    for (const char *slash; (slash = strchr(leaf, '/')); leaf = slash + 1)
        if (sg_starts_with(leaf, SG_WHITEOUT))
            return sg_fail(err, SG_INVALID, "entry %s is below a whiteout", job->last);
    if (!sg_starts_with(leaf, SG_WHITEOUT))
        return 0;
    const char *hidden = leaf + strlen(SG_WHITEOUT);
    if (archive_entry_hardlink(e) || archive_entry_filetype(e) != AE_IFREG ||
        archive_entry_size(e) != 0)
        return sg_fail(err, SG_INVALID, "entry %s is a whiteout and no empty file", job->last);
    if (!*hidden || strcmp(hidden, ".") == 0 || strcmp(hidden, "..") == 0)
        return sg_fail(err, SG_INVALID, "entry %s is a whiteout of no name", job->last);
    /* What else is doubled is what an old filesystem kept for itself. */
    *ret_is_skipped = sg_starts_with(hidden, SG_WHITEOUT) && strcmp(leaf, SG_WHITEOUT_ALL) != 0;
    return 0;
}

static int add_entry(struct sg_unpack_job *job, struct archive_entry *e,
                     const struct sg_entry_name *name, struct sg_err *err)
{
    struct sg_node node;
    bool is_skipped = false;
    if (read_node(job, e, &node, err) < 0 || check_ratio(job, job->result.bytes, err) < 0 ||
        (job->options->is_layer && check_whiteout(job, e, name, &is_skipped, err) < 0))
        return -1;
    if (is_skipped)
        return 0;
    const char *hardlink = archive_entry_hardlink(e);
    if (!hardlink)
        hardlink = archive_entry_hardlink_utf8(e);
    if (!name->path[0] && (hardlink || archive_entry_filetype(e) != AE_IFDIR))
        return sg_fail(err, SG_INVALID, "entry %s is not a directory", job->last);
    if (hardlink)
        return add_hardlink(job, hardlink, name, err);
    for (size_t i = 0; i < SG_COUNT(kinds); i++)
        if (archive_entry_filetype(e) == kinds[i].type)
            return kinds[i].add(job, e, name, &node, err);
    return sg_fail(err, SG_INVALID, "entry %s is of no known type", job->last);
}

int sg_unpack_next(struct sg_unpack_job *job, struct archive_entry **ret,
                   struct sg_entry_name *ret_name, struct sg_err *err)
{
    int status = archive_read_next_header(job->in.tar, ret);
    if (status == ARCHIVE_EOF)
        return 0;
    if (!is_fine(status))
        return fail_archive(job, err);
    const char *raw = archive_entry_pathname(*ret);
    if (!raw)
        raw = archive_entry_pathname_utf8(*ret); /* the locale cannot spell it */
    if (!raw || !raw[0])
        return sg_fail(err, SG_INVALID, "an entry has no name");
    memcpy(job->last, sg_quote(raw).s, sizeof job->last);
    if (++job->result.entries > job->options->max_entries)
        return sg_fail(err, SG_EXHAUSTED, "archive has more than %" PRIu64 " entries",
                       job->options->max_entries);
    return sg_entry_name_parse(raw, job->options->max_depth, ret_name, err) < 0 ? -1 : 1;
}

/* A layer is what its image's configuration says, or it is another. */
static int check_digest(struct sg_unpack_job *job, struct sg_err *err)
{
    char hex[SG_DIGEST_HEX + 1];
    int more;
    while ((more = sg_source_skip(&job->in, err)) > 0)
        if (check_ratio(job, job->result.bytes, err) < 0)
            return -1;
    if (more < 0 || sg_digest_end(&job->in.digest, hex, err) < 0)
        return -1;
    if (strcmp(hex, job->options->diff) != 0)
        return sg_fail(err, SG_INVALID,
                       "the layer is sha256:%.12s..., and should be sha256:%.12s...", hex,
                       job->options->diff);
    return 0;
}

static void job_done(struct sg_unpack_job *job)
{
    sg_writer_done(&job->out);
    sg_source_done(&job->in);
}

int sg_unpack(int archive_fd, int target_fd, const struct sg_unpack_options *options,
              struct sg_unpack_result *ret, struct sg_err *err)
{
    __attribute__((cleanup(job_done))) struct sg_unpack_job job = { .options = options };
    sg_writer_init(&job.out, target_fd, options->is_one_user,
                   options->is_layer ? SG_MODE_IMPLIED : 0755);
    if (sg_source_open(&job.in, archive_fd, options->diff != NULL, err) < 0)
        return -1;
    bool was_named = false; /* anything but the root itself */
    for (;;) {
        struct archive_entry *e;
        struct sg_entry_name name;
        const int got = sg_unpack_next(&job, &e, &name, err);
        if (got < 0)
            return -1;
        if (got == 0)
            break;
        const bool is_first = !was_named && name.path[0];
        was_named |= is_first;
        if (is_first && options->arena && sg_image_is_first(name.path)) {
            if (sg_image_take(&job, e, &name, err) < 0)
                return -1;
            *ret = job.result;
            return 0;
        }
        if (add_entry(&job, e, &name, err) < 0)
            return -1;
    }
    if (options->diff && check_digest(&job, err) < 0)
        return -1;
    if (job.result.entries == 0 && !options->is_layer)
        return sg_fail(err, SG_INVALID, "archive has no entries");
    if (sg_root_check(target_fd, err) < 0)
        return -1;
    *ret = job.result;
    return 0;
}
