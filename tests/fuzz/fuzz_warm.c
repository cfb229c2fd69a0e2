/* SPDX-License-Identifier: Apache-2.0 */
/* The metadata of a warm image: whatever is taken leads nowhere but into itself. The checksum is
 * set right first, or nothing behind it would ever be reached. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "warm/image.h"
#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

enum { PAGE = 4096 };

static void walk(const struct sg_warm_head *h, const uint8_t *end)
{
    uint64_t after = 0, sum = 0;
    for (uint32_t i = 0; i < h->region_count; i++) {
        const struct sg_warm_region *r = &sg_warm_regions(h)[i];
        if ((const uint8_t *)(r + 1) > end || r->start < after || r->end <= r->start)
            abort();
        after = r->end;
        if (r->source == SG_WARM_FILE)
            sum += strlen(sg_warm_strings(h) + sg_warm_files(h)[r->file].path);
    }
    if (sum > UINT64_MAX / 2)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    size_t bytes = (n + PAGE - 1) / PAGE * PAGE;
    sg_auto_free uint8_t *copy = calloc(1, bytes + 1);
    if (!copy)
        abort();
    memcpy(copy, p, n);
    struct sg_warm_head *h = (struct sg_warm_head *)(void *)copy;
    if (bytes >= sizeof *h && h->head_bytes <= bytes && h->head_bytes % PAGE == 0)
        h->checksum = sg_warm_checksum(h);
    if (!sg_warm_check(h, bytes, bytes >= sizeof *h ? h->file_bytes : bytes))
        walk(h, copy + bytes);
    return 0;
}
