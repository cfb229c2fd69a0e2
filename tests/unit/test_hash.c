/* SPDX-License-Identifier: Apache-2.0 */
/* base/hash: the published values, and numbers as their bytes. */
#include <string.h>

#include "base/hash.h"
#include "check.h"
#include "base/banned.h"

static uint64_t hash_of(const char *text)
{
    return sg_hash_add(SG_HASH_START, text, strlen(text));
}

static void texts(void **state)
{
    (void)state;
    assert_true(hash_of("") == SG_HASH_START);
    assert_true(hash_of("a") == 0xaf63dc4c8601ec8cu);
    assert_true(hash_of("foobar") == 0x85944171f73967e8u);
}

static void numbers_are_their_bytes(void **state)
{
    (void)state;
    assert_true(sg_hash_add_u64(SG_HASH_START, 0x6867666564636261u) == hash_of("abcdefgh"));
    assert_true(sg_hash_add_u64(SG_HASH_START, 1) != sg_hash_add_u64(SG_HASH_START, 1ull << 56));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts),
        cmocka_unit_test(numbers_are_their_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
