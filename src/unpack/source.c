/* SPDX-License-Identifier: Apache-2.0 */
/* Filters are asked for by name; a return that is not ARCHIVE_OK would mean that libarchive wants
 * to run an external program instead. */
#include "unpack/source.h"

#include <archive.h>
#include <archive_entry.h>

#include "base/str.h"

#include "base/banned.h"

enum { READ_BYTES = 64 * 1024 };

static bool is_fine(int status)
{
    return status == ARCHIVE_OK || status == ARCHIVE_WARN;
}

int sg_source_fail(const struct sg_source *s, const char *after, struct sg_err *err)
{
    const char *why = s->packed ? archive_error_string(s->packed) : NULL;
    why = why ? why : archive_error_string(s->tar);
    return sg_fail(err, SG_INVALID, "archive is not readable%s%s: %s",
                   after[0] ? " after entry " : "", after,
                   why ? sg_quote(why).s : "unknown reason");
}

static int add_filters(struct archive *a, struct sg_err *err)
{
    if (archive_read_support_filter_gzip(a) != ARCHIVE_OK ||
        archive_read_support_filter_bzip2(a) != ARCHIVE_OK ||
        archive_read_support_filter_xz(a) != ARCHIVE_OK ||
        archive_read_support_filter_zstd(a) != ARCHIVE_OK)
        return sg_fail(err, SG_UNSUPPORTED, "libarchive lacks gzip, bzip2, xz or zstd");
    return 0;
}

static int check_filters(struct archive *a, struct sg_err *err)
{
    if (archive_filter_count(a) > 2) /* one for the compression, one for the source */
        return sg_fail(err, SG_INVALID, "archive is compressed more than once");
    return 0;
}

static la_ssize_t next_block(struct sg_source *s, const void **ret)
{
    size_t n = 0;
    la_int64_t offset;
    const int status = archive_read_data_block(s->packed, ret, &n, &offset);
    if (status == ARCHIVE_EOF)
        return 0;
    if (!is_fine(status))
        return -1;
    sg_digest_add(&s->digest, *ret, n);
    s->decoded += n;
    return (la_ssize_t)n;
}

static la_ssize_t give_block(struct archive *tar, void *arg, const void **ret)
{
    struct sg_source *s = arg;
    const la_ssize_t n = next_block(s, ret);
    if (n < 0)
        archive_set_error(tar, archive_errno(s->packed), "%s", archive_error_string(s->packed));
    return n;
}

static int open_packed(struct sg_source *s, int fd, struct sg_err *err)
{
    struct archive_entry *whole;
    s->packed = archive_read_new();
    if (!s->packed || sg_digest_init(&s->digest, err) < 0)
        return sg_fail(err, SG_EXHAUSTED, "no memory for the archive reader");
    if (add_filters(s->packed, err) < 0)
        return -1;
    if (archive_read_support_format_raw(s->packed) != ARCHIVE_OK ||
        !is_fine(archive_read_open_fd(s->packed, fd, READ_BYTES)) ||
        !is_fine(archive_read_next_header(s->packed, &whole)))
        return sg_source_fail(s, "", err);
    return check_filters(s->packed, err);
}

int sg_source_open(struct sg_source *s, int fd, bool has_digest, struct sg_err *err)
{
    *s = (struct sg_source) { .tar = archive_read_new() };
    if (!s->tar || archive_read_support_format_tar(s->tar) != ARCHIVE_OK)
        return sg_fail(err, SG_EXHAUSTED, "no memory for the archive reader");
    if (has_digest) {
        if (open_packed(s, fd, err) < 0)
            return -1;
        if (!is_fine(archive_read_open(s->tar, s, NULL, give_block, NULL)))
            return sg_source_fail(s, "", err);
        return 0;
    }
    if (add_filters(s->tar, err) < 0)
        return -1;
    if (!is_fine(archive_read_open_fd(s->tar, fd, READ_BYTES)))
        return sg_source_fail(s, "", err);
    return check_filters(s->tar, err);
}

void sg_source_done(struct sg_source *s)
{
    (void)archive_read_free(s->tar);
    (void)archive_read_free(s->packed);
    sg_digest_done(&s->digest);
    *s = (struct sg_source) { 0 };
}

uint64_t sg_source_packed(const struct sg_source *s)
{
    return (uint64_t)archive_filter_bytes(s->packed ? s->packed : s->tar, -1);
}

uint64_t sg_source_stream(const struct sg_source *s)
{
    return s->packed ? s->decoded : (uint64_t)archive_filter_bytes(s->tar, 0);
}

int sg_source_skip(struct sg_source *s, struct sg_err *err)
{
    const void *block;
    const la_ssize_t n = s->packed ? next_block(s, &block) : 0;
    return n < 0 ? sg_source_fail(s, "", err) : n > 0;
}
