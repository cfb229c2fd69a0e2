/* SPDX-License-Identifier: Apache-2.0 */
/* A service that was just started may need a moment until it listens: a dial that is refused is
 * tried again a few times before the client is told. */
#include "api/e2b/proxy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "api/forward.h"
#include "base/auto.h"
#include "manager/files.h"
#include "base/banned.h"

enum { TRIES = 5 };
#define PAUSE_NS 100000000u /* after the first try; grows by as much each time */

/* In the call's arena. */
struct visit {
    struct sg_call *call;
    struct sg_manager *manager;
    char sandbox[SG_ID_LEN + 1];
    uint32_t port;
    unsigned tries;
    struct sg_timer again;
};

/* ---- private traffic ---- */

static void refuse(struct sg_call *c, const char *message)
{
    sg_auto_buf out;
    sg_buf_init(&out, 4096);
    struct sg_json j;
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

/* ---- the connection ---- */

static int dial(struct visit *v, struct sg_err *err);

static struct sg_sandbox *find(const struct visit *v)
{
    const struct sg_who anybody = { .is_operator = true };
    struct sg_err err;
    return sg_manager_find(v->manager, &anybody, v->sandbox, &err);
}

/* An open connection is work: the sandbox does not idle meanwhile. */
static void done(void *arg, bool is_server_ending)
{
    struct sg_sandbox *s = is_server_ending ? NULL : find(arg);
    if (s)
        sg_sandbox_work_end(s);
}

static void silent(struct sg_call *c)
{
    const struct sg_e2b_visit *v = sg_e2b_visit(c);
    sg_e2b_unreachable(c, v->sandbox, v->port);
}

/* "${PORT}" in the mask is the port. */
static const char *host_of(struct sg_call *c, const char *mask, uint32_t port)
{
    const char *mark = strstr(mask, "${PORT}");
    if (!mask[0] || !mark)
        return mask[0] ? mask : NULL;
    return sg_arena_printf(&c->arena, "%.*s%u%s", (int)(mark - mask), mask, (unsigned)port,
                           mark + strlen("${PORT}"));
}

static void try_again(struct sg_timer *t, uint64_t now_ns)
{
    struct visit *v = SG_OWNER(t, struct visit, again);
    struct sg_call *c = v->call;
    struct sg_err err;
    (void)now_ns;
    if (c->is_gone)
        sg_reply_end(c);
    else if (dial(v, &err) < 0)
        sg_e2b_unreachable(c, v->sandbox, 0);
}

static void dialled(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    struct visit *v = arg;
    struct sg_call *c = v->call;
    struct sg_loop *l = sg_manager_loop(v->manager);
    struct sg_sandbox *s = p ? find(v) : NULL;
    if (c->is_gone) {
        sg_reply_end(c);
    } else if (s) {
        const struct sg_e2b_visit *asked = sg_e2b_visit(c);
        const struct sg_forward_options o = { .host = host_of(c, asked->record.mask, asked->port),
                                              .silent = silent,
                                              .done = done,
                                              .arg = v };
        sg_sandbox_work_begin(s);
        sg_call_forward(c, sg_packet_take_fd(p, 0), &o);
    } else if (!p && err->sys == ECONNREFUSED && ++v->tries < TRIES) {
        v->again.fire = try_again;
        sg_timer_set(l, &v->again, sg_loop_now(l) + (uint64_t)v->tries * PAUSE_NS);
    } else {
        sg_e2b_unreachable(c, v->sandbox,
                           !p && err->kind == SG_UNAVAILABLE && !err->sys ? 0 : v->port);
    }
}

static int dial(struct visit *v, struct sg_err *err)
{
    struct sg_sandbox *s = find(v);
    struct sg_msg m = { .type = SG_MSG_DIAL };
    m.dial = (struct sg_msg_dial) { sg_text_of(""), sg_text_of(""), SG_DIAL_TCP, v->port };
    return s ? sg_files_ask(s, &v->call->who, &m, NULL, 0, dialled, v, err)
             : sg_fail(err, SG_UNAVAILABLE, "The sandbox was not found");
}

int sg_e2b_proxy(struct sg_call *c, struct sg_sandbox *s, struct sg_err *err)
{
    struct visit *v = sg_arena_alloc(&c->arena, sizeof *v);
    if (!v)
        return sg_fail(err, SG_EXHAUSTED, "no room for the call");
    v->call = c;
    v->manager = c->manager;
    v->port = sg_e2b_visit(c)->port;
    memcpy(v->sandbox, s->id.s, sizeof v->sandbox);
    sg_call_pause_body(c, true);
    return dial(v, err);
}
