/* SPDX-License-Identifier: Apache-2.0 */
/* In sanitizer builds only. The search for leaks at the end stops the process from a tracer, which
 * nobody can be any more by then: it is left out. What is freed is held back, but not so much that
 * tests of memory in use take it for kept. */
#include "base/banned.h"

const char *__asan_default_options(void);
const char *__lsan_default_options(void);

__attribute__((visibility("default"))) const char *__asan_default_options(void)
{
    return "detect_leaks=0:quarantine_size_mb=16";
}

__attribute__((visibility("default"))) const char *__lsan_default_options(void)
{
    return "detect_leaks=0";
}
