/* SPDX-License-Identifier: Apache-2.0 */
/* cmocka with the headers that it wants first, and the two questions that most tests ask. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/err.h"

/* A program that cannot run here says why and ends: `return skip_all("needs root")` from main.
 * (A single test may call cmocka's skip(): tools/check understands it, Meson shows a failure.) */
static inline int skip_all(const char *why)
{
    (void)printf("1..0 # SKIP %s\n", why);
    return 0;
}

/* The call succeeded; otherwise the test fails with its message. */
#define assert_ok(call, err)                                                                       \
    do {                                                                                           \
        if ((call) < 0)                                                                            \
            fail_msg("%s: %s (%s)", #call, (err).msg, (err).where);                                \
    } while (0)

/* The call failed, and as this kind. */
#define assert_fails(call, err, wanted)                                                            \
    do {                                                                                           \
        (err) = (struct sg_err) { 0 };                                                             \
        assert_true((call) < 0);                                                                   \
        assert_string_equal(sg_kind_name((err).kind), sg_kind_name(wanted));                       \
    } while (0)
