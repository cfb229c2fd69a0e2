/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as what a service answers: a head and a body, or an error with a message. There is no
 * socket behind the bytes, so whatever wants more than there is fails. */
#include <stdlib.h>
#include <string.h>

#include "cli/http.h"
#include "cli/lines.h"
#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static bool receive(struct sg_http *h, const uint8_t *p, size_t n, struct sg_err *err)
{
    sg_http_init(h, "unix:/none", "");
    sg_buf_add(&h->in, p, n);
    if (h->in.has_overflowed)
        return false;
    if (sg_http_receive(h, err) == 0)
        return true;
    if (err->kind == SG_OK || !err->msg[0])
        abort();
    return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    struct sg_err err = { 0 };
    sg_auto_http whole, lined;
    sg_auto_buf body;
    sg_buf_init(&body, n + 1);
    lined = (struct sg_http) { .fd = -1 };
    if (!receive(&whole, p, n, &err))
        return 0;
    if (whole.head.status < 100 || whole.head.status > 599)
        abort();
    const int r = sg_http_read_all(&whole, &body, &err);
    if (body.has_overflowed)
        abort(); /* more came out than went in */
    if (!receive(&lined, p, n, &err))
        abort(); /* the same bytes again */
    sg_auto_lines lines;
    struct sg_str line;
    size_t sum = 0;
    int more;
    sg_lines_init(&lines, &lined);
    while ((more = sg_lines_next(&lines, &line, &err)) > 0) {
        if (sum + line.n + 1 > body.n || memcmp(body.p + sum, line.p, line.n) != 0)
            abort();
        sum += line.n + 1;
    }
    if ((more < 0) != (r < 0))
        abort();
    return 0;
}
