/* SPDX-License-Identifier: Apache-2.0 */
/* A service that was just started may need a moment until it listens: a dial that is refused is
 * tried again a few times before the client is told. */
#include "api/reach.h"

#include <errno.h>
#include <string.h>

#include "api/forward.h"
#include "base/auto.h"
#include "manager/files.h"
#include "manager/manager.h"
#include "base/banned.h"

enum { TRIES = 5 };
#define PAUSE_NS 100000000u /* after the first try; grows by as much each time */

/* In the call's arena. */
struct visit {
    struct sg_call *call;
    struct sg_manager *manager;
    char sandbox[SG_ID_LEN + 1];
    struct sg_reach_options o;
    unsigned tries;
    struct sg_timer again;
};

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

static void silent(void *arg, struct sg_call *c)
{
    const struct visit *v = arg;
    v->o.failed(c, true);
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
        v->o.failed(c, false);
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
        const struct sg_forward_options o = {
            .host = v->o.host, .is_tunnel = v->o.is_tunnel, .silent = silent, .done = done, .arg = v
        };
        sg_sandbox_work_begin(s);
        sg_call_forward(c, sg_packet_take_fd(p, 0), &o);
    } else if (!p && err->sys == ECONNREFUSED && ++v->tries < TRIES) {
        v->again.fire = try_again;
        sg_timer_set(l, &v->again, sg_loop_now(l) + (uint64_t)v->tries * PAUSE_NS);
    } else {
        v->o.failed(c, p || err->kind != SG_UNAVAILABLE || err->sys);
    }
}

static int dial(struct visit *v, struct sg_err *err)
{
    struct sg_sandbox *s = find(v);
    struct sg_msg m = { .type = SG_MSG_DIAL };
    m.dial = (struct sg_msg_dial) { sg_text_of(""), sg_text_of(""), SG_DIAL_TCP, v->o.port };
    return s ? sg_files_ask(s, &v->call->who, &m, NULL, 0, dialled, v, err)
             : sg_fail(err, SG_UNAVAILABLE, "The sandbox was not found");
}

int sg_call_reach(struct sg_call *c, struct sg_sandbox *s, const struct sg_reach_options *o,
                  struct sg_err *err)
{
    struct visit *v = sg_arena_alloc(&c->arena, sizeof *v);
    if (o->is_visitor && sg_call_visit(c, s->id.s, err) < 0)
        return -1;
    if (!v)
        return sg_fail(err, SG_EXHAUSTED, "no room for the call");
    v->call = c;
    v->manager = c->manager;
    v->o = *o;
    memcpy(v->sandbox, s->id.s, sizeof v->sandbox);
    sg_call_pause_body(c, true);
    return dial(v, err);
}
