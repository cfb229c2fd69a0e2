/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/parse.h"
#include "base/str.h"
#include "init/tar.h"
#include "base/banned.h"

enum {
    MAX_RECORDS_BYTES = 1024 * 1024, /* of one pax header: extended attributes may be large */
    MAX_PRELUDES = 16,               /* headers about the next header, in a row */
    MAX_DRAIN_BYTES = 16 * 1024 * 1024,
    ID_MAX = 65535, /* as many as a sandbox has */
};

void sg_tar_reader_init(struct sg_tar_reader *t, sg_tar_pull *pull, void *arg)
{
    t->pull = pull;
    t->arg = arg;
    t->data_left = t->pad_left = 0;
    t->entry_count = 0;
    t->is_exact = false;
    t->at = t->n = 0;
    sg_buf_init(&t->records, MAX_RECORDS_BYTES);
}

void sg_tar_reader_done(struct sg_tar_reader *t)
{
    sg_buf_done(&t->records);
}

/* ---- bytes ---- */

/* Makes `wanted` bytes (at most the room) available at room[at]. */
static int fill(struct sg_tar_reader *t, size_t wanted, struct sg_err *err)
{
    if (t->n - t->at >= wanted)
        return 0;
    memmove(t->room, t->room + t->at, t->n - t->at);
    t->n -= t->at;
    t->at = 0;
    while (t->n < wanted) {
        ssize_t got = t->pull(t->arg, t->room + t->n, sizeof t->room - t->n);
        if (got < 0)
            return sg_fail_sys(err, "read the archive");
        if (got == 0)
            return sg_fail(err, SG_INVALID, "the archive ends early");
        t->n += (size_t)got;
    }
    return 0;
}

/* Takes at least one and at most `max` bytes. */
static ssize_t take_some(struct sg_tar_reader *t, uint64_t max, const uint8_t **ret,
                         struct sg_err *err)
{
    if (fill(t, 1, err) < 0)
        return -1;
    size_t n = t->n - t->at;
    if (n > max)
        n = (size_t)max;
    *ret = t->room + t->at;
    t->at += n;
    return (ssize_t)n;
}

ssize_t sg_tar_data(struct sg_tar_reader *t, const uint8_t **ret, struct sg_err *err)
{
    if (!t->data_left)
        return 0;
    ssize_t n = take_some(t, t->data_left, ret, err);
    if (n > 0)
        t->data_left -= (uint64_t)n;
    return n;
}

static int skip_rest(struct sg_tar_reader *t, struct sg_err *err)
{
    const uint8_t *p;
    t->data_left += t->pad_left;
    t->pad_left = 0;
    while (t->data_left)
        if (sg_tar_data(t, &p, err) < 0)
            return -1;
    return 0;
}

static void expect_data(struct sg_tar_reader *t, uint64_t bytes)
{
    t->data_left = bytes;
    t->pad_left = -bytes % SG_TAR_BLOCK;
}

void sg_tar_drain(struct sg_tar_reader *t)
{
    for (size_t sum = 0; sum < MAX_DRAIN_BYTES;) {
        ssize_t n = t->pull(t->arg, t->room, sizeof t->room);
        if (n <= 0)
            return;
        sum += (size_t)n;
    }
}

/* ---- fields of a header ---- */

static struct sg_str text_of(const uint8_t *block, size_t at, size_t n)
{
    const char *p = (const char *)block + at;
    return (struct sg_str) { p, strnlen(p, n) };
}

/* Octal, with blanks before and a blank or NUL after; or big-endian binary behind a 0x80. */
static int number_of(const uint8_t *block, size_t at, size_t n, uint64_t *ret)
{
    const uint8_t *p = block + at, *end = p + n;
    uint64_t v = 0;
    if (*p & 0x80) {
        if (*p++ != 0x80)
            return -1; /* negative, or beyond all sense */
        for (; p < end; p++) {
            if (v >> 55)
                return -1;
            v = v << 8 | *p;
        }
        *ret = v;
        return 0;
    }
    while (p < end && *p == ' ')
        p++;
    for (; p < end && *p >= '0' && *p <= '7'; p++)
        v = v << 3 | (uint64_t)(*p - '0'); /* 12 digits at most: 36 bits */
    if (p < end && *p != ' ' && *p != '\0')
        return -1;
    *ret = v;
    return 0;
}

static bool is_checksum_right(const uint8_t *block)
{
    uint64_t told;
    int64_t as_signed = 0;
    uint64_t as_unsigned = 0;
    for (unsigned i = 0; i < SG_TAR_BLOCK; i++) {
        bool is_blanked = i >= 148 && i < 156;
        as_unsigned += is_blanked ? ' ' : block[i];
        as_signed += is_blanked ? ' ' : (int8_t)block[i]; /* some old programs did it so */
    }
    return number_of(block, SG_TAR_CHECKSUM_AT, &told) == 0 &&
           (told == as_unsigned || (int64_t)told == as_signed);
}

static bool is_zero(const uint8_t *block)
{
    for (unsigned i = 0; i < SG_TAR_BLOCK; i++)
        if (block[i])
            return false;
    return true;
}

/* ---- what is said ahead of a header ---- */

struct prelude {
    bool has_name, has_target, has_bytes, has_mtime, is_exact;
    char name[SG_TAR_NAME_MAX + 1], target[SG_TAR_NAME_MAX + 1];
    uint64_t bytes;
    struct timespec mtime;
    struct sg_str pax;
};

static int copy_name(char *to, struct sg_str s, struct sg_err *err)
{
    if (s.n > SG_TAR_NAME_MAX)
        return sg_fail(err, SG_INVALID, "entry %s has a name of over %d bytes", sg_quote_str(s).s,
                       SG_TAR_NAME_MAX);
    if (s.n && memchr(s.p, 0, s.n))
        return sg_fail(err, SG_INVALID, "entry %s has a NUL in its name", sg_quote_str(s).s);
    if (s.n)
        memcpy(to, s.p, s.n);
    to[s.n] = '\0';
    return 0;
}

/* "1700000000.25", "-3": before 1970 counts as 1970. */
static int parse_time(struct sg_str s, struct timespec *ret)
{
    bool is_negative = s.n && s.p[0] == '-';
    const char *dot = s.n ? memchr(s.p, '.', s.n) : NULL;
    struct sg_str whole = { s.p + is_negative, (dot ? (size_t)(dot - s.p) : s.n) - is_negative };
    uint64_t seconds;
    long ns = 0;
    if (sg_parse_u64(whole, 0, INT64_MAX / 2, &seconds, NULL) < 0)
        return -1;
    const char *end = s.p + s.n;
    long unit = 100000000;
    for (const char *p = dot ? dot + 1 : end; p < end; p++, unit /= 10) {
        if (*p < '0' || *p > '9')
            return -1;
        ns += (*p - '0') * unit;
    }
    if (is_negative) {
        seconds = 0;
        ns = 0;
    }
    *ret = (struct timespec) { .tv_sec = (time_t)seconds, .tv_nsec = ns };
    return 0;
}

static int take_record(struct prelude *pre, struct sg_str key, struct sg_str value,
                       struct sg_err *err)
{
    if (sg_str_is(key, "path")) {
        pre->has_name = value.n;
        return copy_name(pre->name, value, err);
    }
    if (sg_str_is(key, "linkpath")) {
        pre->has_target = value.n;
        return copy_name(pre->target, value, err);
    }
    if (sg_str_is(key, "size")) {
        pre->has_bytes = value.n;
        if (value.n && sg_parse_u64(value, 0, INT64_MAX, &pre->bytes, NULL) < 0)
            return sg_fail(err, SG_INVALID, "the archive has the size %s", sg_quote_str(value).s);
    }
    if (sg_str_is(key, "mtime")) {
        pre->has_mtime = value.n;
        if (value.n && parse_time(value, &pre->mtime) < 0)
            return sg_fail(err, SG_INVALID, "the archive has the time %s", sg_quote_str(value).s);
    }
    if (!pre->is_exact && key.n > 10 && memcmp(key.p, "GNU.sparse", 10) == 0)
        return sg_fail(err, SG_UNSUPPORTED, "the archive has sparse files");
    return 0;
}

/* "LENGTH KEY=VALUE\n", the length being that of all of it. */
int sg_tar_next_record(struct sg_str *all, struct sg_str *ret_key, struct sg_str *ret_value)
{
    uint64_t n;
    if (!all->n)
        return 0;
    const char *blank = memchr(all->p, ' ', all->n < 12 ? all->n : 12);
    const size_t digits = blank ? (size_t)(blank - all->p) : 0;
    if (!blank || sg_parse_u64((struct sg_str) { all->p, digits }, 1, all->n, &n, NULL) < 0 ||
        n < digits + 3 || all->p[n - 1] != '\n')
        return -1;
    const struct sg_str body = { blank + 1, (size_t)n - digits - 2 };
    const char *equals = memchr(body.p, '=', body.n);
    if (!equals)
        return -1;
    const size_t key = (size_t)(equals - body.p);
    *ret_key = (struct sg_str) { body.p, key };
    *ret_value = (struct sg_str) { equals + 1, body.n - key - 1 };
    *all = (struct sg_str) { all->p + n, all->n - (size_t)n };
    return 1;
}

static int take_records(struct prelude *pre, struct sg_str all, struct sg_err *err)
{
    struct sg_str key, value;
    int more;
    while ((more = sg_tar_next_record(&all, &key, &value)) > 0)
        if (take_record(pre, key, value, err) < 0)
            return -1;
    return more < 0 ? sg_fail(err, SG_INVALID, "a pax header of the archive is broken") : 0;
}

/* Reads the data of the header in hand into t->records. */
static int read_records(struct sg_tar_reader *t, uint64_t bytes, struct sg_err *err)
{
    const uint8_t *p;
    ssize_t n;
    if (bytes > MAX_RECORDS_BYTES)
        return sg_fail(err, SG_EXHAUSTED, "a header of the archive is over %d bytes",
                       MAX_RECORDS_BYTES);
    sg_buf_clear(&t->records);
    expect_data(t, bytes);
    while ((n = sg_tar_data(t, &p, err)) > 0)
        sg_buf_add(&t->records, p, (size_t)n);
    return n < 0 || sg_buf_check(&t->records, "header of the archive", err) < 0 ? -1 : 0;
}

/* 1: it was one and has been taken in; 0: it is an entry. */
static int take_prelude(struct sg_tar_reader *t, const uint8_t *block, uint64_t bytes,
                        struct prelude *pre, struct sg_err *err)
{
    char kind = (char)block[156];
    if (kind != 'x' && kind != 'g' && kind != 'L' && kind != 'K')
        return 0;
    pre->pax = (struct sg_str) { "", 0 }; /* those of an earlier one are about to be overwritten */
    if (read_records(t, bytes, err) < 0)
        return -1;
    struct sg_str all = { (const char *)t->records.p, t->records.n };
    int result = 0;
    if (kind == 'x') {
        result = take_records(pre, all, err);
        pre->pax = all;
    } else if (kind != 'g') { /* defaults for all that follows: none that we would use */
        struct sg_str name = { all.p, all.n ? strnlen(all.p, all.n) : 0 };
        bool *has = kind == 'L' ? &pre->has_name : &pre->has_target;
        *has = name.n;
        result = copy_name(kind == 'L' ? pre->name : pre->target, name, err);
    }
    return result < 0 ? -1 : 1;
}

/* ---- entries ---- */

static int read_names(const uint8_t *block, const struct prelude *pre, struct sg_tar_entry *e,
                      struct sg_err *err)
{
    struct sg_str name = text_of(block, SG_TAR_NAME_AT), target = text_of(block, SG_TAR_TARGET_AT);
    struct sg_str prefix = text_of(block, SG_TAR_PREFIX_AT);
    if (memcmp(block + 257, "ustar", 6) != 0) /* GNU's own has other things there */
        prefix.n = 0;
    if (pre->has_name)
        memcpy(e->name, pre->name, sizeof e->name);
    else
        (void)snprintf(e->name, sizeof e->name, "%.*s%s%.*s", (int)prefix.n, prefix.p,
                       prefix.n ? "/" : "", (int)name.n, name.p);
    if (!e->name[0])
        return sg_fail(err, SG_INVALID, "the archive has an entry without a name");
    if (pre->has_target)
        memcpy(e->target, pre->target, sizeof e->target);
    else
        (void)snprintf(e->target, sizeof e->target, "%.*s", (int)target.n, target.p);
    return 0;
}

/* A device that is none: how a layer says that a name is no more. */
static bool is_whiteout(const uint8_t *block)
{
    uint64_t major, minor;
    return block[156] == '3' && number_of(block, SG_TAR_MAJOR_AT, &major) == 0 &&
           number_of(block, SG_TAR_MINOR_AT, &minor) == 0 && !major && !minor;
}

static int read_kind(const uint8_t *block, bool is_exact, struct sg_tar_entry *e,
                     struct sg_err *err)
{
    size_t n = strlen(e->name);
    switch (block[156]) {
    case '\0':
    case '0':
    case '7':
        e->kind = e->name[n - 1] == '/' ? SG_TAR_DIR : SG_TAR_FILE;
        return 0;
    case '1':
        e->kind = SG_TAR_HARDLINK;
        return 0;
    case '2':
        e->kind = SG_TAR_SYMLINK;
        return 0;
    case '5':
        e->kind = SG_TAR_DIR;
        return 0;
    case '3':
        if (is_exact && is_whiteout(block)) {
            e->kind = SG_TAR_WHITEOUT;
            return 0;
        }
        return sg_fail(err, SG_INVALID, "entry %s is a device", sg_quote(e->name).s);
    case '4':
        return sg_fail(err, SG_INVALID, "entry %s is a device", sg_quote(e->name).s);
    case '6':
        if (is_exact) {
            e->kind = SG_TAR_FIFO;
            return 0;
        }
        return sg_fail(err, SG_INVALID, "entry %s is a FIFO", sg_quote(e->name).s);
    default:
        return sg_fail(err, SG_UNSUPPORTED, "entry %s is of an unknown kind, 0x%02x",
                       sg_quote(e->name).s, block[156]);
    }
}

static int read_entry(struct sg_tar_reader *t, const uint8_t *block, uint64_t bytes,
                      const struct prelude *pre, struct sg_tar_entry *e, struct sg_err *err)
{
    uint64_t mode, seconds, uid = 0, gid = 0;
    if (read_names(block, pre, e, err) < 0 || read_kind(block, t->is_exact, e, err) < 0)
        return -1;
    if (number_of(block, SG_TAR_MODE_AT, &mode) < 0)
        return sg_fail(err, SG_INVALID, "entry %s has a broken mode", sg_quote(e->name).s);
    if (t->is_exact && (number_of(block, SG_TAR_UID_AT, &uid) < 0 ||
                        number_of(block, SG_TAR_GID_AT, &gid) < 0 || uid > ID_MAX || gid > ID_MAX))
        return sg_fail(err, SG_INVALID, "entry %s has an owner over %d", sg_quote(e->name).s,
                       ID_MAX);
    e->uid = (uint32_t)uid;
    e->gid = (uint32_t)gid;
    if (number_of(block, SG_TAR_MTIME_AT, &seconds) < 0 || seconds > INT64_MAX / 2)
        seconds = 0; /* before 1970 */
    e->mode = (uint32_t)(mode & 07777);
    e->mtime = pre->has_mtime ? pre->mtime : (struct timespec) { .tv_sec = (time_t)seconds };
    e->pax = pre->pax;
    e->bytes = e->kind != SG_TAR_FILE ? 0 : pre->has_bytes ? pre->bytes : bytes;
    expect_data(t, e->bytes);
    if (++t->entry_count > SG_TAR_MAX_ENTRIES)
        return sg_fail(err, SG_EXHAUSTED, "entry %s is one too many: over %d", sg_quote(e->name).s,
                       SG_TAR_MAX_ENTRIES);
    return 1;
}

/* The block is good only until the next bytes are wanted. */
static int next_block(struct sg_tar_reader *t, const uint8_t **ret, struct sg_err *err)
{
    if (skip_rest(t, err) < 0 || fill(t, SG_TAR_BLOCK, err) < 0)
        return -1;
    *ret = t->room + t->at;
    t->at += SG_TAR_BLOCK;
    return 0;
}

int sg_tar_next(struct sg_tar_reader *t, struct sg_tar_entry *ret, struct sg_err *err)
{
    struct prelude pre;
    pre.has_name = pre.has_target = pre.has_bytes = pre.has_mtime = false;
    pre.is_exact = t->is_exact;
    pre.pax = (struct sg_str) { "", 0 };
    for (unsigned i = 0; i < MAX_PRELUDES; i++) {
        const uint8_t *block;
        uint64_t bytes;
        if (next_block(t, &block, err) < 0)
            return -1;
        if (is_zero(block))
            return 0;
        if (!is_checksum_right(block))
            return sg_fail(err, SG_INVALID,
                           "a header of the archive has a wrong checksum, after %u "
                           "entries",
                           t->entry_count);
        if (number_of(block, SG_TAR_SIZE_AT, &bytes) < 0 || bytes > INT64_MAX)
            return sg_fail(err, SG_INVALID, "entry %s has a broken size",
                           sg_quote_str(text_of(block, SG_TAR_NAME_AT)).s);
        int is_prelude = take_prelude(t, block, bytes, &pre, err);
        if (is_prelude < 0)
            return -1;
        if (!is_prelude)
            return read_entry(t, block, bytes, &pre, ret, err);
    }
    return sg_fail(err, SG_INVALID, "the archive has headers of headers of headers");
}
