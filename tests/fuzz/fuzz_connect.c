/* SPDX-License-Identifier: Apache-2.0 */
/* Connect envelopes: each lies inside the input, and written again it is the same bytes. */
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "wire/connect.h"
#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    struct sg_str in = { (const char *)p, n };
    struct sg_connect_frame f;
    sg_auto_buf out;
    sg_buf_init(&out, n + 1);
    while (sg_connect_take(&in, &f, NULL) == 1) {
        if (f.data.p < (const char *)p || f.data.p + f.data.n > (const char *)p + n)
            abort();
        size_t mark = sg_connect_open(&out);
        sg_buf_add(&out, f.data.p, f.data.n);
        sg_connect_close(&out, mark, f.flags);
    }
    if (out.n != n - in.n || (out.n && memcmp(out.p, p, out.n) != 0))
        abort();
    return 0;
}
