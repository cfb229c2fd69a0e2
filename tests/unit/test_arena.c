/* SPDX-License-Identifier: Apache-2.0 */
/* base/arena */
#include <string.h>

#include "base/arena.h"
#include "check.h"
#include "base/banned.h"

static void memory_is_zeroed_and_aligned(void **state)
{
    (void)state;
    sg_auto_arena a;
    sg_arena_init(&a, 1 << 20);
    for (size_t n = 1; n < 600; n += 7) {
        uint8_t *p = sg_arena_alloc(&a, n);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % 16, 0);
        for (size_t i = 0; i < n; i++)
            assert_int_equal(p[i], 0);
        memset(p, 0xa5, n); /* the next round finds it if pieces overlap or are reused */
    }
}

static void pieces_do_not_overlap(void **state)
{
    (void)state;
    sg_auto_arena a;
    sg_arena_init(&a, 1 << 20);
    char *texts[500];
    for (int i = 0; i < 500; i++)
        texts[i] = sg_arena_printf(&a, "piece %d of the arena, with a tail", i);
    for (int i = 0; i < 500; i++) {
        char want[64];
        (void)snprintf(want, sizeof want, "piece %d of the arena, with a tail", i);
        assert_string_equal(texts[i], want);
    }
}

static void the_ceiling_holds_to_the_byte(void **state)
{
    (void)state;
    sg_auto_arena a;
    sg_arena_init(&a, 64);
    assert_non_null(sg_arena_alloc(&a, 48));
    assert_null(sg_arena_alloc(&a, 17));
    assert_non_null(sg_arena_alloc(&a, 16));
    assert_null(sg_arena_alloc(&a, 1));
    assert_null(sg_arena_copy(&a, "x", 1));
    assert_null(sg_arena_printf(&a, "x"));
    assert_null(sg_arena_alloc(&a, SIZE_MAX));
    assert_null(sg_arena_alloc(&a, SIZE_MAX - 15));
    assert_int_equal(a.used, 64);
}

static void a_large_piece_gets_its_own_block(void **state)
{
    (void)state;
    sg_auto_arena a;
    sg_arena_init(&a, 4 << 20);
    char *small = sg_arena_copy(&a, "before", 6);
    uint8_t *big = sg_arena_alloc(&a, 3 << 20);
    assert_non_null(big);
    memset(big, 1, 3 << 20);
    char *after = sg_arena_copy(&a, "after", 5);
    assert_string_equal(small, "before");
    assert_string_equal(after, "after");
}

static void a_cleared_arena_uses_its_first_block_again(void **state)
{
    (void)state;
    sg_auto_arena a;
    sg_arena_init(&a, 1 << 20);
    void *first = sg_arena_alloc(&a, 100);
    memset(first, 0xff, 100);
    (void)sg_arena_alloc(&a, 100000);
    sg_arena_clear(&a);
    assert_int_equal(a.used, 0);
    uint8_t *again = sg_arena_alloc(&a, 100);
    assert_ptr_equal(again, first);
    assert_int_equal(again[99], 0);
}

static void a_copy_is_terminated(void **state)
{
    (void)state;
    sg_auto_arena a;
    sg_arena_init(&a, 1000);
    assert_string_equal(sg_arena_copy(&a, "abcdef", 3), "abc");
    assert_string_equal(sg_arena_copy(&a, NULL, 0), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_zeroed_and_aligned),
        cmocka_unit_test(pieces_do_not_overlap),
        cmocka_unit_test(the_ceiling_holds_to_the_byte),
        cmocka_unit_test(a_large_piece_gets_its_own_block),
        cmocka_unit_test(a_cleared_arena_uses_its_first_block_again),
        cmocka_unit_test(a_copy_is_terminated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
