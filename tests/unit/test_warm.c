/* SPDX-License-Identifier: Apache-2.0 */
/* warm: what is taken for an image and what is not, and the lines of /proc/self/maps. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "check.h"
#include "warm/image.h"
#include "warm/maps.h"
#include "base/banned.h"

enum { PAGE = 4096, REGIONS = 3, FILES = 1 };

#define PATH      "/lib/x.so"
#define CODE_AT   UINT64_C(0x400000)
#define DATA_AT   UINT64_C(0x7f0000000000)
#define STACK_AT  UINT64_C(0x7ffc00000000)
#define STACK_END (STACK_AT + 16 * PAGE)

struct image {
    struct sg_warm_head head;
    struct sg_warm_region regions[REGIONS];
    struct sg_warm_file files[FILES];
    char strings[sizeof PATH];
};

/* The smallest process that could be: code of a file, data, a stack. */
static union {
    struct image image;
    unsigned char bytes[2 * PAGE];
} it;

static uint64_t file_bytes;

static int before_each(void **state)
{
    (void)state;
    memset(&it, 0, sizeof it);
    struct sg_warm_head *h = &it.image.head;
    memcpy(h->magic, SG_WARM_MAGIC, sizeof h->magic);
    h->version = SG_WARM_VERSION;
    h->head_bytes = PAGE;
    while (h->head_bytes < sizeof(struct image))
        h->head_bytes += PAGE;
    h->region_count = REGIONS;
    h->file_count = FILES;
    h->string_bytes = sizeof PATH;
    h->special_count = 2;
    h->special[0] = (struct sg_warm_special) { STACK_END + PAGE, 4 * PAGE, 0 };
    h->special[1] = (struct sg_warm_special) { STACK_END + 5 * PAGE, PAGE, 1 };
    h->registers.rip = CODE_AT + 16;
    h->registers.rsp = STACK_END - 1024;
    h->fs_base = h->tid = DATA_AT + 64;
    h->handover = DATA_AT + 128;
    h->rseq = DATA_AT + 256;
    h->rseq_bytes = 32;
    file_bytes = h->file_bytes = h->head_bytes + 2 * PAGE;
    it.image.regions[0] = (struct sg_warm_region) {
        CODE_AT, CODE_AT + PAGE, 0, PROT_READ | PROT_EXEC, SG_WARM_FILE, 0, 0
    };
    it.image.regions[1] = (struct sg_warm_region) {
        DATA_AT, DATA_AT + 2 * PAGE, h->head_bytes, PROT_READ | PROT_WRITE, SG_WARM_IMAGE, 0, 0
    };
    it.image.regions[2] = (struct sg_warm_region) {
        STACK_AT, STACK_END, 0, PROT_READ | PROT_WRITE, SG_WARM_ZERO, 0, 0
    };
    it.image.files[0] = (struct sg_warm_file) { .bytes = 100 };
    memcpy(it.image.strings, PATH, sizeof PATH);
    return 0;
}

static const char *check(void)
{
    if (it.image.head.head_bytes <= sizeof it) /* or the sum itself would read beyond */
        it.image.head.checksum = sg_warm_checksum(&it.image.head);
    return sg_warm_check(&it.image.head, sizeof it, file_bytes);
}

#define assert_refused(words)                                                                      \
    do {                                                                                           \
        const char *why_ = check();                                                                \
        assert_non_null(why_);                                                                     \
        assert_string_equal(why_, words);                                                          \
    } while (0)

static void a_whole_image_is_taken(void **state)
{
    (void)state;
    assert_null(check());
}

static void what_is_short_foreign_or_newer_is_refused(void **state)
{
    (void)state;
    assert_null(check());
    assert_string_equal(sg_warm_check(&it.image.head, 8, 8), "not an image");
    assert_string_equal(sg_warm_check(&it.image.head, sizeof it, file_bytes - 1), "cut");
    assert_string_equal(sg_warm_check(&it.image.head, PAGE / 2 + 2048 - 8, file_bytes),
                        "bad size of the metadata");
    it.image.head.version++;
    assert_refused("another version");
    it.image.head.magic[0] ^= 1;
    assert_refused("not an image");
}

static void every_changed_bit_of_the_metadata_is_found(void **state)
{
    (void)state;
    assert_null(check());
    for (size_t i = 0; i < sizeof(struct image); i++) {
        it.bytes[i] ^= 0x10;
        assert_non_null(sg_warm_check(&it.image.head, sizeof it, file_bytes));
        it.bytes[i] ^= 0x10;
    }
    assert_null(sg_warm_check(&it.image.head, sizeof it, file_bytes));
}

static void numbers_that_lead_elsewhere_are_refused(void **state)
{
    (void)state;
    const struct {
        uint64_t *number;
        uint64_t value;
        const char *why;
    } rows[] = {
        { &it.image.regions[1].start, DATA_AT + 1, "bad region" },
        { &it.image.regions[1].end, DATA_AT, "bad region" },
        { &it.image.regions[1].start, CODE_AT, "bad region" }, /* overlaps */
        { &it.image.regions[0].start, 0, "bad region" },
        { &it.image.regions[2].end, UINT64_C(0x800000000000), "bad region" },
        { &it.image.regions[1].start, SG_WARM_LINKED_AT, "bad region" },
        { &it.image.regions[1].offset, 1, "bad offset" },
        { &it.image.regions[1].offset, -(uint64_t)PAGE, "bad offset" },
        { &it.image.regions[1].offset, 0, "pages beyond the image" },
        { &it.image.regions[1].offset, 4 * PAGE, "pages beyond the image" },
        { &it.image.regions[0].offset, PAGE, "pages beyond a file" },
        { &it.image.head.special[0].start, 1, "bad vdso" },
        { &it.image.head.special[0].bytes, -(uint64_t)PAGE, "bad vdso" },
        { &it.image.head.special[0].start, STACK_AT, "vdso in a region" },
        { &it.image.head.special[1].start, STACK_END + PAGE, "vdso out of order" },
        { &it.image.head.registers.rip, DATA_AT, "nowhere to go on" },
        { &it.image.head.registers.rip, 1, "nowhere to go on" },
        { &it.image.head.registers.rsp, CODE_AT + 512, "no stack" },
        { &it.image.head.registers.rsp, STACK_AT, "no stack" },
        { &it.image.head.registers.rsp, 0, "no stack" },
        { &it.image.head.tid, CODE_AT, "no thread" },
        { &it.image.head.tid, DATA_AT + 1, "no thread" },
        { &it.image.head.handover, STACK_END - 8, "no thread" },
        { &it.image.head.fs_base, 0, "no thread" },
        { &it.image.head.rseq, CODE_AT, "no rseq" },
        { &it.image.head.rseq_bytes, 16, "no rseq" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint64_t before = *rows[i].number;
        *rows[i].number = rows[i].value;
        const char *why = check();
        if (!why || strcmp(why, rows[i].why) != 0)
            fail_msg("row %zu: '%s' instead of '%s'", i, why ? why : "taken", rows[i].why);
        *rows[i].number = before;
        assert_null(check());
    }
}

static void counts_and_paths_that_go_beyond_are_refused(void **state)
{
    (void)state;
    it.image.head.region_count = SG_WARM_MAX_REGIONS + 1;
    assert_refused("bad counts");
    it.image.head.region_count = 2000;
    assert_refused("tables beyond the metadata");
    it.image.head.region_count = REGIONS;
    it.image.regions[0].file = 1;
    assert_refused("pages beyond a file");
    it.image.regions[0].file = 0;
    it.image.regions[0].prot = 8;
    assert_refused("bad kind of region");
    it.image.regions[0].prot = PROT_READ | PROT_EXEC;
    it.image.regions[0].source = SG_WARM_SOURCE_COUNT;
    assert_refused("bad kind of region");
    it.image.regions[0].source = SG_WARM_FILE;
    it.image.files[0].path = sizeof PATH;
    assert_refused("bad path");
    it.image.files[0].path = 1;
    assert_refused("bad path");
    it.image.files[0].path = 0;
    it.image.strings[sizeof PATH - 1] = 'x';
    assert_refused("paths without end");
}

static void a_machine_fits_itself_and_no_other(void **state)
{
    (void)state;
    struct sg_warm_machine a, b;
    sg_warm_machine_look(&a);
    sg_warm_machine_look(&b);
    assert_true(a.release[0] && a.cpu[2]);
    assert_true(sg_warm_machine_fits(&a, &b));
    b.cpu[3] ^= 1;
    assert_false(sg_warm_machine_fits(&a, &b));
    b = a;
    b.version[0] ^= 1;
    assert_false(sg_warm_machine_fits(&a, &b));
}

static void lines_of_maps_are_read(void **state)
{
    (void)state;
    struct sg_map m;
    char plain[] = "7f00a000-7f00c000 rw-p 00001000 fd:00 123                /usr/lib/a b.so";
    assert_true(sg_maps_parse(plain, &m));
    assert_int_equal(m.start, 0x7f00a000);
    assert_int_equal(m.end, 0x7f00c000);
    assert_int_equal(m.offset, 0x1000);
    assert_int_equal(m.prot, PROT_READ | PROT_WRITE);
    assert_false(m.is_shared);
    assert_string_equal(m.name, "/usr/lib/a b.so");
    char anonymous[] = "ffffffffff600000-ffffffffff601000 --xs 00000000 00:00 0 ";
    assert_true(sg_maps_parse(anonymous, &m));
    assert_string_equal(m.name, "");
    assert_int_equal(m.prot, PROT_EXEC);
    assert_true(m.is_shared);
    static const char *const bad[] = { "",
                                       "x",
                                       "1-2",
                                       "2-1 rw-p 0 0:0 0",
                                       "1-2 rwzp 0 0:0 0",
                                       "1-2 rw-q 0 0:0 0",
                                       "11111111111111111-2 rw-p 0 0:0 0" };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char line[64];
        (void)snprintf(line, sizeof line, "%s", bad[i]);
        assert_false(sg_maps_parse(line, &m));
    }
}

static void all_lines_of_our_own_maps_are_read_in_order(void **state)
{
    (void)state;
    static struct sg_maps maps;
    struct sg_map m;
    uint64_t last = 0, here = (uint64_t)&maps;
    int got, count = 0, found = 0;
    assert_true(sg_maps_open(&maps));
    while ((got = sg_maps_next(&maps, &m)) > 0) {
        assert_true(m.start >= last);
        last = m.end;
        count++;
        found += here >= m.start && here < m.end;
    }
    sg_maps_close(&maps);
    assert_int_equal(got, 0);
    assert_true(count > 10);
    assert_int_equal(found, 1);
}

#define CASE(f) cmocka_unit_test_setup(f, before_each)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_whole_image_is_taken),
        CASE(what_is_short_foreign_or_newer_is_refused),
        CASE(every_changed_bit_of_the_metadata_is_found),
        CASE(numbers_that_lead_elsewhere_are_refused),
        CASE(counts_and_paths_that_go_beyond_are_refused),
        CASE(a_machine_fits_itself_and_no_other),
        CASE(lines_of_maps_are_read),
        CASE(all_lines_of_our_own_maps_are_read_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
