/* SPDX-License-Identifier: Apache-2.0 */
#include "api/e2b/proxy.h"

#include "base/auto.h"
#include "base/banned.h"

static void refuse(struct sg_call *c, const char *message)
{
    sg_auto_buf out;
    struct sg_json j;
    sg_buf_init(&out, 4096);
    sg_json_init(&j, &out);
    sg_json_open(&j, '{');
    sg_e2b_put_str(&j, "sandboxId", sg_e2b_visit(c)->sandbox);
    sg_e2b_put_str(&j, "message", message);
    sg_e2b_put_u64(&j, "code", 403);
    sg_json_close(&j, '}');
    sg_reply_bytes(c, 403, "application/json", out.p, out.n);
}

bool sg_e2b_proxy_may(struct sg_call *c)
{
    const char *wanted = sg_e2b_visit(c)->record.traffic;
    const char *given = sg_call_header(c, "e2b-traffic-access-token");
    if (!wanted[0] || (given && sg_e2b_is_same(given, wanted)))
        return true;
    refuse(c, given ? "Sandbox is secured with traffic access token. Provided token in header "
                      "'e2b-traffic-access-token' is invalid"
                    : "Sandbox is secured with traffic access token. Token header "
                      "'e2b-traffic-access-token' is missing");
    return false;
}

int sg_e2b_proxy(struct sg_call *c, struct sg_sandbox *s, struct sg_err *err)
{
    (void)err;
    sg_e2b_unreachable(c, s->id.s, sg_e2b_visit(c)->port);
    return 0;
}
