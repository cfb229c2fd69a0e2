/* SPDX-License-Identifier: Apache-2.0 */
/* init/tar: the format. What is written is read back, however it is cut; what lies is refused. */
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "check.h"
#include "init/tar.h"
#include "random.h"
#include "base/banned.h"

enum { ROUNDS = 500, ARCHIVE_MAX = 1 << 20 };

/* Bytes in memory, handed out in pieces of at most `step`. */
struct tape {
    const uint8_t *p;
    size_t n, step;
};

static ssize_t pull(void *arg, void *to, size_t n)
{
    struct tape *t = arg;
    size_t most = n < t->step ? n : t->step;
    size_t take = most < t->n ? most : t->n;
    memcpy(to, t->p, take);
    t->p += take;
    t->n -= take;
    return (ssize_t)take;
}

static void add_data(struct sg_buf *b, const void *p, size_t n)
{
    static const uint8_t zeros[SG_TAR_BLOCK];
    sg_buf_add(b, p, n);
    sg_buf_add(b, zeros, -n % SG_TAR_BLOCK);
}

static void add_end(struct sg_buf *b)
{
    static const uint8_t zeros[2 * SG_TAR_BLOCK];
    sg_buf_add(b, zeros, sizeof zeros);
}

static struct sg_tar_entry entry_of(enum sg_tar_kind kind, const char *name, uint64_t bytes)
{
    struct sg_tar_entry e = { .kind = kind, .mode = 0644, .bytes = bytes };
    (void)snprintf(e.name, sizeof e.name, "%s", name);
    return e;
}

/* Reads the first entry of `b`; what sg_tar_next() returned. */
static int read_first(const struct sg_buf *b, struct sg_tar_entry *ret, struct sg_err *err)
{
    static struct sg_tar_reader t;
    struct tape tape = { b->p, b->n, SIZE_MAX };
    sg_tar_reader_init(&t, pull, &tape);
    int result = sg_tar_next(&t, ret, err);
    sg_tar_reader_done(&t);
    return result;
}

static void random_name(struct rng *r, char *to, bool may_be_empty)
{
    size_t n = rng_below(r, rng_below(r, 3) ? 300 : SG_TAR_NAME_MAX) + !may_be_empty;
    for (size_t i = 0; i < n; i++)
        to[i] = rng_below(r, 30) && i + 1 < n ? (char)(1 + rng_below(r, 255)) : '/';
    if (n && to[n - 1] == '/')
        to[n - 1] = 'x'; /* or it would be a directory */
    to[n] = '\0';
}

static void any_entry_comes_back_the_same(void **state)
{
    (void)state;
    struct rng r = rng_start("tar round trip");
    static struct sg_tar_entry e, back;
    for (int i = 0; i < ROUNDS; i++) {
        sg_auto_buf b;
        struct sg_err err = { 0 };
        sg_buf_init(&b, ARCHIVE_MAX);
        e = (struct sg_tar_entry) { .kind = (enum sg_tar_kind)rng_below(&r, 4),
                                    .mode = (uint32_t)rng_below(&r, 010000),
                                    .mtime.tv_sec = (time_t)rng_below(&r, 077777777777) };
        e.bytes = e.kind == SG_TAR_FILE ? rng_magnitude(&r) >> 1 : 0;
        random_name(&r, e.name, false);
        if (e.kind == SG_TAR_SYMLINK || e.kind == SG_TAR_HARDLINK)
            random_name(&r, e.target, true);
        sg_tar_put_header(&b, &e, 1000, 1000);
        assert_int_equal(b.n % SG_TAR_BLOCK, 0);
        assert_int_equal(read_first(&b, &back, &err), 1);
        assert_int_equal(back.kind, e.kind);
        assert_int_equal(back.mode, e.mode);
        assert_int_equal(back.bytes, e.bytes);
        assert_int_equal(back.mtime.tv_sec, e.mtime.tv_sec);
        assert_string_equal(back.name, e.name);
        assert_string_equal(back.target, e.target);
    }
}

/* Three files and the sum of what was read, in pieces of `step`. */
static uint64_t read_all(const struct sg_buf *b, size_t step, unsigned *ret_entries)
{
    static struct sg_tar_reader t;
    static struct sg_tar_entry e;
    struct tape tape = { b->p, b->n, step };
    struct sg_err err = { 0 };
    uint64_t sum = 0;
    int result;
    *ret_entries = 0;
    sg_tar_reader_init(&t, pull, &tape);
    while ((result = sg_tar_next(&t, &e, &err)) > 0) {
        const uint8_t *p;
        ssize_t n;
        if ((*ret_entries)++ == 1)
            continue; /* the data of the second is skipped */
        while ((n = sg_tar_data(&t, &p, &err)) > 0)
            for (ssize_t i = 0; i < n; i++)
                sum = sum * 31 + p[i];
        assert_int_equal(n, 0);
    }
    assert_int_equal(result, 0);
    sg_tar_reader_done(&t);
    return sum;
}

static void any_cut_of_the_stream_reads_the_same(void **state)
{
    (void)state;
    static uint8_t data[100000];
    static struct sg_tar_entry e;
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)(i * 7 + i / 251);
    sg_auto_buf b;
    sg_buf_init(&b, ARCHIVE_MAX);
    for (unsigned i = 0; i < 3; i++) {
        e = entry_of(SG_TAR_FILE, "f", sizeof data - i);
        sg_tar_put_header(&b, &e, 0, 0);
        add_data(&b, data, sizeof data - i);
    }
    add_end(&b);
    unsigned entries;
    uint64_t whole = read_all(&b, SIZE_MAX, &entries);
    assert_int_equal(entries, 3);
    static const size_t steps[] = { 1, 7, 511, 512, 513, 65536 };
    for (unsigned i = 0; i < SG_COUNT(steps); i++)
        assert_int_equal(read_all(&b, steps[i], &entries), whole);
}

static void an_archive_that_stops_anywhere_is_refused(void **state)
{
    (void)state;
    static struct sg_tar_reader t;
    static struct sg_tar_entry e;
    sg_auto_buf b;
    sg_buf_init(&b, ARCHIVE_MAX);
    e = entry_of(SG_TAR_FILE, "f", 3);
    sg_tar_put_header(&b, &e, 0, 0);
    add_data(&b, "abc", 3);
    add_end(&b);
    for (size_t n = 0; n < 3 * SG_TAR_BLOCK; n += n % 64 == 0 ? 1 : 63) {
        struct tape tape = { b.p, n, SIZE_MAX };
        struct sg_err err = { 0 };
        int result;
        sg_tar_reader_init(&t, pull, &tape);
        while ((result = sg_tar_next(&t, &e, &err)) > 0)
            ;
        assert_int_equal(result, -1);
        assert_int_equal(err.kind, SG_INVALID);
        sg_tar_reader_done(&t);
    }
}

static void a_header_with_any_byte_changed_is_refused(void **state)
{
    (void)state;
    static struct sg_tar_entry e, back;
    sg_auto_buf b;
    sg_buf_init(&b, ARCHIVE_MAX);
    e = entry_of(SG_TAR_FILE, "name", 0);
    sg_tar_put_header(&b, &e, 0, 0);
    add_end(&b);
    for (size_t i = 0; i < SG_TAR_BLOCK; i++) {
        struct sg_err err = { 0 };
        if (i >= 154 && i < 156)
            continue; /* NUL and blank after the sum's digits */
        b.p[i] ^= 1;
        assert_int_equal(read_first(&b, &back, &err), -1);
        b.p[i] ^= 1;
    }
}

static void pax_header(struct sg_buf *b, const char *records)
{
    size_t n = strlen(records);
    static struct sg_tar_entry e;
    e = entry_of(SG_TAR_FILE, "pax", n);
    sg_tar_put_header(b, &e, 0, 0);
    b->p[156] = 'x';
    unsigned sum = 0; /* the sum told is that of '0' */
    (void)snprintf((char *)b->p + 148, 8, "%6s ", "");
    b->p[155] = ' ';
    for (unsigned i = 0; i < SG_TAR_BLOCK; i++)
        sum += b->p[i];
    (void)snprintf((char *)b->p + 148, 8, "%06o", sum);
    add_data(b, records, n);
    e = entry_of(SG_TAR_FILE, "after", 0);
    sg_tar_put_header(b, &e, 0, 0);
    add_end(b);
}

static void pax_records_are_taken_whole_or_not_at_all(void **state)
{
    (void)state;
    static const struct {
        const char *records;
        int result;
        const char *name;
    } cases[] = {
        { "10 path=a\n", 1, "a" },
        { "10 path=a\n10 path=b\n", 1, "b" },
        { "8 path=\n", 1, "after" },
        { "19 mtime=1.5000000\n10 path=c\n", 1, "c" },
        { "12 comment=\n", 1, "after" },
        { "11 path=a\n", -1, NULL },
        { "8 path=a\n", -1, NULL },
        { "10 path=a", -1, NULL },
        { "10path=a\n\n", -1, NULL },
        { "7 path\n", -1, NULL },
        { "0 a=\n", -1, NULL },
        { "-1 path=a\n", -1, NULL },
        { "99999999999999 path=a\n", -1, NULL },
        { "11 size=-1\n", -1, NULL },
        { "14 mtime=1e10\n", -1, NULL },
        { "24 GNU.sparse.major=1\n\n\n", -1, NULL },
    };
    static struct sg_tar_entry e;
    for (unsigned i = 0; i < SG_COUNT(cases); i++) {
        sg_auto_buf b;
        struct sg_err err = { 0 };
        sg_buf_init(&b, ARCHIVE_MAX);
        pax_header(&b, cases[i].records);
        if (read_first(&b, &e, &err) != cases[i].result)
            fail_msg("records '%s': %s", cases[i].records, err.msg);
        if (cases[i].name)
            assert_string_equal(e.name, cases[i].name);
    }
}

static void the_entry_past_the_limit_is_refused(void **state)
{
    (void)state;
    static struct sg_tar_reader t;
    static struct sg_tar_entry e;
    sg_auto_buf b;
    sg_buf_init(&b, ARCHIVE_MAX);
    for (unsigned i = 0; i < 2; i++) {
        e = entry_of(SG_TAR_DIR, "d/", 0);
        sg_tar_put_header(&b, &e, 0, 0);
    }
    struct tape tape = { b.p, b.n, SIZE_MAX };
    struct sg_err err = { 0 };
    sg_tar_reader_init(&t, pull, &tape);
    t.entry_count = SG_TAR_MAX_ENTRIES - 1;
    assert_int_equal(sg_tar_next(&t, &e, &err), 1);
    assert_fails(sg_tar_next(&t, &e, &err), err, SG_EXHAUSTED);
    sg_tar_reader_done(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_entry_comes_back_the_same),
        cmocka_unit_test(any_cut_of_the_stream_reads_the_same),
        cmocka_unit_test(an_archive_that_stops_anywhere_is_refused),
        cmocka_unit_test(a_header_with_any_byte_changed_is_refused),
        cmocka_unit_test(pax_records_are_taken_whole_or_not_at_all),
        cmocka_unit_test(the_entry_past_the_limit_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
