/* SPDX-License-Identifier: Apache-2.0 */
/* Does a sandbox's init answer? An answer that comes too late counts as none, but is waited for,
 * because it holds the question. */
#include "base/auto.h"
#include "manager/life.h"
#include "tier/peer.h"

#include "base/banned.h"

#define PATIENCE_NS 5000000000u

struct sg_health {
    struct sg_health *next;
    struct sg_sandbox *s;
    struct sg_timer late;
    sg_health_cb *cb; /* NULL: told already */
    void *arg;
    uint64_t asked_ns;
};

static void tell(struct sg_health *h, const struct sg_err *err)
{
    sg_health_cb *cb = sg_take_ptr(&h->cb);

    sg_timer_stop(h->s->manager->loop, &h->late);
    if (cb)
        cb(h->arg, !err, sg_loop_now(h->s->manager->loop) - h->asked_ns, err);
}

static void is_late(struct sg_timer *t, uint64_t now_ns)
{
    (void)now_ns;
    struct sg_err err = { 0 };
    (void)sg_fail(&err, SG_TIMEOUT, "the sandbox did not answer");
    tell(SG_OWNER(t, struct sg_health, late), &err);
}

static void answered(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    struct sg_health *h = arg, **link = &h->s->life->checks;

    (void)p;
    while (*link != h)
        link = &(*link)->next;
    *link = h->next;
    tell(h, err);
    free(h);
}

int sg_manager_health(struct sg_sandbox *s, const struct sg_who *who, sg_health_cb *cb, void *arg,
                      struct sg_err *err)
{
    struct sg_loop *l = s->manager->loop;
    struct sg_msg m = { .type = SG_MSG_INFO };

    if (sg_tenant_demand(who, SG_SCOPE_READ, err) < 0)
        return sg_manager_denied(s->manager, who, "sandbox.health", s, err);
    if (sg_sandbox_demand_running(s, err) < 0)
        return -1;
    struct sg_health *h = sg_new(struct sg_health);
    *h = (struct sg_health) {
        .s = s, .cb = cb, .arg = arg, .asked_ns = sg_loop_now(l), .late = { .fire = is_late }
    };
    if (sg_peer_ask(s->peer, &m, NULL, 0, answered, h, err) < 0) {
        free(h);
        return -1;
    }
    h->next = s->life->checks;
    s->life->checks = h;
    sg_timer_set(l, &h->late, sg_loop_now(l) + PATIENCE_NS);
    return 0;
}

void sg_health_forget(struct sg_sandbox *s)
{
    struct sg_err err = { 0 };

    (void)sg_fail(&err, SG_UNAVAILABLE, "the service is ending");
    while (s->life->checks) {
        struct sg_health *h = s->life->checks;
        s->life->checks = h->next;
        tell(h, &err);
        free(h);
    }
}
