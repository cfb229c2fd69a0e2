/* SPDX-License-Identifier: Apache-2.0 */
/* Requests and answers of connections with credentials. The first byte tells which of the two and
 * in what pieces; the rest is what a client, or a server, says.
 *
 * Whatever a server says, the value is not in what the client reads; whatever a client says, what
 * goes out begins as a request that we ourselves understand, and names the right host. */
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "gate/rewrite.h"
#include "fuzz_demand.h"
#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

#define VALUE "tops3cret+value"

static bool is_good(void *arg, struct sg_str host)
{
    (void)arg;
    return sg_str_is(host, "good");
}

static void feed_up(const struct sg_swaps *s, const uint8_t *p, size_t n, size_t step)
{
    struct sg_rewrite_up u;
    struct sg_http_head head;
    sg_auto_buf out, back;
    enum sg_rewrite_got got = SG_REWRITE_ON;
    sg_buf_init(&out, SG_REWRITE_OUT);
    sg_buf_init(&back, SG_REWRITE_OUT);
    sg_rewrite_up_init(&u, is_good, NULL);
    for (size_t at = 0; at < n && got != SG_REWRITE_BAD; at += step) {
        if (got == SG_REWRITE_END) {
            sg_rewrite_up_next(&u);
            got = sg_rewrite_up(&u, s, NULL, 0, &out, &back);
        }
        if (got != SG_REWRITE_BAD)
            got = sg_rewrite_up(&u, s, p + at, n - at < step ? n - at : step, &out, &back);
    }
    if (out.n && !out.has_overflowed) {
        sg_http1_init(&head);
        const int got_head = sg_http1_parse(&head, sg_buf_cstr(&out), out.n, NULL);
        demand(got_head > 0 || head.status == 431 ||
               head.status == 414); /* what we add is too much */
        demand(got_head < 0 || sg_str_is(sg_span_str(head.host, sg_buf_cstr(&out)), "good"));
    }
    sg_rewrite_up_done(&u);
}

static void feed_down(const struct sg_swaps *s, uint8_t *p, size_t n, size_t step)
{
    struct sg_rewrite_down d;
    const struct sg_rewrite_up u = { .wants_upgrade = true };
    sg_auto_buf out;
    enum sg_rewrite_got got = SG_REWRITE_ON;
    size_t used = 0;
    sg_buf_init(&out, 2 * SG_REWRITE_OUT);
    sg_rewrite_down_init(&d);
    for (size_t at = 0; at < n && got == SG_REWRITE_ON; at += used) {
        const size_t given = used = n - at < step ? n - at : step;
        got = sg_rewrite_down(&d, &u, s, p + at, &used, &out);
        demand(used <= given && (used == given || got != SG_REWRITE_ON));
    }
    if (got == SG_REWRITE_ON)
        (void)sg_rewrite_down_eof(&d, &out);
    demand(!out.n || !memmem(out.p, out.n, VALUE, strlen(VALUE)));
    sg_rewrite_down_done(&d);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    static struct sg_swaps *s;
    if (!s) {
        s = sg_swaps_new();
        sg_swaps_add(s, "sgsecret_c1", sg_str_of(VALUE), false);
        sg_swaps_add_field(s, "X-Added", "Bearer sgsecret_c1");
    }
    if (n < 2 || n > SG_REWRITE_PIECE)
        return 0;
    const size_t step = p[0] >> 1 ? p[0] >> 1 : n;
    uint8_t *copy = sg_alloc(n);
    memcpy(copy, p + 1, n - 1);
    if (p[0] & 1)
        feed_down(s, copy, n - 1, step);
    else
        feed_up(s, copy, n - 1, step);
    free(copy);
    return 0;
}
