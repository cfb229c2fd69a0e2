/* SPDX-License-Identifier: Apache-2.0 */
/* In sanitizer builds only. The search for leaks at the end stops the process from a tracer, which
 * nobody can be any more by then: it is left out. */
#include "base/banned.h"

const char *__asan_default_options(void);
const char *__lsan_default_options(void);

__attribute__((visibility("default"))) const char *__asan_default_options(void)
{
    return "detect_leaks=0";
}

__attribute__((visibility("default"))) const char *__lsan_default_options(void)
{
    return "detect_leaks=0";
}
