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
#include "image/root.h"
#include "unpack/writer.h"

#include "base/banned.h"

enum { READ_BYTES = 64 * 1024, MAX_ID = 65535 };

struct job {
    const struct sg_unpack_options *options; /* borrows */
    struct archive *in;
    struct sg_writer out;
    struct sg_unpack_result result;
    char last[96]; /* the entry at hand, quoted: libarchive's messages do not name it */
};

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

static int fail_archive(const struct job *job, struct sg_err *err)
{
    const char *why = archive_error_string(job->in);
    return sg_fail(err, SG_INVALID, "archive is not readable%s%s: %s",
                   job->last[0] ? " after entry " : "", job->last,
                   why ? sg_quote(why).s : "unknown reason");
}

/* A bomb shows in either number: content, or the decoded stream (headers, skipped entries). */
static int check_ratio(const struct job *job, uint64_t unpacked, struct sg_err *err)
{
    uint64_t packed = (uint64_t)archive_filter_bytes(job->in, -1);
    uint64_t stream = (uint64_t)archive_filter_bytes(job->in, 0);
    uint64_t larger = unpacked > stream ? unpacked : stream;
    if (larger > job->options->ratio_free_bytes &&
        larger / (packed ? packed : 1) > job->options->max_ratio)
        return sg_fail(err, SG_EXHAUSTED,
                       "entry %s unpacks to more than %" PRIu64 " times its size in the archive",
                       job->last, job->options->max_ratio);
    return 0;
}

static void note_skipped(struct job *job)
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

/* Blocks come with offsets, so the holes of a sparse file stay holes on disk. */
static int copy_content(struct job *job, int fd, uint64_t size, struct sg_err *err)
{
    for (;;) {
        const void *block;
        size_t n;
        int64_t offset;
        int status = archive_read_data_block(job->in, &block, &n, &offset);
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
    }
    if (ftruncate(fd, (off_t)size) < 0)
        return sg_fail_sys(err, "write %s", job->last);
    job->result.bytes += size;
    return check_ratio(job, job->result.bytes, err);
}

static int add_file(struct job *job, struct archive_entry *e, const struct sg_entry_name *name,
                    const struct sg_node *node, struct sg_err *err)
{
    int64_t size = archive_entry_size(e);
    uint64_t left = job->options->max_bytes - job->result.bytes;
    if (size < 0 || (uint64_t)size > left)
        return sg_fail(err, SG_EXHAUSTED, "entry %s takes the content over %" PRIu64 " bytes",
                       job->last, job->options->max_bytes);
    sg_auto_fd fd = sg_writer_create(&job->out, name, err);
    if (fd < 0 || copy_content(job, fd, (uint64_t)size, err) < 0)
        return -1;
    return sg_writer_finish(&job->out, fd, name, node, err);
}

static int add_dir(struct job *job, struct archive_entry *e, const struct sg_entry_name *name,
                   const struct sg_node *node, struct sg_err *err)
{
    (void)e;
    return sg_writer_dir(&job->out, name, node, err);
}

static int add_symlink(struct job *job, struct archive_entry *e, const struct sg_entry_name *name,
                       const struct sg_node *node, struct sg_err *err)
{
    const char *target = archive_entry_symlink(e);
    if (!target)
        target = archive_entry_symlink_utf8(e);
    if (!target || !target[0])
        return sg_fail(err, SG_INVALID, "entry %s is a link to nothing", job->last);
    return sg_writer_symlink(&job->out, name, target, node, err);
}

static int add_device(struct job *job, struct archive_entry *e, const struct sg_entry_name *name,
                      const struct sg_node *node, struct sg_err *err)
{
    (void)e, (void)node;
    /* Root archives commonly carry a /dev; every cell brings its own, so nobody misses it. */
    if (!job->options->skips_devices && !sg_starts_with(name->path, "dev/"))
        return sg_fail(err, SG_INVALID, "entry %s is a device node", job->last);
    note_skipped(job);
    return 0;
}

static int add_nothing(struct job *job, struct archive_entry *e, const struct sg_entry_name *name,
                       const struct sg_node *node, struct sg_err *err)
{
    (void)e, (void)name, (void)node, (void)err;
    note_skipped(job);
    return 0;
}

static const struct kind {
    mode_t type;
    int (*add)(struct job *, struct archive_entry *, const struct sg_entry_name *,
               const struct sg_node *, struct sg_err *);
} kinds[] = {
    { AE_IFREG, add_file },    { AE_IFDIR, add_dir },      { AE_IFLNK, add_symlink },
    { AE_IFCHR, add_device },  { AE_IFBLK, add_device }, /* a whiteout is a character device */
    { AE_IFIFO, add_nothing }, { AE_IFSOCK, add_nothing },
};

static int add_hardlink(struct job *job, const char *raw_target, const struct sg_entry_name *name,
                        struct sg_err *err)
{
    struct sg_entry_name target;
    if (sg_entry_name_parse(raw_target, job->options->max_depth, &target, err) < 0)
        return sg_wrap(err, "entry %s is a link", job->last);
    return sg_writer_hardlink(&job->out, name, &target, err);
}

static int read_node(struct job *job, struct archive_entry *e, struct sg_node *ret,
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

static int add_entry(struct job *job, struct archive_entry *e, struct sg_err *err)
{
    const char *raw = archive_entry_pathname(e);
    if (!raw)
        raw = archive_entry_pathname_utf8(e); /* the locale cannot spell it */
    if (!raw || !raw[0])
        return sg_fail(err, SG_INVALID, "an entry has no name");
    memcpy(job->last, sg_quote(raw).s, sizeof job->last);
    if (++job->result.entries > job->options->max_entries)
        return sg_fail(err, SG_EXHAUSTED, "archive has more than %" PRIu64 " entries",
                       job->options->max_entries);

    struct sg_entry_name name;
    struct sg_node node;
    if (sg_entry_name_parse(raw, job->options->max_depth, &name, err) < 0 ||
        read_node(job, e, &node, err) < 0 || check_ratio(job, job->result.bytes, err) < 0)
        return -1;
    const char *hardlink = archive_entry_hardlink(e);
    if (!hardlink)
        hardlink = archive_entry_hardlink_utf8(e);
    if (!name.path[0] && (hardlink || archive_entry_filetype(e) != AE_IFDIR))
        return sg_fail(err, SG_INVALID, "entry %s is not a directory", job->last);
    if (hardlink)
        return add_hardlink(job, hardlink, &name, err);
    for (size_t i = 0; i < SG_COUNT(kinds); i++)
        if (archive_entry_filetype(e) == kinds[i].type)
            return kinds[i].add(job, e, &name, &node, err);
    return sg_fail(err, SG_INVALID, "entry %s is of no known type", job->last);
}

/* Filters are asked for by name; a return that is not ARCHIVE_OK would mean that libarchive wants
 * to run an external program instead. */
static int open_archive(struct job *job, int fd, struct sg_err *err)
{
    struct archive *a = job->in;
    if (archive_read_support_format_tar(a) != ARCHIVE_OK ||
        archive_read_support_filter_gzip(a) != ARCHIVE_OK ||
        archive_read_support_filter_bzip2(a) != ARCHIVE_OK ||
        archive_read_support_filter_xz(a) != ARCHIVE_OK ||
        archive_read_support_filter_zstd(a) != ARCHIVE_OK)
        return sg_fail(err, SG_UNSUPPORTED, "libarchive lacks gzip, bzip2, xz or zstd");
    if (!is_fine(archive_read_open_fd(a, fd, READ_BYTES)))
        return fail_archive(job, err);
    if (archive_filter_count(a) > 2) /* one for the compression, one for the source */
        return sg_fail(err, SG_INVALID, "archive is compressed more than once");
    return 0;
}

static void job_done(struct job *job)
{
    sg_writer_done(&job->out);
    (void)archive_read_free(job->in);
}

int sg_unpack(int archive_fd, int target_fd, const struct sg_unpack_options *options,
              struct sg_unpack_result *ret, struct sg_err *err)
{
    __attribute__((cleanup(job_done))) struct job job = { .options = options };
    sg_writer_init(&job.out, target_fd, options->is_one_user);
    job.in = archive_read_new();
    if (!job.in)
        return sg_fail(err, SG_EXHAUSTED, "no memory for the archive reader");
    if (open_archive(&job, archive_fd, err) < 0)
        return -1;
    for (;;) {
        struct archive_entry *e;
        int status = archive_read_next_header(job.in, &e);
        if (status == ARCHIVE_EOF)
            break;
        if (!is_fine(status))
            return fail_archive(&job, err);
        if (add_entry(&job, e, err) < 0)
            return -1;
    }
    if (job.result.entries == 0)
        return sg_fail(err, SG_INVALID, "archive has no entries");
    if (sg_root_check(target_fd, err) < 0)
        return -1;
    *ret = job.result;
    return 0;
}
