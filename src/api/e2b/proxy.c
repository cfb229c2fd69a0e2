/* SPDX-License-Identifier: Apache-2.0 */
/* Ports of sandboxes, by this door's rules: private traffic needs a token, and a mask may stand for
 * the host that the client named. */
#include "api/e2b/proxy.h"

#include <string.h>

#include "api/reach.h"
#include "base/auto.h"
#include "base/banned.h"

/* ---- private traffic ---- */

static void refuse(struct sg_call *c, const char *message)
{
    sg_auto_buf out;
    sg_buf_init(&out, 4096);
    struct sg_json j;
    sg_json_init(&j, &out);
    sg_json_open(&j, '{');
    sg_json_put_str(&j, "sandboxId", sg_e2b_visit(c)->sandbox);
    sg_json_put_str(&j, "message", message);
    sg_json_put_u64(&j, "code", 403);
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

/* ---- the connection ---- */

/* "${PORT}" in the mask is the port. */
static const char *host_of(struct sg_call *c, const char *mask, uint32_t port)
{
    const char *mark = strstr(mask, "${PORT}");
    if (!mask[0] || !mark)
        return mask[0] ? mask : NULL;
    return sg_arena_printf(&c->arena, "%.*s%u%s", (int)(mark - mask), mask, (unsigned)port,
                           mark + strlen("${PORT}"));
}

static void failed(struct sg_call *c, bool is_port)
{
    const struct sg_e2b_visit *v = sg_e2b_visit(c);
    sg_e2b_unreachable(c, v->sandbox, is_port ? v->port : 0);
}

int sg_e2b_proxy(struct sg_call *c, struct sg_sandbox *s, struct sg_err *err)
{
    const struct sg_e2b_visit *v = sg_e2b_visit(c);
    const struct sg_reach_options o = { .port = v->port,
                                        .host = host_of(c, v->record.mask, v->port),
                                        .is_visitor = true,
                                        .failed = failed };
    return sg_call_reach(c, s, &o, err);
}
