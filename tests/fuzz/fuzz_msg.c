/* SPDX-License-Identifier: Apache-2.0 */
/* Control packets: what is accepted must encode to the same bytes again, so that nothing in a
 * packet is ignored or read in two ways. Pages of directory entries likewise. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/entry.h"
#include "ctl/msg.h"
#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static void must_equal(const struct sg_buf *b, const uint8_t *p, size_t n)
{
    if (b->has_overflowed || b->n != n || (n && memcmp(b->p, p, n) != 0))
        abort();
}

static void check_entries(const uint8_t *p, size_t n)
{
    sg_auto_buf again;
    sg_buf_init(&again, n + 1);
    struct sg_bytes rest = { p, n };
    struct sg_entry e;
    bool is_bad;
    while (sg_entry_next(&rest, &e, &is_bad))
        sg_entry_put(&again, &e);
    must_equal(&again, p, n - rest.n);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    struct sg_msg m;
    check_entries(p, n);
    if (sg_msg_decode(p, n, SG_ROLE_NONE, &m, NULL) < 0)
        return 0;
    sg_auto_buf again;
    sg_buf_init(&again, SG_CTL_MAX_BYTES);
    if (sg_msg_encode(&m, &again, NULL) < 0)
        abort();
    must_equal(&again, p, n);
    if (m.type == SG_MSG_LISTED)
        check_entries(m.listed.entries.p, m.listed.entries.n);
    return 0;
}
