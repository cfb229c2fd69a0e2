/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that are followed from head to head: whatever is passed on is a beginning of what came,
 * however it was cut, and every head in it named the right host. */
#include <stdlib.h>
#include <string.h>

#include "gate/web.h"
#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static void check(void *arg, struct sg_str host, struct sg_netverdict *v)
{
    (void)arg;
    v->is_allowed = sg_str_is(host, "good");
    v->rule[0] = '\0';
}

/* What went on of it, in pieces of `step` bytes. */
static void feed(const uint8_t *p, size_t n, size_t step, struct sg_buf *out)
{
    struct sg_web *w = sg_web_new(check, NULL);
    struct sg_netverdict v;
    enum sg_web_got got = SG_WEB_ON;
    sg_buf_init(out, 1 << 20);
    for (size_t i = 0; i < n && got != SG_WEB_REFUSED; i += step) {
        got = sg_web_feed(w, p + i, n - i < step ? n - i : step, out, &v);
        if (got == SG_WEB_ASKED)
            got = sg_web_answered(w, false, out, &v);
    }
    sg_web_free(w);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    struct sg_buf whole, bytes;
    if (n > SG_WEB_PIECE)
        return 0;
    feed(p, n, n ? n : 1, &whole);
    feed(p, n, n / 50 + 1, &bytes);
    if (whole.n > n || (whole.n && memcmp(whole.p, p, whole.n) != 0) || bytes.n > n ||
        (bytes.n && memcmp(bytes.p, p, bytes.n) != 0))
        abort();
    sg_buf_done(&whole);
    sg_buf_done(&bytes);
    return 0;
}
