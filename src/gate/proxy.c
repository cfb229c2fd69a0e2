/* SPDX-License-Identifier: Apache-2.0 */
#include "gate/proxy.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/auto.h"
#include "gate/term.h"
#include "base/banned.h"

#define SECOND UINT64_C(1000000000)
static const uint64_t PROXY_NS = 10 * SECOND;

struct sg_proxy {
    struct sg_target at; /* of the next two */
    struct sg_name name;
    struct sg_addr addr;
    char *user, *password; /* owned; NULL: none */
    bool is_shut;          /* its password could not be opened */
};

struct sg_via { /* of one flow, until it is connected */
    struct sg_flow *flow;
    struct sg_lookup lookup; /* of the proxy's name */
    struct sg_addr addrs[SG_FLOW_ADDRS];
    unsigned count, at;
    struct sg_socks socks;
    struct sg_buf out;
    bool is_by_name, is_up;
};

/* ---- of a sandbox ---- */

static void wipe(char *text)
{
    if (text)
        explicit_bzero(text, strlen(text));
    free(text);
}

void sg_proxy_free(struct sg_proxy *p)
{
    if (!p)
        return;
    free(p->user);
    wipe(p->password);
    free(p);
}

static int open_password(const struct sg_gate_box *b, const struct sg_egress *e, const char *org,
                         char **ret, struct sg_err *err)
{
    sg_auto_buf value;
    sg_auto_free char *context = sg_egress_context(e, org);
    sg_buf_init(&value, SG_SEAL_MAX);
    if (sg_trust_unseal(b->gate->trust, context, e->sealed, &value, err) < 0)
        return sg_wrap(err, "the password of the egress proxy");
    char *own = sg_alloc(value.n + 1);
    if (value.n)
        memcpy(own, value.p, value.n);
    if (value.p)
        explicit_bzero(value.p, value.cap);
    *ret = own;
    return 0;
}

int sg_proxy_open(const struct sg_gate_box *b, const struct sg_egress *e, const char *org,
                  struct sg_proxy **ret, struct sg_err *err)
{
    *ret = NULL;
    if (!e->address)
        return 0;
    struct sg_proxy *p = sg_new(struct sg_proxy);
    int got = sg_egress_target(e->address, &p->name, &p->addr, &p->at, err);
    if (got == 0 && e->user) {
        p->user = sg_strdup(e->user);
        got = e->sealed ? open_password(b, e, org, &p->password, err)
                        : sg_fail(err, SG_INVALID, "the egress proxy has no password");
    }
    p->is_shut = got < 0;
    *ret = p;
    return got;
}

/* ---- ends of one flow's way ---- */

void sg_via_stop(struct sg_flow *f)
{
    struct sg_via *v = f->via;
    if (!v)
        return;
    f->via = NULL;
    sg_resolve_cancel(&v->lookup);
    if (v->out.p)
        explicit_bzero(v->out.p, v->out.cap);
    sg_buf_done(&v->out);
    free(v);
}

static void fail(struct sg_flow *f, const char *why)
{
    char rule[SG_NETRULE_TEXT + 64];
    (void)snprintf(rule, sizeof rule, "egress proxy: %s", why);
    sg_flow_refuse(f, rule, f->port == SG_HTTP_PORT);
}

static void late(struct sg_timer *t, uint64_t now_ns)
{
    (void)now_ns;
    fail(SG_OWNER(t, struct sg_flow, timer), "it did not answer in time");
}

/* ---- talking to it ---- */

static void on_proxy(struct sg_io *io, uint32_t events);

/* The next of its addresses that takes us. False: the flow is over. */
static bool dial(struct sg_via *v)
{
    struct sg_flow *f = v->flow;
    const struct sg_proxy *p = f->box->proxy;
    int last = ECONNREFUSED;
    v->is_up = false;
    for (; v->at < v->count; v->at++) {
        f->proxy_addr = v->addrs[v->at];
        last = sg_flow_reach(f, &f->proxy_addr, p->at.port, on_proxy);
        if (last == 0)
            return true;
    }
    fail(f, strerror(last));
    return false;
}

static void greet(struct sg_via *v)
{
    struct sg_flow *f = v->flow;
    const struct sg_proxy *p = f->box->proxy;
    const bool is_v4 = sg_addr_is_v4(&f->addrs[f->addr_at]);
    if (!v->is_by_name)
        f->real = f->addrs[f->addr_at];
    f->addr_at++;
    const struct sg_socks_ask ask = { .user = p->user,
                                      .password = p->password,
                                      .name = v->is_by_name ? f->name : NULL,
                                      .addr = f->real.b + (is_v4 ? 12 : 0),
                                      .addr_n = is_v4 ? 4 : 16,
                                      .port = f->port };
    v->is_up = true;
    sg_buf_clear(&v->out);
    sg_socks_begin(&v->socks, &ask, &v->out);
}

/* -1: it is gone. */
static int flush(struct sg_via *v)
{
    while (v->out.n) {
        const ssize_t n = send(v->flow->server.fd, v->out.p, v->out.n, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0)
            return errno == EAGAIN || errno == EINTR ? 0 : -1;
        memmove(v->out.p, v->out.p + n, v->out.n - (size_t)n);
        v->out.n -= (size_t)n;
    }
    if (v->out.p)
        explicit_bzero(v->out.p, v->out.cap);
    return 0;
}

/* Where the far end is what failed, the next of its addresses may do. */
static void turned_down(struct sg_via *v)
{
    struct sg_flow *f = v->flow;
    if (!v->socks.is_far) {
        fail(f, v->socks.reason);
    } else if (!v->is_by_name && f->addr_at < f->addr_count) {
        (void)dial(v);
    } else {
        sg_auto_free char *why = sg_printf("egress proxy: %s", v->socks.reason);
        sg_flow_end(f, why);
    }
}

static const char *words_of(int error)
{
    return error == ECONNRESET || error == EPIPE ? "it closed the connection" : strerror(error);
}

/* True: there may be more at once. */
static bool step(struct sg_via *v)
{
    struct sg_flow *f = v->flow;
    uint8_t in[SG_SOCKS_IN];
    if (flush(v) < 0) {
        fail(f, words_of(errno));
        return false;
    }
    const ssize_t n = v->out.n ? -1 : recv(f->server.fd, in, sg_socks_wants(&v->socks), 0);
    if (v->out.n || (n < 0 && (errno == EAGAIN || errno == EINTR))) {
        if (sg_io_want(f->box->gate->loop, &f->server, v->out.n ? EPOLLOUT : EPOLLIN, NULL) < 0)
            sg_flow_end(f, "out of memory");
        return false;
    }
    if (n <= 0) {
        fail(f, words_of(n < 0 ? errno : ECONNRESET));
        return false;
    }
    switch (sg_socks_feed(&v->socks, in, (size_t)n, &v->out)) {
    case SG_SOCKS_ON:
        return true;
    case SG_SOCKS_DONE:
        sg_via_stop(f);
        sg_flow_reached(f);
        return false;
    case SG_SOCKS_BAD:
        turned_down(v);
        return false;
    }
    return false;
}

static void on_proxy(struct sg_io *io, uint32_t events)
{
    struct sg_flow *f = SG_OWNER(io, struct sg_flow, server);
    struct sg_via *v = f->via;
    int error = 0;
    socklen_t n = sizeof error;
    if (!v->is_up && events & (EPOLLERR | EPOLLHUP) &&
        (getsockopt(io->fd, SOL_SOCKET, SO_ERROR, &error, &n) < 0 || error)) {
        if (++v->at < v->count)
            (void)dial(v);
        else
            fail(f, strerror(error));
        return;
    }
    if (!v->is_up)
        greet(v);
    while (step(v))
        ;
}

/* ---- judging it ---- */

static bool judge(const struct sg_flow *f, const struct sg_addr *a, struct sg_netverdict *ret)
{
    struct sg_gate *g = f->box->gate;
    struct sg_target t = f->box->proxy->at;
    t.addr = a;
    sg_policy_judge_egress(&f->box->policy, &g->permitted, &t, ret);
    if (ret->is_allowed && a && !sg_nets_has(&g->permitted, a) && sg_gate_is_own(g, a)) {
        ret->is_allowed = false;
        (void)snprintf(ret->rule, sizeof ret->rule, "always refused: this host");
    }
    return ret->is_allowed;
}

bool sg_via_is_allowed(const struct sg_flow *f, struct sg_netverdict *ret)
{
    return !f->is_via || judge(f, &f->proxy_addr, ret);
}

static bool use(struct sg_via *v, const struct sg_addr *addrs, unsigned n, const char *none)
{
    struct sg_netverdict verdict;
    (void)snprintf(verdict.rule, sizeof verdict.rule, "%s", none);
    for (unsigned i = 0; i < n && v->count < SG_FLOW_ADDRS; i++)
        if (judge(v->flow, &addrs[i], &verdict))
            v->addrs[v->count++] = addrs[i];
    if (v->count)
        return dial(v);
    fail(v->flow, verdict.rule);
    return false;
}

static bool use_resolved(struct sg_via *v, const struct sg_resolved *got)
{
    struct sg_netverdict verdict;
    for (unsigned i = 0; i < got->alias_count; i++)
        if (sg_policy_denies_name(v->flow->box->policy.above, got->aliases[i], &verdict)) {
            fail(v->flow, verdict.rule);
            return false;
        }
    return use(v, got->addrs, got->count,
               got->rcode == SG_DNS_SERVFAIL ? "no name server answers for its name"
                                             : "its name does not exist");
}

static void resolved(struct sg_lookup *lookup, const struct sg_resolved *got)
{
    (void)use_resolved(SG_OWNER(lookup, struct sg_via, lookup), got);
}

bool sg_via_begin(struct sg_flow *f, bool is_by_name)
{
    struct sg_gate *g = f->box->gate;
    const struct sg_proxy *p = f->box->proxy;
    struct sg_netverdict verdict;
    const struct sg_resolved *known;
    struct sg_via *v = sg_new(struct sg_via);
    *v = (struct sg_via) { .flow = f, .lookup.done = resolved, .is_by_name = is_by_name };
    sg_buf_init(&v->out, SG_SOCKS_OUT);
    (void)sg_buf_grow(&v->out, SG_SOCKS_OUT); /* so that nothing of it is left behind by growing */
    f->via = v;
    f->is_via = true;
    f->is_far_named = is_by_name;
    f->timer.fire = late;
    sg_timer_set(g->loop, &f->timer, sg_loop_now(g->loop) + PROXY_NS);
    if (p->is_shut) {
        fail(f, "its password cannot be opened; set it again");
        return false;
    }
    if (!p->at.name)
        return use(v, &p->addr, 1, "");
    if (!judge(f, NULL, &verdict)) {
        fail(f, verdict.rule);
        return false;
    }
    return sg_resolve(g->resolver, p->at.name, &v->lookup, &known) ? use_resolved(v, known) : true;
}
