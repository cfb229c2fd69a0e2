/* SPDX-License-Identifier: Apache-2.0 */
/* The first bytes of a TLS client. A hello that is complete stays so with more behind it, and is
 * not complete with less; and a name has no NUL inside. */
#include <stdlib.h>
#include <string.h>

#include "wire/hello.h"
#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    struct sg_hello whole, part;
    const enum sg_hello_got got = sg_hello_parse(p, n, &whole);
    bool was_done = false;
    const size_t step = n / 64 + 1;
    if (got == SG_HELLO_DONE && whole.has_name && strnlen(whole.name, SG_HELLO_NAME) == 0)
        abort();
    for (size_t i = 0; i <= n; i += step) {
        const enum sg_hello_got before = sg_hello_parse(p, i, &part);
        if (was_done && before != SG_HELLO_DONE)
            abort();
        if (before == SG_HELLO_DONE && got == SG_HELLO_DONE && strcmp(part.name, whole.name) != 0)
            abort();
        was_done = before == SG_HELLO_DONE;
    }
    return 0;
}
