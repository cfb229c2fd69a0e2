/* SPDX-License-Identifier: Apache-2.0 */
/* What this API has and this server has not (yet): the answer is 400 with the reason, never
 * silence. Names that do not exist are told first, as clients expect. */
#include <string.h>

#include "api/e2b/e2b.h"
#include "base/banned.h"

/* There are none, which can be said. */
int sg_e2b_empty_list(struct sg_call *c, struct sg_err *err)
{
    (void)err;
    sg_reply_text(c, 200, "application/json", "[]");
    return 0;
}

int sg_e2b_no_build(struct sg_call *c, struct sg_err *err)
{
    (void)c;
    return sg_fail(
        err, SG_UNSUPPORTED,
        "this way of building templates is older than this server: use a client of version 2, or "
        "'sandglass template build'");
}
