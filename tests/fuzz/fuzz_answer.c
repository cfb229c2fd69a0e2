/* SPDX-License-Identifier: Apache-2.0 */
/* Heads of answers: what is read lies inside, and more bytes behind the head change nothing. */
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "wire/answer.h"
#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    const char *text = (const char *)p;
    struct sg_http_answer a, again;
    int head = sg_answer_parse(&a, text, n, NULL);
    if (head <= 0)
        return 0;
    if ((size_t)head > n || a.status < 100 || a.status > 599)
        abort();
    for (unsigned i = 0; i < a.field_count; i++) {
        const struct sg_http_field *f = &a.fields[i];
        if (f->name.at + f->name.n > (size_t)head || f->value.at + f->value.n > (size_t)head)
            abort();
    }
    if (sg_answer_parse(&again, text, (size_t)head, NULL) != head ||
        again.field_count != a.field_count || again.length != a.length ||
        again.is_chunked != a.is_chunked)
        abort();
    return 0;
}
