/* SPDX-License-Identifier: Apache-2.0 */
/* base/buf: the ceiling holds, and after it nothing changes. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "check.h"
#include "base/banned.h"

static void appends_add_up(void **state)
{
    (void)state;
    sg_auto_buf b;
    sg_buf_init(&b, 100);
    sg_buf_add(&b, "ab", 2);
    sg_buf_add_str(&b, "cd");
    sg_buf_addf(&b, "%d-%s", 12, "x");
    sg_buf_add(&b, "", 0);
    assert_string_equal(sg_buf_cstr(&b), "abcd12-x");
    assert_int_equal(b.n, 8);
    struct sg_err err = { 0 };
    assert_ok(sg_buf_check(&b, "test", &err), err);
}

static void the_ceiling_itself_fits_and_one_more_byte_does_not(void **state)
{
    (void)state;
    sg_auto_buf b;
    struct sg_err err = { 0 };
    sg_buf_init(&b, 4);
    sg_buf_add(&b, "abcd", 4);
    assert_ok(sg_buf_check(&b, "x", &err), err);
    assert_string_equal(sg_buf_cstr(&b), "abcd");
    sg_buf_add(&b, "e", 1);
    assert_fails(sg_buf_check(&b, "the list", &err), err, SG_EXHAUSTED);
    assert_string_equal(err.msg, "the list is over 4 bytes");
}

static void after_an_overflow_nothing_is_appended_even_if_it_would_fit(void **state)
{
    (void)state;
    sg_auto_buf b;
    sg_buf_init(&b, 4);
    sg_buf_add(&b, "ab", 2);
    sg_buf_add(&b, "cde", 3);
    assert_true(b.has_overflowed);
    assert_int_equal(b.n, 2);
    sg_buf_add(&b, "c", 1);
    sg_buf_addf(&b, "%d", 1);
    assert_null(sg_buf_grow(&b, 1));
    assert_int_equal(b.n, 2);
    assert_string_equal(sg_buf_cstr(&b), "");
}

static void formatting_past_the_ceiling_overflows(void **state)
{
    (void)state;
    sg_auto_buf b;
    sg_buf_init(&b, 3);
    sg_buf_addf(&b, "%s", "abc");
    assert_false(b.has_overflowed);
    sg_buf_addf(&b, "%s", "d");
    assert_true(b.has_overflowed);
}

static void clearing_makes_it_usable_again(void **state)
{
    (void)state;
    sg_auto_buf b;
    sg_buf_init(&b, 4);
    sg_buf_add(&b, "abcde", 5);
    sg_buf_clear(&b);
    sg_buf_add(&b, "xyz", 3);
    assert_string_equal(sg_buf_cstr(&b), "xyz");
}

static void growing_gives_room_at_the_end_and_keeps_what_is_there(void **state)
{
    (void)state;
    sg_auto_buf b;
    sg_buf_init(&b, 1 << 20);
    sg_buf_add(&b, "head", 4);
    uint8_t *room = sg_buf_grow(&b, 100000);
    assert_non_null(room);
    memset(room, 'z', 100000); /* the sanitizer build watches this */
    b.n += 100000;
    assert_memory_equal(b.p, "headzzzz", 8);
    assert_int_equal(strlen(sg_buf_cstr(&b)), 100004);
    assert_null(sg_buf_grow(&b, SIZE_MAX));
}

static void the_terminator_has_room_at_every_size(void **state)
{
    (void)state;
    for (size_t n = 1; n <= 1024; n++) { /* past several steps of growth; ASan is the judge */
        sg_auto_buf b;
        sg_buf_init(&b, n);
        uint8_t *room = sg_buf_grow(&b, n);
        assert_non_null(room);
        memset(room, 'x', n);
        b.n = n;
        assert_int_equal(strlen(sg_buf_cstr(&b)), n);
    }
}

static void an_empty_buffer_is_an_empty_string(void **state)
{
    (void)state;
    sg_auto_buf b;
    sg_buf_init(&b, 0);
    assert_string_equal(sg_buf_cstr(&b), "");
    sg_buf_add_str(&b, "");
    assert_false(b.has_overflowed);
    sg_buf_add_str(&b, "a");
    assert_true(b.has_overflowed);
}

static void a_file_is_read_to_its_end_up_to_the_ceiling(void **state)
{
    (void)state;
    sg_auto_fd fd = memfd_create("test", MFD_CLOEXEC);
    assert_true(fd >= 0);
    char text[10000];
    memset(text, 't', sizeof text);
    assert_int_equal(write(fd, text, sizeof text), sizeof text);

    static const struct {
        size_t max;
        bool fits;
    } cases[] = { { 20000, true }, { 10000, true }, { 9999, false }, { 0, false } };
    for (size_t i = 0; i < SG_COUNT(cases); i++) {
        sg_auto_buf b;
        struct sg_err err = { 0 };
        sg_buf_init(&b, cases[i].max);
        assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
        if (cases[i].fits) {
            assert_ok(sg_buf_read_fd(&b, fd, "f", &err), err);
            assert_int_equal(b.n, sizeof text);
        } else {
            assert_fails(sg_buf_read_fd(&b, fd, "f", &err), err, SG_EXHAUSTED);
        }
    }
}

static void an_unreadable_descriptor_is_an_error(void **state)
{
    (void)state;
    sg_auto_buf b;
    struct sg_err err = { 0 };
    sg_buf_init(&b, 10);
    assert_int_equal(sg_buf_read_fd(&b, -1, "nothing", &err), -1);
    assert_int_equal(err.sys, EBADF);
    assert_string_equal(err.msg, "read nothing: Bad file descriptor");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(appends_add_up),
        cmocka_unit_test(the_ceiling_itself_fits_and_one_more_byte_does_not),
        cmocka_unit_test(after_an_overflow_nothing_is_appended_even_if_it_would_fit),
        cmocka_unit_test(formatting_past_the_ceiling_overflows),
        cmocka_unit_test(clearing_makes_it_usable_again),
        cmocka_unit_test(growing_gives_room_at_the_end_and_keeps_what_is_there),
        cmocka_unit_test(the_terminator_has_room_at_every_size),
        cmocka_unit_test(an_empty_buffer_is_an_empty_string),
        cmocka_unit_test(a_file_is_read_to_its_end_up_to_the_ceiling),
        cmocka_unit_test(an_unreadable_descriptor_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
